#!/usr/bin/env bash
# What a mount tells of itself, in .nfsrdma-stats and by SIGUSR1: its figures are those of what was done, they add up,
# and nobody reads them but who mounted.
#
# Environment besides lib.sh's: NFSRDMA_FUSE (nfsrdma-fuse).
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
MiB=1048576
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
[ -c /dev/fuse ] || skip "no /dev/fuse"
need_tools fusermount3 nsenter setpriv
need_built NFSRDMA_FUSE "$fuse_binary"

hold_mounts "$lab" ns
client() { nsenter -t "$holder" -m -n -- "$@"; }
as() { # UID COMMAND …
  local id=$1
  shift
  client setpriv --reuid="$id" --regid="$id" --clear-groups "$@"
}
mounted() { client grep -q " $work/m fuse.nfsrdma " /proc/self/mounts; }
# start_mount OPTIONS [COMMAND …]: COMMAND is put in front of the program.
start_mount() {
  local options=$1
  shift
  mkdir -p "$work/m"
  nsenter -t "$holder" -m -n -- "$@" "$fuse_binary" -f "$server:/" "$work/m" -o "$options" > "$work/log" 2>&1 &
  daemon=$!
  children+=("$daemon")
  check "mounted with $options" eventually 20 mounted
}
end_mount() {
  local status=0
  check "umount" client umount "$work/m"
  if ! eventually 20 gone "$daemon"; then
    fail "the daemon lives on"
    kill -KILL "$daemon"
  fi
  wait "$daemon" || status=$?
  same "the daemon's exit status" 0 "$status"
}

file=$work/m/.nfsrdma-stats
# stats: a new picture in $work/stats.
stats() { client timeout 20 cat "$file" > "$work/stats" || fail "the statistics cannot be read"; }
# figure LINE KEY: of the line that begins with the words LINE, in the last picture; 0 where there is none.
figure() {
  awk -v line="$1 " -v key="$2=" 'index($0, line) == 1 { for (i = 1; i <= NF; i++) if (index($i, key) == 1) print substr($i, length(key) + 1) }' \
    "$work/stats" | grep . || echo 0
}
# in_between LINE KEY: its growth since `before` was called.
before() { stats; cp "$work/stats" "$work/before"; }
in_between() {
  local now was
  now=$(figure "$1" "$2")
  cp "$work/stats" "$work/now" && cp "$work/before" "$work/stats"
  was=$(figure "$1" "$2")
  cp "$work/now" "$work/stats"
  echo $((now - was))
}

start_mount allow_other
m=$work/m$remote

# --- the file --------------------------------------------------------------------------------------------------------
check "its first line" grep -qx "nfsrdma-fuse statistics 1" <(client head -n 1 "$file")
stats
check "what is mounted" grep -qx "source $server:/" "$work/stats"
check "the options in force" grep -qE "^options vers=4\.2,sec=sys,rsize=[0-9]+,wsize=[0-9]+,.*hard.*allow_other" "$work/stats"
same "lines that are not words" "" "$(grep -vE '^[a-z_-]+( [A-Za-z0-9_=:,./|*+-]+)+$' "$work/stats")"
same "owner and mode" "0 400 regular empty file" "$(client stat -c '%u %a %F' "$file")"
same "no listing has it" "" "$(client ls -a "$work/m" | grep nfsrdma-stats)"
expect_exit 1 "nobody else knows the name" as 65534 stat "$file"
check "ENOENT is said" grep -q "No such file" "$work/err"
check "it is still there" client test -r "$file"
expect_exit 1 "nobody else reads it" as 65534 cat "$file"
# By a descriptor of its directory, and with the name just looked up by who mounted.
client python3 - "$work/m" << 'PY' > "$work/program.out" 2>&1
import errno, os, sys
name, root = '.nfsrdma-stats', os.open(sys.argv[1], os.O_RDONLY)
def gives(codes, call, *arguments, **named):
    try: call(*arguments, **named)
    except OSError as e: assert e.errno in codes, (call, e)
    else: raise AssertionError((call, arguments))
