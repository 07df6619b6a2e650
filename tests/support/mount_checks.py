#!/usr/bin/env python3
"""Looks at two mounts of one directory of a server as a program does: mount_checks.py A B SERVER [own-locks]

A and B are the mounts, SERVER is the directory itself, by the server's own path. Prints "ok: ..." or "FAILED ..." for
each check, and "end" behind the last. Exit status: 0, 1 (some check failed). One process for all of them, since a
process is dear where this also runs, in User-Mode Linux. To be run by somebody who is not root; in SERVER there is
a file `secret` that root alone may read. own-locks: each mount has locks of its own, which do not exclude the other.
"""
import errno
import fcntl
import hashlib
import mmap
import os
import select
import signal
import stat
import sys
import threading
import time
import traceback

a, b, server = sys.argv[1:4]
own_locks = "own-locks" in sys.argv[4:]
MiB = 1 << 20
checks = []


def check(function):
    checks.append(function)
    return function


def check_of_locks(function):
    return function if own_locks else check(function)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def same(what, expected, found):
    if expected != found:
        raise AssertionError(f"{what}: expected {str(expected)[:200]}, found {str(found)[:200]}")


def gives(code, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        same(f"{call.__name__}{arguments}", errno.errorcode[code], errno.errorcode[error.errno])
    else:
        raise AssertionError(f"{call.__name__}{arguments}: no {errno.errorcode[code]}")


def digest(data):
    return hashlib.sha256(data).hexdigest()


@check
def copies_in_both_directions():
    for size in 0, 1, 4095, 4097, MiB + 1, 8 * MiB + 13:
        data = os.urandom(size)
        write(f"{a}/put.{size}", data)
        same(f"{size} bytes on the server", digest(data), digest(read(f"{server}/put.{size}")))
        same(f"{size} bytes by the other mount", digest(data), digest(read(f"{b}/put.{size}")))
        data = os.urandom(size)
        write(f"{server}/get.{size}", data)
        same(f"{size} bytes of the server's", digest(data), digest(read(f"{b}/get.{size}")))


@check
def a_listing():
    os.mkdir(f"{server}/many")
    for i in range(600):
        write(f"{server}/many/an-entry-of-many-{i}", b"x" * i)
    expected = sorted((e.name, e.inode(), e.stat().st_size) for e in os.scandir(f"{server}/many"))
    for one in a, b:
        same(one, expected, sorted((e.name, e.inode(), e.stat().st_size) for e in os.scandir(f"{one}/many")))


@check
def objects():
    os.mkdir(f"{a}/d", 0o750)
    os.mkdir(f"{a}/d/sub")
    write(f"{a}/d/one", b"one")
    os.link(f"{a}/d/one", f"{a}/d/two")
    os.symlink("../d/one", f"{b}/d/link")
    os.mkfifo(f"{a}/d/fifo")
    os.chmod(f"{a}/d/one", 0o640)
    os.utime(f"{a}/d/one", ns=(10**18 + 1, 10**18 + 123456789))
    there = os.stat(f"{server}/d/one")
    same("mode, links, owner, time", (0o640, 2, os.getuid(), os.getgid(), 10**18 + 123456789),
         (stat.S_IMODE(there.st_mode), there.st_nlink, there.st_uid, there.st_gid, there.st_mtime_ns))
    same("a link", ("../d/one", b"one"), (os.readlink(f"{server}/d/link"), read(f"{b}/d/link")))
    same("a FIFO", True, stat.S_ISFIFO(os.stat(f"{server}/d/fifo").st_mode))
    os.rename(f"{a}/d/two", f"{a}/d/sub/three")
    same("renamed", b"one", read(f"{server}/d/sub/three"))
    gives(errno.ENOTEMPTY, os.rmdir, f"{a}/d/sub")
    os.unlink(f"{b}/d/sub/three")
    os.rmdir(f"{b}/d/sub")
    same("what is left", ["fifo", "link", "one"], sorted(os.listdir(f"{server}/d")))


@check
def many_made_and_removed():
    names = [f"made.{i}" for i in range(200)]
    for name in names:
        os.close(os.open(f"{a}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    same("made", set(names), {n for n in os.listdir(server) if n.startswith("made.")})
    for name in names:
        os.rename(f"{a}/{name}", f"{a}/moved.{name}")
    for name in names:
        os.unlink(f"{a}/moved.{name}")
    same("removed", [], [n for n in os.listdir(server) if "made." in n])


@check
def errors():
    write(f"{a}/there", b"")
    gives(errno.EEXIST, os.open, f"{b}/there", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    gives(errno.EEXIST, os.mkdir, f"{a}/there")
    gives(errno.ENOENT, os.stat, f"{a}/nothing")
    gives(errno.ENOTDIR, os.stat, f"{a}/there/below")
    gives(errno.ENOTDIR, os.rmdir, f"{a}/there")
    gives(errno.EISDIR, os.unlink, f"{a}/d")
    gives(errno.ENAMETOOLONG, os.mkdir, f"{a}/" + "n" * 256)
    for one in a, b:
        gives(errno.EACCES, os.open, f"{one}/secret", os.O_RDONLY)


@check
def unlinked_while_it_is_open():
    with open(f"{a}/silly", "wb+") as file:
        file.write(b"still here")
        file.flush()
        os.unlink(f"{a}/silly")
        same("its name", False, "silly" in os.listdir(server))
        file.write(b", and more")
        file.flush()
        file.seek(0)
        same("its contents", b"still here, and more", file.read())
    end = time.monotonic() + 10
    while [n for n in os.listdir(server) if n.startswith(".nfs")] and time.monotonic() < end:
        time.sleep(0.05)
    same("left on the server", [], [n for n in os.listdir(server) if n.startswith(".nfs")])


@check
def close_to_open():
    for i in range(24):
        data = bytes([65 + i]) * ((0, 1, 4096, 5000, 100, MiB, 4096, 4096)[i % 8] + (i if i % 3 else 0))
        one, other = (a, b) if i % 5 else (b, a)
        write(f"{one}/shared", data)
        same(f"round {i}", digest(data), digest(read(f"{other}/shared")))


@check_of_locks
def written_under_a_lock_seen_under_the_next():
    one, other = (os.open(f"{m}/locked", os.O_RDWR | os.O_CREAT) for m in (a, b))
    data = b""
    for lock in fcntl.lockf, fcntl.flock:
        for i in range(20):
            file = other if i % 2 else one
            lock(file, fcntl.LOCK_EX)
            same(f"{lock.__name__}, round {i}", data, os.pread(file, 8192, 0))
            data = bytes([65 + i]) * 8192
            os.pwrite(file, data, 0)
            lock(file, fcntl.LOCK_UN)


@check_of_locks
def locks():
    for lock in fcntl.lockf, fcntl.flock:
        path = f"lock.{lock.__name__}"
        one, other = open(f"{a}/{path}", "w+"), open(f"{b}/{path}", "w+")
        lock(one, fcntl.LOCK_EX)
        gives(errno.EAGAIN, lock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        told, tell = os.pipe()
        waiter = os.fork()
        if waiter == 0:
            mine = open(f"{b}/{path}", "r+")
            os.write(tell, b"a")
            lock(mine, fcntl.LOCK_EX)
            os.write(tell, b"h")
            os._exit(0)
        same("a waiter", b"a", os.read(told, 1))
        same("it has the lock too early", [], select.select([told], [], [], 0.5)[0])
        lock(one, fcntl.LOCK_UN)
        ready = select.select([told], [], [], 20)[0]
        if not ready:
            os.kill(waiter, signal.SIGKILL)
        same("the waiter gets the lock", [told], ready)
        same("it ends", 0, os.waitpid(waiter, 0)[1])
        # FUSE's RELEASE, with which flock()'s go, is not waited for.
        end = time.monotonic() + 10
        while True:
            try:
                lock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        for file in one, other:
            file.close()


@check
def direct_io():
    memory = mmap.mmap(-1, 2 * MiB)
    data = os.urandom(2 * MiB)
    memory[:] = data
    file = os.open(f"{b}/direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    same("written", 2 * MiB, os.pwritev(file, [memory], 0))
    same("on the server", digest(data), digest(read(f"{server}/direct")))
    piece = mmap.mmap(-1, 65536)
    for offset in 0, 65536 * 7, 2 * MiB - 4096:
        got = os.preadv(file, [piece], offset)
        same(f"read at {offset}", data[offset:offset + 65536], piece[:got])
    os.close(file)


@check
def readers_at_once():
    data = os.urandom(4 * MiB)
    write(f"{server}/at-once", data)
    wrong = []

    def reader(number):
        file = os.open(f"{(a, b)[number % 2]}/at-once", os.O_RDONLY)
        for i in range(30):
            offset = (number * 7919 + i * 104729) * 4093 % len(data)
            if os.pread(file, 20000, offset) != data[offset:offset + 20000]:
                wrong.append((number, offset))
        os.close(file)

    threads = [threading.Thread(target=reader, args=(i,)) for i in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    same("wrong reads", [], wrong)


@check
def size_of_the_file_system():
    # Others may write to it in between.
    there, here = os.statvfs(server), os.statvfs(a)
    same("bytes", there.f_blocks * there.f_frsize, here.f_blocks * here.f_frsize)


def main():
    failures = 0
    for one in checks:
        name = one.__name__.replace("_", " ")
        try:
            one()
            print(f"ok: {name}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failures += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            if place.name in ("same", "gives"):
                place = traceback.extract_tb(error.__traceback__)[-2]
            print(f"FAILED {name}: line {place.lineno}: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
    print("end", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
