"""What a program may do with descriptors (preload_work.sh): the same with the kernel alone and through a ring."""
import array
import fcntl
import mmap
import os
import resource
import socket
import subprocess
import sys
import threading

BLOCK = 30000
data = bytes((i * 7 + i // 251) % 256 for i in range(10 * BLOCK))


def show(*words):
    print(*words, flush=True)


def at(fd):
    return os.lseek(fd, 0, os.SEEK_CUR)


def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work() or 0)
        except BaseException as error:  # the parent shows that it failed
            print("child:", error, flush=True)
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fresh(name="p", flags=os.O_RDWR | os.O_CREAT | os.O_TRUNC):
    fd = os.open(name, flags, 0o644)
    for i in range(10):
        os.write(fd, data[i * BLOCK:(i + 1) * BLOCK])
    return fd


fd = fresh()
show("written", at(fd), os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_END))
os.lseek(fd, 0, os.SEEK_SET)
for i in range(4):
    assert os.read(fd, BLOCK) == data[i * BLOCK:(i + 1) * BLOCK]
show("read", at(fd))

other = os.dup(fd)
assert os.read(other, BLOCK) == data[4 * BLOCK:5 * BLOCK]
show("dup shares the offset", at(fd), at(other))
os.dup2(other, 200)
assert os.read(200, BLOCK) == data[5 * BLOCK:6 * BLOCK]
show("dup2", at(fd))
os.close(other)
os.close(200)


def in_child():
    assert os.read(fd, BLOCK) == data[6 * BLOCK:7 * BLOCK]
    assert os.pread(fd, BLOCK, BLOCK) == data[BLOCK:2 * BLOCK]
    os.pwrite(fd, b"child" * 1000, 0)


show("fork", child(in_child), at(fd), os.pread(fd, 10, 0))
os.pwrite(fd, data[:BLOCK], 0)

