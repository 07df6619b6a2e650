#!/usr/bin/env bash
# What the mount can do, where the server costs next to nothing: nfsrdma-fuse on the responder, over iwarp, on this
# machine, beside libfuse's example passthrough_hp on tmpfs and beside bare_fuse, which answers from memory at once. Each
# load runs on a mount of its own, so that nothing is cached.
#
#   mount_limits.sh [--peers "bare passthrough"] [--loads LIST] [--mib N] [--files N] [--rounds N] [--options LIST]
#                   [--delegations] [--place one|two|free] [--no-rates] [--no-counts]
#
# --peers      of: bare passthrough, which needs PASSTHROUGH_HP, that program's path (both where it is set, else bare)
#              and, with --delegations, ungranted: nfsrdma-fuse on a responder that grants none
# --loads      of: write read random create save stat unlink tar small random-small idle (all but save and the last three).
#              Each takes what those before it left, save what unlink did. small and random-small open, read and close the
#              files of tar, after a listing, and in random order without one. idle counts how often the mount wakes in 60 s in which nobody uses it
# --mib        the file's size (256)
# --files      how many files, and random reads (10000); tar, small and random-small read 1,000 files of 4 KiB
# --rounds     pairs of runs (5)
# --options    mount options of nfsrdma-fuse besides
# --delegations  the responder grants whatever delegation is wanted
# --place      one: the load, the file system and the responder share the first processor; two: the responder has the
#              second; free: that, and the load and the file system have both. Else one for create, stat, unlink and tar,
#              where to wake a processor that sleeps costs more than all the rest, two for the others
# --no-rates   nothing is timed
# --no-counts  instructions, system calls, round trips and requests of the kernel of an operation are not counted
# Exit status: 0, 1 (a run failed), 2 (usage), 77 (skipped). README.md tells what is compared.
peers='' loads='write read random create stat unlink tar' mib=256 files=10000 rounds=5 options='' place=''
delegations='' no_rates='' no_counts=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'peers loads mib files rounds options place' 'delegations no-rates no-counts' "$@"
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
fuse_binary=${NFSRDMA_FUSE:-$here/../../build/fuse/nfsrdma-fuse}
for program in "$bin/responder" "$bin/load_mount" "$bin/bare_fuse" "$fuse_binary"; do
  [ -x "$program" ] || { echo "no $program (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR, NFSRDMA_FUSE)"; exit 77; }
done
[ -c /dev/fuse ] || { echo "no /dev/fuse"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "needs root for the mounts"; exit 77; }
[ -n "$peers" ] || peers="bare${PASSTHROUGH_HP:+ passthrough}"
# The mounts go with their namespace.
[ -n "${MOUNT_LIMITS_INSIDE:-}" ] || MOUNT_LIMITS_INSIDE=1 exec unshare -m --propagation private "$0" "$@"

work=$(mktemp -d) || exit 1
# shellcheck source=servers.sh
. "$here/servers.sh"
daemon=''
trap '[ -z "$daemon" ] || kill "$daemon" 2> /dev/null; umount -l "$point" "$memory" 2> /dev/null; stop_servers; rm -rf "$work"' EXIT
point=$work/mount memory=$work/tmpfs
mkdir "$point" "$memory" && mount -t tmpfs -o size=80% tmpfs "$memory" && mkdir "$memory/tree" || exit 1
for i in $(seq 0 999); do head -c 4096 /dev/zero > "$memory/tree/file-$i"; done

take_processors 1
# place_for LOAD: moves the responders, and says in $here_cpus where the rest goes.
place_for() {
  local where=$place there_cpu=$theirs server
  if [ -z "$where" ]; then
    case $1 in write | read | random) where=two ;; *) where=one ;; esac
  fi
  here_cpus=$ours
  case $where in
    one) there_cpu=$ours ;;
    two) ;;
    free) here_cpus=$ours,$theirs ;;
    *) usage 2 ;;
  esac
  for server in "${servers[@]}"; do taskset -cp "$there_cpu" "$server" > /dev/null; done
}
serve() { start_server taskset -c "$theirs" "$bin/responder" --many tree=1000x4K "$@"; }
serve
plain_port=$port
[ -z "$delegations" ] || serve --delegations

# on TOOL LOAD SIZE: a fresh mount of it, with what the load needs; $daemon is its process. $wrap goes in front of it.
wrap=()
on() {
  local -a command
  place_for "$2"
  case $1 in
    nfsrdma | ungranted)
      local at=$port
      [ "$1" = nfsrdma ] || at=$plain_port
      command=("$fuse_binary" -f "127.0.0.1:/" "$point" -o "port=$at,fabric=iwarp,allow_other${options:+,$options}")
      ;;
    passthrough) command=("$PASSTHROUGH_HP" --foreground "$memory" "$point") ;;
    bare)
      command=("$bin/bare_fuse" "$point")
      case $2 in
        write | read | random) command+=("data=$mib") ;;
        stat | unlink) command+=("many=$3") ;;
        tar | small | random-small) command+=(tree=1000) ;;
      esac
      ;;
  esac
  taskset -c "$here_cpus" ${wrap[@]+"${wrap[@]}"} "${command[@]}" > "$work/daemon" 2>&1 &
  daemon=$!
  await_mount "$point" "$daemon" || { echo "FAILED: $1 does not mount: $(tail -3 "$work/daemon")"; exit 1; }
  # As the mount has it.
  [ "$1" != bare ] || echo 2048 > "/sys/class/bdi/$(mountpoint -d "$point")/read_ahead_kb"
}
off() {
  umount "$point"
  wait "$daemon"
  daemon=''
}
# run TOOL LOAD SIZE: prints the report.
run() {
  [ "$1:$2" = bare:write ] || [ "$2" != write ] || rm -f "$point/data"
  taskset -c "$here_cpus" "$bin/load_mount" "$1" "$2" "$point" "$3" "$daemon" 2> "$work/err" ||
    { echo "FAILED $2: $1: $(cat "$work/err" "$work/daemon")" >&2; return 1; }
}
is_ours() { case $1 in nfsrdma | ungranted) ;; *) return 1 ;; esac; }
size_of() { case $1 in write | read) echo "$mib" ;; tar | small | random-small) echo 1000 ;; *) echo "$files" ;; esac; }

