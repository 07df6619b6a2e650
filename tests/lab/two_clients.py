#!/usr/bin/env python3
"""Two clients that work on the same few files, and a model that knows every byte.

  two_clients.py run [options] CLIENT CLIENT      works until --seconds have passed; the first fault ends it, status 1
  two_clients.py serve PORT KEY                   a client elsewhere: works on its files as a run over TCP asks it to

CLIENT is NAME=DIRECTORY (a mount on this machine) or NAME=HOST:PORT:DIRECTORY (a mount beside a `serve`). Both
directories are one directory of one server, which must be empty.

A client is a process that does single operations: open, write, read, map, truncate, punch, copy, lock and so on. The
run chooses the operations at random, has the clients do them, and compares each answer with the model. What it holds
the clients to is close-to-open consistency, as nfsrdma-fuse(8), SEMANTICS, promises it:

 - A client is *current* on a file behind an open(2) or a lock that it was granted after the last change by the other
   one had reached the server (by close, fsync, msync or an unlock). From then on all of its descriptors and mappings
   of the file show exactly what the model has, until the other one changes the file.
 - A client that is not current is not asked for contents or sizes.
 - While both change a file at the same time they change different ranges, and each of them sees its own exactly.
   Behind their closes, a client that opens the file sees the bytes of both.
 - Behind a lock, numbers that both count up, and records that both append, are all there.

--tick: NFSv3 knows of a change by the server's clock alone, which goes by steps. Two changes within one step are one to a
client that has read the file in between.

--fixed leaves out whatever changes a file's size and keeps clients apart by whole pages: for write-back caches, which
promise no more. --kernel NAME: that client is Linux's own. An open(2) of it drops no pages while it has the file open for
writing, and it takes the change attribute behind its own write for that of its cache. So it is held to close-to-open
consistency only where it has the file neither open nor mapped and opens it for reading; otherwise it takes a lock first.
That lock goes through a descriptor that was open already, or all that could write is closed before: an open(2) beside one
that can write may bring a read delegation, and with a delegation a lock does not drop pages from before it either. It
also writes a whole page where it has that page and a part of it was changed, so the two keep apart by whole pages; and
its open(2) goes to the file that it last saw under a name, so no file is replaced. It uses no O_DIRECT, which does not
see what was stored in a mapping, and is refused together with O_APPEND.
"""
import argparse
import collections
import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import struct
import sys
import time

PAGE = 4096
FILES = 4
FIXED_SIZE = 40 * PAGE
LARGEST = 3 << 20
DEADLINE = 120
KEEP_SIZE, PUNCH_HOLE = 1, 2
UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class Ring:
    """A ring of libnfsrdma-ring, for one request at a time."""

    class File(ctypes.Structure):
        _fields_ = [('number', ctypes.c_uint32), ('flags', ctypes.c_uint32)]

    class Request(ctypes.Structure):
        _fields_ = [('operation', ctypes.c_int), ('file', ctypes.c_void_p), ('data', ctypes.c_void_p),
                    ('length', ctypes.c_size_t), ('offset', ctypes.c_uint64), ('flags', ctypes.c_uint),
                    ('tag', ctypes.c_uint64)]

    READ, WRITE, SYNC = 1, 2, 3
    MOST = 1 << 20

    def __init__(self, library, fd):
        self.calls = ctypes.CDLL(library)
        self.calls.nfsrdma_ring_memory.restype = ctypes.c_void_p
        self.calls.nfsrdma_ring_run.restype = ctypes.c_ssize_t
        self.ring = ctypes.c_void_p()
        self.check(self.calls.nfsrdma_ring_open(fd, None, ctypes.byref(self.ring)))
        self.memory = self.calls.nfsrdma_ring_memory(self.ring, None)

    @staticmethod
    def check(result):
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def attach(self, fd):
        file = self.File()
        self.check(self.calls.nfsrdma_ring_attach(self.ring, fd, ctypes.byref(file)))
        return file

    def run(self, operation, file, length=0, offset=0):
        request = self.Request(operation, ctypes.addressof(file), self.memory, length, offset, 0, 0)
        where = ctypes.c_uint64()
        return self.check(self.calls.nfsrdma_ring_run(self.ring, ctypes.byref(request), ctypes.byref(where))), where.value

    def read(self, file, length, offset):
        out = b''
        while len(out) < length:
            count, _ = self.run(self.READ, file, min(length - len(out), self.MOST), offset + len(out))
            if count == 0:
                break
            out += ctypes.string_at(self.memory, count)
        return out

    def write(self, file, data, offset):
        for at in range(0, len(data), self.MOST):
            piece = data[at:at + self.MOST]
            ctypes.memmove(self.memory, piece, len(piece))
            self.run(self.WRITE, file, len(piece), offset + at)