held = os.open(name, os.O_RDONLY, dir_fd=root)
first = os.read(held, 1000000)
assert first.startswith(b'nfsrdma-fuse statistics 1\n') and first.endswith(b'\n')
assert os.pread(held, 10, 5) == first[5:15] and os.pread(held, 10, 1 << 30) == b''
if os.fork() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    gives([errno.ENOENT, errno.EACCES], os.open, name, os.O_RDONLY, dir_fd=root)
    gives([errno.ENOENT, errno.EACCES], os.stat, name, dir_fd=root)
    os._exit(0)
assert os.wait()[1] == 0
# What is open stays as it was.
assert os.pread(held, 1000000, 0) == first
os.fsync(held); os.fstatvfs(held); os.close(held)
path = sys.argv[1] + '/' + name
for call in (lambda: os.unlink(path), lambda: os.chmod(path, 0o644), lambda: os.truncate(path, 0),
             lambda: os.rename(path, path + '.other'), lambda: os.link(path, path + '.other'),
             lambda: os.open(path, os.O_RDWR)):
    gives([errno.EPERM, errno.EACCES], call)
gives([errno.EEXIST], os.mkdir, path)
gives([errno.EEXIST, errno.EPERM], os.mknod, path)
other = sys.argv[1] + '/t-mount_stats/other'
open(other, 'w').close()
gives([errno.EPERM], os.rename, other, path)
assert os.path.exists(other)
os.unlink(other)
PY
same "what may be done with it" "0 " "$? $(cat "$work/program.out")"
same "ls -l has nothing to complain of" "" "$(client ls -l "$file" 2>&1 > /dev/null)"

# --- what the server has by that name ----------------------------------------------------------------------------------
on_server "echo real > /mnt/exp/.nfsrdma-stats"
same "a real file of the name is not listed" "" "$(client ls -la "$work/m" | grep nfsrdma-stats)"
check "a real file of the name is hidden" grep -qx "nfsrdma-fuse statistics 1" <(client head -n 1 "$file")
expect_exit 1 "a real file of the name is nobody's to remove" as 65534 rm "$file"
same "a real file of the name is as it was" real "$(on_server "cat /mnt/exp/.nfsrdma-stats; rm /mnt/exp/.nfsrdma-stats")"
client mkdir "$m/d"
client sh -c "echo below > '$m/d/.nfsrdma-stats'"
same "elsewhere the name is like any other" below "$(client cat "$m/d/.nfsrdma-stats")"

# --- figures -----------------------------------------------------------------------------------------------------------
before
client sh -c "for i in 1 2 3 4 5 6 7 8 9 10; do : > '$m/d/new.'\$i; done"
stats
same "10 files made: CREATE" 10 "$(in_between "fuse CREATE" count)"
same "10 files made: errors" 0 "$(in_between "fuse CREATE" errors)"
before
for i in 1 2 3; do client mkdir "$m/d/d$i"; done
client mkdir "$m/d/d1" 2> /dev/null
client rmdir "$m/d/d1" "$m/d/d2" "$m/d/d3"
client rmdir "$m/d" 2> /dev/null
stats
same "3 directories made" 3 "$(in_between "fuse MKDIR" count)"
same "4 tries to remove one" 4 "$(in_between "fuse RMDIR" count)"
same "one of them in vain" 1 "$(in_between "fuse RMDIR" errors)"
same "4 tries to remove one: REMOVE" 4 "$(in_between "nfs REMOVE" count)"
same "one of them refused" 1 "$(in_between "nfs REMOVE" refused)"

