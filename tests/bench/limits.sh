#!/usr/bin/env bash
# What this client can do, where the server costs next to nothing: load_nfsrdma on the responder, beside libnfs on the same
# responder over TCP and beside the limits that no client can pass (load_limit). Client and server each have a processor
# of their own, or several.
#
#   limits.sh [--loads "read write small one"] [--cores N] [--rounds N] [--seconds S] [--vers V] [--options LIST]
#             [--no-counts]
#
# --loads     read: 1 MiB, one after the other, 8 in flight; write: the same with WRITEs; small: 4 KiB at random, 32 in
#             flight; one: the same, 1 in flight; deep, deeper: the same, 256 and 1,024 in flight, which is more than
#             there are slots (the first four)
# --cores     processors for the client, and as many others for the responder, which has so many threads (1). On a machine
#             with fewer than 2 N they share all of them, and it says SHARED
# --rounds    runs of each, in turn (5)
# --seconds   of one run (2)
# --vers      of NFS that load_nfsrdma speaks (the highest)
# --options   more options for load_nfsrdma
# --no-counts instructions and system calls of an operation are not counted
#
# With several cores each peer is N processes side by side, each on a processor of its own where there are enough, and with as
# many requests in flight as the one process has without --cores; their rates are added up. Ours is run in the ways that a
# program can choose, with as many requests in flight in all (at most 1,024):
#   load_nfsrdma       one process, by callbacks, with threads=N (at most 16) and credits for what is in flight (at most the
#                      responder's 256 slots)
#   nfsrdma_shards     one process with a thread for each request in flight, which reads by blocking calls, with shards=N (at
#                      most 16): small and one only
#   nfsrdma_processes  N processes, as the peers
# Nothing is counted then.
#
# Exit status: 0, 1 (a run failed), 2 (usage), 77 (skipped). README.md tells what is compared.
loads='read write small one' cores=1 rounds=5 seconds=2 vers='' options='' no_counts=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'loads cores rounds seconds vers options' no-counts "$@"
[[ $cores =~ ^[1-9][0-9]{0,2}$ ]] || usage 2
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
[ -x "$bin/responder" ] || { echo "no $bin/responder (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR)"; exit 77; }
work=$(mktemp -d) || exit 1
start_looks=300
# shellcheck source=servers.sh
. "$here/servers.sh"
trap 'stop_servers; rm -rf "$work"' EXIT

take_processors "$cores"
if [ "$ours" = "$theirs" ]; then
  if [ "$cores" = 1 ]; then
    echo "one processor only: client and server share it"
  else
    echo "SHARED: --cores $cores takes $((2 * cores)) processors; here are ${#our_cpus[@]}, and client and server share them"
  fi
fi

start_server taskset -c "$theirs" "$bin/responder" --threads "$cores" --file file=1G

own_options=''  # of load_nfsrdma, in front of the caller's
# tool NAME OPTION …: one process. What libnfs is told: its version.
tool() {
  local name=$1 all=$own_options${options:+,$options}
  shift
  local own=(${vers:+--vers "$vers"} ${all:+--options "${all#,}"})
  case $name in
    load_nfsrdma | nfsrdma_*) "${wrap[@]}" "$bin/load_nfsrdma" --port "$port" "${own[@]}" "$@" 127.0.0.1 /file ;;
    libnfs3 | libnfs4) "${wrap[@]}" "$bin/load_libnfs" --port "$tcp_port" --vers "${name#libnfs}" "$@" 127.0.0.1 /file ;;
    tcp | iwarp) "${wrap[@]}" "$bin/load_limit" --options "$name" --port "$port" "$@" 127.0.0.1 /file ;;
  esac
}
# side_by_side NAME OPTION …: a process for each core, as one run of all of them. The latencies are means of the processes'.
side_by_side() {
  local name=$1 i failed=0 pids=()
  shift
  for ((i = 0; i < cores; i++)); do
    (
      wrap=(taskset -c "$ours")
      if [ "$ours" != "$theirs" ]; then
        wrap=(taskset -c "${our_cpus[i]}")
        export LOAD_PEER_CPU=${their_cpus[i]}
      fi
      tool "$name" "$@" --seed $((i + 1)) > "$work/part.$i" 2> "$work/err.$i"
    ) &
    pids+=($!)
  done
  for ((i = 0; i < cores; i++)); do
    wait "${pids[i]}" || failed=1
    cat "$work/err.$i" >&2
  done
  [ $failed = 0 ] || return 1
  for ((i = 0; i < cores; i++)); do cat "$work/part.$i"; done | jq -s -c '
    def sum(f): map(f) | add;
    sum(.ops) as $ops | .[0] + {
      processes: length, ops: $ops, bytes: sum(.bytes), seconds: (map(.seconds) | max),
      ops_per_second: sum(.ops_per_second), mb_per_second: sum(.mb_per_second),
      cpu_seconds: sum(.cpu_seconds), cpu_us_per_op: (sum(.cpu_seconds) * 1e6 / $ops),
      latency_us: {p50: (sum(.latency_us.p50 * .ops) / $ops)}}'
}
# one_process NAME LOAD OPTION …: load_nfsrdma, told to use all cores.
one_process() {
  local name=$1 load=$2 most=$((cores > 16 ? 16 : cores)) depth more
  shift 2
  depth=$(options_of "$load" | sed 's/.*--depth \([0-9]*\).*/\1/')
  depth=$((depth * cores > 1024 ? 1024 : depth * cores))
  more=(--depth "$depth")
  local own_options=threads=$most,credits=$((depth < 64 ? 64 : depth > 256 ? 256 : depth)) wrap=(taskset -c "$ours")
  if [ "$name" = nfsrdma_shards ]; then
    own_options=shards=$most
    more+=(--threads)
  fi
  tool "$name" "$@" "${more[@]}"
}
# run_of NAME LOAD OPTION …: one run.
run_of() {
  local name=$1 load=$2
  shift 2
  if [ "$cores" = 1 ]; then
    wrap=(taskset -c "$ours")
    LOAD_PEER_CPU=$theirs tool "$name" "$@"
  else
    case $name in
      load_nfsrdma | nfsrdma_shards) one_process "$name" "$load" "$@" ;;
      *) side_by_side "$name" "$@" ;;
    esac
  fi
}
ours_of() {
  local all=load_nfsrdma
  if [ "$cores" != 1 ]; then
    all+=' nfsrdma_processes'
    case $1 in small | one) all+=' nfsrdma_shards' ;; esac
  fi
  echo "$all"
}
# compare LOAD NAME PEER
compare() {
  local title="$1 (${how[*]}) against $3"
  [ "$cores" = 1 ] || title="$1 (${how[*]}) on $cores cores, $2 against $3"
  python3 "$here/compare.py" --ours "$2" --peer "$3" --rate ops_per_second --cpu cpu_us_per_op --title "$title" \
    "$work/runs.$1" || failures=$((failures + 1))
}
peers_of() {
  local all=tcp
  [ ! -x "$bin/load_libnfs" ] || all+=' libnfs3'
  # libnfs 4.0 cannot encode a WRITE of NFSv4.
  [ ! -x "$bin/load_libnfs" ] || [ "$1" = write ] || all+=' libnfs4'
  case $1 in small | one) all+=' iwarp' ;; esac  # at most 64 in flight
  echo "$all"
}
options_of() {
  case $1 in
    read) echo '--size 1M --depth 8' ;;
    write) echo '--size 1M --depth 8 --write' ;;
    small) echo '--size 4K --depth 32 --random' ;;
    one) echo '--size 4K --depth 1 --random' ;;
    deep) echo '--size 4K --depth 256 --random' ;;
    deeper) echo '--size 4K --depth 1024 --random' ;;
    *) return 1 ;;
  esac
}

