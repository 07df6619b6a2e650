#!/usr/bin/env bash
# What this client can do, where the server costs next to nothing: load_nfsrdma on the responder, beside libnfs on the same
# responder over TCP and beside the limits that no client can pass (load_limit). Client and server each have a processor
# of their own.
#
#   limits.sh [--loads "read write small one"] [--rounds N] [--seconds S] [--vers V] [--options LIST] [--no-counts]
#
# --loads     read: 1 MiB, one after the other, 8 in flight; write: the same with WRITEs; small: 4 KiB at random, 32 in
#             flight; one: the same, 1 in flight; deep, deeper: the same, 256 and 1,024 in flight, which is more than
#             there are slots (the first four)
# --rounds    runs of each, in turn (5)
# --seconds   of one run (2)
# --vers      of NFS that load_nfsrdma speaks (the highest)
# --options   more options for load_nfsrdma
# --no-counts instructions and system calls of an operation are not counted
# Exit status: 0, 1 (a run failed), 2 (usage), 77 (skipped). README.md tells what is compared.
loads='read write small one' rounds=5 seconds=2 vers='' options='' no_counts=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'loads rounds seconds vers options' no-counts "$@"
own=(${vers:+--vers "$vers"} ${options:+--options "$options"})
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
[ -x "$bin/responder" ] || { echo "no $bin/responder (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR)"; exit 77; }
work=$(mktemp -d) || exit 1
start_looks=300
# shellcheck source=servers.sh
. "$here/servers.sh"
trap 'stop_servers; rm -rf "$work"' EXIT

# Two processors, or both on one.
two_processors
[ "$ours" != "$theirs" ] || echo "one processor only: client and server share it"
export LOAD_PEER_CPU=$theirs

start_server taskset -c "$theirs" "$bin/responder" --file file=1G

# tool NAME OPTION …: one run. What libnfs is told: its version.
tool() {
  local name=$1
  shift
  case $name in
    load_nfsrdma) "${wrap[@]}" "$bin/load_nfsrdma" --port "$port" "${own[@]}" "$@" 127.0.0.1 /file ;;
    libnfs3 | libnfs4) "${wrap[@]}" "$bin/load_libnfs" --port "$tcp_port" --vers "${name#libnfs}" "$@" 127.0.0.1 /file ;;
    tcp | iwarp) "${wrap[@]}" "$bin/load_limit" --options "$name" --port "$port" "$@" 127.0.0.1 /file ;;
  esac
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
  peers=$(peers_of "$load")
  wrap=(taskset -c "$ours")
  for _ in $(seq "$rounds"); do
    for name in load_nfsrdma $peers; do
      if ! tool "$name" "${how[@]}" --seconds "$seconds" > "$work/out" 2> "$work/err"; then
        echo "FAILED $load: $name: $(tail -1 "$work/err")"
        failures=$((failures + 1))
        continue
      fi
      # The tool is called what the run is called.
      jq -c --arg name "$name" '.tool = $name' "$work/out" >> "$work/runs.$load"
    done
  done
  for name in $peers; do
    jq -c --arg name "$name" 'select(.tool == $name or .tool == "load_nfsrdma")' "$work/runs.$load" > "$work/pairs"
    python3 "$here/compare.py" --ours load_nfsrdma --peer "$name" --rate ops_per_second --cpu cpu_us_per_op \
      --title "$load (${how[*]}) against $name" "$work/pairs" || failures=$((failures + 1))
  done
  jq -s -r --arg load "$load" 'group_by(.tool)[] | "  \(.[0].tool): \([.[].latency_us.p50] | sort | .[length / 2 | floor]) µs median latency"' \
    "$work/runs.$load"
  [ -z "$no_counts" ] || continue
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
