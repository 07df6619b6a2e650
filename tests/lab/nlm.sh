#!/usr/bin/env bash
# Locks of NFSv3 (or NFSRDMA_VERS=2): of two mounts and of the kernel's own client, which speaks NFSv3, against each
# other, with and without calls of the server's, and over restarts of the server, of the client and of both. The server's
# lock service is the kernel's, with rpc.statd.
export NFSRDMA_VERS=${NFSRDMA_VERS:-3}
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
need_tools rpcbind rpcinfo rpc.statd sm-notify

# An rpcbind of the client's own, and its own records.
client mount -t tmpfs none /run
client mount -t tmpfs none /var/lib
client rpcbind -f > "$work/rpcbind.log" 2>&1 &
children+=($!)
check "the client has an rpcbind" eventually 10 client rpcinfo -p

on_server "mkdir -p '$export'; chmod 777 '$export'; echo text > '$export/f'; chmod 666 '$export/f'"
kernel_mount() { on_server "mkdir -p /tmp/k; mount -t nfs -o vers=3,proto=tcp,port=2049 $server:$export /tmp/k"; }

# locker PATH try|wait NAME [SIGNAL]: says "locked" or "busy" in $work/NAME.says; holds it until $work/NAME.end is there.
cat > "$work/locker.py" << 'EOF'
import fcntl, os, signal, sys, time
path, mode, name = sys.argv[1:4]
def say(word):
    with open(name + ".new", "w") as f: f.write(word)
    os.rename(name + ".new", name + ".says")
def interrupted(*_): raise InterruptedError
signal.signal(signal.SIGINT, interrupted)
with open(path, "r+b") as f:
    open(name + ".begun", "w").close()
    try:
        fcntl.lockf(f, fcntl.LOCK_EX | (fcntl.LOCK_NB if mode == "try" else 0), 10, 0)
    except InterruptedError:
        say("interrupted"); sys.exit()
    except OSError as e:
        say("busy" if e.errno in (11, 13) else os.strerror(e.errno)); sys.exit()
    say("locked")
    end = time.time() + 100
    while not os.path.exists(name + ".end") and time.time() < end: time.sleep(0.02)
say("released")
EOF
# shellcheck disable=SC2317
says() { [ "$(cat "$work/$2.says" 2> /dev/null)" = "$1" ]; }
# ours MOUNT try|wait NAME, kernels try|wait NAME: in the background.
ours() {
  rm -f "$work/$3".*
  nsenter -t "$holder" -m -n -- env --default-signal=INT python3 "$work/locker.py" "$work/$1/f" "$2" "$work/$3" > "$work/$3.log" 2>&1 &
  locker=$!
}
kernels() {
  rm -f "$work/$2".*
  on_server "(timeout 100 python3 /mnt/host$work/locker.py /tmp/k/f $1 /mnt/host$work/$2 > /mnt/host$work/$2.log 2>&1 &)"
}
# It is about to lock, and has done so where it has to wait.
begun() { eventually 10 [ -e "$work/$1.begun" ] && sleep 0.5; }
end() { touch "$work/$1.end"; check "$1 has unlocked" eventually 10 says released "$1"; }
# Two locks, and is killed.
kill_two_locking() {
  ours two try second
  check "two locks" eventually 10 says locked second
  kill -KILL "${daemon[two]}"
  wait "${daemon[two]}" 2> /dev/null
  client umount -l "$work/two"
  touch "$work/second.end"
}
# Polls of what is queued have pauses of 1, 2, 4 and 8 s.
between_polls() { sleep 7.4; }
inode=$(on_server "stat -c %i '$export/f'")
left_locks() { on_server "grep -c ':$inode ' /proc/locks"; }

other_nfsd=1
kernel_mount
start_mount one "$remote"
start_mount two "$remote"

# ---- the server calls ----
expect_exit 0 "info" client "$cli_binary" info -o "vers=$NFSRDMA_VERS" "nfs://$server$export"
nlm=4
[ "$NFSRDMA_VERS" = 3 ] || nlm=1
# What it has not found out by the time it ends it does not say.
info_says() { client "$cli_binary" info -o "vers=$NFSRDMA_VERS" "nfs://$server$export" | grep -q "$1"; }
check "info: the server calls" eventually 10 info_says "locks: *NLM $nlm; the server calls"
ours one try first
check "one locks" eventually 10 says locked first
ours two try second
check "two does not" eventually 10 says busy second
kernels try third
check "the kernel's client does not" eventually 20 says busy third
ours two wait second
between_polls
check "two waits" [ ! -e "$work/second.says" ]
client rpcinfo -p > "$work/rpcinfo"
check "two's mount is called" grep -q "100021 *$nlm *tcp" "$work/rpcinfo"
end first
check "two has it, by the server's call" eventually 4 says locked second
check "info, of another mount: the place is taken" eventually 10 info_says "locks: .*are polled: another program"
ours one wait first
sleep 1
end second
check "one has it, by asking again" eventually 5 says locked first

