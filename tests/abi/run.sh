#!/usr/bin/env bash
# That a program which was linked against the first version of libnfsrdma.so.1 runs with the library of today, that a
# program can load the library while it runs, and that Debian's symbols file lists what the library exports.
#
#   run.sh LIBRARY-DIRECTORY RESPONDER
#
# Exit status: 0, 1 (it does not), 77 (skipped).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
library=${1:?usage: run.sh LIBRARY-DIRECTORY RESPONDER}
bin=${2:?usage: run.sh LIBRARY-DIRECTORY RESPONDER}
program=$here/old_program.$(uname -m)
[ -x "$program" ] || { echo "SKIPPED: there is no old program for $(uname -m)"; exit 77; }
[ -x "$bin" ] || { echo "SKIPPED: no $bin (cmake -DNFSRDMA_BENCH=ON)"; exit 77; }
# A library with static thread-local storage is loaded only while the little room that the loader keeps for it lasts.
if readelf -d "$library/libnfsrdma.so.1" | grep STATIC_TLS; then
  echo "libnfsrdma.so.1 has thread-local variables of the model initial-exec, so dlopen(3) may refuse it"
  exit 1
fi
# Each symbol, and each version of the interface. Without one of them the packages cannot be built.
exported=$(nm -D --defined-only "$library/libnfsrdma.so.1" | awk '{ print $3 }' | sed -E 's/@@/@/; s/^(NFSRDMA_[0-9]+)$/\1@\1/' | sort)
listed=$(awk '/^ / { print $1 }' "$here/../../packaging/debian/libnfsrdma1.symbols" | sort)
if ! diff <(echo "$exported") <(echo "$listed"); then
  echo "packaging/debian/libnfsrdma1.symbols does not list what libnfsrdma.so.1 exports (lines with <)"
  exit 1
fi
work=$(mktemp -d)
# shellcheck source=../bench/servers.sh
. "$here/../bench/servers.sh"
trap 'stop_servers; rm -rf "$work"' EXIT
start_server "$bin" --file file=100000
LD_LIBRARY_PATH=$library "$program" "nfs://127.0.0.1:$port/"
