#!/usr/bin/env bash
# Memory per unit, on the responder: of the library per open file, call in flight and connection (load_memory), and of the
# mount's daemon per inode that the kernel knows, open file and delegation. A unit's share is the difference that many of
# them make, divided by their number; then they are given back, and what stays is shown.
#
#   memory.sh [--files N] [--calls N] [--inodes N] [--open N] [--options LIST] [--check]
#
# --files    that one client of the library holds open (100000)
# --calls    READs that are started and have not ended (1024)
# --inodes   files that are listed on the mount with their attributes; 0: no mount (1000000)
# --open     files that programs hold open on the mount, and delegations (100000)
# --options  of the library and the mount besides, such as vers=4.1
# --check    exit status 1 if a unit takes more than its bound (in this script), or if more stays than a hundredth of
#            what all took and 4 MiB, or 20 MiB of the daemon, which lets malloc keep 16 MiB
# Exit status: 0, 1 (a run failed, or --check), 2 (usage), 77 (skipped). The mount needs root: without, it is left out.
files=100000 calls=1024 inodes=1000000 open=100000 options='' check=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'files calls inodes open options' check "$@"
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
fuse_binary=${NFSRDMA_FUSE:-$here/../../build/fuse/nfsrdma-fuse}
for program in "$bin/responder" "$bin/load_memory"; do
  [ -x "$program" ] || { echo "no $program (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR)"; exit 77; }
done
if [ "$inodes" != 0 ] && { [ "$(id -u)" != 0 ] || [ ! -c /dev/fuse ] || [ ! -x "$fuse_binary" ]; }; then
  echo "SKIPPED a part: the mount: no root, no /dev/fuse or no nfsrdma-fuse"
  inodes=0
fi
# The mounts go with their namespace.
[ "$inodes" = 0 ] || [ -n "${MEMORY_INSIDE:-}" ] ||
  MEMORY_INSIDE=1 exec unshare -m --propagation private "$0" "$@"

work=$(mktemp -d) || exit 1
# shellcheck source=servers.sh
. "$here/servers.sh"
daemon='' holder=''
point=$work/mount
trap '[ -z "$holder" ] || kill $holder; [ -z "$daemon" ] || kill "$daemon"; umount -l "$point"; stop_servers; rm -rf "$work"' EXIT
exec 2> "$work/err"
die() { echo "FAILED: $*: $(tail -3 "$work/err" | tr '\n' ' ')"; exit 1; }
mkdir "$point"
failures=0

# bound_of WHAT: the most bytes that one may take.
bound_of() {
  case $1 in
    "open file") echo 2800 ;;
    "call in flight") echo 1024 ;;
    "client with its first connection") echo 2097152 ;;
    "further connection") echo 1048576 ;;
    "inode of the mount") echo 1350 ;;
    "open file of the mount") echo 4096 ;;
    "delegation of the mount") echo 1024 ;;
  esac
}
# row WHAT COUNT EACH LEFT MAY_STAY
row() {
  local most state=''
  most=$(bound_of "$1")
  # Few of them tell little about one.
  if [ "$2" -ge 1000 ] || [ "${1##* }" = connection ]; then
    [ "$3" -le "$most" ] || state+=" over its bound"
  fi
  [ "$4" -le $(($5 + $2 * $3 / 100)) ] || state+=" too much stays"
  [ -z "$state" ] || failures=$((failures + 1))
  printf '%-34s %9s %12s %12s %14s%s\n' "$1" "$2" "$3" "$most" "$4" "$state"
}
printf '%-34s %9s %12s %12s %14s\n' '' number 'bytes each' bound 'bytes that stay'

# ---- the library ----
start_looks=1200
start_server "$bin/responder" --many "many=$((files > open ? files : open))x0"
if [ "$files" != 0 ] || [ "$calls" != 0 ]; then
  "$bin/load_memory" "$port" many "$files" "$calls" ${options:+"$options"} > "$work/library" || die load_memory
  while IFS=$'\t' read -r what count each left; do
    row "$what" "$count" "$each" "$left" $((4 << 20))
  done < <(jq -r '[.what, .count, .heap_each, .left] | @tsv' "$work/library")
