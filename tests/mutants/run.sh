#!/usr/bin/env bash
# Do the tests find faults? Puts those of mutants.txt into a copy of the checkout, one by one, builds the tests, and runs
# unit, conformance and 300 seeds of the simulator: a fault after which they all pass has survived.
#
#   run.sh [--only NAMES] [--jobs N]   exit status 0 if 57 of 60 are found; about a minute each, N at a time.
#                                      NAMES: a regular expression
#   run.sh --at-once [--jobs N]        all of them in one build, where a variable says which is in effect (switched.py): half a
#                                      minute each. It leaves out a few, and says which
#   run.sh --check                     only whether each fault's lines still stand in the sources, exactly once
#   run.sh --list                      names, files, and who is expected to find them
#
# The copies and their builds are in build/mutants (NFSRDMA_BUILD_DIR/mutants), and are used again the next time.
exec python3 "$(dirname "$0")/mutants.py" "$@"
