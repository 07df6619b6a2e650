#!/usr/bin/env bash
# The mount under real programs, in trouble, full, refused, and with more files and bytes than the daemon may have memory
# for.
#
#   programs.sh [SECTION …]   only these: exercise fio git build sqlite tar rsync editor trouble refused names memory
#
# Environment: mount_lib.sh's. NFSRDMA_LONG=1: everything at its full size (an hour, 6 GiB for the server), where otherwise
# it is what CI has time for. NFSRDMA_SOURCE: the checkout that is cloned and built on the mount.
[ -z "${NFSRDMA_LONG:-}" ] || export LAB_MEM=${LAB_MEM:-6G} LAB_TIMEOUT=${LAB_TIMEOUT:-900}
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
# shellcheck disable=SC2154  # all of mount_lib.sh and lib.sh
source=${NFSRDMA_SOURCE:-$root}
long=${NFSRDMA_LONG:-}
for tool in fio git rsync cmake ninja; do
  command -v "$tool" > /dev/null || skip "no $tool (packaging/packages.sh install build test)"
done
wanted=" ${*:-fio git build sqlite tar rsync editor trouble refused names memory ${long:+exercise} } "
section() { [[ $wanted == *" $1 "* ]] && say "--- $1, at $SECONDS s ---"; }
# size CI LONG
size() { if [ -n "$long" ]; then echo "$2"; else echo "$1"; fi; }

