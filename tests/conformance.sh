#!/usr/bin/env bash
# Which rows of tests/conformance/rows.txt have a test. A test case covers the rows that its title begins with ("T7 …",
# "T20 T21 …"). A script of the lab or of the bridge, the tests of the mount, or a part of the simulator cover those that
# a line of their own names ("# row: F7", "// row: S1 S2"); they are counted apart, since they need more than a compiler
# to run.
#
#   tests/conformance.sh [--tests BINARY] [--require ROWS] [--except ROWS]
#
# ROWS: 'ROW ROW-ROW …', or a file that lists them. Exit status 1 if a row that --require names, and --except does not,
# has no test. A row of --except that has one is pointed out: it can be required.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$root/build/tests/nfsrdma_tests
require='' except=''
while [ $# -gt 0 ]; do
  case $1 in
    --tests) binary=${2:?}; shift 2 ;;
    --require) require=${2?}; shift 2 ;;
    --except) except=${2?}; shift 2 ;;
    *) sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0" >&2; exit 2 ;;
  esac
done
[ -f "$require" ] && require=$(grep -v '^ *#' "$require" | xargs)
[ -f "$except" ] && except=$(grep -v '^ *#' "$except" | xargs)
[ -x "$binary" ] || { echo "conformance.sh: no $binary (build it, or name it with --tests)" >&2; exit 2; }
titles=$("$binary" --list-test-cases --no-version) || { echo "conformance.sh: $binary does not run" >&2; exit 2; }
# FILE:# row: ROW … as "@script ROW …".
named=$(cd "$root/tests" && find . \( -path './lab/*' -o -path './bridge/*' -o -path './mount/*' -o -path './sim/*' \) -type f -print0 | sort -z |
  xargs -0 -r sed -nE 's/^ *(#|\/\/) row:/@script/p')

awk -v require="$require" -v except="$except" '
  function die(what) { print "conformance.sh: " what > "/dev/stderr"; failed = 2; exit 2 }
  # Each row of "ROW ROW-ROW …" as an index of set.
  function expand(list, set,   count, parts, ends, i, n, letter) {
    count = split(list, parts, /[ ,]+/)
    for (i = 1; i <= count; i++) {
      if (parts[i] == "") continue
      if (parts[i] !~ /^[TPBUSF][0-9]+(-[TPBUSF]?[0-9]+)?$/) die("not a row or range: " parts[i])
      split(parts[i], ends, "-")
      letter = substr(ends[1], 1, 1)
      if (ends[2] == "") ends[2] = ends[1]
      if (ends[2] ~ /^[0-9]/) ends[2] = letter ends[2]
      if (letter != substr(ends[2], 1, 1)) die("no range: " parts[i])
      for (n = substr(ends[1], 2) + 0; n <= substr(ends[2], 2) + 0; n++) {
        if (!((letter n) in duty)) die("no row " letter n " in rows.txt")
        set[letter n] = 1
      }
    }
  }
  function known(row, where) {
    sub(/[,:]$/, "", row)
    if (!(row in duty)) die("no row " row " in rows.txt, named by \"" where "\"")
    return row
  }
  NR == FNR { if ($1 ~ /^[TPBUSF][0-9]+$/) { order[++rows] = $1; duty[$1] = substr($0, length($1) + 2) } next }
  $1 == "@script" { for (i = 2; i <= NF; i++) scripts[known($i, $0)]++; next }
  { for (i = 1; i <= NF && $i ~ /^[TPBUSF][0-9]+[,:]?$/; i++) tests[known($i, $0)]++ }
  END {
    if (failed) exit failed
    expand(require, needed)
    expand(except, excepted)
    for (row in excepted) delete needed[row]
    for (i = 1; i <= rows; i++) {
      row = order[i]
      if (row in needed) required++
      state = tests[row] ? sprintf("covered (%2d)", tests[row]) : "covered     "
      state = state (scripts[row] ? sprintf(" lab (%d)", scripts[row]) : "        ")
      if (tests[row] || scripts[row]) {
        covered++
        if (row in excepted) ready = ready " " row
      } else {
        state = (row in needed ? "MISSING     " : "missing     ") "        "
        if (row in needed) lacking = lacking " " row
      }
      printf "%-4s %s  %s\n", row, state, duty[row]
    }
    if (ready != "") print "conformance: covered, and could be required:" ready
    printf "conformance: %d of %d rows covered, %d missing", covered, rows, rows - covered
    if (required) printf "; of %d required: %s", required, lacking == "" ? "all covered" : "missing" lacking
    print ""
    exit lacking != ""
  }' "$root/tests/conformance/rows.txt" <(printf '%s\n' "$titles" "$named")
