# shellcheck shell=bash
# The lab's guest: bridges over verbs in front of its own NFS server, and its kernel's NFS/RDMA client. guest.sh sources
# this file in the guest and calls one function at a time; each says on stdout what is wrong and fails.
#
# Given: $programs, the build directory as the guest sees it. The guest's /tmp is its own.
set -uo pipefail
export LD_LIBRARY_PATH=$programs/libclient:$programs/cli
address=10.77.0.2
mnt=/mnt/kernel
dir=$mnt/d exported=/mnt/exp/d

wrong() { echo "$*"; return 1; }

# bridge_up NAME PORT OPTION …: until it listens.
bridge_up() {
  local name=$1 port=$2 pid
  shift 2
  : > "/tmp/$name.out"
  setsid "$programs/tests/bridge/nfsrdma-bridge" --fabric verbs --listen "$address:$port" --server "$address:2049" \
    --log "/tmp/$name.log" "$@" > "/tmp/$name.out" 2>&1 < /dev/null &
  pid=$!
  echo $pid > "/tmp/$name.pid"
  while kill -0 $pid 2> /dev/null; do
    grep -q "^listening on $address:$port" "/tmp/$name.out" && return 0
    sleep 0.02
  done
  wrong "it did not start: $(cat "/tmp/$name.out")"
}
# It must end by itself, and say what it did.
bridge_down() {
  local pid
  pid=$(cat "/tmp/$1.pid")
  kill -TERM "$pid" && ends "$pid" && grep ' calls$' "/tmp/$1.out"
}
ends() {
  for _ in $(seq 100); do
    kill -0 "$1" 2> /dev/null || return 0
    sleep 0.05
  done
  wrong "process $1 is still there after 5 s"
}
# What it holds of the device, descriptors included, when its clients have gone; within 5 s the expected number.
held() {
  local pid count kind
  pid=$(cat "/tmp/$1.pid")
  for _ in $(seq 50); do
    count=$(for kind in qp mr cq; do rdma -j res show $kind; echo; done |
      jq -s --argjson pid "$pid" 'add | map(select(.pid == $pid)) | length')
    [ "$count" = 0 ] && break
    sleep 0.1
  done
  echo "$count queues and registrations, $(find "/proc/$pid/fd" -mindepth 1 | wc -l) descriptors"
}
invalidations() { sed -n 's/.* ended: .* \([0-9]*\) with Invalidate.*/\1/p' "/tmp/$1.log" | awk '{ all += $1 } END { print all + 0 }'; }

