#!/usr/bin/env bash
# That fio's engine works, with few operations: every job file, as processes and as threads, against a server that keeps what
# is written and looks at what clients do (fio_server), and over NFSv3 against the responder; what is not a job file's; and
# what is said where something fails. Says nothing about speed. Exit status: 0, 1 (a check failed), 77 (skipped).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
test_name=bench-fio
# shellcheck source=../../support/checks.sh
. "$root/tests/support/checks.sh"
# shellcheck source=common.sh
. "$here/common.sh"
work=$(mktemp -d) || exit 1
trap 'status=$?; stop_servers; rm -rf "$work"; conclude "$status"' EXIT
trap 'exit 130' INT TERM HUP
cd "$work" || exit 1

# brief FILE: the same jobs, small and short.
brief() {
  sed 's/^size=.*/size=4m/; s/^runtime=.*/runtime=100ms/; s/^nrfiles=.*/nrfiles=20/' "$here/$1.fio" > "$work/$1.fio"
}
# fio may end with 0 where a job could not even begin; then it has done nothing.
json() { jq -e "$1" "$work/report.json" > /dev/null; }
# fio_run OPTION …: leaves report.json.
fio_run() { timeout 60 fio --output-format=json --output="$work/report.json" "$@"; }
# one_job OPTION …: a job that is in no file.
one_job() {
  fio_run --ioengine="external:$engine" --nfsrdma_url="$NFSRDMA_URL" --name=job --size=1m --bs=16k --verify_state_save=0 "$@"
}
# shellcheck disable=SC2317
went() { fio_run "$@" && json '[.jobs[] | .error == 0 and .read.total_ios + .write.total_ios > 0] | all'; }
# job_files WHAT NAMES OPTION …
job_files() {
  local name
  for name in $2; do
    brief "$name"
    check "$1: $name.fio" went "${@:3}" "$work/$name.fio"
  done
}

check "it tells its options" grep -q nfsrdma_url <(fio --enghelp="$engine")

start_server "$bin/fio/fio_server"
kept=$server
export NFSRDMA_URL=nfs://127.0.0.1:$port/
job_files processes "sequential random verify many"
job_files threads "verify many" --thread
expect_exit 0 "fsync after every fourth write" one_job --rw=write --fsync=4 --iodepth=4
check "fsync: fio has counted them, and their time" json '.jobs[0].sync | .total_ios >= 10 and .total_ios <= 16 and .lat_ns.mean > 1000'
check "fsync: they are no writes, and go beside those" json '.jobs[0] | .write.total_ios == 64 and .iodepth_level."4" > 50'
expect_exit 0 "sync=1" one_job --rw=randwrite --sync=1 --iodepth=8 --verify=crc32c
check "sync=1: several in flight" json '.jobs[0].iodepth_level."8" > 30'
expect_exit 0 "fdatasync, and verify" one_job --rw=write --fdatasync=3 --iodepth=8 --verify=crc32c
expect_exit 0 "fsync_on_close" one_job --rw=write --fsync_on_close=1
expect_exit 0 "trim" one_job --rw=trim --overwrite=1 --iodepth=4
check "trim: fio has counted it" json '.jobs[0].trim.total_ios == 64'
check "trim: several in flight" json '.jobs[0].iodepth_level."4" > 50'
expect_exit 0 "trim, each block written behind it" one_job --rw=randtrimwrite --overwrite=1 --iodepth=4
expect_exit 0 "blocks larger than rsize and wsize" one_job --rw=randrw --bs=1m --size=8m --iodepth=4 --verify=crc32c \
  --nfsrdma_options=rsize=100000,wsize=70000
expect_exit 0 "fio's buffers, not copied" one_job --rw=write --nfsrdma_no_copy=1 --end_fsync=1
expect_exit 0 "a rate" one_job --rw=read --rate_iops=50 --iodepth=4 --runtime=400ms --time_based
check "a rate: requests do not wait for the next one" json '.jobs[0].read.clat_ns.percentile."50.000000" < 10000000'
expect_exit 0 "polling for answers" one_job --rw=randread --iodepth=8 --iodepth_batch_complete_min=0
expect_exit 0 "directories on the way are made" one_job --rw=write --filename=a/b/c
expect_exit 0 "one file, four jobs" one_job --rw=randwrite --filename=shared --numjobs=4 --offset_increment=1m --verify=crc32c

# What the first job wrote the second does not find: it ends with requests in flight.
expect_exit 0 "a file of other bytes" one_job --rw=write --filename=other --verify=crc32c --do_verify=0 --randseed=1
expect_exit 0 "its bytes are there for a later fio" one_job --rw=write --filename=other --verify=crc32c --verify_only --randseed=1
expect_exit 0 "other bytes in their place" one_job --rw=write --filename=other
expect_exit 1 "wrong bytes are seen" one_job --rw=write --filename=other --verify=crc32c --verify_only --randseed=1 --iodepth=16 --verify_fatal=1

expect_exit 1 "no URL" fio_run --ioengine="external:$engine" --name=job --size=1m --rw=read
check "no URL: it says so" grep -q nfsrdma_url "$work/err"
expect_exit 1 "no such directory" one_job --rw=read --nfsrdma_url="${NFSRDMA_URL}none"
check "no such directory: it says so" grep -q '/none: LOOKUP: ' "$work/err"
expect_exit 1 "a wrong option" one_job --rw=read --nfsrdma_options=rsize=x
check "a wrong option: it says so" grep -q "option 'rsize'" "$work/err"
expect_exit 1 "appending, which the engine does not do" one_job --rw=write --file_append=1
kill "$kept"
wait "$kept"
status=$?
same "the server saw no fault, and ended ($(head -c 500 "$work/server.err"))" 0 "$status"

start_server "$bin/fio/fio_server" 0 full
export NFSRDMA_URL=nfs://127.0.0.1:$port/
expect_exit 1 "a sync that fails" one_job --rw=write --fsync=4 --iodepth=4
check "a sync that fails: it says so" grep -q 'COMMIT: .*NOSPC' "$work/err"
check "a sync that fails: the job ends with it" json '.jobs[0] | .error == 28 and .write.total_ios < 20'

start_server "$bin/responder"
export NFSRDMA_URL="nfs://127.0.0.1:$port/?vers=3&mountport=$tcp_port"
job_files NFSv3 "random verify many"

if [ -n "$peer_engine" ]; then
  expect_exit 0 "fio.sh" "$here/../fio.sh" --rounds 1 --seconds 0.2 --size 8m --loads "write one"
  same "fio.sh: compares" 2 "$(grep -c 'median of the ratios' "$work/out")"
else
  say "no libfio-nfs.so (packaging/packages.sh install bench): fio.sh is not looked at"
fi
