#!/usr/bin/env bash
# Prints one line that counts what the last run of ctest has skipped, from its log and its JUnit file:
#
#   skipped: 31 of 75 tests, 2 parts of tests, 9 test cases (9 there is no KDC here)
#
#   tests/skipped.sh BUILD JUNIT
#
# Tests: those that exited with 77; ctest lists them. Parts of tests: lines with the word SKIPPED in the output of the
# others. Test cases: what the doctest programs say in their last line (support/skipped.h). A stage runs programs of its
# own again, whose test cases are not counted twice.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0" >&2; exit 2; }
awk '
  FNR == NR {
    if ($0 ~ /<testcase /) { all++; name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name) }
    if ($0 ~ /<skipped /) { tests++; whole[name] = 1 }
    next
  }
  /^[0-9]+\/[0-9]+ Testing: / { name = $3; next }
  name in whole || /^Command: / { next }
  /SKIPPED/ { parts++ }
  name !~ /^stage\./ && /^skipped: [0-9]+ test cases/ {
    cases += $2
    if (sub(/^skipped: [0-9]+ test cases: /, "")) why = why (why == "" ? "" : "; ") $0
  }
  END {
    printf "skipped: %d of %d tests, %d parts of tests, %d test cases", tests, all, parts, cases
    if (why != "") printf " (%s)", why
    print ""
  }' "$2" "$1/Testing/Temporary/LastTest.log"