class Hands:
    """The operations of a client. Descriptors and mappings go by names that the run gives them."""

    def __init__(self, directory, library):
        self.directory, self.library = directory, library
        self.fds, self.maps, self.attached = {}, {}, {}
        self.ring = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def open(self, fd, name, flags):
        self.fds[fd] = os.open(self.path(name), flags, 0o666)

    def close(self, fd):
        self.attached.pop(fd, None)
        os.close(self.fds.pop(fd))

    def write(self, fd, data):
        at = 0
        while at < len(data):
            at += os.write(self.fds[fd], data[at:])

    def pwrite(self, fd, data, offset):
        at = 0
        while at < len(data):
            at += os.pwrite(self.fds[fd], data[at:], offset + at)

    def pread(self, fd, length, offset):
        out = b''
        while len(out) < length:
            piece = os.pread(self.fds[fd], length - len(out), offset + len(out))
            if not piece:
                break
            out += piece
        return out

    def ring_file(self, fd):
        if self.ring is None:
            self.ring = Ring(self.library, self.fds[fd])
        if fd not in self.attached:
            self.attached[fd] = self.ring.attach(self.fds[fd])
        return self.attached[fd]

    def ring_read(self, fd, length, offset):
        file = self.ring_file(fd)
        return self.ring.read(file, length, offset)

    def ring_write(self, fd, data, offset):
        file = self.ring_file(fd)
        self.ring.write(file, data, offset)

    def map(self, name, fd, length):
        self.maps[name] = mmap.mmap(self.fds[fd], length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    def unmap(self, name):
        self.maps.pop(name).close()

    def load(self, name, offset, length):
        return self.maps[name][offset:offset + length]

    def store(self, name, offset, data):
        self.maps[name][offset:offset + len(data)] = data

    def msync(self, name):
        self.maps[name].flush()

    def truncate(self, fd, size):
        os.ftruncate(self.fds[fd], size)

    def allocate(self, fd, mode, offset, length):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.fallocate(self.fds[fd], mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def seek(self, fd, offset, whence):
        try:
            return os.lseek(self.fds[fd], offset, whence)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise

    def copy(self, source, target, count, source_offset, target_offset):
        done = 0
        while done < count:
            piece = os.copy_file_range(self.fds[source], self.fds[target], count - done, source_offset + done,
                                       target_offset + done)
            if piece == 0:
                break
            done += piece
        return done

    def size(self, fd):
        return os.fstat(self.fds[fd]).st_size

    def fsync(self, fd):
        os.fsync(self.fds[fd])

    def fdatasync(self, fd):
        os.fdatasync(self.fds[fd])

    def lock(self, fd, kind, start=0, length=0):
        command = fcntl.F_OFD_SETLKW if kind != fcntl.F_UNLCK else fcntl.F_OFD_SETLK
        fcntl.fcntl(self.fds[fd], command, struct.pack('hhqqi4x', kind, os.SEEK_SET, start, length, 0))

    def rename(self, old, new):
        os.rename(self.path(old), self.path(new))

    def count_up(self, name, times):
        """Adds 1 to the number in the file, each time under a lock of its own."""
        fd = os.open(self.path(name), os.O_RDWR)
        self.fds['count'] = fd
        try:
            for _ in range(times):
                self.lock('count', fcntl.F_WRLCK)
                number = int(os.pread(fd, 20, 0) or b'0')
                os.pwrite(fd, b'%020d' % (number + 1), 0)
                self.lock('count', fcntl.F_UNLCK)
        finally:
            os.close(self.fds.pop('count'))

    def append_records(self, name, records, synced):
        """Appends the records, each under a lock of its own."""
        fd = os.open(self.path(name), os.O_WRONLY | os.O_APPEND)
        self.fds['records'] = fd
        try:
            for record in records:
                self.lock('records', fcntl.F_WRLCK)
                self.write('records', record)
                if synced:
                    os.fsync(fd)
                self.lock('records', fcntl.F_UNLCK)
        finally:
            os.close(self.fds.pop('records'))

    def serve(self, connection):
        while True:
            try:
                operation, arguments = connection.recv()
            except EOFError:
                return
            try:
                connection.send(('ok', getattr(self, operation)(*arguments)))
            except OSError as error:
                connection.send(('error', error.errno))


class Fault(Exception):
    pass


class Client:
    """A client as the run sees it: what it has open, and on what files it is current."""

    def __init__(self, name, connection, is_kernel):
        self.name, self.connection, self.is_kernel = name, connection, is_kernel
        self.number = 0
        self.open = collections.defaultdict(dict)  # by file: fd -> flags
        self.maps = collections.defaultdict(dict)  # by file: mapping -> length
        self.current = set()  # files on which it is current
        self.unsynced = set()  # files that it has changed, and no fsync or close has followed
        self.asked = None

    def new_name(self, kind):
        self.number += 1
        return '%s%d' % (kind, self.number)

    def start(self, operation, *arguments):
        self.asked = operation
        self.connection.send((operation, arguments))

    def finish(self, allowed=()):
        if not self.connection.poll(DEADLINE):
            raise Fault('%s: %s has not ended within %d s' % (self.name, self.asked, DEADLINE))
        try:
            kind, value = self.connection.recv()
        except EOFError:
            raise Fault('%s: the client has died in %s' % (self.name, self.asked)) from None
        if kind == 'error':
            if value in allowed:
                return False, value
            raise Fault('%s: %s gave %s' % (self.name, self.asked, errno.errorcode.get(value, value)))
        return True, value

    def do(self, operation, *arguments):
        self.start(operation, *arguments)
        return self.finish()[1]


class Run:
    def __init__(self, options, clients):
        self.options, self.clients = options, clients
        self.random = random.Random(options.seed)
        self.files = ['f%d' % i for i in range(FILES)]
        self.data = {}
        self.history = collections.defaultdict(lambda: collections.deque(maxlen=60))
        self.covered = collections.Counter()
        self.unsupported = collections.Counter()
        self.tokens = 0
        self.counted = 0
        self.records = []
        self.cannot = set()  # (client, operation): it has said that the server or the mount has none

    # ---- small things ----

    def note(self, file, client, text):
        self.history[file].append('%9.3f %s: %s' % (time.monotonic() - self.began, client.name, text))

    def chance(self, probability):
        return self.random.random() < probability

    def fresh(self, client, offset, length):
        """Bytes that tell who wrote them, in which operation, and at what offset they belong."""
        self.tokens += 1
        unit = ('%s%d.' % (client.name, self.tokens)).encode()
        start = offset % len(unit)
        return (unit * (length // len(unit) + 2))[start:start + length]

    def length(self):
        return self.random.choice((1, 7, 100, 512, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 10000, 65536,
                                   self.random.randrange(1, 20000)) + ((1 << 20,) if self.chance(0.1) else ()))

    def place(self, file, length):
        """An offset for a change of so many bytes; in --fixed within the file."""
        size = len(self.data[file])
        if self.options.fixed:
            return self.random.randrange(max(size - length, 0) + 1)
        out = self.random.choice((0, size, max(size - 1, 0), self.random.randrange(size + 1),
                                  self.random.randrange(size + 1) // PAGE * PAGE,
                                  size + self.random.choice((1, 100, PAGE, 70000)) if self.chance(0.2) else size))
        return out if out + length <= LARGEST else self.random.randrange(size // 2 + 1)

    def put(self, file, offset, data):
        content = self.data[file]
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset:offset + len(data)] = data

    def look_past_caches(self, file):
        """The sizes that each client's descriptors show now, and what it reads with O_DIRECT through a descriptor that is
        opened now: whose fault it is, mostly."""
        wanted = bytes(self.data[file])
        for client in self.clients:
            try:
                for fd in client.open[file]:
                    yield '%s: %s has %d bytes by SEEK_END, %d by fstat' % (
                        client.name, fd, client.do('seek', fd, 0, os.SEEK_END), client.do('size', fd))
                client.do('open', 'look', file, os.O_RDONLY | os.O_DIRECT)
                found = client.do('pread', 'look', len(wanted) + PAGE, 0)
                client.do('close', 'look')
            except Fault as fault:
                yield str(fault)
                continue
            wrong = [i for i in range(max(len(found), len(wanted))) if found[i:i + 1] != wanted[i:i + 1]]
            yield '%s with O_DIRECT: %d bytes, %s' % (client.name, len(found), 'as they have to be' if not wrong else
                                                      '%d wrong, from %d to %d: %r, not %r' % (
                len(wrong), wrong[0], wrong[-1], found[wrong[0]:wrong[0] + 20], wanted[wrong[0]:wrong[0] + 20]))

    def compare(self, client, file, what, found, offset, length):
        wanted = bytes(self.data[file][offset:offset + length])
        if found == wanted:
            return
        at = next((i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), min(len(found), len(wanted)))
        raise Fault('%s: %s of %s at %d: %d bytes, not %d; they differ at %d (page offset %d): %r, not %r' % (
            client.name, what, file, offset, len(found), len(wanted), offset + at, (offset + at) % PAGE,
            found[at:at + 40], wanted[at:at + 40]))

    def changed(self, client, file):
        client.unsynced.add(file)
        for other in self.clients:
            if other is not client:
                other.current.discard(file)

    def is_able(self, client, operation):
        return (client.name, operation) not in self.cannot

    def try_to(self, client, name, operation, *arguments):
        """False: the mount or the server has no such operation."""
        client.start(operation, *arguments)
        done, value = client.finish(UNSUPPORTED)
        if not done:
            self.cannot.add((client.name, name))
            self.unsupported['%s %s: %s' % (client.name, name, errno.errorcode[value])] += 1
        return done, value

    # ---- opening and closing ----

    def open(self, client, file, flags=None):
        fd = client.new_name('d')
        if flags is None:
            flags = self.random.choices((os.O_RDWR, os.O_RDONLY, os.O_WRONLY), (6, 1, 1))[0]
            if self.chance(0.2):
                flags |= os.O_DIRECT
            if flags & os.O_ACCMODE != os.O_RDONLY and not self.options.fixed:
                if self.chance(0.25):
                    flags |= os.O_APPEND
                if self.chance(0.08):
                    flags |= os.O_TRUNC
            if client.is_kernel:
                flags &= ~os.O_DIRECT
        has_it = client.open[file] or client.maps[file] or flags & os.O_ACCMODE != os.O_RDONLY
        if client.is_kernel and has_it and file not in client.current:
            self.refresh_by_lock(client, file)
        client.do('open', fd, file, flags)
        client.open[file][fd] = flags
        client.current.add(file)
        self.note(file, client, 'open %s %s' % (fd, self.spell(flags)))
        self.covered['open ' + self.spell(flags)] += 1
        if flags & os.O_TRUNC:
            del self.data[file][:]
            self.changed(client, file)
        return fd

    def refresh_by_lock(self, client, file):
        """A client of Linux's own drops the pages that it has of the file, unless it has a delegation."""
        held = next((fd for fd, flags in client.open[file].items() if flags & os.O_ACCMODE == os.O_RDWR), None)
        fd = held or 'locked'
        if held is None:
            self.unmap_all(client, file)
            for writer in self.writers(client, file):
                self.close(client, file, writer)
            client.do('open', fd, file, os.O_RDWR)
        self.note(file, client, 'lock and unlock %s' % (held or 'a new descriptor'))
        client.do('lock', fd, fcntl.F_WRLCK)
        client.do('lock', fd, fcntl.F_UNLCK)
        if held is None:
            client.do('close', fd)

    @staticmethod
    def spell(flags):
        words = [('rdonly', 'wronly', 'rdwr')[flags & os.O_ACCMODE]]
        words += [word for word, bit in (('append', os.O_APPEND), ('direct', os.O_DIRECT), ('trunc', os.O_TRUNC),
                                         ('creat', os.O_CREAT)) if flags & bit]
        return '+'.join(words)

    def close(self, client, file, fd):
        self.note(file, client, 'close %s' % fd)
        client.do('close', fd)
        del client.open[file][fd]

    def readers(self, client, file):
        return [fd for fd, flags in client.open[file].items() if flags & os.O_ACCMODE != os.O_WRONLY]

    def writers(self, client, file):
        return [fd for fd, flags in client.open[file].items() if flags & os.O_ACCMODE != os.O_RDONLY]

    # ---- one operation of a client that is current on the file ----

    def operate(self, client, file):
        choices = [(self.read, 5), (self.size_of, 2), (self.seek, 1), (self.write, 6), (self.more_open, 1),
                   (self.map_it, 1), (self.use_map, 3), (self.sync, 1), (self.unmap, 0.5), (self.copy, 1)]
        if not self.options.fixed:
            choices += [(self.truncate, 1), (self.allocate, 1)]
        choices += [(self.punch, 1)]
        operation = self.random.choices([c[0] for c in choices], [c[1] for c in choices])[0]
        operation(client, file)

    def read(self, client, file):
        readers = self.readers(client, file)
        if not readers:
            return
        fd, size = self.random.choice(readers), len(self.data[file])
        if self.chance(0.3):
            offset, length = 0, size + 10
        else:
            offset, length = self.random.randrange(size + 1), self.length()
        ways = ['pread'] + (['ring_read'] if self.has_ring(client) else [])
        way = self.random.choice(ways)
        self.note(file, client, '%s %s %d at %d' % (way, fd, length, offset))
        self.covered['%s %s' % (way, self.spell(client.open[file][fd]))] += 1
        self.compare(client, file, way, client.do(way, fd, length, offset), offset, length)

    def has_ring(self, client):
        return bool(self.options.ring) and not client.is_kernel

    def write(self, client, file):
        writers = self.writers(client, file)
        if not writers:
            return
        fd = self.random.choice(writers)
        length = self.length()
        flags = client.open[file][fd]
        if flags & os.O_APPEND:
            if len(self.data[file]) + length > LARGEST:
                return
            offset, way = len(self.data[file]), 'write'
        else:
            offset = self.place(file, length)
            way = 'pwrite'
        if self.options.fixed:
            length = min(length, len(self.data[file]) - offset)
        if self.has_ring(client) and self.chance(0.25):
            way = 'ring_write'
        data = self.fresh(client, offset, length)
        self.note(file, client, '%s %s %d at %d (%r)' % (way, fd, length, offset, data[:12]))
        self.covered['%s %s' % (way, self.spell(flags))] += 1
        if way == 'write':
            client.do(way, fd, data)
        else:
            client.do(way, fd, data, offset)
        self.put(file, offset, data)
        self.changed(client, file)

    def size_of(self, client, file):
        fd = self.random.choice(list(client.open[file]))
        way = self.random.choice(('fstat', 'SEEK_END'))
        ask = (lambda: client.do('size', fd)) if way == 'fstat' else lambda: client.do('seek', fd, 0, os.SEEK_END)
        found = ask()
        self.covered[way] += 1
        self.note(file, client, '%s %s' % (way, fd))
        # A kernel with FUSE that believes the file to be longer may read ahead of a mapping from a page behind its end. It
        # takes the 0 bytes that it gets for an end of the file at that page, and ignores the answer to a question about
        # the size that was under way then (fuse_read_update_size()). The next question has the right answer.
        if found > len(self.data[file]) and found % PAGE == 0 and client.maps[file] and not client.is_kernel:
            self.covered['size that read-ahead of a mapping got wrong'] += 1
            found = ask()
        if found != len(self.data[file]):
            raise Fault('%s: %s of %s gives %s, not %d' % (client.name, way, file, found, len(self.data[file])))

    def seek(self, client, file):
        readers = self.readers(client, file)
        content = self.data[file]
        if not readers or not content:
            return
        fd, offset = self.random.choice(readers), self.random.randrange(len(content))
        whence = self.random.choice((os.SEEK_DATA, os.SEEK_HOLE))
        self.covered['SEEK_DATA' if whence == os.SEEK_DATA else 'SEEK_HOLE'] += 1
        self.note(file, client, 'seek %s from %d, %d' % (fd, offset, whence))
        found = client.do('seek', fd, offset, whence)
        if whence == os.SEEK_DATA:
            end = len(content) if found is None else found
            if end < offset or any(content[offset:end]):
                raise Fault('%s: SEEK_DATA of %s from %d gives %s, and there is data before' % (
                    client.name, file, offset, found))
        elif found is None or not offset <= found <= len(content):
            raise Fault('%s: SEEK_HOLE of %s from %d gives %s, the size is %d' % (
                client.name, file, offset, found, len(content)))

    def more_open(self, client, file):
        if len(client.open[file]) < 4:
            self.open(client, file)

    def map_it(self, client, file):
        usable = [fd for fd, flags in client.open[file].items()
                  if flags & os.O_ACCMODE == os.O_RDWR and not flags & os.O_DIRECT]
        if not usable or not self.data[file] or len(client.maps[file]) >= 2:
            return
        name = client.new_name('m')
        length = len(self.data[file])
        fd = self.random.choice(usable)
        self.note(file, client, 'map %s of %s, %d' % (name, fd, length))
        client.do('map', name, fd, length)
        client.maps[file][name] = length

    def use_map(self, client, file):
        if not client.maps[file]:
            return
        name, mapped = self.random.choice(list(client.maps[file].items()))
        # Bytes behind the end: SIGBUS.
        reach = min(mapped, len(self.data[file]))
        if reach == 0:
            return
        offset = self.random.randrange(reach)
        length = min(self.length(), reach - offset)
        if self.chance(0.5):
            self.note(file, client, 'load %s %d at %d' % (name, length, offset))
            self.covered['load'] += 1
            self.compare(client, file, 'load', client.do('load', name, offset, length), offset, length)
            return
        data = self.fresh(client, offset, length)
        self.note(file, client, 'store %s %d at %d (%r)' % (name, length, offset, data[:12]))
        self.covered['store'] += 1
        client.do('store', name, offset, data)
        self.put(file, offset, data)
        self.changed(client, file)
        if self.chance(0.3):
            self.note(file, client, 'msync %s' % name)
            client.do('msync', name)

    def unmap(self, client, file):
        if client.maps[file]:
            name = self.random.choice(list(client.maps[file]))
            self.note(file, client, 'unmap %s' % name)
            client.do('unmap', name)
            del client.maps[file][name]

    @staticmethod
    def unmap_all(client, file):
        for name in list(client.maps[file]):
            client.do('unmap', name)
            del client.maps[file][name]

    def sync(self, client, file):
        fd = self.random.choice(list(client.open[file]))
        way = self.random.choice(('fsync', 'fdatasync'))
        self.note(file, client, '%s %s' % (way, fd))
        client.do(way, fd)

    def truncate(self, client, file):
        writers = self.writers(client, file)
        if not writers:
            return
        size = self.random.choice((0, self.random.randrange(len(self.data[file]) + 1),
                                   len(self.data[file]) + self.random.choice((1, PAGE, 100000))))
        if size > LARGEST:
            return
        fd = self.random.choice(writers)
        self.note(file, client, 'truncate %s to %d' % (fd, size))
        self.covered['truncate'] += 1
        client.do('truncate', fd, size)
        content = self.data[file]
        if size <= len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))
        self.changed(client, file)

    def allocate(self, client, file):
        writers = self.writers(client, file)
        if not writers or not self.is_able(client, 'allocate'):
            return
        fd, length = self.random.choice(writers), self.length()
        offset = self.place(file, length)
        self.note(file, client, 'allocate %s %d at %d' % (fd, length, offset))
        if self.try_to(client, 'allocate', 'allocate', fd, 0, offset, length)[0]:
            self.covered['allocate'] += 1
            if offset + length > len(self.data[file]):
                self.data[file].extend(bytes(offset + length - len(self.data[file])))
            self.changed(client, file)

    def punch(self, client, file):
        writers = self.writers(client, file)
        size = len(self.data[file])
        if not writers or not size or not self.is_able(client, 'punch'):
            return
        fd, offset = self.random.choice(writers), self.random.randrange(size)
        length = self.length()
        self.note(file, client, 'punch %s %d at %d' % (fd, length, offset))
        if self.try_to(client, 'punch', 'allocate', fd, PUNCH_HOLE | KEEP_SIZE, offset, length)[0]:
            self.covered['punch'] += 1
            length = min(length, size - offset)
            self.data[file][offset:offset + length] = bytes(length)
            self.changed(client, file)

    def copy(self, client, file):
        """From another file on which the client is current, or from elsewhere in this one."""
        targets = [fd for fd in self.writers(client, file) if not client.open[file][fd] & os.O_APPEND]
        sources = [(name, fd) for name in sorted(client.current) for fd in self.readers(client, name)]
        if not targets or not sources or not self.is_able(client, 'copy'):
            return
        target = self.random.choice(targets)
        source_file, source = self.random.choice(sources)
        size = len(self.data[source_file])
        if size == 0:
            return
        start = self.random.randrange(size)
        count = min(self.length(), size - start)
        offset = self.place(file, count)
        if self.options.fixed:
            count = min(count, len(self.data[file]) - offset)
        if source_file == file and start < offset + count and offset < start + count:
            return
        self.note(file, client, 'copy %s %d at %d to %s at %d' % (source, count, start, target, offset))
        self.note(source_file, client, 'is copied, %s %d at %d' % (source, count, start))
        done, copied = self.try_to(client, 'copy', 'copy', source, target, count, start, offset)
        if not done:
            return
        self.covered['copy within' if source_file == file else 'copy'] += 1
        if copied != count:
            raise Fault('%s: copy of %s gave %d, not %d' % (client.name, source_file, copied, count))
        self.put(file, offset, bytes(self.data[source_file][start:start + count]))
        self.changed(client, file)

    # ---- scenes ----

    def hand_over(self, client, file, written_by=None):
        """What the client has changed reaches the server, by an fsync of any descriptor or the close of one."""
        if file not in client.unsynced:
            return
        fds = list(client.open[file])
        # What was stored in a mapping is on the server behind the close of a descriptor that is open for writing.
        if fds and (self.chance(0.5) or not self.writers(client, file)):
            fd = self.random.choice(fds)
            self.note(file, client, 'fsync %s' % fd)
            client.do('fsync', fd)
        elif fds:
            # Only what went through the descriptor itself is promised to be on the server behind its close.
            for fd in self.random.sample(fds, len(fds)):
                self.close(client, file, fd)
        else:
            fd = self.open(client, file, os.O_RDWR)
            client.do('fsync', fd)
        client.unsynced.discard(file)

    def turn_by_open(self, client, file):
        self.open(client, file)
        self.read(client, file)
        for _ in range(self.random.randrange(1, 10)):
            self.operate(client, file)
        self.hand_over(client, file)
        self.thin_out(client, file)

    def turn_by_lock(self, client, file):
        fds = [fd for fd, flags in client.open[file].items() if flags & os.O_ACCMODE == os.O_RDWR]
        if not fds:
            return self.turn_by_open(client, file)
        fd = self.random.choice(fds)
        self.note(file, client, 'lock %s' % fd)
        client.do('lock', fd, fcntl.F_WRLCK)
        client.current.add(file)
        self.covered['turn by lock'] += 1
        self.read(client, file)
        for _ in range(self.random.randrange(1, 10)):
            self.operate(client, file)
        self.note(file, client, 'unlock %s' % fd)
        if fd in client.open[file]:
            client.do('lock', fd, fcntl.F_UNLCK)
        client.unsynced.discard(file)
        self.thin_out(client, file)

    def thin_out(self, client, file):
        for fd in list(client.open[file]):
            if len(client.open[file]) > 3 or self.chance(0.3):
                self.close(client, file, fd)
        if self.chance(0.3):
            self.unmap(client, file)

    def together(self, file):
        """Both clients change the file at the same time, each its own ranges."""
        unit = PAGE
        fds = {}
        for client in self.clients:
            flags = os.O_RDWR | (os.O_DIRECT if self.chance(0.2) and not client.is_kernel else 0)
            fds[client] = self.open(client, file, flags)
        aligned = (self.options.fixed or self.options.kernel or any(client.maps[file] for client in self.clients) or
                   self.chance(0.5))
        span = self.random.choice((8, 24)) * (unit if aligned else 700)
        pieces = span // (unit if aligned else 700)
        step = span // pieces
        size = len(self.data[file])
        base = 0 if self.options.fixed else self.random.randrange(size + 1) // unit * unit
        if base + span > LARGEST:
            return
        owners = [self.random.randrange(2) for _ in range(pieces)]
        self.covered['together, pages' if aligned else 'together, bytes'] += 1
        written = []
        for piece in range(pieces):
            pair = []
            for number, client in enumerate(self.clients):
                mine = [i for i in range(pieces) if owners[i] == number]
                if not mine:
                    continue
                at = base + self.random.choice(mine) * step
                data = self.fresh(client, at, step)
                way = 'ring_write' if self.has_ring(client) and self.chance(0.3) else 'pwrite'
                self.note(file, client, '%s %s %d at %d, beside the other (%r)' % (way, fds[client], step, at, data[:12]))
                client.start(way, fds[client], data, at)
                pair.append((client, at, data))
            for client, at, data in pair:
                client.finish()
                written.append((client, at, data))
        for client, at, data in written:
            self.put(file, at, data)
        for client in self.clients:
            client.current.discard(file)
            client.unsynced.add(file)
        # Each sees what it wrote itself.
        for client, at, data in written[-4:]:
            self.note(file, client, 'pread %s %d at %d, its own' % (fds[client], step, at))
            self.compare(client, file, 'pread of its own', client.do('pread', fds[client], step, at), at, step)
        for client in self.clients:
            self.hand_over(client, file)
            for fd in list(client.open[file]):
                if client.is_kernel or self.chance(0.6):
                    self.close(client, file, fd)
        for client in self.clients:
            fd = self.open(client, file, os.O_RDWR)
            if client.is_kernel:
                client.do('lock', fd, fcntl.F_WRLCK)
                client.do('lock', fd, fcntl.F_UNLCK)
            size = len(self.data[file])
            found = client.do('size', fd)
            if found != size:
                raise Fault('%s: behind changes of both %s has %d bytes, not %d' % (client.name, file, found, size))
            way = 'ring_read' if self.has_ring(client) and self.chance(0.3) else 'pread'
            self.note(file, client, '%s of everything behind changes of both' % way)
            self.compare(client, file, way + ' behind changes of both', client.do(way, fd, size + 1, 0), 0, size + 1)
            self.thin_out(client, file)

    def replace(self, client, file):
        """The file is replaced by another one, as an editor does it."""
        if self.options.fixed or self.options.kernel:
            return
        for one in self.clients:
            self.unmap_all(one, file)
            for fd in list(one.open[file]):
                self.close(one, file, fd)
        data = self.fresh(client, 0, self.length())
        fd = client.new_name('d')
        self.note(file, client, 'replace by %d bytes (%r)' % (len(data), data[:12]))
        client.do('open', fd, 'new', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        client.do('pwrite', fd, data, 0)
        client.do('close', fd)
        client.do('rename', 'new', file)
        self.data[file][:] = data
        self.changed(client, file)
        client.current.discard(file)
        client.unsynced.discard(file)
        self.covered['replace'] += 1

    def count_together(self):
        times = self.random.randrange(1, 15)
        for client in self.clients:
            client.start('count_up', 'counter', times)
        for client in self.clients:
            client.finish()
        self.counted += 2 * times
        client = self.random.choice(self.clients)
        client.do('open', 'counter', 'counter', os.O_RDONLY)
        found = client.do('pread', 'counter', 20, 0)
        client.do('close', 'counter')
        self.covered['count together'] += 1
        if int(found) != self.counted:
            raise Fault('%s: both have counted to %d under locks, and the file has %r' % (client.name, self.counted, found))

    def append_together(self):
        if self.options.fixed:
            return
        synced = self.chance(0.5)
        for client in self.clients:
            records = []
            for _ in range(self.random.randrange(1, 10)):
                self.tokens += 1
                record = ('%s%d' % (client.name, self.tokens)).encode()
                records.append(record + b'.' * self.random.randrange(300) + b'\n')
            self.records += records
            client.start('append_records', 'records', records, synced)
        for client in self.clients:
            client.finish()
        client = self.random.choice(self.clients)
        client.do('open', 'records', 'records', os.O_RDWR)
        found = client.do('pread', 'records', 1 << 24, 0)
        self.covered['append together'] += 1
        if sorted(found.splitlines(True)) != sorted(self.records):
            lost = sorted(set(self.records) - set(found.splitlines(True)))[:3]
            raise Fault('%s: of %d records appended under locks %d are there; lost: %r' % (
                client.name, len(self.records), len(found.splitlines()), lost))
        if len(found) > 1 << 20:
            client.do('truncate', 'records', 0)
            self.records = []
        client.do('close', 'records')

    # ---- the whole ----

    def prepare(self):
        first = self.clients[0]
        for name in self.files + ['counter', 'records']:
            fd = first.new_name('d')
            first.do('open', fd, name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self.data[name] = bytearray(bytes(FIXED_SIZE) if self.options.fixed and name in self.files else b'')
            if self.data[name]:
                first.do('pwrite', fd, bytes(self.data[name]), 0)
            if name == 'counter':
                first.do('pwrite', fd, b'%020d' % 0, 0)
            first.do('close', fd)

    def scene(self):
        time.sleep(self.options.tick)
        file = self.random.choice(self.files)
        client = self.random.choice(self.clients)
        kind = self.random.choices(('open', 'lock', 'together', 'replace', 'count', 'append'), (6, 5, 2, 0.5, 0.7, 0.7))[0]
        if kind == 'open':
            self.turn_by_open(client, file)
        elif kind == 'lock':
            self.turn_by_lock(client, file)
        elif kind == 'together':
            self.together(file)
        elif kind == 'replace':
            self.replace(client, file)
        elif kind == 'count':
            self.count_together()
        else:
            self.append_together()
        return file

    def run(self):
        self.began = time.monotonic()
        scenes, file = 0, None
        self.prepare()
        try:
            while time.monotonic() - self.began < self.options.seconds:
                scenes += 1
                file = self.scene()
        except Fault as fault:
            print('FAULT after %.1f s, seed %d: %s' % (time.monotonic() - self.began, self.options.seed, fault))
            word = next((name for name in self.files if ' %s ' % name in str(fault) or 'of %s' % name in str(fault)), file)
            for name in [word] if word else self.files:
                print('what led there, on %s:' % name)
                print('\n'.join(self.history[name]))
                print('\n'.join(self.look_past_caches(name)))
            return 1
        print('%d scenes, %d operations in %d s, seed %d' % (
            scenes, sum(self.covered.values()), self.options.seconds, self.options.seed))
        print('covered: ' + ', '.join('%s %d' % pair for pair in sorted(self.covered.items())))
        if self.unsupported:
            print('not had: ' + ', '.join(sorted(self.unsupported)))
        return 0


def at_work_here(directory, library, connection):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Hands(directory, library).serve(connection)
    os._exit(0)


def connect(spec, options):
    name, _, where = spec.partition('=')
    if where.startswith('/'):
        ours, theirs = multiprocessing.Pipe()
        child = os.fork()
        if child == 0:
            ours.close()
            at_work_here(where, options.ring, theirs)
        theirs.close()
        connection = ours
    else:
        host, port, directory = where.split(':', 2)
        end = time.monotonic() + 30
        while True:
            try:
                connection = multiprocessing.connection.Client((host, int(port)), authkey=options.key.encode())
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        connection.send(directory)
    return Client(name, connection, name in options.kernel)


def serve(port, key):
    with multiprocessing.connection.Listener(('0.0.0.0', int(port)), authkey=key.encode()) as listener:
        connection = listener.accept()
        Hands(connection.recv(), None).serve(connection)


def main():
    if sys.argv[1:2] == ['serve'] and len(sys.argv) == 4:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('command', choices=['run'])
    parser.add_argument('clients', nargs=2, metavar='CLIENT')
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--seed', type=int, default=int(time.time()))
    parser.add_argument('--ring', help='libnfsrdma-ring.so: clients that are not Linux\'s use it, too')
    parser.add_argument('--fixed', action='store_true')
    parser.add_argument('--kernel', metavar='NAME', action='append', default=[])
    parser.add_argument('--tick', type=float, default=0, metavar='SECONDS', help='pause between scenes')
    parser.add_argument('--key', default='', help='of the processes that serve clients elsewhere')
    options = parser.parse_args()
    return Run(options, [connect(spec, options) for spec in options.clients]).run()


if __name__ == '__main__':
    sys.exit(main())
