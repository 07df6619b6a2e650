#!/usr/bin/env bash
# What a ring gains over the mount that it belongs to (nfsrdma/ring.h), on this machine, over iwarp, where the server
# costs next to nothing: the same loads through a ring and through the kernel, in turn, each on a mount of its own, so
# that nothing is cached; and programs with libnfsrdma-preload.so and without.
#
#   ring.sh [--loads LIST] [--mib N] [--reads N] [--rounds N] [--options LIST] [--check]
#
# --loads    of: write read (1 MiB, 8 in flight on the ring, one after the other with read-ahead on the mount), random
#            (4 KiB, 32 in flight on either), one (4 KiB, one after the other), and programs: cat dd-read dd-write
#            python (reads of 1 MiB) fio (fio's psync, 16 threads, 4 KiB at random) (all)
# --mib      the file's size (1024)
# --reads    how many random reads (100000; of the load `one` a fifth)
# --rounds   pairs of runs (5)
# --options  mount options of nfsrdma-fuse besides
# --check    exit status 1 where the median of the pairs' rate ratios is below 2.5 for read, or below 5 for random
# Exit status: 0, 1 (a check failed, or a run did), 2 (usage), 77 (skipped). README.md tells what is compared.
loads='write read random one cat dd-read dd-write python fio' mib=1024 reads=100000 rounds=5 options='' check=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'loads mib reads rounds options' check "$@"
here=$(cd "$(dirname "$0")" && pwd)
build=${NFSRDMA_BUILD_DIR:-$here/../../build}
bin=${NFSRDMA_BENCH_DIR:-$build/tests/bench}
fuse=${NFSRDMA_FUSE:-$build/fuse/nfsrdma-fuse}
library=${NFSRDMA_PRELOAD:-$build/fuse/libnfsrdma-preload.so}
for file in "$bin/responder" "$bin/load_ring" "$bin/load_mount" "$fuse" "$library"; do
  [ -e "$file" ] || { echo "SKIPPED: no $file (cmake -DNFSRDMA_BENCH=ON)"; exit 77; }
done
if [ "$(id -u)" != 0 ] || [ ! -c /dev/fuse ]; then echo "SKIPPED: this needs root and /dev/fuse"; exit 77; fi
library=$(realpath "$library")

work=$(mktemp -d) || exit 1
start_looks=300
# shellcheck source=servers.sh
. "$here/servers.sh"
point=$work/mount daemon=''
mkdir "$point"
off() {
  if [ -n "$daemon" ]; then
    umount -l "$point"
    wait "$daemon"
    daemon=
  fi
}
trap 'off 2> /dev/null; stop_servers; rm -rf "$work"' EXIT

start_server "$bin/responder" --file "data=${mib}M"

on() {
  "$fuse" 127.0.0.1:/ "$point" -f -o "fabric=iwarp,port=$port${options:+,$options}" > "$work/fuse.err" 2>&1 &
  daemon=$!
  for _ in $(seq 200); do
    ! grep -q " $point fuse" /proc/self/mounts || return 0
    kill -0 "$daemon" 2> /dev/null || break
    sleep 0.05
  done
  echo "FAILED: it is not mounted: $(cat "$work/fuse.err")"
  exit 1
}
daemon_ticks() { awk '{ print $14 + $15 }' "/proc/$daemon/stat"; }

# program TOOL LOAD: as an ordinary program sees it; the daemon's CPU time counts, too.
program() {
  local -a command before=()
  local bytes=$((mib << 20)) ticks
  [ "$1" = mount ] || before=(env "LD_PRELOAD=$library")
  case $2 in
    cat) command=(cat "$point/data") ;;
    dd-read) command=(dd "if=$point/data" of=/dev/null bs=1M status=none) ;;
    dd-write) command=(dd if=/dev/zero "of=$point/new" bs=1M "count=$mib" conv=fsync status=none) ;;
    python) command=(python3 -c "import os
fd = os.open('$point/data', os.O_RDONLY)
while os.read(fd, 1 << 20): pass") ;;
    fio)
      bytes=$((reads * 4096))
      # Each as it does best: O_DIRECT, which reads no more than is asked for.
      command=(fio --name=x "--filename=$point/data" "--size=${mib}M" --ioengine=psync --readonly --thread --rw=randread
        --bs=4k --direct=1 --numjobs=16 "--io_size=$((reads * 4 / 16))k" --group_reporting) ;;
  esac
  ticks=$(daemon_ticks)
  python3 "$here/measure.py" "$1" "$bytes" ${before[@]+"${before[@]}"} "${command[@]}" > "$work/one" || return 1
  jq -c --arg load "$2" --argjson ticks $(($(daemon_ticks) - ticks)) --argjson rate "$(getconf CLK_TCK)" \
    '.load = $load | .cpu_seconds += $ticks / $rate' "$work/one"
}
# run TOOL LOAD
run() {
  local status=0 count=$reads depth=32 load=$2
  on
  case $2 in
    write | read) count=$mib depth=8 ;;
    one) count=$((reads / 5)) depth=1 load=random ;;
  esac
  case $1,$2 in
    *,write | *,read | *,random | *,one)
      if [ "$1" = ring ]; then
        timeout 120 "$bin/load_ring" ring "$load" "$point" "$count" "$depth" "$daemon"
      else
        LOAD_IN_FLIGHT=$depth timeout 120 "$bin/load_mount" mount "$load" "$point" "$count" "$daemon"
      fi | jq -c --arg load "$2" '.load = $load' ;;
    *) program "$1" "$2" ;;
  esac
  status=${PIPESTATUS[0]}
  off
  return "$status"
}

failures=0
# What `read` looks for.
run mount write > /dev/null 2> "$work/err" || { echo "FAILED: write: $(cat "$work/err")"; exit 1; }
for load in $loads; do
  case $load in fio) command -v fio > /dev/null || { echo "no fio: not measured"; continue; } ;; esac
  : > "$work/runs"
  for _ in $(seq "$rounds"); do
    for tool in ring mount; do
      run $tool "$load" >> "$work/runs" 2> "$work/err" ||
        { echo "FAILED $load, $tool: $(tail -2 "$work/err")"; failures=$((failures + 1)); }
    done
  done
  rate=mb_per_second min=0
  case $load in
    read) min=2.5 ;;
    random) rate=ops_per_second min=5 ;;
    one) rate=ops_per_second ;;
  esac
  python3 "$here/compare.py" --ours ring --peer mount --rate $rate --min-rate $min ${check:+--check} \
    --title "$load, a ring against the mount" "$work/runs" || failures=$((failures + 1))
done
[ "$failures" = 0 ]
