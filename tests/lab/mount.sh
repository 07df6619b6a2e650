#!/usr/bin/env bash
# The mount: what programs see through it is what the server has, also between two mounts of one export, with the link
# cut and nfsd restarted in between; and it starts and ends as mount(8) and its users expect.
#
# Environment: mount_lib.sh's.
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
need_tools setpriv git

start_mount a / allow_other
start_mount b /
start_mount x /xfs
a=$work/a$remote b=$work/b$remote x=$work/x$remote

# --- in the background: a file against its model, on both of the server's file systems ------------------------------
exercises=()
for seed in 1 2; do
  for directory in "$a" "$x"; do
    client timeout 300 "$exercise" --directory "$directory" --seed $seed --ops 20000 --size 262144 \
      > "$work/exercise.$seed.$(basename "$(dirname "$directory")")" 2>&1 &
    exercises+=("$! $seed $(basename "$(dirname "$directory")")")
    children+=($!)
  done
done

# --- contents --------------------------------------------------------------------------------------------------------
for size in 0 1 4095 4096 4097 $((MiB + 1)) $((64 * MiB)); do
  head -c "$size" /dev/urandom > "$work/src"
  check "cp of $size bytes to the server" client cp "$work/src" "$a/put.$size"
  same "$size bytes on the server" "$(local_sum "$work/src")" "$(server_sum "put.$size")"
  on_server "head -c $size /dev/urandom > '$export/get.$size'"
  check "cp of $size bytes from the server" client cp "$a/get.$size" "$work/dst"
  same "$size bytes from the server" "$(server_sum "get.$size")" "$(local_sum "$work/dst")"
  check "cmp of the two mounts" client cmp "$a/put.$size" "$b/put.$size"
done
client rm -f "$a/put.$((64 * MiB))" "$a/get.$((64 * MiB))"

# --- objects ---------------------------------------------------------------------------------------------------------
server_stat() { on_server "cd '$export' && stat -c '$1' $2"; }
client mkdir "$a/d"
client sh -c "echo one > '$a/d/one'; ln '$a/d/one' '$a/d/two'; ln -s ../d/one '$a/d/link'; mkfifo '$a/d/fifo'; mkdir '$a/d/sub'"
same "objects" "directory fifo regular link" \
  "$(on_server "cd '$export/d' && [ -d sub ] && printf 'directory ' && [ -p fifo ] && printf 'fifo ' && [ -f one ] && printf 'regular ' && [ -L link ] && printf link")"
same "a hard link" "2 2" "$(client stat -c '%h' "$a/d/one" "$b/d/two" | tr '\n' ' ' | sed 's/ $//')"
same "a symbolic link is followed" one "$(client cat "$a/d/link")"
client chmod 4751 "$a/d/one"
client chown 1234:4321 "$a/d/one"
client chmod 4751 "$a/d/one"
client touch -d @1000000000.123456789 "$a/d/one"
same "mode, owner, time" "4751 1234 4321 1000000000" "$(server_stat '%a %u %g %Y' d/one)"
client mv "$a/d/two" "$a/d/sub/three"
same "rename" one "$(on_server "cat '$export/d/sub/three'")"
expect_exit 1 "rmdir of what is not empty" client rmdir "$a/d/sub"
check "ENOTEMPTY is said" grep -q "not empty" "$work/err"
on_server "mkdir '$export/many'; cd '$export/many'; for i in \$(seq 2000); do : > file.\$i; done"
same "2,000 names" "$(on_server "ls -A '$export/many' | sort | sha256sum")" "$(client ls -A "$a/many" | sort | sha256sum)"
same "2,000 names with inode numbers" "$(on_server "ls -i '$export/many' | sort | sha256sum")" "$(client ls -i "$a/many" | sort | sha256sum)"

