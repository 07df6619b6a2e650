#!/usr/bin/env bash
# fio's jobs over libnfsrdma, and over libnfs by fio's own engine `nfs`, on the responder, in turn. Client and server each have
# a processor of their own.
#
#   fio.sh [--loads "read write many one"] [--rounds N] [--seconds S] [--size SIZE] [--vers V] [--options LIST] [--peer-vers V]
#
# --loads      read, write: those of fio/sequential.fio; one, many: those of fio/random.fio (all)
# --rounds     pairs of each (5)
# --seconds    of one run (3)
# --size       of the file, as fio has it (256m)
# --vers       of NFS that ours speaks (the highest)
# --options    more options for ours
# --peer-vers  of NFS that libnfs speaks: 3, or 4 for NFSv4.0, over which it cannot write (4, and 3 for `write`)
# Exit status: 0, 1 (a run failed), 2 (usage), 77 (skipped). README.md tells what is compared.
loads='read write many one' rounds=5 seconds=3 size=256m options='' vers='' peer_vers=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'loads rounds seconds size vers options peer-vers' '' "$@"
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2317
skip() { echo "SKIPPED: $*"; exit 77; }
# shellcheck source=fio/common.sh
. "$here/fio/common.sh"
peer=external:$peer_engine
if fio --enghelp 2> /dev/null | grep -qw nfs; then peer=nfs; fi
[ "$peer" != external: ] || skip "this fio has no engine for libnfs, and none was built (packaging/packages.sh install bench, then cmake again)"
work=$(mktemp -d) || exit 1
trap 'stop_servers; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
cd "$work" || exit 1

# Two processors, or both on one.
take_processors 1
[ "$ours" != "$theirs" ] || echo "one processor only: client and server share it"
files=()
for name in sequential random; do files+=(--file "$name=${size^^}"); done
start_server taskset -c "$theirs" "$bin/responder" "${files[@]}"
export NFSRDMA_URL=nfs://127.0.0.1:$port/
# fio has no fractions of a second.
runtime=$(awk -v s="$seconds" 'BEGIN { printf "%dms", s * 1000 }')
own_options=mountport=$tcp_port${vers:+,vers=$vers}${options:+,$options}

# job_of ENGINE LOAD: the job file for it. What libnfs's engine does not know neither has: fsync.
job_of() {
  local file=sequential edit
  case $2 in one | many) file=random ;; esac
  edit="s/^size=.*/size=$size/; s/^runtime=.*/runtime=$runtime/; /^end_fsync/d"
  if [ "$1" = libnfs ]; then
    edit+="; s#^ioengine=.*#ioengine=$peer#; s#^filename=#filename=/#"
    edit+="; s#^nfsrdma_url=.*#nfs_url=nfs://127.0.0.1/?version=$libnfs_vers\&nfsport=$tcp_port\&mountport=$tcp_port#"
  else
    edit+="; s/^nfsrdma_url=.*/&\nnfsrdma_options=$own_options/"
  fi
  sed "$edit" "$here/fio/$file.fio"
}
# once: one run of job.fio, whose report is report.json; 124 where it does not end. fio's own engine leaves requests in flight
# at a job's end, and may wait for them for ever then. A job is a session of its own, which `timeout` would not reach.
once() {
  local pid job wait
  taskset -c "$ours" fio --output-format=json --output="$work/report.json" --section="$load" "$work/job.fio" 2> "$work/err" &
  pid=$!
  for wait in $(seq "$most_looks"); do
    if ! kill -0 "$pid" 2> /dev/null; then
      wait "$pid"
      return
    fi
    sleep 0.1
  done
  for job in $(pgrep -P "$pid") "$pid"; do kill -9 "$job"; done
  { wait "$pid"; } 2> /dev/null
  echo "not over after $((wait / 10)) s" > "$work/err"
  return 124
}
# measured ENGINE: one line more in runs.LOAD.
measured() {
  local attempt status
  job_of "$1" "$load" > "$work/job.fio"
  for attempt in 1 2 3 4; do
    status=0
    once || status=$?
    [ $status = 124 ] || break
    [ "$1" = libnfs ] || break
    hung=$((hung + 1))
  done
  [ $status = 0 ] && jq -c --arg name "$1" "$report" "$work/report.json" >> "$work/runs.$load" 2>> "$work/err" && return
  echo "FAILED $load: $1, attempt $attempt: $(tail -2 "$work/err" | tr '\n' ' ')"
  failures=$((failures + 1))
}
# One line of JSON, as compare.py takes it.
# shellcheck disable=SC2016  # jq's variables
report='.jobs[0] | (.read.total_ios + .write.total_ios) as $ops | ((.usr_cpu + .sys_cpu) / 100 * .job_runtime / 1000) as $cpu |
  ([.job_runtime, 1] | max) as $ms | if .error != 0 or $ops == 0 then error("nothing done") else
  { tool: $name, ops_per_second: ($ops * 1000 / $ms), mb_per_second: ((.read.bw_bytes + .write.bw_bytes) / 1e6),
    cpu_seconds: $cpu, cpu_us_per_op: ($cpu * 1e6 / $ops),
    p50: ([.read, .write] | map(.clat_ns.percentile."50.000000" // 0) | max / 1000) } end'

failures=0 most_looks=$(awk -v s="$seconds" 'BEGIN { print int((s + 6) * 10) }')
for load in $loads; do
  case $load in read | many | one) libnfs_vers=${peer_vers:-4} ;; write) libnfs_vers=${peer_vers:-3} ;; *) usage 2 ;; esac
  hung=0
  for _ in $(seq "$rounds"); do
    measured nfsrdma
    measured libnfs
  done
  [ -s "$work/runs.$load" ] || continue
  python3 "$here/compare.py" --ours nfsrdma --peer libnfs --rate ops_per_second --cpu cpu_us_per_op \
    --title "$load: fio on libnfsrdma against fio's own engine on libnfs, NFSv$libnfs_vers" "$work/runs.$load" || failures=$((failures + 1))
  jq -s -r 'group_by(.tool)[] | "  \(.[0].tool): \([.[].p50] | sort | .[length / 2 | floor]) µs median latency, \([.[].mb_per_second] | sort | .[length / 2 | floor] | floor) MB/s"' \
    "$work/runs.$load"
  [ $hung = 0 ] || echo "  runs of libnfs that did not end, and were made again: $hung"
done
[ "$failures" = 0 ]