start_mount a / allow_other
start_mount b /
start_mount x /xfs
a=$work/a$remote b=$work/b$remote x=$work/x$remote
memory_of() { sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/${daemon[$2]}/status"; }
most_memory() { say "memory of $1's daemon: $(memory_of VmRSS "$1") kB, at most $(memory_of VmHWM "$1") kB"; }
forget_all() { sync; echo 2 > /proc/sys/vm/drop_caches; }
# small NAME MEBIBYTES: its daemon has less resident.
# shellcheck disable=SC2317
small() { [ "$(memory_of VmRSS "$1")" -lt $(($2 * 1024)) ]; }

# --- a file against its model ----------------------------------------------------------------------------------------
if section exercise; then
  exercises=()
  for directory in "$a" "$x"; do
    client timeout 3000 "$exercise" --directory "$directory" --seed 11 --ops "$(size 5000 200000)" --size 1048576 \
      > "$work/exercise.$(basename "$(dirname "$directory")")" 2>&1 &
    exercises+=("$! $(basename "$(dirname "$directory")")")
    children+=($!)
  done
  for one in "${exercises[@]}"; do
    read -r pid where <<< "$one"
    status=0
    wait "$pid" || status=$?
    same "mount_exercise on $where ($(grep -v 'operations$' "$work/exercise.$where" | tail -n 50))" 0 "$status"
  done
fi

# --- fio -------------------------------------------------------------------------------------------------------------
# fio_verify WHAT DIRECTORY OPTION …
fio_verify() {
  local what=$1
  shift
  check "fio $what" client timeout 900 fio --name="${what//[^a-z0-9]/_}" --directory="$1" --verify=crc32c --verify_fatal=1 \
    --verify_state_save=0 --fallocate=none --thread --output="$work/fio.out" "${@:2}"
  # It says so and ends with 0 where a job could not even begin.
  check "fio $what: it has read and written" python3 - "$work/fio.out" << 'PY'
import re, sys
text = open(sys.argv[1]).read()
assert re.search(r'^ +(READ): bw=', text, re.M) and re.search(r'err= *0', text) and not re.search(r'err= *[1-9]', text), text
PY
}
if section fio; then
  s=$(size 16m 256m)
  for there in "$a" "$x"; do
    on="on $(basename "$(dirname "$there")")"
    fio_verify "sequential $on" "$there" --rw=write --bs=64k --size="$s"
    fio_verify "random $on" "$there" --rw=randwrite --bsrange=512-64k --size="$s"
    fio_verify "O_DIRECT $on" "$there" --rw=randwrite --bs=16k --size="$s" --direct=1 --ioengine=libaio --iodepth=16
    fio_verify "mmap $on" "$there" --rw=randwrite --bs=4k --size="$(size 8m 128m)" --ioengine=mmap
  done
  fio_verify "reads among writes" "$x" --rw=randrw --bs=8k --size="$s" --verify_backlog=64
  fio_verify "four jobs" "$a" --rw=randwrite --bs=32k --size="$(size 8m 128m)" --numjobs=4
  fio_verify "four jobs, O_DIRECT" "$x" --rw=write --bs=1m --size="$(size 8m 128m)" --numjobs=4 --direct=1
  fio_verify "four jobs in one file" "$a" --filename=shared --rw=randwrite --bs=32k --size="$(size 8m 64m)" --numjobs=4 \
    --offset_increment="$(size 8m 64m)"
  # What one mount has written, another one verifies.
  fio_verify "writes here" "$a" --filename=elsewhere --rw=randwrite --randseed=7 --bs=16k --size="$s"
  fio_verify "verifies there" "$b" --filename=elsewhere --rw=randwrite --randseed=7 --bs=16k --size="$s" --verify_only
  client sh -c "rm -f '$a'/*.0 '$x'/*.0 '$a'/shared '$a'/elsewhere"
  most_memory a
fi

# --- git, a build ----------------------------------------------------------------------------------------------------
if section git; then
  repository=$(size "$a/repository" "$x/repository")
  git_there() { client timeout 600 git -c safe.directory='*' -c user.name=t -c user.email=t@example.org -C "$repository" "$@"; }
  origin=$source
  # An archive of the sources is no repository.
  if [ -z "$long" ] || ! git -c safe.directory='*' -C "$origin" rev-parse > /dev/null 2>&1; then
    origin=$work/origin
    mkdir "$origin"
    ( cd "$origin" && git init -q . && for i in $(seq 40); do mkdir -p "d$((i % 7))" && seq "$i" 2000 > "d$((i % 7))/$i"; done &&
      git add . && git -c user.name=t -c user.email=t@example.org commit -qm one ) || fail "no repository to clone"
  fi
  check "git clone" client timeout 600 git -c safe.directory='*' clone -q --no-hardlinks "$origin" "$repository"
  client sh -c "cd '$repository' && seq 5000 > new && for f in \$(git -c safe.directory='*' ls-files | head -n 5); do echo changed >> \$f; done"
  check "git add" git_there add -A
  check "git commit" git_there commit -qm two
  check "git gc" git_there gc -q --prune=now
  check "git fsck" git_there fsck --strict
  same "git status" "" "$(git_there status --porcelain 2>&1)"
  forget_all
  same "git status when all is forgotten" "" "$(git_there status --porcelain 2>&1)"
  client rm -rf "$repository"
fi

if section build; then
  # The compiler's own work is to go through the mount, not through ccache.
  targets=(mount_exercise)
  [ -z "$long" ] || targets+=(nfsrdma)
  built=$x/build
  check "cmake with its build directory on the mount" client timeout 300 env CCACHE_DISABLE=1 cmake -S "$source" -B "$built" -G Ninja \
    -DNFSRDMA_TESTS=ON -DCMAKE_BUILD_TYPE="$(size Debug RelWithDebInfo)"
  check "ninja ${targets[*]}" client timeout 3000 env CCACHE_DISABLE=1 ninja -C "$built" -j2 "${targets[@]}"
  same "ninja again: there is nothing to do" "ninja: no work to do." \
    "$(client timeout 300 env CCACHE_DISABLE=1 ninja -C "$built" "${targets[@]}" 2>&1 | tail -n 1)"
  check "a program that was built there, on a file there" client timeout 100 "$built/tests/mount_exercise" --directory "$x" --ops 500
  client rm -rf "$built"
fi

# --- sqlite ----------------------------------------------------------------------------------------------------------
if section sqlite; then
  cat > "$work/writer.py" << 'PY'
import sqlite3, sys
path, who, rows, mode = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
base = sqlite3.connect(path, timeout=90)
base.execute('pragma synchronous=full')
assert base.execute('pragma journal_mode').fetchone()[0] == ('wal' if mode == 'wal' else 'delete')
if mode == 'truncate': base.execute('pragma journal_mode=truncate')
for i in range(rows):
    with base:
        base.execute('begin immediate')
        n = base.execute('select count(*) from t').fetchone()[0]
        base.execute('insert into t values (?, ?, ?)', (n, who, 'x' * (i % 40 * 50)))
PY
  rows=$(size 40 1000)
  # two_writers WHAT JOURNAL PATH PATH: the one file by two paths.
  two_writers() {
    local what=$1 mode=$2 one two status=0
    check "$what: a base" client python3 -c "
import sqlite3
base = sqlite3.connect('$3'); base.execute('create table t (n integer unique, who text, data text)'); base.commit()
if '$mode' == 'wal': assert base.execute('pragma journal_mode=wal').fetchone()[0] == 'wal'
base.execute('insert into t values (0, 0, 0)'); base.commit(); base.close()"
    client timeout 600 python3 "$work/writer.py" "$3" one "$rows" "$mode" > "$work/one.out" 2>&1 &
    one=$!
    client timeout 600 python3 "$work/writer.py" "$4" two "$rows" "$mode" > "$work/two.out" 2>&1 &
    two=$!
    children+=("$one" "$two")
    wait "$one" || status=$?
    wait "$two" || status=$?
    same "$what: two writers" "0 " "$status $(tail -c 500 "$work/one.out" "$work/two.out" | grep Error)"
    forget_all
    same "$what: integrity_check, and every row" "ok $((2 * rows + 1)) $((2 * rows + 1))" "$(client timeout 100 python3 -c "
import sqlite3
c = sqlite3.connect('$4')
print(c.execute('pragma integrity_check').fetchone()[0], *c.execute('select count(*), count(distinct n) from t').fetchone())" 2>&1)"
  }
  two_writers "sqlite, rollback journal" delete "$x/delete.db" "$x/delete.db"
  two_writers "sqlite, truncated journal" truncate "$a/truncate.db" "$a/truncate.db"
  # What has mapped its -shm file sees what others write there: two processes of one mount do.
  two_writers "sqlite, WAL" wal "$x/wal.db" "$x/wal.db"
  two_writers "sqlite, rollback journal, two mounts" delete "$a/both.db" "$b/both.db"
fi

# --- many small files ------------------------------------------------------------------------------------------------
if [[ $wanted == *" tar "* || $wanted == *" rsync "* ]]; then
  many=$(size 3000 20000)
  mkdir -p "$work/tree"
  python3 - "$work/tree" "$many" << 'PY'
import os, random, sys
to, count = sys.argv[1], int(sys.argv[2])
random.seed(1)
for i in range(count):
    d = '%s/d%d/e%d' % (to, i % 30, i % 7)
    os.makedirs(d, exist_ok=True)
    with open('%s/%d' % (d, i), 'wb') as f: f.write(random.randbytes(random.choice((0, 1, 100, 4096, 5000, 20000))))
    os.chmod(f.name, random.choice((0o644, 0o755, 0o600, 0o444)))
    os.utime(f.name, ns=(10**18 + i, 10**18 + i * 1000003))
os.symlink('d0/e0', to + '/link')
PY
fi
if section tar; then
  tar -C "$work/tree" -cf "$work/tree.tar" .
  client mkdir "$a/tree"
  check "tar -x of $many files" client timeout 900 tar -C "$a/tree" -xf "$work/tree.tar"
  # Owners, modes, times in nanoseconds, contents.
  check "tar --compare" client timeout 900 tar -C "$a/tree" --compare -f "$work/tree.tar"
  check "diff -r by another mount" client timeout 900 diff -r --no-dereference "$work/tree" "$b/tree"
  forget_all
  check "tar -c" client timeout 900 tar -C "$a/tree" -cf "$work/back.tar" .
  check "what came back" tar -C "$work/tree" --compare -f "$work/back.tar"
  same "what came back: names" "$(tar -tf "$work/tree.tar" | sort | sha256sum)" "$(tar -tf "$work/back.tar" | sort | sha256sum)"
  check "rm -rf" client timeout 900 rm -rf "$a/tree"
  rm -f "$work/tree.tar" "$work/back.tar"
fi
if section rsync; then
  sync_there() { client timeout 900 rsync -a --itemize-changes "$work/tree/" "$x/synced/"; }
  check "rsync" sync_there
  same "rsync has moved all files" "$many" "$(grep -c '^>f' "$work/check.out")"
  forget_all
  check "rsync again" sync_there
  same "rsync again: nothing is left to move" "" "$(cat "$work/check.out")"
  check "rsync --checksum" client timeout 900 rsync -a --checksum --itemize-changes "$work/tree/" "$x/synced/"
  same "rsync --checksum: nothing differs" "" "$(cat "$work/check.out")"
  client rm -rf "$x/synced"
fi

# --- an editor's save ------------------------------------------------------------------------------------------------
if section editor; then
  program "an editor saves" << 'PY'
import threading
for top, other in (a, b), (x, x):
    def save(text):
        temporary = top + '/.file.swp'
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, text); os.fchmod(fd, 0o644); os.fsync(fd); os.close(fd)
        os.rename(temporary, top + '/file')
        directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory); os.close(directory)
    save(b'0' * 100)
    # Whoever reads meanwhile finds an old or a new one, whole.
    stop, wrong, seen = False, [], 0
    def read():
        global seen
        while not stop:
            try:
                with open(top + '/file', 'rb') as f: text = f.read()
                if len(text) < 100 or len(set(text)) != 1: wrong.append(text[:50])
                seen += 1
            except OSError as e: wrong.append(e)
    reader = threading.Thread(target=read); reader.start()
    for i in range(60):
        save(bytes([48 + i % 70]) * (100 + i * 997))
        with open(top + '/file', 'rb') as f: assert f.read() == bytes([48 + i % 70]) * (100 + i * 997), i
    stop = True; reader.join()
    assert not wrong, wrong[:3]
    assert seen > 10, seen
    # With a backup, in vim's way: rename, write anew, remove the backup.
    for i in range(30):
        os.rename(top + '/file', top + '/file~')
        with open(top + '/file', 'wb') as f: f.write(b'v%d' % i); f.flush(); os.fsync(f.fileno())
        os.unlink(top + '/file~')
        assert os.stat(top + '/file').st_size == len(b'v%d' % i)
    # Open all the time, as by tail -f: it has the old one.
    with open(top + '/file', 'rb') as held:
        save(b'new' * 1000)
        assert held.read() == b'v29'
        assert open(top + '/file', 'rb').read() == b'new' * 1000
    left = [n for n in os.listdir(top) if n.startswith('.file')]
    assert not left, left