reader = """
import os
fd = int(os.environ["FD"])
for i in range(3):
    piece = os.read(fd, 10000)
print("exec", len(piece), os.lseek(fd, 0, 1), piece[:4].hex(), flush=True)
"""
os.set_inheritable(fd, True)
os.lseek(fd, 123, os.SEEK_SET)
os.environ["FD"] = str(fd)
show("exec", child(lambda: os.execv(sys.executable, [sys.executable, "-c", reader])), at(fd))
show("spawn", os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", reader], os.environ), 0)[1]), at(fd))

left, right = socket.socketpair()
socket.send_fds(left, [b"x"], [fd])
_, (passed,), _, _ = socket.recv_fds(right, 1, 1)
os.lseek(passed, 5 * BLOCK, os.SEEK_SET)
for i in range(5, 9):
    assert os.read(passed, BLOCK) == data[i * BLOCK:(i + 1) * BLOCK]
show("passed on", at(fd), at(passed))
os.close(passed)

# A child that closes all that it knows nothing of, between vfork and exec.
os.lseek(fd, 0, os.SEEK_SET)
for i in range(4):
    assert os.read(fd, BLOCK) == data[i * BLOCK:(i + 1) * BLOCK]
    show("subprocess", subprocess.run(["true"], close_fds=True, check=True).returncode, at(fd))

# A number that means another file by now.
numbers = []
for name in "xyz":
    with open(name, "wb") as out:
        out.write(name.encode() * 50000)
for name in "xyz":
    one = os.open(name, os.O_RDONLY)
    numbers.append(one)
    assert all(os.pread(one, 9000, i * 9000) == name.encode() * 9000 for i in range(5))
    os.close(one)
show("numbers used again", len(set(numbers)))
for name in "xyz":
    with os.fdopen(os.open(name, os.O_RDONLY), "rb", buffering=0) as one:
        show(name, all(one.read(9000) == name.encode() * 9000 for i in range(5)), len(one.read(9000)), one.read(1))
one, two = os.open("x", os.O_RDONLY), os.open("y", os.O_RDONLY)
for i in range(5):
    os.pread(one, 100, 0), os.pread(two, 100, 0)
os.dup2(two, one)
show("dup2 over it", os.pread(one, 4, 0), os.pread(one, 4, 49998))
os.closerange(one, two + 1)
for number in (one, two):
    try:
        os.read(number, 10)
    except OSError as error:
        show("closed", error.errno)

# Ends, holes, cuts, errors.
os.lseek(fd, 10 * BLOCK - 100, os.SEEK_SET)
show("end", len(os.read(fd, BLOCK)), os.read(fd, BLOCK), at(fd))
os.ftruncate(fd, 5000)
show("cut", len(os.pread(fd, BLOCK, 0)), os.fstat(fd).st_size, os.read(fd, 10), at(fd))
os.lseek(fd, 100000, os.SEEK_SET)
os.write(fd, b"behind a hole")
show("hole", os.fstat(fd).st_size, os.pread(fd, 30, 99990), at(fd))
reading, writing = os.open("p", os.O_RDONLY), os.open("p", os.O_WRONLY)
for i in range(4):
    os.pread(reading, 10, 0), os.pwrite(writing, data[:10], 0)
for number, call in ((reading, lambda n: os.write(n, b"x")), (writing, lambda n: os.read(n, 1)), (reading, lambda n: os.pread(n, 1, -1)), (reading, lambda n: os.preadv(n, [], 0))):
    try:
        show("gave", call(number))
    except OSError as error:
        show("errno", error.errno, at(number))

pieces = [bytearray(n) for n in (1, 5000, 0, 70000, 3)]
show("readv", os.preadv(reading, pieces, 10), [bytes(p[:3]).hex() for p in pieces])
os.lseek(writing, 0, os.SEEK_SET)
show("writev", os.writev(writing, [b"a" * 3, b"", b"b" * 60000, b"c"]), at(writing), os.pwritev(writing, [b"dd", b"e"], 70000))
show(os.pread(reading, 5, 59999), os.fstat(reading).st_size)
large = os.open("large", os.O_RDWR | os.O_CREAT, 0o600)
for i in range(3):
    show("large", os.write(large, data * 20), at(large))
show(os.pread(large, len(data) * 60, 0) == data * 60, os.pread(large, 7_000_000, 12_345_678) == (data * 60)[12_345_678:19_345_678])

# Appending, also after F_SETFL has said so.
appending = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
second = os.open("log", os.O_WRONLY | os.O_APPEND)
for i in range(6):
    os.write(appending, b"one %d\n" % i), os.write(second, b"two %d\n" % i)
show("append", at(appending), at(second), os.pwrite(appending, b"also at the end\n", 0), at(appending))
plain = os.open("log", os.O_WRONLY)
for i in range(4):
    os.write(plain, b"ONE")
fcntl.fcntl(plain, fcntl.F_SETFL, os.O_APPEND)
os.write(plain, b"behind\n")
fcntl.fcntl(plain, fcntl.F_SETFL, 0)
os.pwrite(plain, b"X", 1)
show("F_SETFL", at(plain), open("log", "rb").read())

# The open file's flag counts, by whichever descriptor and process it was set. Large pieces stay in one piece.
twin = os.dup(plain)
for i in range(4):
    os.pwrite(plain, b"Y", 2)
fcntl.fcntl(twin, fcntl.F_SETFL, os.O_APPEND)
os.write(plain, b"behind, by the twin\n"), os.pwrite(plain, b"and this\n", 0)
fcntl.fcntl(twin, fcntl.F_SETFL, 0)
os.pwrite(plain, b"Z", 3)
child(lambda: fcntl.fcntl(plain, fcntl.F_SETFL, os.O_APPEND) and None)
os.write(plain, b"behind, by the child\n")
child(lambda: fcntl.fcntl(plain, fcntl.F_SETFL, 0) and None)
os.pwrite(plain, b"W", 4)
show("F_SETFL elsewhere", open("log", "rb").read())
os.close(twin)
pieces_log = os.open("pieces", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
for i in range(4):
    os.write(pieces_log, b"head")


def append_pieces(letter):
    for i in range(3):
        assert os.write(pieces_log, letter * (2 << 20)) == 2 << 20


threads = [threading.Thread(target=append_pieces, args=(letter,)) for letter in (b"a", b"b")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
whole = open("pieces", "rb").read()
show("large pieces", len(whole), all(len(set(whole[i:i + (2 << 20)])) == 1 for i in range(16, len(whole), 2 << 20)))

# Mappings beside it.
mapped_fd = os.open("mapped", os.O_RDWR | os.O_CREAT, 0o600)
os.write(mapped_fd, b" " * 20000)
with mmap.mmap(mapped_fd, 20000) as mapped:
    for i in range(5):
        mapped[5000:5005] = b"map%02d" % i
        seen = os.pread(mapped_fd, 5, 5000)
        os.pwrite(mapped_fd, b"put%02d" % i, 9000)
        show("mapping", seen, mapped[9000:9005])

# Threads that read one open file take turns at its parts; a limit is a limit.
shared = os.open("large", os.O_RDONLY)
total, seen = len(data) * 60, []


def take():
    while piece := os.read(shared, 65536):
        seen.append(piece)


threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
show("threads", sum(map(len, seen)) == total, sum(map(sum, seen)) == sum(data) * 60, at(shared) == total)
limited = os.open("limited", os.O_RDWR | os.O_CREAT, 0o600)
for i in range(4):
    os.write(limited, data[:1000])


def over_limit():
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    print("limit", os.write(limited, data[:3000]), at(limited), flush=True)
    try:
        os.write(limited, b"x")
    except OSError as error:
        print("limit", error.errno, flush=True)


show(child(over_limit), os.fstat(limited).st_size)
os.fsync(limited)
show("copied", os.copy_file_range(reading, limited, 1000, 0, 0), os.pread(limited, 5, 0) == os.pread(reading, 5, 0))

# A ring's socket (there is none without, nor another number as high) becomes another file beneath it: what goes on, goes on
# through the kernel, and is done once.
attached = [fresh("given%d" % i) for i in range(4)] + [os.open("given.log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)]
for i in range(2):
    for one in attached:
        for j in range(4):
            os.write(one, data[:BLOCK])
    for number in [int(name) for name in os.listdir("/proc/self/fd") if int(name) >= 700]:
        os.dup2(reading, number)
    show("given away", os.write(attached[0], data[:BLOCK]), os.writev(attached[1], [data[:100], data[:BLOCK]]),
         os.pwrite(attached[2], data[:BLOCK], 5), len(os.pread(attached[3], BLOCK, 5)), os.write(attached[4], data[:BLOCK]))
    show(list(map(at, attached[:4])), [os.fstat(one).st_size for one in attached])

numbers = array.array("i", [fd, reading, writing, large, appending, second, plain, mapped_fd, shared, limited, pieces_log, *attached])
for number in numbers:
    os.close(number)