# kernel_mount VERSION PORT: the kernel asks mountd over TCP, since it knows no other way (fs/nfs/fs_context.c).
kernel_mount() {
  local options=vers=$1,proto=rdma,port=$2,timeo=100 path=/
  if [[ $1 = 3* ]]; then
    path=/mnt/exp
    options+=,nolock,mountproto=tcp,mountport=$(rpcinfo -p | awk '$1 == 100005 && $2 == 3 && $3 == "tcp" { print $4 }')
  fi
  mkdir -p "$mnt"
  timeout 30 mount -t nfs -o "$options" "$address:$path" "$mnt" || return
  grep -q " $mnt nfs4* .*proto=rdma,port=$2," /proc/mounts || wrong "$(grep " $mnt " /proc/mounts)"
}
# Sees to it that what was written has to be read from the server again.
forget() {
  sync -f "$mnt" && echo 3 > /proc/sys/vm/drop_caches
}
# Starting a process takes some 40 ms here: one for many files where that is possible.
files() {
  local size
  rm -rf "$exported" && mkdir "$exported" || return
  if [ ! -d /tmp/sources ]; then
    mkdir /tmp/sources
    for size in 0 1 1023 1025 4097 300001 10000003; do head -c $size /dev/urandom > "/tmp/sources/f-$size"; done
  fi
  cp /tmp/sources/* "$dir" || return
  forget
  diff -r /tmp/sources "$exported" && diff -r /tmp/sources "$dir" || return
  printf changed | dd of="$dir/f-4097" bs=1 seek=1000 conv=notrunc status=none || return
  mv "$dir/f-1" "$dir/moved" && chmod 640 "$dir/moved" && rm "$dir/f-1023" || return
  forget
  [ "$(dd if="$dir/f-4097" bs=1 skip=1000 count=7 status=none)" = changed ] || wrong "a change in the middle is not there" || return
  [ "$(stat -c %a "$dir/moved")" = 640 ] && [ ! -e "$dir/f-1" ] && [ ! -e "$dir/f-1023" ] || wrong "rename, chmod or rm: $(ls -l "$dir")"
}
# Short ones travel inline, long ones in chunks.
symlinks() {
  local size target all=
  for size in 3 600 1023 3900; do
    printf -v target '%*s' $size ''
    target=${target// /x}
    ln -s "$target" "$dir/l-$size" || return
    all+=$target$'\n'
  done
  forget
  [ "$(readlink "$exported"/l-{3,600,1023,3900})"$'\n' = "$all" ] || wrong "the targets on the server" || return
  [ "$(readlink "$dir"/l-{3,600,1023,3900})"$'\n' = "$all" ] || wrong "the targets as read"
}
listing() {
  mkdir "$exported/many" && (cd "$exported/many" && seq -f 'an-entry-of-many-%g' 1000 | xargs touch) || return
  forget
  ls "$exported/many" > /tmp/names && ls "$dir/many" > /tmp/names-read && cmp /tmp/names /tmp/names-read || return
  ls -l "$dir/many" > /tmp/lines && [ "$(grep -c '^-.*an-entry-of-many' /tmp/lines)" = 1000 ] ||
    wrong "ls -l gives $(wc -l < /tmp/lines) lines"
}
# NFSACL, on the same port. 300 entries take a Long Call and a Long Reply; Linux' server takes no more than a page.
acls() {
  touch "$dir/acl" && python3 -S - "$dir/acl" "$exported/acl" << 'PYTHON'
import os, struct, sys
nobody = 0xffffffff
name = "system.posix_acl_access"
for count in 1, 20, 300:
    entries = [(1, 6, nobody)] + [(2, 4, 1000 + i) for i in range(count)] + [(4, 4, nobody), (16, 6, nobody), (32, 0, nobody)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(sys.argv[1], name, acl)
    open("/proc/sys/vm/drop_caches", "w").write("3")
    if os.getxattr(sys.argv[1], name) != acl: sys.exit(f"another ACL of {count} users comes back")
    if os.getxattr(sys.argv[2], name) != acl: sys.exit(f"the server has another ACL of {count} users")
PYTHON
}
delegated() { grep -q "type: deleg.*/${1##*/}\"" /proc/fs/nfsd/clients/*/states; }
# The server recalls a read delegation through the bridge: a write of its own has to wait for that.
recall() {
  echo first > "$exported/recalled"
  exec 5< "$dir/recalled" || return
  cat <&5 > /dev/null
  delegated "$exported/recalled" || wrong "no delegation was granted" || return
  timeout 10 bash -c "echo second >> '$exported/recalled'" || wrong "the delegation was not returned" || return
  exec 5<&-
  [ "$(cat "$dir/recalled")" = $'first\nsecond' ] || wrong "the client reads '$(cat "$dir/recalled")'"
}
# cli_recall PATH_OF_FILE COMMAND …: the same with nfsrdma-cli, which the command starts: it writes the file to stdout,
# and nobody takes that while the server's own write waits for the delegation.
cli_recall() {
  local file=$1 reader
  shift
  head -c 8000000 /dev/urandom > "$file"
  cp "$file" /tmp/before
  rm -f /tmp/fifo && mkfifo /tmp/fifo
  "$@" > /tmp/fifo &
  reader=$!
  exec 6< /tmp/fifo
  head -c 4096 <&6 > /tmp/read || return
  for _ in $(seq 50); do
    delegated "$file" && break
    sleep 0.1
  done
  delegated "$file" || wrong "no delegation was granted" || return
  timeout 5 bash -c "echo second >> '$file'" || wrong "the delegation was not returned" || return
  cat <&6 >> /tmp/read
  exec 6<&-
  wait $reader || wrong "the reader ends with $?" || return
  cmp -n 8000000 /tmp/before /tmp/read
}
backward_calls() { sed -n 's/.* ended: .* \([0-9]*\) backward calls.*/\1/p' "/tmp/$1.log" | awk '{ all += $1 } END { print all + 0 }'; }
# The kernel's own counts, as words of shell (xprt_rdma_print_stats() of Linux 6.1).
counters() {
  local n
  read -ra n <<< "$(sed -n "\\| mounted on $mnt |,/^device/s/^\txprt:\trdma //p" /proc/self/mountstats)"
  echo "bad_xids=${n[7]} bad_replies=${n[19]} read_chunks=${n[10]} write_chunks=${n[11]} reply_chunks=${n[12]}" \
    "long_calls=${n[20]} invalidated_locally=${n[24]}"
}
kernel_umount() { timeout 30 umount "$mnt"; }

# killed_amid write|read NAME PORT OPTION …: the bridge is killed, and started again, while the kernel does that.
killed_amid() {
  local what=$1 name=$2 port=$3 job
  shift 3
  head -c 150000000 /dev/urandom > /tmp/source
  if [ "$what" = write ]; then
    dd if=/tmp/source of="$dir/killed" bs=1M conv=fsync status=none &
  else
    cp /tmp/source "$exported/killed"
    cmp /tmp/source "$dir/killed" &
  fi
  job=$!
  # No process is started in here: that takes as long as a good part of the transfer.
  until "$what"_is_under_way $job; do
    kill -0 $job || wrong "the $what has ended before the bridge was killed" || return
  done
  kill -KILL "$(< "/tmp/$name.pid")"
  kill -0 $job || wrong "the $what has ended before the bridge was killed" || return
  ends "$(< "/tmp/$name.pid")" && bridge_up "$name" "$port" "$@" || return
  wait $job || wrong "the $what has failed" || return
  cmp /tmp/source "$exported/killed"
}
write_is_under_way() { [ -s "$exported/killed" ]; }
read_is_under_way() {
  local key value fd
  for fd in 3 4; do
    read -r key value < "/proc/$1/fdinfo/$fd" && [ "$value" -gt 1000000 ] || return
  done 2> /dev/null
}
