#!/usr/bin/env bash
# Many small files, where the server costs next to nothing: read_many and `nfsrdma-cli get -r` on the responder, beside a
# program on libnfs that opens, reads and closes each file by the asynchronous API, many of them in flight.
#
#   many.sh [--loads "read get write"] [--rounds N] [--seconds S] [--count N] [--size BYTES] [--depth N] [--check]
#
# --loads    read: into memory; get: ten times as many files, into a directory in memory, by programs from their start to
#            their end; libnfs's with one file at a time, as nfs-cp does it, and with many; write: write_many alone (all)
# --rounds   runs of each, in turn (5)
# --seconds  of one run, at least (2)
# --count    files (1000), --size: of each (4096)
# --depth    files that libnfs has in flight (64)
# --check    exit status 1 where a median misses its aim: 5 times libnfs's rate for read, for get 3 times that of one file
#            at a time, and a fifth of its round trips
# Exit status: 0, 1 (a run failed, or --check), 2 (usage), 77 (skipped). README.md tells what is compared.
loads='read get write' rounds=5 seconds=2 count=1000 size=4096 depth=64 check=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'loads rounds seconds count size depth' check "$@"
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
cli=${NFSRDMA_CLI:-$here/../../build/cli/nfsrdma-cli}
[ -x "$bin/responder" ] || { echo "no $bin/responder (cmake -DNFSRDMA_BENCH=ON, or set NFSRDMA_BENCH_DIR)"; exit 77; }
work=$(mktemp -d) memory=$(mktemp -d -p /dev/shm) || exit 1
# shellcheck source=servers.sh
. "$here/servers.sh"
trap 'stop_servers; rm -rf "$work" "$memory"' EXIT

# So many that it does not count how long a program takes to start.
trees=$((count * 10))
# Two processors, or both on one.
take_processors 1

begin() { start_server taskset -c "$theirs" "$bin/responder" --many "many=${count}x$size" --many "trees=${trees}x$size"; }
# Prints how many calls were answered.
end() {
  kill "$server"
  wait "$server" 2> /dev/null
  server=
  sed -n 's/^responder: \([0-9]*\) calls answered/\1/p' "$work/server.err"
}

# whole NAME COMMAND …: a program that gets all files into an empty directory, $memory/got, as often as it takes; from its
# start to its end, connecting included.
whole() {
  taskset -c "$ours" python3 - "$1" "$memory/got" "$trees" "$seconds" "${@:2}" << 'PYTHON'
import json, os, resource, shutil, subprocess, sys, time
name, target, count, seconds, command = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5:]
spent, files = 0.0, 0
before = resource.getrusage(resource.RUSAGE_CHILDREN)
while spent < seconds:
    shutil.rmtree(target, ignore_errors=True)
    os.mkdir(target)
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    spent += time.monotonic() - begin
    files += count
    got = os.path.join(target, "trees")
    if len(os.listdir(got if os.path.isdir(got) else target)) != count:
        sys.exit("files are missing")
after = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"tool": name, "files": files, "seconds": spent, "files_per_second": files / spent,
                  "cpu_us_per_file": cpu * 1e6 / files}))
PYTHON
}

# tool NAME [OPTION …]: one run.
tool() {
  local name=$1
  shift
  case $name in
    load_many) taskset -c "$ours" "$bin/load_many" --port "$port" --count "$count" --size "$size" --seconds "$seconds" "$@" 127.0.0.1 ;;
    get) whole get "$cli" get -rq "nfs://127.0.0.1:$port/trees" "$memory/got" ;;
    libnfs?-to-*)
      whole "$name" "$bin/load_many_libnfs" --port "$tcp_port" --vers "${name:6:1}" --directory /trees --count "$trees" \
        --size "$size" --seconds 0 --depth "${name##*-}" --to "$memory/got" 127.0.0.1 ;;
    libnfs*)
      taskset -c "$ours" "$bin/load_many_libnfs" --port "$tcp_port" --vers "${name#libnfs}" --count "$count" --size "$size" \
        --seconds "$seconds" --depth "$depth" 127.0.0.1 | sed "s/load_many_libnfs/$name/" ;;
  esac
}

# compare OURS PEER AIM FILES: in turn.
failed=0
compare() {
  local name=$1 peer=$2 aim=$3
  : > "$work/runs"
  for _ in $(seq "$rounds"); do
    tool "$name" >> "$work/runs" || { echo "FAILED: $name"; exit 1; }
    tool "$peer" >> "$work/runs" || { echo "FAILED: $peer"; exit 1; }
  done
  "$here/compare.py" "$work/runs" --ours "$name" --peer "$peer" --rate files_per_second --cpu cpu_us_per_file \
    --title "$name beside $peer, $4 files of $size bytes" ${check:+--check} --min-rate "$aim" || failed=1
}

# What one pass over all files takes on the wire: the whole program's calls, connecting included.
round_trips() {
  local name=$1 was=$seconds
  begin
  seconds=0
  tool "$name" > /dev/null || exit 1
  seconds=$was
  # load_many has a pass before it measures.
  end > "$work/calls"
  awk -v passes="$([ "$name" = load_many ] && echo 2 || echo 1)" '{ print $1 / passes }' "$work/calls"
}

if [ -x "$bin/load_many_libnfs" ]; then
  mine=$(round_trips load_many) three=$(round_trips libnfs3) four=$(round_trips libnfs4)
  echo "round trips for $count files: read_many $mine, libnfs NFSv3 $three, NFSv4 $four"
  if [ -n "$check" ] && awk -v a="$mine" -v b="$three" -v c="$four" 'BEGIN { exit !(a * 5 > b || a * 5 > c) }'; then
    echo "  CHECK FAILED: read_many takes more than a fifth of libnfs's round trips"
    failed=1
  fi
fi
begin
for load in $loads; do
  case $load in
    write) echo "write_many: $(tool load_many --write)" ;;
    read | get)
      [ -x "$bin/load_many_libnfs" ] || { echo "no load_many_libnfs: nothing to compare with"; continue; }
      for version in 3 4; do
        if [ "$load" = read ]; then
          compare load_many "libnfs$version" 5 "$count"
        else
          compare get "libnfs$version-to-1" 3 "$trees"
          compare get "libnfs$version-to-$depth" 1 "$trees"
        fi
      done ;;
    *) usage 2 ;;
  esac
done
exit $failed
