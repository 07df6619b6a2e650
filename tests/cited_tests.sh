#!/usr/bin/env bash
# Whether the tests that a document names exist. Each row of its tables ("| section | weight | requirement | here |") has
# in the last column "Tested: …", with the titles of test cases in backquotes, or "Not applicable…" or "Declined…" with a
# reason, which may name test cases as well. A word in backquotes is a title if it has a blank in it.
#
#   tests/cited_tests.sh [--tests BINARY] [--sections 'SECTION …'] DOCUMENT
#
# Exit status 1 if a title is no test case's, if a row says nothing of the three, says "Tested" without a title, or gives
# no reason, or if a section of --sections has no row.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$root/build/tests/nfsrdma_tests
sections='' document=''
while [ $# -gt 0 ]; do
  case $1 in
    --tests) binary=${2:?}; shift 2 ;;
    --sections) sections=${2?}; shift 2 ;;
    -*) sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0" >&2; exit 2 ;;
    *) document=$1; shift ;;
  esac
done
[ -f "$document" ] || { echo "cited_tests.sh: no document $document" >&2; exit 2; }
[ -x "$binary" ] || { echo "cited_tests.sh: no $binary (build it, or name it with --tests)" >&2; exit 2; }
titles=$("$binary" --list-test-cases --no-version) || { echo "cited_tests.sh: $binary does not run" >&2; exit 2; }

awk -v sections="$sections" '
  function complain(what) { print FILENAME ":" FNR ": " what; wrong++ }
  NR == FNR { exists[$0] = 1; next }
  !/^\| / || /^\| (section|---) / { next }
  {
    columns = split($0, cell, / *\| */)
    if (columns != 6) { complain("a row of " columns - 2 " columns, not 4"); next }
    section = cell[2]
    here = cell[5]
    rows++
    has[section] = 1
    titles = 0
    reason = ""
    count = split(here, part, "`")
    if (count % 2 == 0) complain("a backquote without another: " here)
    for (i = 1; i <= count; i++) {
      if (i % 2 == 1) { reason = reason part[i]; continue }
      if (part[i] !~ / /) continue
      titles++
      cited++
      if (!(part[i] in exists)) complain("no test case \"" part[i] "\"")
    }
    if (here ~ /^Tested:/) {
      if (titles == 0) complain(section ": \"Tested\", and no test case")
    } else if (here ~ /^(Not applicable|Declined)/) {
      if (length(reason) < 40) complain(section ": no reason")
    } else {
      complain(section ": neither Tested nor Not applicable nor Declined")
    }
  }
  END {
    count = split(sections, wanted, " ")
    for (i = 1; i <= count; i++) if (!(wanted[i] in has)) complain("no row for section " wanted[i])
    if (rows == 0) complain("no rows")
    printf "%s: %d rows, which name test cases %d times; faults: %d\n", FILENAME, rows, cited, wrong
    exit wrong != 0
  }' <(printf '%s\n' "$titles") "$document"
