#!/usr/bin/env bash
# Which rows of tests/conformance/rows.txt have a test: a test case covers the rows that its title begins with
# ("T7 …", "T20 T21 …").
#
#   tests/conformance.sh [--tests BINARY] [--require 'ROW ROW-ROW …' | --require FILE]
#
# Exit status 1 if one of the rows that --require names (or that a file lists) has none.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$root/build/tests/nfsrdma_tests
require=
while [ $# -gt 0 ]; do
  case $1 in
    --tests) binary=${2:?}; shift 2 ;;
    --require) require=${2:?}; shift 2 ;;
    *) sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0" >&2; exit 2 ;;
  esac
done
[ -f "$require" ] && require=$(grep -v '^ *#' "$require" | xargs)
[ -x "$binary" ] || { echo "conformance.sh: no $binary (build it, or name it with --tests)" >&2; exit 2; }
titles=$("$binary" --list-test-cases --no-version) || { echo "conformance.sh: $binary does not run" >&2; exit 2; }

awk -v require="$require" '
  function die(what) { print "conformance.sh: " what > "/dev/stderr"; failed = 2; exit 2 }
  function need(from, to,   letter, i) {
    letter = substr(from, 1, 1)
    if (letter != substr(to, 1, 1)) die("no range: " from "-" to)
    for (i = substr(from, 2) + 0; i <= substr(to, 2) + 0; i++) {
      if (!((letter i) in duty)) die("no row " letter i " in rows.txt")
      needed[letter i] = 1
    }
  }
  NR == FNR { if ($1 ~ /^[TPBU][0-9]+$/) { order[++rows] = $1; duty[$1] = substr($0, length($1) + 2) } next }
  {
    title = $0
    for (i = 1; i <= NF && $i ~ /^[TPBU][0-9]+[,:]?$/; i++) {
      row = $i
      sub(/[,:]$/, "", row)
      if (!(row in duty)) die("no row " row " in rows.txt, named by \"" title "\"")
      tests[row]++
    }
  }
  END {
    if (failed) exit failed
    count = split(require, parts, /[ ,]+/)
    for (i = 1; i <= count; i++) {
      if (parts[i] == "") continue
      if (parts[i] !~ /^[TPBU][0-9]+(-[TPBU]?[0-9]+)?$/) die("not a row or range: " parts[i])
      split(parts[i], ends, "-")
      if (ends[2] == "") ends[2] = ends[1]
      if (ends[2] ~ /^[0-9]/) ends[2] = substr(ends[1], 1, 1) ends[2]
      need(ends[1], ends[2])
    }
    for (i = 1; i <= rows; i++) {
      row = order[i]
      if (row in needed) required++
      if (tests[row]) covered++
      else if (row in needed) lacking = lacking " " row
      printf "%-4s %s  %s\n", row, tests[row] ? sprintf("covered (%2d)", tests[row]) : (row in needed ? "MISSING     " : "missing     "), duty[row]
    }
    printf "conformance: %d of %d rows covered, %d missing", covered, rows, rows - covered
    if (required) printf "; of %d required: %s", required, lacking == "" ? "all covered" : "missing" lacking
    print ""
    exit lacking != ""
  }' "$root/tests/conformance/rows.txt" <(printf '%s\n' "$titles")
