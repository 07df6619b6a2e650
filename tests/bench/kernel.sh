#!/usr/bin/env bash
# Inside the lab's guest, over the device that the lab was started with (LAB_DEVICES): nfsrdma-cli on verbs against the
# kernel's own NFS/RDMA client, in turn, to the same server: a large file read to nowhere, and written from memory.
#
#   kernel.sh [--mib N] [--rounds N] [--check] [--min-rate R]
#
# --mib        the file's size (512)
# --rounds     pairs of runs (5)
# --check      exit status 1 where the median of the pairs' rate ratios by the tools' own clocks is below --min-rate (0.9)
# Exit status: 0, 1 (a check failed, or a run did), 2 (usage), 77 (skipped). README.md tells what is compared.
mib=512 rounds=5 check='' min_rate=0.9
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'mib rounds min-rate' check "$@"
export NFSRDMA_LAB_SIDE=guest LAB_DEVICES=${LAB_DEVICES:-siw0} LAB_TIMEOUT=600
# shellcheck source=bench.sh
. "$(dirname "$0")/bench.sh"
command -v mount.nfs > /dev/null || skip "no mount.nfs (packaging/packages.sh install test)"

bytes=$((mib << 20))
mounted=/run/kernel-client
# As root, for the kernel's client; the library's path is the host's.
guest_cli="LD_LIBRARY_PATH=/mnt/host$(realpath "$(dirname "$cli_binary")/../libclient") /mnt/host$(realpath "$cli_binary")"
on_server "head -c $bytes /dev/urandom > /dev/shm/src && cp /dev/shm/src '$export/file' && chmod 644 '$export/file' && chmod 777 '$export'
  mkdir -p $mounted; mount -t nfs -o vers=4.2,proto=rdma,port=20049,rsize=1048576,wsize=1048576 $server:/ $mounted" > "$work/mount" 2>&1 ||
  { fail "the kernel's client did not mount: $(cat "$work/mount")"; exit 1; }
trap 'on_server "umount $mounted; rm -f /dev/shm/src"; finish' EXIT
say "the kernel's client: $(on_server "grep ' $mounted ' /proc/mounts")"

# Direct I/O in pieces that the kernel's client cuts into as many requests as it likes.
kernel_read="dd if=$mounted$remote/file of=/dev/null iflag=direct bs=32M"
kernel_write="dd if=/dev/shm/src of=$mounted$remote/written oflag=direct bs=32M conv=fsync"
our_read="$guest_cli get --json $(url file) /dev/null"
our_write="$guest_cli put --json /dev/shm/src $(url written)"
sum=$(on_server "sha256sum < /dev/shm/src")
same "the kernel's client reads the file" "$sum" "$(on_server "dd if=$mounted$remote/file iflag=direct bs=32M status=none | sha256sum")"
same "nfsrdma-cli reads the file" "$sum" "$(on_server "$guest_cli get --quiet $(url file) - | sha256sum")"

# pair WHAT OURS PEER: in turn, and what came of it.
measure="python3 /mnt/host$bench_source/measure.py"
pair() {
  local what=$1 ours=$2 peer=$3
  : > "$work/runs.jsonl"
  for _ in $(seq "$rounds"); do
    on_server "rm -f '$export/written'; $measure --told nfsrdma $bytes bash -c '$ours'" > "$work/run" || { fail "$ours: $(cat "$work/run")"; return; }
    tee -a "$work/runs.jsonl" < "$work/run"
    on_server "rm -f '$export/written'; $measure --told kernel $bytes bash -c '$peer 2>&1'" > "$work/run" || { fail "$peer: $(cat "$work/run")"; return; }
    tee -a "$work/runs.jsonl" < "$work/run"
  done
  local title="$what $mib MiB over $LAB_DEVICES, nfsrdma-cli against the kernel's client"
  local pairs=(python3 "$bench_source/compare.py" --ours nfsrdma --peer kernel)
  "${pairs[@]}" --title "$title, from start to end of the process" "$work/runs.jsonl"
  "${pairs[@]}" --rate told_mb_per_second --min-rate "$min_rate" ${check:+--check} \
    --title "$title, by their own clocks" "$work/runs.jsonl" || failures=$((failures + 1))
}
pair "reading" "$our_read" "$kernel_read"
pair "writing" "$our_write" "$kernel_write"
