#!/usr/bin/env bash
# What an administrator does with mounts, by the system's own mount(8) and umount(8): lines of fstab(5), the background,
# a mount point that cannot be used, a server that cannot be reached, and what systemd reads about a mount.
#
# Environment besides lib.sh's: NFSRDMA_FUSE (nfsrdma-fuse).
# shellcheck disable=SC2034
without_cli=1
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
test_name=bridge-fstab
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
[ -c /dev/fuse ] || skip "no /dev/fuse"
need_tools fusermount3 nsenter unshare mount umount python3
need_built NFSRDMA_FUSE "$fuse_binary"

# The helper is installed, and mounts are recorded, in this namespace alone.
hold_mounts unshare -m --propagation private
within() { nsenter -t "$holder" -m -- "$@"; }
mkdir "$work/sbin" "$work/run" "$work/m"
install_helper() {
  mkdir -p /run/mount && mount -t tmpfs tmpfs "$1/sbin" && mkdir "$1/sbin/upper" "$1/sbin/work" &&
    mount -t overlay overlay -o "lowerdir=/usr/sbin,upperdir=$1/sbin/upper,workdir=$1/sbin/work" /usr/sbin &&
    mount -t tmpfs tmpfs /run/mount && ln -s "$2" /usr/sbin/mount.nfsrdma && ln -s "$2" /usr/sbin/mount.fuse.nfsrdma
}
export -f install_helper
within bash -c 'install_helper "$@"' _ "$work" "$fuse_binary" 2> "$work/err" ||
  skip "the helper cannot be installed in a namespace (overlayfs): $(cat "$work/err")"

source=127.0.0.1:/export
mounts() { within grep -c " $work/m fuse.nfsrdma " /proc/self/mounts; }
mounted_once() { [ "$(mounts)" = 1 ]; }
not_mounted() { [ "$(mounts)" = 0 ]; }
processes() { pgrep -fc "^(mount.nfsrdma|/sbin/mount.nfsrdma|/usr/sbin/mount.nfsrdma) .*port=$1"; }
processes_are() { [ "$(processes "$1")" = "$2" ]; }
recorded() { within grep -q "TARGET=$work/m .*OPTS=$1" /run/mount/utab; }
not_recorded() { ! recorded ""; }
fstab() { printf '%s %s %s %s 0 0\n' "$source" "$work/m" "$1" "$2" > "$work/fstab"; }
mount_all() { within mount -a -T "$work/fstab" "$@"; }
by_hand() { within mount -t nfsrdma "$source" "$work/m" "$@"; }

# --- a server that comes later: two mounts in the background, of which one succeeds ------------------------------------
start_bridge first || exit 1
stop_bridge "$bridge_pid"
port=$bridge_port
fstab nfsrdma "bg,retry=5,port=$port,_netdev,x-test=1"
expect_exit 0 "mount -a with bg, while the server is down" mount_all
one_sentence "bg says what will happen" "connection refused" "trying again in the background for 5 minutes"
expect_exit 0 "mount -a once more" mount_all
same "two processes wait" 2 "$(processes "$port")"
"$bridge_binary" --listen "127.0.0.1:$port" --server "127.0.0.1:$server_port" > "$work/second.summary" 2> "$work/second.err" &
children+=("$!")
check "one of them has ended" eventually 30 processes_are "$port" 1
same "the export is mounted once" 1 "$(mounts)"
check "the record of the mount has _netdev, and what fstab(5) has for others" eventually 5 recorded _netdev,x-test=1
expect_exit 0 "mount -a of what is mounted" mount_all -v
check "mount -a says so" grep -q "already mounted" "$work/out"
check "umount -a -O _netdev finds the mount" within umount -a -O _netdev
same "nothing is mounted any more" 0 "$(mounts)"
check "the daemon ends" eventually 10 processes_are "$port" 0