PY
fi

# --- trouble ---------------------------------------------------------------------------------------------------------
if section trouble; then
  client sh -c "mkdir '$a/listed'; cd '$a/listed'; for i in 1 2 3 4 5; do : > file.\$i; done"
  # At 1 MiB/s each, so that it lasts longer than the trouble.
  megabytes=$(size 28 110)
  client timeout 600 fio --directory="$a" --verify=crc32c --verify_fatal=1 --verify_state_save=0 --fallocate=none --thread \
    --output="$work/trouble.out" --name=written --rw=randwrite --bs=32k --size="${megabytes}m" --rate=1m,1m \
    --name=direct --rw=randwrite --bs=16k --size="${megabytes}m" --rate=1m,1m --direct=1 --ioengine=libaio --iodepth=8 \
    --name=mixed --rw=randrw --bs=16k --size="${megabytes}m" --rate=500k,500k --verify_backlog=32 > "$work/trouble.err" 2>&1 &
  fio=$!
  children+=("$fio")
  sleep 3
  "$lab" cut; sleep "$(size 12 20)"; "$lab" mend
  check "fio was under way when the link was cut" kill -0 "$fio"
  sleep 4
  "$lab" restart-nfsd
  sleep 4
  "$lab" stop-nfsd
  stopped=$SECONDS
  check "fio was under way when nfsd was restarted" kill -0 "$fio"
  # By what ends a program: one that handles the signal, as a shell does, goes on waiting (F7).
  program "with the server stopped, what waits for it can be interrupted" << 'PY'