program "unlinked while it is open" << 'PY'
f = open(a + '/silly', 'wb+')
f.write(b'still here'); f.flush()
os.unlink(a + '/silly')
assert 'silly' not in os.listdir(a)
f.write(b', and more'); f.flush(); f.seek(0)
assert f.read() == b'still here, and more'
f.close()
end = time.time() + 5
while [n for n in os.listdir(b) if n.startswith('.nfs')] and time.time() < end: time.sleep(0.05)
assert not [n for n in os.listdir(b) if n.startswith('.nfs')], os.listdir(b)
# Closed just before: its directory can be removed at once.
os.mkdir(a + '/unlink')
for i in range(300):
    os.mkdir(a + '/unlink/d')
    with open(a + '/unlink/d/f', 'wb') as g: g.write(b'x')
    os.unlink(a + '/unlink/d/f')
    os.rmdir(a + '/unlink/d')
os.rmdir(a + '/unlink')
# Replaced while it is open.
for n in 'new', 'old': open(a + '/' + n, 'w').write(n)
f = open(a + '/old')
os.rename(a + '/new', a + '/old')
assert f.read() == 'old' and open(a + '/old').read() == 'new'
PY
program "the name of a file that was removed while it is open stays" << 'PY'
os.mkdir(a + '/busy')
f = open(a + '/busy/f', 'wb+')
f.write(b'still here'); f.flush()
os.unlink(a + '/busy/f')
hidden = os.listdir(a + '/busy')
assert len(hidden) == 1 and hidden[0].startswith('.nfs'), hidden
try: os.unlink(a + '/busy/' + hidden[0])
except OSError as e: assert e.errno == errno.EBUSY, e
else: raise AssertionError('it was removed')
f.seek(0)
assert f.read() == b'still here'
f.close()
# The kernel says behind close(2) that the file is closed, and the hidden name goes then.
for _ in range(100):
    if not os.listdir(a + '/busy'): break
    time.sleep(0.05)
os.rmdir(a + '/busy')
PY
program "truncate() just behind a close" << 'PY'
for i in range(30):
    open(a + '/cut', 'w').write('x')
    open(a + '/cut', 'r+').close()
    os.truncate(a + '/cut', i)
    assert os.stat(a + '/cut').st_size == i
