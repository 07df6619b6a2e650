#!/usr/bin/env bash
# Do the tests find faults? Those of mutants.txt are put into a copy of the checkout: most of them into one build, where a
# variable says which is in effect (switched.py), the others one by one. For each fault those test cases run that come to
# its place (first those that are expected to find it), then 300 seeds of the simulator, and for a fault in fuse/ the cases
# of tests/mount, where this machine lets them mount. A fault after which they all pass has survived.
#
#   run.sh [--only NAMES] [--jobs N]   exit status 0 if 57 of 60 are found; some seconds each, N at a time.
#                                      NAMES: a regular expression
#   run.sh --check                     only whether each fault's lines still stand in the sources, exactly once
#   run.sh --list                      names, files, and who is expected to find them
#
# The copies and their builds are in build/mutants (NFSRDMA_BUILD_DIR/mutants), and are used again the next time.
exec python3 "$(dirname "$0")/mutants.py" "$@"