# stats: what the mount has done so far, a line for each kind of request and of call: "fuse LOOKUP 10".
stats() { awk '/^(fuse|nfs) / { split($3, count, "="); print $1, $2, count[2] }' "$point/.nfsrdma-stats"; }
calls_of() { awk '$NF == "total" { print (NF >= 4 ? $(NF > 5 ? 4 : NF - 1) : 0) }' "$work/strace"; }
# plain TOOL LOAD SIZE: without a report.
plain() { on "$@" && run "$@" > /dev/null && off; }
# counted_run TOOL LOAD COUNT: leaves the responder and the tmpfs as they were.
counted_run() {
  local -a around=(${wrap[@]+"${wrap[@]}"})
  wrap=()
  if [ "$1" != bare ]; then
    case $2 in stat | unlink) plain "$1" create "$3" || return 1 ;; read | random) plain "$1" write "$mib" || return 1 ;; esac
  fi
  wrap=("${around[@]}")
  on "$@" || return 1
  [ "$3" = 0 ] || run "$@" > /dev/null || return 1
  ! is_ours "$1" || stats > "$work/stats.$3"
  off
  wrap=()
  if [ "$1" != bare ]; then
    case $2 in create | save | stat) plain "$1" unlink "$3" || return 1 ;; esac
  fi
}
# counted TOOL LOAD: of one operation, as differences of a short run and a long one.
counted() {
  local few=500 many=2500 count
  case $2 in write | read) few=16 many=80 ;; tar | small | random-small) few=0 many=1000 ;; esac
  local -a instructions=() calls=()
  for count in $few $many; do
    wrap=(valgrind --tool=callgrind --quiet "--callgrind-out-file=$work/callgrind")
    counted_run "$1" "$2" "$count" || return 1
    instructions+=("$(awk '/^(summary|totals):/ { print $2; exit }' "$work/callgrind")")
    [ -z "${KEEP_CALLGRIND:-}" ] || cp "$work/callgrind" "$KEEP_CALLGRIND/callgrind.$1.$2.$count"
    wrap=(strace -f -c -o "$work/strace")
    counted_run "$1" "$2" "$count" || return 1
    calls+=("$(calls_of)")
  done
  awk -v i=$((instructions[1] - instructions[0])) -v c=$((calls[1] - calls[0])) -v n=$((many - few)) -v t="$1, $2" \
    'BEGIN { printf "  %-18s %9.0f instructions, %6.2f system calls an operation\n", t, i / n, c / n }'
  is_ours "$1" || return 0
  awk -v n=$((many - few)) 'FNR == NR { before[$1 $2] = $3; next }
    { count = ($3 - before[$1 $2]) / n; if (count >= 0.005) what[$1] = what[$1] sprintf(" %s %.2f", $2, count); sum[$1] += count }
    END { printf "    round trips %.2f:%s\n    requests of the kernel %.2f:%s\n", sum["nfs"], what["nfs"], sum["fuse"], what["fuse"] }' \
    "$work/stats.$few" "$work/stats.$many"
}

failures=0
timed=()
for load in $loads; do
  if [ "$load" != idle ]; then
    timed+=("$load")
    continue
  fi
  on nfsrdma idle 0
  ls "$point" > /dev/null
  sleep 15
  strace -f -c -p "$daemon" -o "$work/strace" 2> /dev/null &
  tracer=$!
  sleep 60
  kill "$tracer"
  wait "$tracer" 2> /dev/null
  echo "idle: $(awk '$NF ~ /^epoll_/ { printf "%s %s ", $4, $NF }' "$work/strace")in 60 s"
  off
done

if [ -z "$no_rates" ]; then
  : > "$work/runs"
  for _ in $(seq "$rounds"); do
    for load in ${timed[@]+"${timed[@]}"}; do
      for tool in nfsrdma $peers; do
        on "$tool" "$load" "$(size_of "$load")"
        run "$tool" "$load" "$(size_of "$load")" >> "$work/runs" || failures=$((failures + 1))
        off
      done
    done
  done
  for load in ${timed[@]+"${timed[@]}"}; do
    case $load in write | read) rate=mb_per_second ;; *) rate=ops_per_second ;; esac
    for peer in $peers; do
      jq -c --arg peer "$peer" --arg load "$load" 'select(.load == $load and (.tool == $peer or .tool == "nfsrdma"))' "$work/runs" > "$work/pairs"
      python3 "$here/compare.py" --ours nfsrdma --peer "$peer" --rate $rate --title "$load against $peer" "$work/pairs" ||
        failures=$((failures + 1))
    done
  done
fi
if [ -z "$no_counts" ]; then
  if command -v valgrind > /dev/null && command -v strace > /dev/null; then
    for load in ${timed[@]+"${timed[@]}"}; do
      for tool in nfsrdma $peers; do counted "$tool" "$load" || failures=$((failures + 1)); done
    done
  else
    echo "no valgrind or no strace: nothing is counted (packaging/packages.sh install bench)"
  fi
fi
[ "$failures" = 0 ]
