# shellcheck shell=bash
# What smoke.sh and ../fio.sh share: where fio and its engine are, and a server for a while.
#
# Given: $work (removed by whoever made it), skip (a command: says why, and ends with 77). Provides: $bin, $engine,
# $peer_engine (empty without libnfs), and what ../servers.sh does.
# shellcheck disable=SC2034,SC2154
fio_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$fio_source/../../../build/tests/bench}
engine=$bin/fio/libnfsrdma-fio.so
command -v fio > /dev/null || skip "no fio (packaging/packages.sh install test)"
command -v jq > /dev/null || skip "no jq (packaging/packages.sh install test)"
[ -x "$bin/fio/fio_server" ] || skip "no $bin/fio/fio_server (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR)"
[ -e "$engine" ] || skip "no $engine: cmake found no headers of fio (tests/bench/fio/source.sh gets them, then cmake again)"
engine=$(realpath "$engine")
peer_engine=
[ ! -e "$bin/fio/libfio-nfs.so" ] || peer_engine=$(realpath "$bin/fio/libfio-nfs.so")
export NFSRDMA_FIO=$engine

start_looks=300
# shellcheck source=../servers.sh
. "$fio_source/../servers.sh"
