#!/usr/bin/env bash
# The mount over verbs, in the guest, on the device that the lab was started with (LAB_DEVICES): once as root, once as an
# unprivileged user by fusermount3, both of one directory. What programs see through them is what the server has; and
# nothing is left of them, neither mounted nor held of the device.
#
# Environment besides lib.sh's: NFSRDMA_FUSE (nfsrdma-fuse), NFSRDMA_MOUNT_EXERCISE (mount_exercise).
export NFSRDMA_LAB_SIDE=guest LAB_TIMEOUT=300
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
device=${LAB_DEVICES:?the device to test, siw0 or rxe0}
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
exercise=${NFSRDMA_MOUNT_EXERCISE:-$root/build/tests/mount_exercise}
need_tools fusermount3 rdma
need_built 'NFSRDMA_FUSE, NFSRDMA_MOUNT_EXERCISE' "$fuse_binary" "$exercise"
within_reach fuse_binary exercise mount_checks

# The guest's own memory: fusermount3 mounts on no hostfs. The user sees it as $point, root as $above$point.
point=/dev/shm/$test_name above=/mnt/host
a=$point/a b=$point/b
clean_up() {
  on_server "cd '$above$point' && for i in a b server; do umount -l \$i; done; rm -rf '$above$point'" > /dev/null 2>&1
}
trap 'clean_up; finish' EXIT
# FUSE's device is everybody's, as udev has it.
on_server "chmod 666 /dev/fuse; mkdir -p $above$point/{a,server} && chmod 777 $above$point && mount --bind '$export' $above$point/server &&
  echo secret > '$export/secret' && chmod 600 '$export/secret'" || { fail "no place for the mounts"; exit 1; }
"$lab" guest mkdir "$b" < /dev/null || { fail "no directory of the user's"; exit 1; }

mounted() { on_server "for i in \$(seq 100); do grep -q ' $above$1 fuse.nfsrdma ' /proc/mounts && exit; sleep 0.05; done; exit 1"; }
not_mounted() { on_server "! grep ' $above$1 ' /proc/mounts"; }
# ended NAME PID: its daemon ends by itself, with exit status 0, and nothing is mounted.
ended() {
  local status=0
  eventually 20 gone "$2" || { fail "$1: the daemon lives on: $(cat "$work/$1.log")"; return; }
  wait "$2" || status=$?
  same "$1: the daemon's exit status" 0 "$status"
  check "$1: nothing is mounted" not_mounted "$point/$1"
}

same "nothing held before" 0 "$(settled)"
"$lab" run "exec '$above$(realpath "$fuse_binary")' -f '$server:$remote' $above$a -o fabric=verbs,allow_other" > "$work/a.log" 2>&1 &
daemon_a=$!
"$lab" guest "$fuse_binary" -f "$server:$remote" "$b" -o fabric=verbs,nconnect=2 < /dev/null > "$work/b.log" 2>&1 &
daemon_b=$!
children+=("$daemon_a" "$daemon_b")
check "a, root's, is mounted" mounted "$a"
check "b, the user's, is mounted" mounted "$b"
[ "$failures" = 0 ] || { cat "$work"/[ab].log; exit 1; }
count=$(held)
check "they hold what is $device's ($count objects)" test "$count" -gt 0
expect_exit 1 "root sees nothing of the user's" on_server "test -d '$above$b/.'"

look_at_mounts "$lab" guest python3 "$mount_checks" "$a" "$b" "$point/server"
for one in "$a" "$b"; do
  check "mount_exercise on $one" "$lab" guest "$exercise" --directory "$one" --seed 7 --ops 3000 --size 262144
done

check "fusermount3 -u" "$lab" guest fusermount3 -u "$b"
ended b "$daemon_b"
check "umount" on_server "umount $above$a"
ended a "$daemon_a"
same "nothing held after them" 0 "$(settled)"

# In the background, where the kernel asks what it does with a file that is open at the end.
check "in the background" on_server "'$above$(realpath "$fuse_binary")' '$server:$remote' $above$a -o fabric=verbs"
check "in the background: it is mounted when the command ends" mounted "$a"
check "SIGTERM amid a write" on_server "exec 3> $above$a/unwritten && echo written >&3 && pkill -TERM -x nfsrdma-fuse &&
  for i in \$(seq 200); do pgrep -x nfsrdma-fuse > /dev/null || break; sleep 0.05; done; ! pgrep -x nfsrdma-fuse"
check "SIGTERM: nothing is mounted" not_mounted "$a"
same "SIGTERM: what was written is there" written "$(on_server "cat '$export/unwritten'")"
same "nothing held at the end" 0 "$(settled)"