on_server "head -c $((20 * MiB)) /dev/urandom > '$export/data'"
before
same "bytes that dd reads" $((20 * MiB)) "$(client dd if="$m/data" bs=1M iflag=direct 2> /dev/null | wc -c)"
stats
same "dd with O_DIRECT: bytes read" $((20 * MiB)) "$(in_between "data read" bytes)"
same "dd with O_DIRECT: bytes from the server" $((20 * MiB)) "$(in_between "data read" server_bytes)"
same "dd with O_DIRECT: nothing is read ahead" 0 "$(in_between "data ahead" server_requests)"
moved=$(in_between "rdma 1" write_chunk_bytes)
same "they came by RDMA ($moved)" true "$([ "$moved" -ge $((20 * MiB)) ] && echo true)"
moved=$(in_between "nfs READ" bytes_received)
same "they are the READs' ($moved)" true "$([ "$moved" -ge $((20 * MiB)) ] && [ "$moved" -lt $((21 * MiB)) ] && echo true)"
# What the kernel reads ahead counts: where it does so much by itself, nothing is left to do.
device=$(client stat -c %Hd:%Ld "$m")
echo 128 > "/sys/class/bdi/$device/read_ahead_kb"
before
client cat "$m/data" > /dev/null
stats
same "cat: bytes read" $((20 * MiB)) "$(in_between "data read" bytes)"
same "cat: something is read ahead" true "$([ "$(in_between "data ahead" hits)" -gt 5 ] && [ "$(in_between "data ahead" server_bytes)" -gt $((5 * MiB)) ] && echo true)"
before
client cat "$m/data" > /dev/null
stats
# It may have dropped a page.
same "cat again: the kernel has it" true "$([ "$(in_between "data read" bytes)" -lt $MiB ] && echo true)"
before
client dd if=/dev/zero of="$m/written" bs=1M count=8 conv=fsync 2> /dev/null
stats
same "dd: bytes written" $((8 * MiB)) "$(in_between "data write" bytes)"
same "dd: bytes to the server" $((8 * MiB)) "$(in_between "data write" server_bytes)"
same "dd: all of them behind" "$(in_between "data write" requests)" "$(in_between "data behind" requests)"
moved=$(in_between "rdma 1" read_chunk_bytes)
same "they went by RDMA ($moved)" true "$([ "$moved" -ge $((8 * MiB)) ] && echo true)"
same "dd: a COMMIT at least" true "$([ "$(in_between "nfs COMMIT" count)" -ge 1 ] && echo true)"
nsenter -t "$holder" -m -n -- python3 -c "
import fcntl, time
f = open('$m/written', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 10, 0); fcntl.lockf(f, fcntl.LOCK_EX, 10, 20)
print('locked', flush=True); time.sleep(60)" > "$work/locked" &
locker=$!
children+=("$locker")
check "two ranges are locked" eventually 10 grep -q locked "$work/locked"
stats
same "locks held" 2 "$(figure state locks)"
same "files open" true "$([ "$(figure state open_files)" -ge 1 ] && echo true)"
kill "$locker"
wait "$locker"

# sums: in every line with a count and a histogram, of the file given, they agree; prints those that do not.
sums() {
  awk '{ count = ""; sum = 0; found = 0
    for (i = 1; i <= NF; i++) {
      if (index($i, "count=") == 1) count = substr($i, 7)
      if (index($i, "histogram=") == 1) { found = 1; n = split(substr($i, 11), b, ","); for (j = 1; j <= n; j++) { split(b[j], p, ":"); sum += p[2] } } }
    if (found) { lines++; if (sum != count) print } } END { if (lines < 15) print "only " lines " lines" }' "$1"
}
same "each histogram adds up to its count" "" "$(sums "$work/stats")"
same "credits in use" true "$([ "$(figure "credits 1" granted)" -ge 1 ] && [ "$(figure "credits 1" most_in_use)" -ge 2 ] && echo true)"
same "slots" true "$([ "$(figure session slots)" -ge "$(figure session slots_most_used)" ] && [ "$(figure session slots_most_used)" -ge 2 ] && echo true)"
same "calls and replies" "$(figure "rpc 1" calls)" "$(figure "rpc 1" replies)"

# --- SIGUSR1 -----------------------------------------------------------------------------------------------------------
said() { [ "$(grep -c "nfsrdma-fuse statistics 1" "$work/log")" = "$1" ]; }
kill -USR1 "$daemon"
check "SIGUSR1: the text is in the log" eventually 10 said 1
kill -USR1 "$daemon"
check "SIGUSR1: once more" eventually 10 said 2
check "SIGUSR1: the mount goes on" client test -e "$m/data"
stats
lines_of() { sed 's/^nfsrdma-fuse: //' "$1" | grep -E '^(options|fuse|nfs|data|connection|credits|rpc|rdma|session|state|memory) ' | cut -d' ' -f1,2 | cut -d= -f1 | sort -u; }
same "SIGUSR1: lines that the file has not" "" "$(comm -23 <(lines_of "$work/log") <(lines_of "$work/stats"))"
same "SIGUSR1: all kinds of lines" 11 "$(lines_of "$work/log" | cut -d' ' -f1 | sort -u | wc -l)"

