#!/usr/bin/env bash
# The mount in containers: a daemon without rights that serves what a privileged process has mounted (/dev/fd/N), and a
# mount inside a user namespace.
#
# Environment besides lib.sh's: NFSRDMA_FUSE (nfsrdma-fuse).
# shellcheck disable=SC2016,SC2034
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
test_name=bridge-containers
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
pass_mount=$here/pass_mount.py
[ -c /dev/fuse ] || skip "no /dev/fuse"
need_tools nsenter unshare setpriv python3
need_built NFSRDMA_FUSE "$fuse_binary"
within_reach fuse_binary
start_bridge plain || exit 1

hold_mounts unshare -m --propagation private
within() { nsenter -t "$holder" -m -- "$@"; }
mkdir "$work/m" "$work/u" && chown 65534:65534 "$work/u"
on_mount() { within setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
has_line() { grep -q "$2" "$1"; }

# start_passed NAME: sets $parent and $daemon. The program's messages are in $work/NAME.err.
start_passed() {
  nsenter -t "$holder" -m -- python3 "$pass_mount" "$work/m" 65534 "$fuse_binary" -f --log-format=json \
    127.0.0.1:/export @ -o "port=$bridge_port,allow_other" > "$work/$1.out" 2> "$work/$1.err" &
  parent=$!
  children+=("$parent")
  check "$1: the daemon is ready" eventually 25 has_line "$work/$1.out" ready
  daemon=$(cut -d' ' -f2 "$work/$1.out")
}
ended_with() { wait "$parent"; same "$1: exit status" "$2" "$?"; }

# --- a descriptor that was passed on, and SIGTERM ---------------------------------------------------------------------
start_passed passed
check "the daemon has no capability" grep -q '^CapEff:[[:space:]]*0*$' "/proc/$daemon/status"
check "the daemon is another user" grep -q '^Uid:[[:space:]]*65534[[:space:]]*65534' "/proc/$daemon/status"
echo from-server > "$export/seen" && chmod 644 "$export/seen"
same "a file of the server" from-server "$(on_mount cat "$work/m/seen")"
check "a large file is written" on_mount dd if=/dev/urandom of="$work/m/large" bs=1M count=8 status=none
same "its contents" "$(sha256sum < "$export/large")" "$(on_mount bash -c 'sha256sum < "$1"' _ "$work/m/large")"
expect_exit 0 "top of that mount" on_mount "$cli_binary" top --once -d 0.2 --json
check "top knows the mount" grep -q "^{\"mountpoint\":\"$work/m\",\"source\":\"127.0.0.1:/export\",\"age\":" "$work/out"
# A file that is open and written to, when the end comes.
on_mount bash -c 'exec 5> "$1"; echo last words >&5; echo written; sleep 60' _ "$work/m/open" > "$work/writer" &
writer=$!
children+=("$writer")
check "a program writes" eventually 10 has_line "$work/writer" written
kill -TERM "$parent"
ended_with "SIGTERM" 0
same "what was written has reached the server" "last words" "$(cat "$export/open")"
check "the log is JSON" jq -e 'select(.message | test("a signal ends the mount"))' "$work/passed.err"
kill "$writer" 2> /dev/null

# --- the other half unmounts ------------------------------------------------------------------------------------------
start_passed taken
kill -USR1 "$parent"
ended_with "unmounted by the other half" 0

# --- wrong descriptors ------------------------------------------------------------------------------------------------
expect_exit 32 "a descriptor that is not open" "$fuse_binary" -f 127.0.0.1:/export /dev/fd/99
one_sentence "it says what to do" "no such descriptor is open" "mount with it, and pass it on"
expect_exit 32 "a descriptor of another file" bash -c 'exec "$1" -f 127.0.0.1:/export /dev/fd/7 7< /dev/null' _ "$fuse_binary"
one_sentence "it says which is needed" "no descriptor of /dev/fuse" "that the file system was mounted with"

# --- a user namespace -------------------------------------------------------------------------------------------------
in_user_namespace() {
  # shellcheck disable=SC2016
  on_mount unshare --user --map-root-user --mount bash -c '
    "$1" -f "127.0.0.1:/export" "$2" -o "port=$3" > "$4" 2>&1 &
    daemon=$!
    for _ in $(seq 100); do
      grep -q " $2 fuse.nfsrdma " /proc/self/mounts && break
      sleep 0.1
    done
    cat "$2/seen" && echo inside > "$2/inside" && kill "$daemon" && wait "$daemon"' \
    _ "$fuse_binary" "$work/u" "$bridge_port" "$work/u.log"
}
touch "$work/u.log" && chmod 666 "$work/u.log"
if on_mount unshare --user --map-root-user --mount true 2> /dev/null; then
  expect_exit 0 "a mount by root of a user namespace" in_user_namespace
  same "it reads" from-server "$(head -1 "$work/out")"
  same "it writes" inside "$(cat "$export/inside")"
  [ ! -s "$work/u.log" ] || sed 's/^/  /' "$work/u.log"
else
  skip_part "a user namespace cannot be made here"
fi