import signal, subprocess
default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
new = lambda what: a + '/of.' + what
for what, command in (('ls', ['ls', a + '/listed']), ('stat', ['stat', a + '/listed/file.1']), ('cat', ['cat', a + '/listed/file.2']),
                      ('touch', ['touch', new('touch')]), ('mkdir', ['mkdir', new('mkdir')]), ('df', ['df', a]),
                      ('write', ['cp', '/etc/passwd', a + '/listed/file.3'])):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default) as waits:
        time.sleep(0.6)
        if waits.poll() is not None:
            print(what, 'did not wait:', waits.returncode, *waits.communicate()); continue
        waits.send_signal(signal.SIGINT)
        try: waits.wait(4)
        except subprocess.TimeoutExpired:
            waits.kill()
            try: waits.wait(4); print(what, 'ends with SIGKILL only')
            except subprocess.TimeoutExpired: print(what, 'cannot be killed'); os._exit(1)
PY
  client timeout 100 ls "$a/listed" > "$work/ls.out" 2>&1 &
  listing=$!
  children+=("$listing")
  while [ $((SECONDS - stopped)) -lt "$(size 12 30)" ]; do sleep 0.5; done
  check "ls waits for the server" kill -0 "$listing"
  "$lab" start-nfsd
  status=0
  wait "$listing" || status=$?
  same "ls goes on when the server is back" "0 file.1 file.2 file.3 file.4 file.5 " "$status $(tr '\n' ' ' < "$work/ls.out")"
  check "fio was under way when nfsd was stopped" kill -0 "$fio"
  status=0
  wait "$fio" || status=$?
  same "fio in trouble: no error, nothing wrong" "0 0 0 0" "$status $(grep -oE 'err= *[0-9]+' "$work/trouble.out" | grep -oE '[0-9]+' | tr '\n' ' ' | sed 's/ $//')"
  [ "$status" = 0 ] || { cat "$work/trouble.out" "$work/trouble.err"; tail "$work/a.log"; }
  fio_verify "after the trouble" "$a" --rw=randwrite --bs=32k --size=4m
  client sh -c "rm -rf '$a'/*.0 '$a/listed' '$a'/of.*"
fi

# --- what the server refuses -----------------------------------------------------------------------------------------
# small_export NAME OPTIONS MOUNT-OPTIONS: a tmpfs at $export/NAME, exported with OPTIONS.
small_export() {
  fsid=$((${fsid:-80} + 1))
  on_server "mkdir -p '$export/$1' && mount -t tmpfs -o mode=1777${3:+,$3} tmpfs '$export/$1' &&
    exportfs -o insecure,no_subtree_check,fsid=$fsid,$2 '10.77.0.0/24:$export/$1'" || fail "no export $1"
}
if section refused; then
  small_export full rw,no_root_squash size=2m,nr_inodes=40
  small_export ro ro,no_root_squash
  small_export squash rw,root_squash
  on_server "cd '$export/ro' && echo there > file && mkdir d && ln -s file link
    cd '$export/squash' && echo secret > secret && chmod 600 secret && echo open > open && mkdir closed && chmod 755 closed && mkdir hidden && chmod 700 hidden"
  gives='