# --- the formats of other tools ----------------------------------------------------------------------------------------
client cat "$work/m/.nfsrdma-mountstats" > "$work/mountstats"
if command -v mountstats > /dev/null && command -v nfsiostat > /dev/null; then
  shown() { "$@" > "$work/shown" 2>&1; }
  check "mountstats reads it" shown mountstats mountstats --file "$work/mountstats"
  check "mountstats shows the calls" grep -q "^READ:" "$work/shown"
  # nfsiostat knows no other file than /proc/self/mountstats.
  # shellcheck disable=SC2016
  check "nfsiostat reads it" shown unshare -m bash -c 'mount --bind "$1" /proc/$$/mountstats && exec nfsiostat' - "$work/mountstats"
  check "nfsiostat shows the mount" grep -q "mounted on $work/m:" "$work/shown"
  check "nfsiostat shows reads" grep -q "^read:" "$work/shown"
else
  say "skipped: mountstats and nfsiostat are not installed"
fi
client cat "$work/m/.nfsrdma-stats.prom" > "$work/prom"
check "the metrics tell of reads" grep -q '^nfsrdma_request_duration_seconds_count{.*operation="READ"} [1-9]' "$work/prom"
if command -v promtool > /dev/null; then
  judged() { promtool check metrics < "$work/prom" > "$work/shown" 2>&1; }
  check "promtool finds no fault in the metrics" judged
else
  say "skipped: promtool is not installed"
fi

# --- trouble -----------------------------------------------------------------------------------------------------------
before
"$lab" restart-nfsd || fail "nfsd does not start again"
check "after nfsd's restart" client timeout 60 ls "$m/d"
stats
same "nfsd restarted: reconnects" true "$([ "$(in_between "connection 1" reconnects)" -ge 1 ] && echo true)"
same "nfsd restarted: the session is had again" true "$([ "$(in_between session recoveries)" -ge 1 ] && echo true)"
same "each histogram still adds up" "" "$(sums "$work/stats")"
end_mount

# --- an ordinary user's ------------------------------------------------------------------------------------------------
# nobody, since fusermount3 wants a user with a name. He may not reach the build directory.
cp "$fuse_binary" "$work/nfsrdma-fuse" && fuse_binary=$work/nfsrdma-fuse
chown 65534 "$work/m"
as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
start_mount rw "${as_user[@]}"
same "a user's mount: he reads it" "nfsrdma-fuse statistics 1" "$(as 65534 head -n 1 "$file")"
same "a user's mount: it is his" "65534 400" "$(as 65534 stat -c '%u %a' "$file")"
for other in 0 1234; do
  expect_exit 1 "a user's mount: user $other does not read it" as "$other" cat "$file"
  check "EACCES is said" grep -q "Permission denied" "$work/err"
done
end_mount
# In this namespace only.
echo user_allow_other > "$work/fuse.conf"
if client mount --bind "$work/fuse.conf" /etc/fuse.conf; then
  start_mount allow_other "${as_user[@]}"
  same "a user's mount for others: he reads it" "nfsrdma-fuse statistics 1" "$(as 65534 head -n 1 "$file")"
  expect_exit 1 "a user's mount for others: they do not know the name" as 1234 cat "$file"
  check "ENOENT is said" grep -q "No such file" "$work/err"
  expect_exit 1 "a user's mount for others: they cannot make one" as 1234 touch "$file"
  same "a user's mount for others: root reads it" "nfsrdma-fuse statistics 1" "$(as 0 head -n 1 "$file")"
  same "a user's mount for others: he still reads it" "nfsrdma-fuse statistics 1" "$(as 65534 head -n 1 "$file")"
  end_mount
else
  fail "no fuse.conf that lets a user mount for others"
fi