# --- by hand: twice, with options of others, under the type that the kernel has ---------------------------------------
expect_exit 0 "mount -v with options of nfs(5)" by_hand -v -o "port=$port,tcp,noresvport,fsc,rdirplus"
check "-v names those without effect" grep -q "option 'noresvport' has no effect: " "$work/err"
check "a mount by hand is recorded with _netdev" recorded _netdev
expect_exit 32 "mount of what is mounted" by_hand -o "port=$port"
one_sentence "the refusal" "$source is already mounted here" "umount $work/m"
expect_exit 32 "nfsrdma-fuse of what is mounted" within "$fuse_binary" "nfs://127.0.0.1:$port/export" "$work/m"
same "the export is mounted once" 1 "$(mounts)"
check "fusermount3 -u" within fusermount3 -u "$work/m"
check "the record goes with the mount" eventually 10 not_recorded
fstab fuse.nfsrdma "port=$port"
expect_exit 0 "a line of fstab(5) with the type fuse.nfsrdma" mount_all
check "umount -a -t fuse.nfsrdma" within umount -a -t fuse.nfsrdma
same "nothing is mounted" 0 "$(mounts)"

# --- mount points that cannot be used ---------------------------------------------------------------------------------
at() { within "$fuse_binary" "$source" "$1" -o "port=$port"; }
echo text > "$work/file"
expect_exit 32 "a file as mount point" at "$work/file"
one_sentence "a file" "$work/file" "not a directory"
expect_exit 32 "a mount point that is missing" at "$work/none"
one_sentence "a missing one" "$work/none" "no such file" "mkdir -p"
expect_exit 32 "an export that is missing" within "$fuse_binary" 127.0.0.1:/none "$work/m" -o "port=$port"
one_sentence "a missing export" "127.0.0.1:/none" "no such file" "nfsrdma-cli exports 127.0.0.1"
expect_exit 1 "a log that cannot be written" within "$fuse_binary" "$source" "$work/m" -o "port=$port" --log "$work/none/log"
one_sentence "such a log" "--log" "$work/none/log" "no such file"
nsenter -t "$holder" -m -- "$fuse_binary" -f "$source" "$work/m" -o "port=$port" > "$work/dead.log" 2>&1 &
daemon=$!
check "a mount" eventually 10 mounted_once
kill -KILL "$daemon"
wait "$daemon" 2> /dev/null
expect_exit 32 "a mount whose daemon was killed, as mount point" at "$work/m"
one_sentence "a dead mount" "$work/m" "not connected" "fusermount3 -u" "umount -l"
check "what the message says helps" within umount -l "$work/m"
check "the mount works then" at "$work/m"
check "umount" within umount "$work/m"

within chown 65534 "$work/m"
user() { within env PATH=/usr/bin:/bin:/usr/sbin:/sbin setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
within_reach fuse_binary
check "a user's mount" user "$fuse_binary" "$source" "$work/m" -o "port=$port"
expect_exit 32 "root on a user's mount" at "$work/m"
one_sentence "a user's mount" "another user's file system is mounted here" "umount $work/m"
check "root unmounts the user's mount" within umount "$work/m"

# --- a server that cannot be reached ----------------------------------------------------------------------------------
# A peer that accepts connections and says nothing.
cat > "$work/silent.py" << 'PY'
import socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
held = []
while True:
    held.append(listener.accept())
    print('accepted', flush=True)
PY
python3 "$work/silent.py" > "$work/silent.out" &
children+=("$!")
check "a silent peer" eventually 10 test -s "$work/silent.out"
closed=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
silent=$(head -1 "$work/silent.out")
# ended_by SIGNAL PORT WHEN COMMAND …: the mount waits until the command succeeds; then the signal ends it at once.
ended_by() {
  local signal=$1 port=$2 what=$3 pid status=0 begun
  shift 3
  nsenter -t "$holder" -m -- mount.nfsrdma -v "$source" "$work/m" -o "port=$port" > "$work/out" 2> "$work/err" &
  pid=$!
  children+=("$pid")
  check "$what" eventually 10 "$@"
  begun=$(date +%s%N)
  kill "-$signal" "$pid"
  wait "$pid" || status=$?
  same "$signal: the exit status" 8 "$status"
  check "$signal: within a second" test $((($(date +%s%N) - begun) / 1000000)) -lt 1000
  check "$signal: a sentence" grep -q "interrupted by a signal; nothing was mounted" "$work/err"
  check "$signal: no process is left" processes_are "$port" 0
}
ended_by INT "$closed" "the first failure is told" grep -q "connection refused.*trying again for 2 minutes" "$work/err"
ended_by TERM "$closed" "-v tells each attempt" grep -q "attempt 2 to mount" "$work/err"
ended_by HUP "$silent" "the peer is waited for" grep -q accepted "$work/silent.out"
check "nothing is mounted" not_mounted
