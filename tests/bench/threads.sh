#!/usr/bin/env bash
# What shards=N brings to a program that reads in N threads: load_nfsrdma with blocking READs of 4 KiB at random on the
# responder, with N shards and with none, in turn.
#
#   threads.sh [--threads "1 2 4 8"] [--server-threads N] [--rounds N] [--seconds S] [--options LIST]
#
# --threads        how many threads read; one line of results for each
# --server-threads of the responder (half of the processors, at least 1). Each has the connections of some shards. More
#                  threads than that would take processors from those that read
# --rounds         pairs of runs (5)
# --seconds        of one run (2)
# --options        more options for load_nfsrdma
# The last lines tell by how much the limit moves: with processors enough, what a program reaches is limited by the thread
# that takes most CPU time. They compare that of an operation with the one of a single thread without shards.
# Exit status: 0, 1 (a run failed), 2 (usage), 77 (skipped). README.md tells what is compared.
threads='1 2 4 8' server_threads='' rounds=5 seconds=2 options=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'threads server-threads rounds seconds options' '' "$@"
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
[ -x "$bin/responder" ] || { echo "no $bin/responder (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR)"; exit 77; }
work=$(mktemp -d) || exit 1
# shellcheck source=servers.sh
. "$here/servers.sh"
trap 'stop_servers; rm -rf "$work"' EXIT

: "${server_threads:=$((($(nproc) + 1) / 2))}"
start_server "$bin/responder" --threads "$server_threads" --file file=256M

failures=0
for count in $threads; do
  for _ in $(seq "$rounds"); do
    for shards in "$count" 0; do
      if ! "$bin/load_nfsrdma" --port "$port" --options "shards=$shards${options:+,$options}" --threads --depth "$count" \
        --size 4K --random --seconds "$seconds" 127.0.0.1 /file > "$work/out" 2> "$work/err"; then
        echo "FAILED $count threads, $shards shards: $(tail -1 "$work/err")"
        failures=$((failures + 1))
        continue
      fi
      jq -c --arg name "$([ "$shards" = 0 ] && echo none || echo shards)" '.tool = $name' "$work/out" >> "$work/runs.$count"
    done
  done
  python3 "$here/compare.py" --ours shards --peer none --rate ops_per_second --cpu cpu_us_per_op \
    --title "$count threads, a shard for each, against none" "$work/runs.$count" || failures=$((failures + 1))
done
# busiest COUNT TOOL: the median of the busiest thread's CPU time of an operation, in microseconds.
busiest() { jq -s --arg tool "$2" 'map(select(.tool == $tool).busiest_us_per_op) | sort | .[length / 2 | floor]' "$work/runs.$1"; }
if [ -s "$work/runs.1" ]; then
  alone=$(busiest 1 none)
  echo "CPU time of an operation that the busiest thread takes (and the limit, relative to one thread without shards)"
  for count in $threads; do
    for tool in none shards; do
      awk -v n="$count" -v t="$tool" -v a="$alone" -v b="$(busiest "$count" "$tool")" \
        'BEGIN { printf "  %2d threads, %-6s %7.2f µs  (%.2f)\n", n, t, b, a / b }'
    done
  done
fi
[ "$failures" = 0 ]
