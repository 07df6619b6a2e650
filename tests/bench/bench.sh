# shellcheck shell=bash
# What the benchmarks share, on top of the lab's own functions (tests/lab/lib.sh). A benchmark sources this file first,
# after it has looked at its options.
#
# Provides: $bench_dir (load_nfsrdma, load_libnfs), in_ns (a command on the client's side, as root), make_file,
# need_peer.
bench_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../lab/lib.sh
. "$bench_source/../lab/lib.sh"
bench_dir=${NFSRDMA_BENCH_DIR:-$root/build/tests/bench}
[ -x "$bench_dir/load_nfsrdma" ] ||
  { echo "FAILED $test_name: no $bench_dir/load_nfsrdma (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR)"; exit 1; }

in_ns() { "$lab" ns "$@"; }
# make_file NAME MIB: random bytes in a file on the server, in memory there.
make_file() {
  LAB_TIMEOUT=600 on_server "dd if=/dev/urandom of='$export/$1' bs=1M count=$2 2>&1 && chmod 644 '$export/$1'" > "$work/dd" ||
    { cat "$work/dd"; echo "FAILED $test_name: no file of $2 MiB on the server (LAB_MEM?)"; exit 1; }
}
need_peer() { command -v "$1" > /dev/null || skip "no $1 (packaging/packages.sh install bench)"; }