fi
[ "$inodes" != 0 ] || { [ "$failures" = 0 ] || [ -z "$check" ]; exit; }

# ---- the mount ----
may_stay=$((20 << 20))
mount_it() {
  "$fuse_binary" -f 127.0.0.1:/ "$point" -o "port=$port${options:+,$options}" &
  daemon=$!
  await_mount "$point" "$daemon" || die "no mount"
  ls "$point" > /dev/null
}
unmount_it() {
  umount "$point" || die umount
  wait "$daemon"
  daemon=''
}
own() { awk '/^Pss_Anon:/ { print $2 * 1024 }' "/proc/$daemon/smaps_rollup"; }
state_of() { sed -n "s/^state.* $1=\([0-9]*\).*/\1/p" "$point/.nfsrdma-stats"; }
# forgotten BYTES: has the kernel forget its inodes, and waits until the daemon has given their memory back, but for
# 40 seconds at most. Prints what stays above BYTES.
forgotten() {
  local now
  for _ in $(seq 80); do
    sync
    echo 2 > /proc/sys/vm/drop_caches
    sleep 0.5
    now=$(own)
    [ "$(state_of inodes)" -gt 2 ] || [ $((now - $1)) -gt $may_stay ] || break
  done
  [ "$(state_of inodes)" -le 2 ] || die "the kernel keeps $(state_of inodes) inodes"
  echo $((now > $1 ? now - $1 : 0))
}
list() { find "$point/$1" -size +1000G > /dev/null || die "find $1"; }

# The first time fills the daemon's pools.
many=$port
start_server "$bin/responder" --many "many=${inodes}x0" --many few=2000x0
mount_it
list few
forgotten 0 > /dev/null
before=$(own)
list many
known=$(state_of inodes) with=$(own)
[ "$known" -ge "$inodes" ] || die "only $known inodes are known"
row "inode of the mount" "$known" $(((with - before) / known)) "$(forgotten "$before")" $may_stay
unmount_it
kill "$server"

# hold DIRECTORY COUNT: processes that hold files open, as many as the limit on descriptors asks for.
hold() {
  local limit from=0 part
  limit=$(($(ulimit -n) - 100))
  holder=''
  : > "$work/held"
  while [ "$from" -lt "$2" ]; do
    part=$(($2 - from > limit ? limit : $2 - from))
    python3 -c '
import os, signal, sys
path, start, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = [os.open(f"{path}/file-{i}", os.O_RDONLY) for i in range(start, start + count)]
os.write(1, b"held\n")
signal.pause()' "$point/$1" "$from" "$part" >> "$work/held" &
    holder+="$! "
    from=$((from + part))
  done
  for _ in $(seq 3000); do
    # shellcheck disable=SC2086
    kill -0 $holder || die "not all files can be opened"
    [ "$(wc -l < "$work/held")" -lt "$(wc -w <<< "$holder")" ] || return 0
    sleep 0.1
  done
  die "files are not opened in time"
}
release() {
  # shellcheck disable=SC2086
  { kill $holder && wait $holder; } > /dev/null
  holder=''
  for _ in $(seq 300); do
    [ "$(state_of open_files)" != 0 ] || return 0
    sleep 0.1
  done
}
# open_all WHAT MINUS: a row for the files that are open, each without MINUS bytes. Sets $each.
open_all() {
  local before listed with stays
  mount_it
  hold many $((open / 10 + 1))
  release
  forgotten 0 > /dev/null
  before=$(own)
  list many
  listed=$(own)
  hold many "$open"
  with=$(own)
  held=$(state_of delegations)
  release
  each=$(((with - listed) / open))
  stays=$(forgotten "$before")
  row "$1" "$open" $((each - $2)) "$stays" $may_stay
  unmount_it
}
port=$many
open_all "open file of the mount" 0
plain=$each
start_server "$bin/responder" --delegations --many "many=${open}x0"
open_all "delegation of the mount" "$plain"
[ "$held" -ge "$open" ] || die "only $held delegations were held"
[ "$failures" = 0 ] || [ -z "$check" ]
