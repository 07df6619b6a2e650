#!/usr/bin/env bash
# Runs the tests of the Python package (libclient/python) against a server.
#
#   NFSRDMA_URL=nfs://host:port/dir NFSRDMA_LIBRARY=.../libnfsrdma.so.1 tests/python/run.sh [TEST ...]
#
# TEST: modules, classes or methods, such as test_file or test_file.FileTest.test_read; default: all. The tests make
# directories of their own below the path, and remove them. NFSRDMA_PYTHON names another interpreter; otherwise it is
# python3, or Debian's if only that one has numpy and fsspec.
#
# Exits with 77 if there is no Python 3.9 or later, or NFSRDMA_URL is not set.
set -euo pipefail
cd "$(dirname "$0")"

skip() { printf '\n*** SKIPPED: %s ***\n\n' "$*" >&2; exit 77; }
usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null; }
complete() { "$1" -c 'import numpy, fsspec' 2> /dev/null; }

python=${NFSRDMA_PYTHON:-python3}
if [ -z "${NFSRDMA_PYTHON:-}" ] && ! complete python3 && usable /usr/bin/python3 && complete /usr/bin/python3; then
  python=/usr/bin/python3
fi
usable "$python" || skip "python: no python3 of version 3.9 or later"
[ -n "${NFSRDMA_URL:-}" ] || skip "python: NFSRDMA_URL names no server"
complete "$python" || printf '\n*** SKIPPED: parts of the tests: %s has no numpy or fsspec ***\n\n' "$python" >&2

export PYTHONPATH=$PWD/../../libclient/python${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
if [ $# -gt 0 ]; then set -- -v "$@"; else set -- discover -v; fi
exec "$python" -X dev -X faulthandler -W ignore::ResourceWarning -m unittest "$@"
