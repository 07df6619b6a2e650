#!/usr/bin/env bash
# The mount on NFS-Ganesha, through the bridge: once as root, once as an unprivileged user by fusermount3, both of one
# directory. What programs see through them is what Ganesha has, in the directory that it exports.
#
# Environment besides lib.sh's: NFSRDMA_FUSE (nfsrdma-fuse), NFSRDMA_MOUNT_EXERCISE (mount_exercise),
# NFSRDMA_VERS (of the mounts; the highest that the server speaks where it is not set).
# shellcheck disable=SC2034
without_cli=1
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
test_name=bridge-mount
MiB=1048576
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
exercise=${NFSRDMA_MOUNT_EXERCISE:-$root/build/tests/mount_exercise}
[ -c /dev/fuse ] || skip "no /dev/fuse"
need_tools fusermount3 nsenter unshare git
need_built 'NFSRDMA_FUSE, NFSRDMA_MOUNT_EXERCISE' "$fuse_binary" "$exercise"
within_reach fuse_binary exercise mount_checks
start_bridge plain || exit 1
more=${NFSRDMA_VERS:+,vers=$NFSRDMA_VERS}
locks=()
if [ "${NFSRDMA_VERS:-}" = 3 ]; then
  # Its lock service would need a statd that is registered where everybody looks.
  locks=(own-locks)
  more=$more,nolock,mountport=$("$ganesha" port "$work" mnt)
fi

