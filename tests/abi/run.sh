#!/usr/bin/env bash
# That a program which was linked against the first version of libnfsrdma.so.1 runs with the library of today.
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
work=$(mktemp -d)
# shellcheck source=../bench/servers.sh
. "$here/../bench/servers.sh"
trap 'stop_servers; rm -rf "$work"' EXIT
start_server "$bin" --file file=100000
LD_LIBRARY_PATH=$library "$program" "nfs://127.0.0.1:$port/"