PY
program "F24 what is made with O_EXCL or mknod has the time of its making" << 'PY'
os.close(os.open(a + '/excl', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
os.mknod(a + '/node', 0o100644)
open(a + '/written', 'x').write('text')
for path in (a + '/excl', b + '/excl', b + '/node', b + '/written'):
    now, stat = time.time(), os.stat(path)
    assert max(abs(now - stat.st_atime), abs(now - stat.st_mtime)) < 600, (path, stat, now)
PY
times_of() { on_server "cd '$export' && now=\$(date +%s) && for file in $*; do stat -c '%X %Y' \$file; done | while read -r a m; do echo \$((now - a > -600 && now - a < 600 && now - m > -600 && now - m < 600)); done | xargs"; }
same "F24 their times on the server" "1 1 1" "$(times_of excl node written)"

program "errors" << 'PY'
def gives(code, call, *arguments):
    try: call(*arguments)
    except OSError as e: assert e.errno == code, (e, errno.errorcode[code])
    else: raise AssertionError(errno.errorcode[code] + ' expected')
os.close(os.open(a + '/exclusive', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
gives(errno.EEXIST, os.open, a + '/exclusive', os.O_CREAT | os.O_EXCL | os.O_WRONLY)
gives(errno.EEXIST, os.open, b + '/exclusive', os.O_CREAT | os.O_EXCL | os.O_WRONLY)
gives(errno.EEXIST, os.mkdir, a + '/exclusive')
gives(errno.ENAMETOOLONG, open, a + '/' + 'n' * 300)
gives(errno.ENAMETOOLONG, os.mkdir, a + '/' + 'n' * 256)
gives(errno.ENOENT, open, a + '/nothing')
gives(errno.ENOTDIR, open, a + '/exclusive/below')
gives(errno.EISDIR, open, a, 'w')
gives(errno.ENOTDIR, os.rmdir, a + '/exclusive')
gives(errno.EISDIR, os.unlink, a + '/d')
gives(errno.EINVAL, os.rename, a + '/d', a + '/d/sub/below')
os.mkdir(a + '/' + 'n' * 255); os.rmdir(a + '/' + 'n' * 255)
PY

# --- two mounts ------------------------------------------------------------------------------------------------------
program "close-to-open" << 'PY'
held = None
for i in range(50):
    size = (0, 1, 4096, 5000, 100, 1 << 20, 4096, 4096)[i % 8] + (i if i % 3 else 0)
    data = bytes([65 + i % 26]) * size
    one, other = (a, b) if i % 5 else (b, a)
    with open(one + '/shared', 'wb') as f: f.write(data)
    with open(other + '/shared', 'rb') as f:
        assert os.fstat(f.fileno()).st_size == size, (i, size, os.fstat(f.fileno()).st_size)
        got = f.read()
        assert got == data, (i, size, len(got), data[:2], got[:2])
    # From half of the way on somebody has it open all the time.
    if i == 25: held = open(b + '/shared', 'rb'); held.read()
PY
program "close-to-open while the file is written: fstat, SEEK_END, read, a mapping, append" << 'PY'
import mmap
for i in range(5):
    path = '/enlarged.%d' % i
    with open(b + path, 'wb') as f: f.write(b'o' * 100000)
    with open(a + path, 'ab') as f: f.write(b't' * 100000 + b'!')
    fd = os.open(b + path, os.O_RDWR)
    os.pwrite(fd, b'little', 0)
    assert os.fstat(fd).st_size == 200001, (i, os.fstat(fd).st_size)
    assert os.lseek(fd, 0, os.SEEK_END) == 200001
    assert os.pread(fd, 10, 199998) == b'tt!'
    page = mmap.mmap(fd, 200001)
    page[200000:] = b'?'
    page.flush(); os.fsync(fd); page.close(); os.close(fd)
    fd = os.open(b + path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b'end'); os.close(fd)
    with open(a + path, 'rb') as f: assert f.read() == b'little' + b'o' * 99994 + b't' * 100000 + b'?end', i
    os.unlink(a + path)
PY
program "an append goes behind what was written at the end meanwhile" << 'PY'
import mmap
block = mmap.mmap(-1, 65536)
block[:] = b'2' * 65536
for direct in 0, os.O_DIRECT:
    for i in range(20):
        log = os.open(a + '/appended', os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
        fd = os.open(a + '/appended', os.O_RDWR | direct)
        os.write(log, b'1' * 4096)
        os.pwrite(fd, block, 4096)
        os.write(log, b'3' * 4096)
        os.close(fd); os.close(log)
        with open(b + '/appended', 'rb') as f: found = f.read()
        assert found == b'1' * 4096 + b'2' * 65536 + b'3' * 4096, (direct, i, len(found))
PY
program "what was stored in front of an append under a lock is sent when the lock goes" << 'PY'
import fcntl, mmap
with open(a + '/log', 'wb') as f: f.write(b'.' * 8192)
fd, log = os.open(a + '/log', os.O_RDWR), os.open(a + '/log', os.O_WRONLY | os.O_APPEND)
page = mmap.mmap(fd, 8192)
for word in b'ONE', b'TWO':
    fcntl.lockf(fd, fcntl.LOCK_EX)
    page[0:3]
    os.write(log, b'appended')
    page[0:3] = word
    fcntl.lockf(fd, fcntl.LOCK_UN)
    with open(b + '/log', 'rb') as f: assert f.read(3) == word
PY
program "a mapping reaches as far as another client has made the file, behind a lock and behind an open, without fstat" << 'PY'
import ctypes, fcntl
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def enlarge(to):
    with open(a + '/grows', 'r+b') as f:
        f.seek(to - 1); f.write(b'!')
with open(b + '/grows', 'wb') as f: f.write(b'o' * 100)
fd = os.open(b + '/grows', os.O_RDWR)
at = libc.mmap(None, 1 << 20, 3, 1, fd, 0)
assert ctypes.string_at(at, 1) == b'o'
for lock, to in (fcntl.lockf, 50000), (fcntl.flock, 90000), (fcntl.flock, 94209):
    enlarge(to)
    lock(fd, fcntl.LOCK_EX)
    assert ctypes.string_at(at + to - 2, 2) == b'\0!'
    ctypes.memset(at + to - 2, 63, 1)
    lock(fd, fcntl.LOCK_UN)
    with open(a + '/grows', 'rb') as f: assert f.read()[to - 2:] == b'?!'
os.close(fd)
enlarge(200000)
fd = os.open(b + '/grows', os.O_RDONLY)
at = libc.mmap(None, 1 << 20, 1, 1, fd, 0)
assert ctypes.string_at(at + 199998, 2) == b'\0!'
PY
program "what was listed and is another's by now is found" << 'PY'
os.mkdir(a + '/links')
for i in range(10): os.symlink('old', a + '/links/%d' % i)
os.listdir(a + '/links')
for i in range(10):
    os.symlink('new', b + '/links/new')
    os.rename(b + '/links/new', b + '/links/%d' % i)
for i in range(10): assert os.readlink(a + '/links/%d' % i) in ('old', 'new')
os.mkdir(a + '/links/d')
os.listdir(a + '/links')
os.rmdir(b + '/links/d')
os.mkdir(a + '/links/d')
PY
program "what was stored in a mapping under a lock is seen under the next one" << 'PY'
import fcntl, mmap
data = b'-' * 8192
with open(a + '/mapped', 'wb') as f: f.write(data)
both = [os.open(one + '/mapped', os.O_RDWR) for one in (a, b)]
pages = [mmap.mmap(fd, 8192) for fd in both]
for lock in fcntl.lockf, fcntl.flock:
    for i in range(40):
        fd, page = both[i % 2], pages[i % 2]
        lock(fd, fcntl.LOCK_EX)
        assert page[:] == data, (lock, i, data[:1], page[:1])
        data = bytes([65 + i % 26]) * 8192
        page[:] = data
        lock(fd, fcntl.LOCK_UN)
PY
program "what was written under a lock is seen under the next one" << 'PY'
import fcntl
flags = os.O_RDWR | os.O_CREAT
one, other = os.open(a + '/locked', flags), os.open(b + '/locked', flags)
data = b''
for lock in fcntl.lockf, fcntl.flock:
    for i in range(60):
        fd = other if i % 2 else one
        lock(fd, fcntl.LOCK_EX)
        found = os.pread(fd, 8192, 0)
        assert found == data, (lock, i, data[:1], found[:1], len(found))
        data = bytes([65 + i % 26]) * 8192
        os.pwrite(fd, data, 0)
        lock(fd, fcntl.LOCK_UN)
PY
program "locks" << 'PY'
import fcntl, signal, subprocess
for name, lock in ('lockf', fcntl.lockf), ('flock', fcntl.flock):
    path = '/lock.' + name
    one = open(a + path, 'w+'); other = open(b + path, 'w+')
    lock(one, fcntl.LOCK_EX)
    try: lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e: assert e.errno in (errno.EAGAIN, errno.EACCES), e
    else: raise AssertionError(name + ': both have it')
    wait = 'import fcntl, sys; f = open(sys.argv[1], "r+"); print("asks", flush=True); fcntl.%s(f, fcntl.LOCK_EX); print("has", flush=True)' % name
    start = lambda: subprocess.Popen([sys.executable, '-c', wait, b + path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    # One that waits is ended by SIGINT, and then has no lock that it was given too late.
    waiter = start(); assert waiter.stdout.readline() == 'asks\n'; time.sleep(0.3)
    assert waiter.poll() is None
    waiter.send_signal(signal.SIGINT)
    begun = time.time(); waiter.wait(5); assert time.time() - begun < 3, time.time() - begun
    waiter = start(); assert waiter.stdout.readline() == 'asks\n'; time.sleep(0.3)
    assert waiter.poll() is None
    begun = time.time(); lock(one, fcntl.LOCK_UN)
    assert waiter.stdout.readline() == 'has\n'
    took = time.time() - begun
    assert took < 3, took
    assert waiter.wait(5) == 0
    lock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    one.close()
    # close() lets go of it: of flock's some time later, since FUSE's RELEASE is not waited for.
    for i in range(60 if name == 'flock' else 1):
        try: lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB); break
        except OSError as e: last = e; time.sleep(0.05)
    else: raise AssertionError(name + ': close() did not let go of it')
PY
cat > "$work/writer.py" << 'PY'
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=60)
for i in range(40):
    with base:
        base.execute('begin immediate')
        n = base.execute('select count(*) from t').fetchone()[0]
        base.execute('insert into t values (?, ?, ?)', (n, sys.argv[2], 'x' * (i * 50)))
PY
program "sqlite3 from two mounts" << 'PY'
import sqlite3, subprocess
base = sqlite3.connect(x + '/base'); base.execute('create table t (n integer unique, who text, data text)'); base.commit(); base.close()
PY
start_mount y /xfs
y=$work/y$remote
client timeout 100 python3 "$work/writer.py" "$x/base" one > "$work/one.out" 2>&1 &
one=$!
status=0
client timeout 100 python3 "$work/writer.py" "$y/base" two > "$work/two.out" 2>&1 || status=$?
wait "$one" || status=$?
same "two writers of one sqlite3 file" "0 " "$status $(tail -c 500 "$work/one.out" "$work/two.out" | grep Error)"
same "integrity_check, and every row" "ok 80 80" \
  "$(client python3 -c "import sqlite3; c = sqlite3.connect('$x/base'); print(c.execute('pragma integrity_check').fetchone()[0], *c.execute('select count(*), count(distinct n) from t').fetchone())")"

# --- rights, space, attributes ----------------------------------------------------------------------------------------
client sh -c "echo secret > '$a/secret'; chmod 600 '$a/secret'; cat '$a/secret'" > /dev/null
as_nobody() { client setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
expect_exit 1 "nobody reads root's file" as_nobody cat "$a/secret"
check "EACCES is said" grep -q "Permission denied" "$work/err"
check "nobody writes where everybody may" as_nobody sh -c "echo mine > '$a/nobodys'"
same "what nobody made belongs to nobody" "65534 65534" "$(server_stat '%u %g' nobodys)"
expect_exit 1 "nobody may not change root's mode" as_nobody chmod 777 "$a/secret"

if on_server "mkdir -p '$export/small' && mount -t tmpfs -o size=1m,mode=1777 tmpfs '$export/small' &&
    exportfs -o rw,no_root_squash,insecure,fsid=77,no_subtree_check '10.77.0.0/24:$export/small'"; then
  small_a=$a small_b=$b
  if ! has_below; then
    start_mount full_a/small "$remote/small"
    start_mount full_b/small "$remote/small"
    small_a=$work/full_a small_b=$work/full_b
  fi
  a=$small_a b=$small_b program "a full file system" << 'PY'
def fill(path, close_only):
    f = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for i in range(64): os.write(f, b'x' * 65536)
        if not close_only: os.fsync(f)
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
        try: os.close(f)
        except OSError as e: assert e.errno == errno.ENOSPC, e  # of a write behind that one
        return
    try: os.close(f)
    except OSError as e: assert e.errno == errno.ENOSPC, e
    else: raise AssertionError('4 MiB in 1 MiB')
for close_only in True, False:
    fill(a + '/small/f', close_only); os.unlink(a + '/small/f')
    # nfsd lets go of what it had open a little later.
    end = time.time() + 5
    while os.statvfs(a + '/small').f_bfree < 200 and time.time() < end: time.sleep(0.05)
with open(a + '/small/f', 'wb') as f: f.write(b'y' * 1000)
assert open(b + '/small/f', 'rb').read() == b'y' * 1000
PY
  if ! has_below; then
    for name in full_a/small full_b/small; do check "umount of $name" client umount "$work/$name"; ended $name "umount"; done
  fi
  on_server "exportfs -u '10.77.0.0/24:$export/small'; umount -l '$export/small'"
else
  fail "no small file system on the server"
fi

if has_42; then
program "extended attributes" << 'PY'
f = x + '/attributes'
open(f, 'w').close()
os.setxattr(f, 'user.one', b'1'); os.setxattr(f, 'user.two', b'\0' * 1000)
user = lambda: sorted(name for name in os.listxattr(f) if name.startswith('user.'))
assert user() == ['user.one', 'user.two'], os.listxattr(f)
assert os.getxattr(f, 'user.one') == b'1' and os.getxattr(f, 'user.two') == b'\0' * 1000
for code, call in ((errno.EEXIST, lambda: os.setxattr(f, 'user.one', b'2', os.XATTR_CREATE)),
                   (errno.ENODATA, lambda: os.setxattr(f, 'user.none', b'2', os.XATTR_REPLACE)),
                   (errno.ENODATA, lambda: os.getxattr(f, 'user.none')),
                   (errno.EOPNOTSUPP, lambda: os.setxattr(f, 'trusted.one', b'2'))):
    try: call()
    except OSError as e: assert e.errno == code, (e, code)
    else: raise AssertionError(code)
os.removexattr(f, 'user.one')
assert user() == ['user.two']
PY
same "extended attributes on the server" 1000 \
  "$(on_server "python3 -c 'import os; print(len(os.getxattr(\"$xfs_export/attributes\", \"user.two\")))'")"

# row: F21
# Mounts that nobody else uses, for their counters.
start_mount k /xfs
start_mount l /
program "copy_file_range clones where the server's file system can, and copies there where it cannot" << 'PY'
def calls(name, what):
    for line in open(s + '/' + name + '/.nfsrdma-stats'):
        if line.startswith('nfs ' + what + ' '): return int(line.split('count=')[1].split()[0])
    return 0
def copy(where, name):
    data = os.urandom((3 << 20) + 17)
    open(where + '/copied.from', 'wb').write(data)
    before = calls(name, 'CLONE'), calls(name, 'COPY')
    source = os.open(where + '/copied.from', os.O_RDONLY)
    target = os.open(where + '/copied.to', os.O_RDWR | os.O_CREAT)
    done = 0
    while done < len(data): done += os.copy_file_range(source, target, len(data) - done, done, done)
    os.close(source); os.close(target)
    assert open(where + '/copied.to', 'rb').read() == data
    return calls(name, 'CLONE') - before[0], calls(name, 'COPY') - before[1]
below = x[len(s + '/x'):]
clones, copies = copy(s + '/k' + below, 'k')
assert clones >= 1 and copies == 0, (clones, copies)
clones, copies = copy(s + '/l' + below, 'l')
assert copies >= 1, (clones, copies)
PY
for name in k l; do check "umount of $name" client umount "$work/$name"; ended $name "umount"; done
check "the clone shares the blocks of its source" on_server "filefrag -v '$xfs_export/copied.to' | grep -q shared"
same "the clone on the server" "$(on_server "sha256sum < '$xfs_export/copied.from'")" "$(on_server "sha256sum < '$xfs_export/copied.to'")"
fi

# --- programs --------------------------------------------------------------------------------------------------------
git_there() { client git -c safe.directory='*' -c user.name=t -c user.email=t@example.org -C "$x/repository" "$@"; }
mkdir -p "$work/small-repository"
( cd "$work/small-repository" && git init -q . && for i in $(seq 60); do mkdir -p "d$((i % 7))" && seq "$i" 2000 > "d$((i % 7))/$i"; done &&
  git add . && git -c user.name=t -c user.email=t@example.org commit -qm one ) || fail "no repository to clone"
check "git clone" client git -c safe.directory='*' clone -q --no-hardlinks "$work/small-repository" "$x/repository"
client sh -c "seq 5000 > '$x/repository/new'; rm '$x/repository/d1/1'"
check "git add" git_there add -A
check "git commit" git_there commit -qm two
check "git gc" git_there gc -q --prune=now
check "git fsck" git_there fsck --strict
same "git status" "" "$(git_there status --porcelain 2>&1)"

mkdir -p "$work/tree"
( cd "$work/tree" && for i in $(seq 1000); do mkdir -p "d$((i % 20))" && head -c $((i * 7)) /dev/urandom > "d$((i % 20))/$i"; done; ln -s d0 link )
tar -C "$work/tree" -cf "$work/tree.tar" .
client mkdir "$a/tree"
check "tar -x of 1,000 files" client tar -C "$a/tree" --no-same-owner -xf "$work/tree.tar"
check "diff -r with what was packed" client diff -r --no-dereference "$work/tree" "$a/tree"
check "diff -r by another mount" client diff -r --no-dereference "$work/tree" "$b/tree"
check "rm -rf" client rm -rf "$a/tree"
check "rm -rf has removed it on the server" on_server "! [ -e '$export/tree' ]"

for one in "${exercises[@]}"; do
  read -r pid seed where <<< "$one"
  status=0
  wait "$pid" || status=$?
  same "mount_exercise with seed $seed on $where ($(grep -v 'operations$' "$work/exercise.$seed.$where" | tail -n 50))" 0 "$status"
done

# --- trouble ---------------------------------------------------------------------------------------------------------
head -c $((48 * MiB)) /dev/urandom > "$work/src"
"$lab" slow 200mbit || fail "the link cannot be slowed down"
copy_with() { # WHAT COMMAND …: which happens in the middle of it
  local what=$1 pid status=0
  shift
  client timeout 90 cp "$work/src" "$a/trouble" > "$work/copy.out" 2>&1 &
  pid=$!
  children+=("$pid")
  # shellcheck disable=SC2317
  under_way() { [ "$(on_server "stat -c %s '$export/trouble' 2> /dev/null || echo 0")" -gt $((4 * MiB)) ]; }
  eventually 20 under_way || fail "$what: cp does not begin"
  "$@"
  check "$what: cp was under way" kill -0 "$pid"
  wait "$pid" || status=$?
  same "$what: cp finishes" "0 " "$status $(cat "$work/copy.out")"
  same "$what: what it wrote" "$(local_sum "$work/src")" "$(server_sum trouble)"
  client rm -f "$a/trouble"
}
cut_for_5s() { "$lab" cut; sleep 5; "$lab" mend; }
copy_with "link cut for 5 s" cut_for_5s
copy_with "nfsd restarted" "$lab" restart-nfsd
"$lab" fast

# Losing a connection that answers costs its reconnect, however often it happens.
(for _ in 1 2 3 4 5 6 7 8; do sleep 1; "$lab" reset; done) &
resets=$!
program "F31 resets a second apart make no pause that grows" << 'PY'
longest, end, made = 0, time.time() + 9, 0
while time.time() < end:
    begin = time.time()
    open(a + '/reset.%d' % (made % 100), 'w').close()
    longest, made = max(longest, time.time() - begin), made + 1
assert longest < 1.5, (longest, made)
PY
wait "$resets"

# --- hard and soft ---------------------------------------------------------------------------------------------------
# A server that is away for longer than timeo, for both; a hard mount waits, and the program can be interrupted.
start_mount h / timeo=5,actimeo=0
start_mount s / timeo=5,retrans=1,soft,actimeo=0
h=$work/h$remote s=$work/s$remote
client sh -c "echo text > '$h/hard'"
"$lab" stop-nfsd
began=$SECONDS
expect_exit 1 "soft: stat" client stat "$s/hard"
check "soft: it says that time ran out" grep -q "timed out" "$work/err"
check "soft: in timeo, and retrans times more" [ $((SECONDS - began)) -lt 10 ]
client sh -c "exec timeout -s INT 3 stat '$h/hard'" > "$work/out" 2> "$work/err"
same "hard: an interrupt ends a program that waits" 124 $?
client cat "$h/hard" > "$work/hard" 2>&1 &
pid=$!
children+=("$pid")
sleep 4
check "hard: it waits" kill -0 "$pid"
"$lab" start-nfsd
status=0
wait "$pid" || status=$?
same "hard: when the server is back" "0 text" "$status $(cat "$work/hard")"
same "hard: it says once that it waits" 1 "$(grep -c 'connection lost' "$work/h.log")"
for name in h s; do
  check "umount of $name" client umount "$work/$name"
  ended $name "umount"
done

# --- file systems below the export -----------------------------------------------------------------------------------
has_below && check "inode numbers of another file system are told apart" client python3 - "$a" "$work/a/xfs" << 'PY'
import os, sys
here, there = (os.stat(path).st_ino for path in sys.argv[1:])
listed = {entry.name: entry.inode() for entry in os.scandir(os.path.dirname(sys.argv[1]))}
sys.exit(not (there > 1 << 63 > here and listed[os.path.basename(sys.argv[1])] == here))
PY

# --- a write-back cache ----------------------------------------------------------------------------------------------
start_mount w / writeback_cache
w=$work/w$remote
check "writeback_cache: mount_exercise" client timeout 60 "$exercise" --directory "$w" --seed 3 --ops 5000 --size 262144
client sh -c "umask 0577; echo 'only writing' > '$w/write-only'; echo more >> '$w/write-only'"
same "writeback_cache: a file that may only be written" "only writing more" "$(on_server "cat '$export/write-only'" | xargs)"
check "umount of w" client umount "$work/w"
ended w "umount"

# --- beginning and ending --------------------------------------------------------------------------------------------
on_server "rm -f '$export'/.nfs*"
program "what is removed while it is open goes at the unmount" << 'PY'
for i in range(20):
    f = open(b + '/last.%d' % i, 'w'); f.write('x'); f.flush()
    os.unlink(b + '/last.%d' % i)
PY
# The server gets to know of this close when the mount has gone.
mkfifo "$work/go"
client sh -c "exec 3<> '$b/late'; exec 4< '$b/late'; exec 3>&-; rm '$b/late'; touch '$work/removed'; read _ < '$work/go'; exec 4<&-" &
pid=$!
eventually 10 test -e "$work/removed"
"$lab" cut
echo > "$work/go"
wait "$pid"
# umount(8) looks at what is mounted there first, which takes the server.
check "umount" client timeout 20 python3 -c "import ctypes, sys; sys.exit(-ctypes.CDLL(None).umount2(b'$work/b', 0))"
sleep 1
"$lab" mend
ended b "umount"
same "what is removed while it is open is not left" "" "$(on_server "ls -A '$export' | grep '^.nfs'")"
check "fusermount3 -u" client fusermount3 -u "$work/x"
ended x "fusermount3 -u"
# With a server that does not answer it ends all the same.
client sh -c "exec 3> '$a/unwritten'; echo > '$work/go'; echo x >&3; exec sleep 60" &
pid=$!
children+=("$pid")
check "SIGTERM: a file is open" timeout 10 cat "$work/go"
"$lab" cut
kill -TERM "${daemon[a]}"
ended a "SIGTERM"
"$lab" mend
kill "$pid"
check "SIGTERM: it says what is lost" grep -q "does not answer" "$work/a.log"
kill -INT "${daemon[y]}"
ended y "SIGINT"

mkdir -p "$work/m"
expect_exit 0 "in the background" client "$fuse_binary" "$server:/" "$work/m"
check "in the background: it is mounted when the command ends" mounted "$work/m"
helper() { client bash -c 'exec -a mount.nfsrdma "$@"' _ "$fuse_binary" "$server:/" "$work/m" -o "$1"; }
expect_exit 0 "remount,ro" helper remount,ro
expect_exit 1 "remount,ro: nothing is written" client touch "$work/m/read-only"
check "remount,ro: it says why" grep -q "Read-only" "$work/err"
expect_exit 32 "remount with what cannot be changed" helper remount,rw,soft
one_sentence "remount with what cannot be changed" soft
expect_exit 0 "remount,rw" helper remount,rw
check "remount,rw: it is written" client touch "$work/m/written"
check "in the background: umount" client umount "$work/m"
"$lab" stop-nfsd
expect_exit 0 "bg" helper bg,retry=2,connect_timeout=2s
check "bg: nothing is mounted yet" not_mounted "$work/m"
"$lab" start-nfsd
check "bg: it is mounted when the server is there" eventually 60 mounted "$work/m"
check "bg: umount" client umount "$work/m"
expect_exit 1 "a wrong option" client "$fuse_binary" "$server:/" "$work/m" -o frobnicate=1
one_sentence "a wrong option" frobnicate
expect_exit 1 "no mount point" client "$fuse_binary" "$server:/"
expect_exit 32 "a server that is not there" client "$fuse_binary" -f "127.0.0.1:/" "$work/m"
one_sentence "a server that is not there" "127.0.0.1"
expect_exit 32 "an export that is not there" client "$fuse_binary" "$server:/nothing" "$work/m"
one_sentence "an export that is not there" nothing "no such|not found|does not exist|NOENT"
expect_exit 32 "a mount point that does not exist" client "$fuse_binary" "$server:/" "$work/nowhere"
one_sentence "a mount point that does not exist" nowhere
check "nothing is mounted where it failed" not_mounted "$work/m"
on_server "rm -rf '$xfs_export'"