hold_mounts unshare -m
within() { nsenter -t "$holder" -m -- "$@"; }
mounted() { within grep -q " $1 fuse.nfsrdma " /proc/self/mounts; }
not_mounted() { ! mounted "$1"; }
# What the user may not reach, of somebody else's PATH, is not looked for.
user() { within env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
# Not a function: its process id is the daemon's.
as_daemon=(nsenter -t "$holder" -m --)
as_user_daemon=("${as_daemon[@]}" setpriv --reuid=65534 --regid=65534 --clear-groups)

mkdir "$work/a" && user mkdir "$work/b" && echo secret > "$export/secret" && chmod 600 "$export/secret" || exit 1
"${as_daemon[@]}" "$fuse_binary" -f 127.0.0.1:/export "$work/a" -o "port=$bridge_port,allow_other$more" > "$work/a.log" 2>&1 &
daemon_a=$!
"${as_user_daemon[@]}" "$fuse_binary" -f 127.0.0.1:/export "$work/b" -o "port=$bridge_port,nconnect=2,threads=2$more" > "$work/b.log" 2>&1 &
daemon_b=$!
children+=("$daemon_a" "$daemon_b")
check "a, root's, is mounted" eventually 20 mounted "$work/a"
check "b, the user's, is mounted" eventually 20 mounted "$work/b"
[ "$failures" = 0 ] || { cat "$work"/[ab].log; exit 1; }
expect_exit 1 "root sees nothing of the user's" within test -d "$work/b/."

# --- in the background: a file against its model, by both mounts ------------------------------------------------------
within timeout 200 "$exercise" --directory "$work/a" --seed 1 --ops 20000 --size 262144 > "$work/exercise.a" 2>&1 &
exercise_a=$!
user timeout 200 "$exercise" --directory "$work/b" --seed 2 --ops 20000 --size 262144 > "$work/exercise.b" 2>&1 &
exercise_b=$!
children+=("$exercise_a" "$exercise_b")

look_at_mounts user python3 "$mount_checks" "$work/a" "$work/b" "$export" ${locks[@]+"${locks[@]}"}

# --- contents ---------------------------------------------------------------------------------------------------------
for size in 0 1 4097 $((64 * MiB + 13)); do
  head -c "$size" /dev/urandom > "$work/src"
  check "cp of $size bytes to the server" within cp "$work/src" "$work/a/copy.$size"
  check "$size bytes: Ganesha has them" cmp "$work/src" "$export/copy.$size"
  check "$size bytes: by the other mount" user cmp "$work/src" "$work/b/copy.$size"
done
mkdir -p "$work/tree"
( cd "$work/tree" && for i in $(seq 300); do mkdir -p "d$((i % 10))" && head -c $((i * 37)) /dev/urandom > "d$((i % 10))/$i"; done; ln -s d0 link )
tar -C "$work/tree" -cf "$work/tree.tar" .
user mkdir "$work/b/tree"
check "tar -x of 300 files" user tar -C "$work/b/tree" --no-same-owner -xf "$work/tree.tar"
check "diff -r with Ganesha's" diff -r --no-dereference "$work/tree" "$export/tree"
check "diff -r by the other mount" within diff -r --no-dereference "$work/tree" "$work/a/tree"
within chown -R 12:34 "$work/a/tree/d0"
same "chown -R" "12 34" "$(find "$export/tree/d0" -printf '%U %G\n' | sort -u)"
check "rm -rf" within rm -rf "$work/a/tree"
check "rm -rf has removed it" test ! -e "$export/tree"

# --- appending --------------------------------------------------------------------------------------------------------
cat > "$work/turns.py" << 'PY'
# Two mounts append and call fsync in turns, by descriptors of two kinds; a third one reads what the first mount wrote.
import os, sys
a, b, export = sys.argv[1:4]
kinds = os.O_WRONLY, os.O_RDWR
pairs = [[os.open(d + '/turns', kind | os.O_CREAT | os.O_APPEND, 0o666) for d in (a, b)] for kind in kinds]
reader = os.open(a + '/turns', os.O_RDONLY)
want = b''
for i in range(200):
    fd, line = pairs[i // 2 % 2][i % 2], b'line %d by mount %d\n' % (i, i % 2)
    os.write(fd, line)
    want += line
    if i % 2 == 0 and os.pread(reader, len(want) + 1, 0) != want:
        sys.exit('a reader of the same mount sees something else after line %d' % i)
    os.fsync(fd)
with open(export + '/turns', 'rb') as there:
    if there.read() != want:
        sys.exit('lines are missing')
# The kernel is told the size that the write will have made.
one = os.open(a + '/one', os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
os.write(one, b'first;')
os.link(a + '/one', a + '/two')
got = os.pread(one, 100, 0), os.stat(a + '/two').st_size
os.write(one, b'2nd;')
if got != (b'first;', 6) or os.pread(one, 100, 0) != b'first;2nd;':
    sys.exit('after link() a file has another size')
PY
check "two mounts that append in turns lose nothing; link() beside a write" user timeout 100 python3 "$work/turns.py" "$work/a" "$work/b" "$export"

# --- programs ---------------------------------------------------------------------------------------------------------
git_there() { user env HOME=/nonexistent git -c user.name=t -c user.email=t@example.org -C "$work/b/repository" "$@"; }
user mkdir "$work/b/repository"
check "git init" git_there init -q
user sh -c "cd '$work/b/repository' && mkdir d && for i in \$(seq 80); do seq \$i 3000 > d/\$i; done"
check "git add" git_there add -A
check "git commit" git_there commit -qm one
user sh -c "cd '$work/b/repository' && seq 5000 > new && rm d/1"
check "git commit -a" git_there commit -qam two
check "git gc" git_there gc -q --prune=now
check "git fsck" git_there fsck --strict
check "git fsck of what Ganesha has" git -c safe.directory='*' -C "$export/repository" fsck --strict
same "git log there" "two one" "$(git -c safe.directory='*' -C "$export/repository" log --format=%s | xargs)"

cat > "$work/writer.py" << 'PY'
import sqlite3, sys
base = sqlite3.connect(sys.argv[1] + '/base', timeout=60)
for i in range(30):
    with base:
        base.execute('begin immediate')
        n = base.execute('select count(*) from t').fetchone()[0]
        base.execute('insert into t values (?, ?, ?)', (n, sys.argv[2], 'x' * (i * 50)))
PY
check "sqlite3: a table" user python3 -c "import sqlite3; sqlite3.connect('$work/b/base').execute('create table t (n integer unique, who text, data text)')"
# Beside each other, where one's locks hold against the other.
user timeout 100 python3 "$work/writer.py" "$work/a" one > "$work/one.out" 2>&1 &
one=$!
[ ${#locks[@]} = 0 ] || eventually 100 gone "$one"
check "sqlite3: the writer by b" user timeout 100 python3 "$work/writer.py" "$work/b" two
check "sqlite3: the writer by a" wait "$one"
same "sqlite3: integrity_check, and every row" "ok 60 60" "$(python3 -c "import sqlite3; c = sqlite3.connect('$export/base')
print(c.execute('pragma integrity_check').fetchone()[0], *c.execute('select count(*), count(distinct n) from t').fetchone())")"

for name in a b; do
  job=exercise_$name
  status=0
  wait "${!job}" || status=$?
  same "mount_exercise on $name ($(tail -n 50 "$work/exercise.$name"))" 0 "$status"
done

# --- the end ----------------------------------------------------------------------------------------------------------
ended() { # NAME PID
  local status=0
  eventually 20 gone "$2" || { fail "$1: the daemon lives on"; return; }
  wait "$2" || status=$?
  same "$1: the daemon's exit status" 0 "$status"
  check "$1: nothing is mounted" not_mounted "$work/$1"
}
check "fusermount3 -u" user fusermount3 -u "$work/b"
ended b "$daemon_b"
check "umount" within umount "$work/a"
ended a "$daemon_a"
same "nothing removed while it was open is left" "" "$(find "$export" -name '.nfs*')"
check "no Call was answered with RDMA_ERROR" on_server "! grep -E 'RDMA_ERROR|ERR_|discarded' '$work/plain.log'"
expect_exit 0 "the bridge ends on SIGTERM" stop_bridge "$bridge_pid"