# counted TOOL LOAD: user instructions and system calls of one operation, as differences of two runs.
counted() {
  local few=1000 many=4000 count
  local -a how instructions=() calls=()
  read -r -a how <<< "$(options_of "$2")"
  case $2 in read | write) few=50 many=150 ;; esac
  for count in $few $many; do
    wrap=(valgrind --tool=callgrind --quiet "--callgrind-out-file=$work/callgrind")
    tool "$1" "${how[@]}" --count "$count" > /dev/null 2> "$work/err" || { cat "$work/err" >&2; return 1; }
    instructions+=("$(awk '/^(summary|totals):/ { print $2; exit }' "$work/callgrind")")
    wrap=(strace -f -c -o "$work/strace")
    tool "$1" "${how[@]}" --count "$count" > /dev/null 2> "$work/err" || { cat "$work/err" >&2; return 1; }
    calls+=("$(awk '$NF == "total" { print (NF >= 4 ? $(NF > 5 ? 4 : NF - 1) : 0) }' "$work/strace")")
  done
  awk -v i=$((instructions[1] - instructions[0])) -v c=$((calls[1] - calls[0])) -v n=$((many - few)) -v t="$1" \
    'BEGIN { printf "  %-14s %10.0f instructions, %6.2f system calls an operation\n", t, i / n, c / n }'
}

failures=0
for load in $loads; do
  read -r -a how <<< "$(options_of "$load")" || usage 2
  peers=$(peers_of "$load") all_ours=$(ours_of "$load")
  for _ in $(seq "$rounds"); do
    for name in $all_ours $peers; do
      if ! run_of "$name" "$load" "${how[@]}" --seconds "$seconds" > "$work/out" 2> "$work/err"; then
        echo "FAILED $load: $name: $(tail -1 "$work/err")"
        failures=$((failures + 1))
        continue
      fi
      # The tool is called what the run is called.
      jq -c --arg name "$name" '.tool = $name' "$work/out" >> "$work/runs.$load"
    done
  done
  for name in $all_ours; do
    [ "$name" = load_nfsrdma ] || compare "$load" load_nfsrdma "$name"
    for peer in $peers; do compare "$load" "$name" "$peer"; done
  done
  jq -s -r '
    def median: sort | .[length / 2 | floor];
    def hundredths: . * 100 | round / 100;
    group_by(.tool)[] | "  \(.[0].tool): medians \([.[].ops_per_second] | median | round) operations per second, \(
      [.[].cpu_us_per_op] | median | hundredths) µs of CPU time each, \([.[].latency_us.p50] | median | hundredths) µs latency"
    ' "$work/runs.$load"
  if [ -n "$no_counts" ] || [ "$cores" != 1 ]; then continue; fi
  if ! command -v valgrind > /dev/null || ! command -v strace > /dev/null; then
    echo "no valgrind or no strace: nothing is counted (packaging/packages.sh install bench)"
    continue
  fi
  for name in load_nfsrdma $peers; do
    case $name in tcp) continue ;; esac
    counted "$name" "$load" || failures=$((failures + 1))
  done
done
[ "$failures" = 0 ]