# ---- the kernel's client ----
kernels wait third
sleep 1
end first
check "the kernel's client has it" eventually 40 says locked third
ours two wait second
between_polls
check "two waits for the kernel's client" [ ! -e "$work/second.says" ]
end third
check "two has it, by the server's call" eventually 4 says locked second

# ---- cancelled ----
ours one wait first
begun first
kill -INT "$locker"
check "one is interrupted" eventually 5 says interrupted first
end second
ours one wait first
check "one locks" eventually 5 says locked first
ours two wait second
begun second
kill -INT "$locker"
check "two is interrupted, where the server has queued it" eventually 5 says interrupted second
end first
same "nothing is left on the server" 0 "$(left_locks)"
kernels try third
check "the kernel's client locks" eventually 20 says locked third
end third

# ---- flock ----
nsenter -t "$holder" -m -n -- flock -o "$work/one/f" sleep 100 &
children+=($!)
flocked() { ! client flock -n "$work/two/f" true; }
check "flock excludes the other mount" eventually 5 flocked
kernels try third
check "… and the kernel's client, as a lock of all of it" eventually 20 says busy third
kill "${children[-1]}"
check "… until it goes" eventually 5 client flock -n "$work/two/f" true

# ---- the server restarts ----
# Its lockd forgets everything when nobody needs it any more, and its statd says that this is another life.
restart_server() {
  on_server "umount /tmp/k; pkill -KILL rpc.statd; while pgrep rpc.statd; do sleep 0.05; done; rpc.nfsd 0; sm-notify -f > /dev/null 2>&1; rpc.statd --no-notify; $nfsd_start"
}
end_grace() { on_server "echo Y > /proc/fs/lockd/nlm_end_grace; echo Y > /proc/fs/nfsd/v4_end_grace"; }
server_has_locks() { [ "$(left_locks)" -gt 0 ]; }
# Within 40 s; else says what the mount and the server's services were about.
lock_is_back() {
  eventually 40 server_has_locks && return
  tail -n 5 "$work/two.log"
  on_server 'pgrep -a rpc.statd; rpcinfo -p | grep -E "status|nlockmgr"; dmesg | tail -n 10'
  return 1
}
ours two try second
check "two locks" eventually 10 says locked second
restart_server
check "two's lock is had again" lock_is_back
end_grace
kernel_mount
kernels try third
check "the kernel's client does not get it after a restart" eventually 20 says busy third
ours one wait first
sleep 1
end second
check "one gets it" eventually 15 says locked first
end first

# Of a restart of nfsd alone statd says nothing; the lost connection does.
on_server "umount /tmp/k"
ours two try second
check "two locks" eventually 10 says locked second
on_server "rpc.nfsd 0; $nfsd_start"
check "two's lock is had again after a restart of nfsd alone" lock_is_back
end_grace
kernel_mount
kernels try third
check "the kernel's client does not get it" eventually 20 says busy third
end second

# ---- the client restarts ----
kill_two_locking
kernels try third
check "the lock of a mount that was killed is left" eventually 20 says busy third
start_mount two "$remote"
check "the next one says that it has unlocked it" grep -q "released the locks left behind by a killed mount" "$work/two.log"
kernels try third
check "the kernel's client locks" eventually 20 says locked third
end third
same "a mount that lives keeps its record" 1 "$(client sh -c 'ls /var/lib/nfsrdma/locks | wc -l')"

# ---- both ----
kill_two_locking
restart_server
start_mount two "$remote"
end_grace
kernel_mount
kernels try third
check "nothing is locked any more" eventually 20 says locked third
end third
ours two wait second
check "two locks" eventually 10 says locked second
end second

# ---- it goes ----
for mount in one two; do
  client umount "$work/$mount"
  ended "$mount" "unmounted"
done
check "nobody is registered any more" client sh -c '! rpcinfo -p | grep -q 100021'
same "no record is left" 0 "$(client sh -c 'ls /var/lib/nfsrdma/locks | wc -l')"
same "nothing is left on the server" 0 "$(left_locks)"
on_server "umount /tmp/k"
