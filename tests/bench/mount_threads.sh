#!/usr/bin/env bash
# How much processor time each thread of a mount takes of a READ or WRITE: nfsrdma-fuse on the responder, over iwarp, with shards=N and
# without, in turn. The busiest thread is what limits the mount on a machine with processors enough.
#
#   mount_threads.sh [--shards "2 4"] [--blocks "4096 65536 1048576 cached written"] [--depth N] [--count N] [--mib N] [--rounds N]
#                    [--options LIST]
#
# --shards    how many, a line of results for each; one without any comes first
# --blocks    bytes of a READ, at random positions with O_DIRECT; cached: 1 MiB, one after the other through the kernel's cache;
#             written: 1 MiB, one after the other into a file that is there
# --depth     READs in flight (16)
# --count     READs of a run at random (20000; fewer if they have more bytes: 2 GiB at most)
# --mib       size of the file that is read and written one block after the other (1024)
# --rounds    runs of each (5)
# --options   mount options besides
# Exit status: 0, 1 (a run failed), 2 (usage), 77 (skipped). Printed are medians.
shards='2 4' blocks='4096 65536 1048576 cached written' depth=16 count=20000 mib=1024 rounds=5 options=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'shards blocks depth count mib rounds options' '' "$@"
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
fuse_binary=${NFSRDMA_FUSE:-$here/../../build/fuse/nfsrdma-fuse}
for program in "$bin/responder" "$bin/load_mount" "$fuse_binary"; do
  [ -x "$program" ] || { echo "no $program (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR, NFSRDMA_FUSE)"; exit 77; }
done
[ -c /dev/fuse ] || { echo "no /dev/fuse"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "needs root for the mounts"; exit 77; }
# The mounts go with their namespace.
[ -n "${MOUNT_THREADS_INSIDE:-}" ] || MOUNT_THREADS_INSIDE=1 exec unshare -m --propagation private "$0" "$@"

work=$(mktemp -d) || exit 1
# shellcheck source=servers.sh
. "$here/servers.sh"
daemon=''
point=$work/mount
trap '[ -z "$daemon" ] || kill "$daemon" 2> /dev/null; umount -l "$point" 2> /dev/null; stop_servers; rm -rf "$work"' EXIT
mkdir "$point" || exit 1
start_server "$bin/responder" --file data=256M

# read_blocks BYTES HOW-MANY: prints the report.
read_blocks() { LOAD_IN_FLIGHT=$depth LOAD_BLOCK=$1 "$bin/load_mount" nfsrdma random "$point" "$2"; }
# load MANY: the load that is measured.
load() {
  case $block in
    cached) "$bin/load_mount" nfsrdma read "$point" "$1" ;;
    written) "$bin/load_mount" nfsrdma write "$point" "$1" ;;
    *) read_blocks "$block" "$1" ;;
  esac
}
# threads: "THREAD NANOSECONDS" of each, that of the loop first.
threads() { for one in /proc/"$daemon"/task/*; do echo "${one##*/} $(cut -d' ' -f1 "$one/schedstat")"; done | sort -n; }
# begin SHARDS: mounts.
begin() {
  "$fuse_binary" -f 127.0.0.1:/ "$point" -o "port=$port,fabric=iwarp,shards=$1${options:+,$options}" > "$work/daemon" 2>&1 &
  daemon=$!
  await_mount "$point" "$daemon" || { echo "FAILED: no mount: $(tail -1 "$work/daemon")"; exit 1; }
}
end() {
  umount "$point" && wait "$daemon"
  daemon=''
}
# run SHARDS: appends a line to $work/SHARDS: the rate, and the µs of an operation of the loop's thread and of the others, the
# busiest of them first.
run() {
  local many=$count
  if [ "$block" = cached ] || [ "$block" = written ]; then
    many=$mib
  elif [ $((many * block)) -gt $((2 << 30)) ]; then
    many=$(((2 << 30) / block))
  fi
  begin "$1"
  # Shards are made while the first READs are under way.
  for _ in 1 2 3; do
    read_blocks 65536 $((depth * 8)) > /dev/null || return 1
    sleep 0.1
  done
  threads > "$work/before"
  load "$many" > "$work/report" || return 1
  threads > "$work/after"
  {
    jq -j '.ops_per_second, " "' "$work/report"
    awk -v n="$many" 'FNR == NR { before[$1] = $2; next } { print ($2 - before[$1]) / 1000 / n }' "$work/before" "$work/after" |
      { read -r first; echo "$first"; sort -gr; } | head -4 | tr '\n' ' '
    echo
  } >> "$work/$block.$1"
  end
}

failures=0
begin 0
"$bin/load_mount" nfsrdma write "$point" "$mib" > /dev/null || { echo "FAILED: the file: $(tail -1 "$work/daemon")"; exit 1; }
end
for block in $blocks; do
  for _ in $(seq "$rounds"); do
    for one in 0 $shards; do run "$one" || { echo "FAILED: $one shards, $block bytes: $(tail -1 "$work/daemon")"; failures=$((failures + 1)); }; done
  done
  for one in 0 $shards; do
    [ -s "$work/$block.$one" ] || continue
    what="$block bytes, $depth in flight"
    case $block in
      cached) what="1 MiB, one after the other" ;;
      written) what="1 MiB, written one after the other" ;;
    esac
    awk -v what="$what, shards=$one" '
      function median(column,   i, j, n, t, v) {
        for (i = 1; i <= NR; i++) v[i] = value[i, column]
        for (i = 2; i <= NR; i++) for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        return v[int((NR + 1) / 2)]
      }
      { for (i = 1; i <= 5; i++) value[NR, i] = $i + 0 }
      END { printf "%-45s %8.0f a second; the loop %7.2f us, others %7.2f %7.2f %7.2f\n", what, median(1), median(2), median(3), median(4), median(5) }
    ' "$work/$block.$one"
  done
done
[ "$failures" = 0 ]