def gives(code, call, *arguments):
    try: got = call(*arguments)
    except OSError as e:
        if e.errno != code: print(errno.errorcode[code], "expected of", call.__name__, arguments[1:], "got", e)
    else: print(errno.errorcode[code], "expected of", call.__name__, arguments, "got", got)
'
  program "a full file system" << PY
import mmap
$gives
full = a + '/full'
def room():
    # nfsd lets go of what it had open a little later.
    end = time.time() + 5
    while (os.statvfs(full).f_bfree < 500 or os.statvfs(full).f_ffree < 30) and time.time() < end: time.sleep(0.05)
def whole(fd, size=4 << 20):
    for i in range(size >> 16): os.write(fd, b'x' * 65536)
for flags in os.O_SYNC, os.O_DSYNC:
    fd = os.open(full + '/f', os.O_WRONLY | os.O_CREAT | flags)
    gives(errno.ENOSPC, whole, fd)
    os.close(fd); os.unlink(full + '/f'); room()
fd = os.open(full + '/f', os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
memory = mmap.mmap(-1, 1 << 20)
def direct():
    for i in range(4): os.pwrite(fd, memory, i << 20)
gives(errno.ENOSPC, direct)
os.close(fd); os.unlink(full + '/f'); room()
# What is written behind: write(), fsync() or close() says so, and says it once.
fd = os.open(full + '/f', os.O_RDWR | os.O_CREAT)
said = []
for call in (lambda: whole(fd)), (lambda: os.fsync(fd)), (lambda: os.close(os.dup(fd))):
    try: call()
    except OSError as e: said.append(e.errno)
assert said and set(said) == {errno.ENOSPC}, said
os.fsync(fd)
before = os.pread(fd, 4096, 0)
assert before == b'x' * 4096, (before[:10], os.fstat(fd).st_size)
os.ftruncate(fd, 8192); room()
os.pwrite(fd, b'again', 0); os.fsync(fd)
assert os.pread(fd, 5, 0) == b'again'
gives(errno.ENOSPC, os.posix_fallocate, fd, 0, 8 << 20)
os.close(fd); os.unlink(full + '/f'); room()
# Pages of a mapping: msync(), fsync() or close().
fd = os.open(full + '/f', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4 << 20)
with mmap.mmap(fd, 4 << 20) as pages:
    pages[:] = b'm' * (4 << 20)
    gives(errno.ENOSPC, pages.flush)
try: os.close(fd)
except OSError as e: assert e.errno == errno.ENOSPC, e
os.unlink(full + '/f'); room()
# No inode is left.
def names():
    for i in range(100): os.close(os.open(full + '/n.%d' % i, os.O_CREAT | os.O_WRONLY))
gives(errno.ENOSPC, names)
gives(errno.ENOSPC, os.mkdir, full + '/d')
gives(errno.ENOSPC, os.symlink, 'x', full + '/l')
gives(errno.ENOSPC, os.mkfifo, full + '/p')
open(a + '/outside', 'w').close()
gives(errno.EXDEV, os.rename, a + '/outside', full + '/inside')
gives(errno.EXDEV, os.link, a + '/outside', full + '/inside')
for n in os.listdir(full): os.unlink(full + '/' + n)
room()
with open(full + '/f', 'wb') as f: f.write(b'y' * 1000)
assert open(b + '/full/f', 'rb').read() == b'y' * 1000
PY
  program "a read-only export" << PY
$gives
for top in a, b:
    ro = top + '/ro'
    assert open(ro + '/file').read() == 'there\n' and open(ro + '/link').read() == 'there\n'
    for flags in os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND:
        gives(errno.EROFS, os.open, ro + '/file', flags)
    gives(errno.EROFS, os.open, ro + '/new', os.O_CREAT | os.O_WRONLY)
    gives(errno.EROFS, os.open, ro + '/new', os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    gives(errno.EROFS, os.mkdir, ro + '/new')
    gives(errno.EROFS, os.symlink, 'x', ro + '/new')
    gives(errno.EROFS, os.link, ro + '/file', ro + '/new')
    gives(errno.EROFS, os.mkfifo, ro + '/new')
    gives(errno.EROFS, os.rename, ro + '/file', ro + '/new')
    gives(errno.EROFS, os.unlink, ro + '/file')
    gives(errno.EROFS, os.rmdir, ro + '/d')
    gives(errno.EROFS, os.chmod, ro + '/file', 0o600)
    gives(errno.EROFS, os.chown, ro + '/file', 1, 1)
    gives(errno.EROFS, os.utime, ro + '/file')
    gives(errno.EROFS, os.truncate, ro + '/file', 0)
    gives(errno.EROFS, os.setxattr, ro + '/file', 'user.x', b'1')
    gives(errno.ENOENT, os.unlink, ro + '/nothing')
    gives(errno.EEXIST, os.mkdir, ro + '/d')
    assert os.access(ro + '/file', os.R_OK)
    os.close(os.open(ro + '/file', os.O_RDONLY | os.O_CREAT))
    gives(errno.EROFS, os.rename, ro + '/file', top + '/moved')
    gives(errno.EXDEV, os.link, ro + '/file', top + '/linked')
PY
  program "root squash" << PY
$gives
for top in a, b:
    to = top + '/squash'
    gives(errno.EACCES, os.open, to + '/secret', os.O_RDONLY)
    gives(errno.EACCES, os.open, to + '/open', os.O_WRONLY)
    gives(errno.EACCES, os.open, to + '/closed/new', os.O_WRONLY | os.O_CREAT)
    gives(errno.EACCES, os.mkdir, to + '/closed/new')
    gives(errno.EACCES, os.listdir, to + '/hidden')
    gives(errno.EACCES, os.stat, to + '/hidden/x')
    gives(errno.EPERM, os.chmod, to + '/open', 0o666)
    gives(errno.EPERM, os.chown, to + '/open', 1, 1)
    gives(errno.EACCES, os.truncate, to + '/open', 0)
    gives(errno.EACCES, os.utime, to + '/open')
    gives(errno.EPERM, os.utime, to + '/open', (1, 1))
    gives(errno.EPERM, os.unlink, to + '/open')  # of a sticky directory
    assert open(to + '/open').read() == 'open\n'
    with open(to + '/mine', 'w') as f: f.write('x')
    assert os.stat(to + '/mine').st_uid == 65534, os.stat(to + '/mine')
    os.chmod(to + '/mine', 0o400)
    assert open(to + '/mine').read() == 'x'
    # Its mode forbids it: whoever has it open may write all the same.
    fd = os.open(to + '/readonly', os.O_CREAT | os.O_WRONLY, 0o444); os.write(fd, b'x' * 9000); os.close(fd)
    assert os.stat(to + '/readonly').st_size == 9000
    for n in 'mine', 'readonly': os.unlink(to + '/' + n)
PY
  start_mount r / ro
  # shellcheck disable=SC2034  # program()'s
  x=$work/r$remote program "a mount that is read-only" << PY
$gives
gives(errno.EROFS, os.mkdir, x + '/new')
gives(errno.EROFS, os.open, x + '/ro/file', os.O_WRONLY)
assert open(x + '/ro/file').read() == 'there\n'
PY
  check "umount" client timeout 20 umount "$work/r"
  ended r "umount"
  program "names" << PY
$gives
one = a + '/one'
open(one, 'w').close()
for n in 'n' * 256, 'n' * 1000, 'n' * 2000, '\u00e4' * 128:
    for call in ((os.open, a + '/' + n, os.O_CREAT | os.O_WRONLY), (os.open, a + '/' + n, os.O_RDONLY), (os.stat, a + '/' + n), (os.mkdir, a + '/' + n),
                 (os.unlink, a + '/' + n), (os.rmdir, a + '/' + n), (os.symlink, 'x', a + '/' + n), (os.mkfifo, a + '/' + n),
                 (os.link, one, a + '/' + n), (os.rename, one, a + '/' + n), (os.rename, a + '/' + n, a + '/other'), (os.listdir, a + '/' + n)):
        gives(errno.ENAMETOOLONG, *call)
os.mkdir(a + '/names')
names = {b'n' * 255, '\u00e4'.encode() * 127, b'\xff\xfe', b' ', b'a\nb', b'back\\\\slash', b'*', b'-rf', b'...', b'a' * 254 + b'.'}
top = (a + '/names/').encode()
for n in names:
    with open(top + n, 'wb') as f: f.write(n)
assert set(os.listdir(top)) == names, os.listdir(top)
for n in os.listdir((b + '/names/').encode()): assert open((b + '/names/').encode() + n, 'rb').read() == n
for n in names: os.unlink(top + n)
os.rmdir(a + '/names')
# A symbolic link's text: as long as the kernel lets it be.
os.symlink('t' * 4095, a + '/long')
assert os.readlink(a + '/long') == 't' * 4095 and os.readlink(b + '/long') == 't' * 4095
gives(errno.ENAMETOOLONG, os.symlink, 't' * 4096, a + '/longer')
os.unlink(a + '/long')
PY
  # Removed and replaced on the server, with all that is known of it believed here.
  on_server "cd '$export' && mkdir -p stale/d/sub && cd stale && for i in 1 2 3 4 5; do echo old > f.\$i; echo old > d/f.\$i; done"
  cat > "$work/stale.py" << PY
import os, sys, time, errno, mmap
a = '$a/stale'
$gives
for i in 1, 2, 3, 4, 5: os.stat('%s/f.%d' % (a, i)); os.stat('%s/d/f.%d' % (a, i))
held = os.open(a + '/f.1', os.O_RDWR | os.O_DIRECT)
directory = os.open(a + '/d', os.O_RDONLY)
sub = os.open(a + '/d/sub', os.O_RDONLY)
os.listdir(sub)
print('known', flush=True); sys.stdin.readline()
gives(errno.ENOENT, os.open, a + '/f.2', os.O_RDONLY)
gives(errno.ENOENT, os.open, a + '/f.2', os.O_WRONLY)
gives(errno.ENOENT, os.truncate, a + '/f.2', 0)
gives(errno.ENOENT, os.unlink, a + '/f.3')
gives(errno.ENOENT, os.rename, a + '/f.3', a + '/f.30')
gives(errno.ENOENT, os.link, a + '/f.3', a + '/f.30')
if open(a + '/f.4').read() != 'new\n': print('f.4 is the old one')
os.close(os.open(a + '/f.5', os.O_WRONLY | os.O_CREAT))
# The directory as a descriptor: ESTALE, since there is nothing to look it up by.
for call in ((lambda: os.open('f.1', os.O_RDONLY, dir_fd=directory)), (lambda: os.mkdir('new', dir_fd=directory)),
             (lambda: os.open('new', os.O_WRONLY | os.O_CREAT, dir_fd=directory)), (lambda: os.unlink('f.2', dir_fd=directory))):
    try: got = call()
    except OSError as e:
        if e.errno not in (errno.ESTALE, errno.ENOENT): print('in a directory that is gone:', e)
    else: print('in a directory that is gone:', got)
# The kernel asks again by the whole path where the server says ESTALE, but for mkdir() and the like; and OPENDIR is no
# request to the server.
for call in os.mkdir, os.listdir:
    try: got = call(a + ('/d/new' if call == os.mkdir else '/d'))
    except OSError as e:
        if e.errno not in (errno.ESTALE, errno.ENOENT): print('of a directory that is gone:', e)
    else: print('of a directory that is gone:', got)
gives(errno.ENOENT, os.stat, a + '/d/f.1')
gives(errno.ENOENT, os.mkdir, a + '/d/new')
gives(errno.ENOENT, os.listdir, a + '/d')
# nfsd keeps what it has open: alive, or ESTALE.
page = mmap.mmap(-1, 4096)
for call in (lambda: os.preadv(held, [page], 0)), (lambda: os.pwrite(held, page, 0)), (lambda: os.fsync(held)):
    try: call()
    except OSError as e:
        if e.errno != errno.ESTALE: print('of a file that is gone:', e)
time.sleep(4)
for path in '/f.2', '/f.3', '/d', '/d/f.4': gives(errno.ENOENT, os.stat, a + path)
# Its attributes may be believed for acdirmin, but not once the server has said that it is gone.
gives(errno.ESTALE, os.listdir, sub)
gives(errno.ESTALE, os.fstat, sub)
PY
  mkfifo "$work/stale.in"
  client timeout 60 python3 "$work/stale.py" < "$work/stale.in" > "$work/stale.out" 2>&1 &
  stale=$!
  children+=("$stale")
  exec 7> "$work/stale.in"
  eventually 20 grep -q known "$work/stale.out" || fail "stale: it does not begin"
  on_server "cd '$export/stale' && rm -rf f.1 f.2 f.3 f.5 d && echo new > f.new && mv f.new f.4"
  echo >&7
  exec 7>&-
  status=0
  wait "$stale" || status=$?
  same "what is gone on the server" "0 known" "$status $(cat "$work/stale.out")"
  for small in full ro squash; do on_server "exportfs -u '10.77.0.0/24:$export/$small'; umount -l '$export/$small'"; done
fi

# --- many names ------------------------------------------------------------------------------------------------------
names=$(size 50000 1000000)
if [[ $wanted == *" names "* || $wanted == *" memory "* ]]; then
  # On XFS, whose cookies stay what they are when names come and go.
  on_server "mkdir -p '$xfs_export/names' && cd '$xfs_export/names' && python3 -c '
import os
for i in range($names): os.close(os.open(\"name.%07d\" % i, os.O_CREAT | os.O_WRONLY))'" || fail "no large directory"
  say "$names names, at $SECONDS s"
fi
if section names; then
  echo 5 > "/proc/${daemon[x]}/clear_refs" # what it had at most counts from here
  before=$(memory_of VmRSS x)
  program "each of $names names once" 1500 << PY
import ctypes, random
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir64.restype = ctypes.c_void_p
for call in libc.readdir64, libc.telldir, libc.rewinddir, libc.closedir: call.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
names, top = $names, x + '/names'
def name_at(directory):
    ctypes.set_errno(0)
    entry = libc.readdir64(directory)
    if entry is None:
        assert ctypes.get_errno() == 0, os.strerror(ctypes.get_errno())
        return None
    return ctypes.string_at(entry + 19).decode()
def rest(directory):
    while (name := name_at(directory)) is not None:
        if name not in ('.', '..'): yield name
expected = {'name.%07d' % i for i in range(names)}
def compare(what, found, least=expected, most=expected):
    once = set(found)
    if len(once) != len(found): print(what, 'has', len(found) - len(once), 'names twice')
    if least - once: print(what, 'lacks', len(least - once), 'names', sorted(least - once)[:3])
    if once - most: print(what, 'has', len(once - most), 'too many', sorted(once - most)[:3])
directory = libc.opendir(top.encode())
places, found = [], []
while True:
    if len(found) % (names // 50) == 7: places.append((libc.telldir(directory), len(found)))
    name = name_at(directory)
    if name is None: break
    found.append(name)
compare('readdir()', [n for n in found if n not in ('.', '..')])
random.seed(3); random.shuffle(places)
for place, at in places:
    libc.seekdir(directory, place)
    here = [name_at(directory) for i in range(20)]
    if here != (found + [None] * 20)[at:at + 20]: print('seekdir() to', at, 'gives', here[:3], 'not', found[at:at + 3])
libc.rewinddir(directory)
compare('rewinddir()', list(rest(directory)))
# From the middle to the end.
place, at = places[0]
libc.seekdir(directory, place)
compare('seekdir()', list(rest(directory)), set(found[at:]) - {'.', '..'}, set(found[at:]) - {'.', '..'})
# Names go and come while it is listed: those that stay are there once.
libc.rewinddir(directory)
listed = [name_at(directory) for i in range(names // 2)]
gone = set(random.sample(sorted(expected), 1000)) | set(listed[-50:]) - {'.', '..'}
came = {'came.%d' % i for i in range(300)}
for name in gone: os.unlink(top + '/' + name)
for name in came: open(top + '/' + name, 'w').close()
listed += rest(directory)
libc.closedir(directory)
compare('with names removed and made meanwhile', [n for n in listed if n not in ('.', '..')], expected - gone, expected | came)
compare('after that', os.listdir(top), (expected - gone) | came, (expected - gone) | came)
for name in came: os.unlink(top + '/' + name)
for name in gone: open(top + '/' + name, 'w').close()
PY
  most=$(memory_of VmHWM x)
  check "listed in bounded memory: $most kB at most, $before kB before" test "$most" -lt $((150 * 1024))
  forget_all
fi

# --- memory ----------------------------------------------------------------------------------------------------------
if section memory; then
  for who in a x; do echo 5 > "/proc/${daemon[$who]}/clear_refs"; done
  megabytes=$(size 192 1024)
  for there in a x; do
    path=$work/$there$remote/large
    check "$megabytes MiB written to $there" client timeout 600 dd if=/dev/zero of="$path" bs=1M count="$megabytes" conv=fsync
    check "… and read" client timeout 600 dd if="$path" of=/dev/null bs=1M iflag=nocache
    check "… and read with O_DIRECT" client timeout 600 dd if="$path" of=/dev/null bs=4M iflag=direct
    client rm -f "$path"
    most_memory "$there"
    check "$there: at most 150 MiB for $megabytes MiB" test "$(memory_of VmHWM "$there")" -lt $((150 * 1024))
  done
  # By a daemon of their own: what a heap has been through adds to it.
  start_mount f /
  check "four writers" client timeout 600 fio --name=four --directory="$work/f$remote" --rw=write --bs=256k --size="$(size 64m 256m)" \
    --numjobs=4 --fallocate=none --thread --output="$work/fio.out"
  client sh -c "rm -f '$work/f$remote'/four.*"
  most_memory f
  # Their unstable data has one bound; 200 MiB and more before it had.
  check "four writers: at most 170 MiB" test "$(memory_of VmHWM f)" -lt $((170 * 1024))
  check "umount of f" client timeout 60 umount "$work/f"
  ended f "umount of f"
  check "small writes everywhere" client timeout 600 fio --name=small --directory="$x" --rw=randwrite --bs=4k --size="$(size 24m 128m)" \
    --fallocate=none --output="$work/fio.out"
  client rm -f "$x/small.0.0"
  most_memory x
  for there in a x; do check "$there: back under 30 MiB when nothing is going on" eventually 30 small "$there" 30; done
  inodes=$(size 20000 100000)
  forget_all
  before=$(memory_of VmRSS x)
  program "$inodes inodes are looked up" 900 << PY
for i in range($inodes): os.stat(x + '/names/name.%07d' % i)
PY
  most_memory x
  check "$inodes inodes: at most 150 MiB" test "$(memory_of VmRSS x)" -lt $((150 * 1024))
  with=$(memory_of VmRSS x)
  # shellcheck disable=SC2317
  small_again() { forget_all; small x 60 && [ "$(memory_of VmRSS x)" -lt $((before + (with - before) / 3)) ]; }
  check "$before kB before, $with kB with them; back, and under 60 MiB, when they are forgotten" eventually 30 small_again
  most_memory x
fi

for name in a b x; do same "$name: its log says nothing of a bug" "" "$(grep -iE 'protocol|bug|assert|terminate|sanitizer' "$work/$name.log" | head -n 5)"; done
for name in a b x; do
  check "umount of $name" client timeout 60 umount "$work/$name"
  ended "$name" "umount of $name"
done
on_server "rm -rf '$xfs_export'"
