"""File: an open file, as an io.RawIOBase without a buffer.

Reads go straight into the caller's memory: into a numpy array, a torch tensor's numpy(), an mmap, a bytearray. The
server writes there by RDMA. pread, preadinto and pwrite do not use the position, and may be called from any number
of threads at the same time; read, readinto and write use the position, one call at a time.
"""

from __future__ import annotations

import ctypes
import io
import itertools
import os
import threading
import warnings
from typing import Any, Iterable, Iterator, Optional, Tuple

from . import _c
from . import _file_operations as fops
from . import _operations as ops
from ._buffers import new_bytes, readable, writable
from ._c import lib
from ._native import Handle, process
from .types import Extent, Holes, Lock, Stat

#: Size of the buffer of open(..., buffering=-1).
DEFAULT_BUFFER = 1 << 20

_MODES = {"r": _c.READ, "w": _c.WRITE | _c.CREATE | _c.TRUNCATE, "a": _c.WRITE | _c.CREATE,
          "x": _c.WRITE | _c.CREATE | _c.EXCLUSIVE}
_owners = itertools.count(1)


def open_flags(mode: str) -> int:
    """Returns the library's flags for a mode of the function open."""
    kind = mode.replace("b", "", 1).replace("t", "", 1).replace("+", "", 1)
    if kind not in _MODES or ("b" in mode and "t" in mode):
        raise ValueError(f"invalid mode: {mode!r}")
    return _MODES[kind] | (_c.READ | _c.WRITE if "+" in mode else 0)


def stack(file: "File", mode: str, buffering: Optional[int], encoding: Optional[str], errors: Optional[str],
          newline: Optional[str]) -> Any:
    """Puts the buffer and the text layer that were asked for onto a File."""
    text = "b" not in mode
    if buffering is None:
        buffering = -1 if text else 0
    if buffering == 0:
        if text:
            raise ValueError("text cannot be unbuffered")
        return file
    line_buffering = buffering == 1 and text
    size = DEFAULT_BUFFER if buffering < 0 or line_buffering else buffering
    buffered: Any
    if "+" in mode:
        buffered = io.BufferedRandom(file, size)
    elif file.readable():
        buffered = io.BufferedReader(file, size)
    else:
        buffered = io.BufferedWriter(file, size)
    if text:
        buffered = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering)
        buffered.mode = mode
    if file.writable():
        process.buffers.add(buffered)
    return buffered


class File(io.RawIOBase):
    """An open file. Returned by Client.open and Directory.open."""

    def __init__(self, handle: Handle, opener: Any, name: str, mode: str) -> None:
        """For Client.open. `opener` stays alive as long as the file."""
        self._handle, self._native, self._opener = handle, handle.native, opener
        self._pointer = handle.pointer
        self.name, self.mode = name, mode
        self._reads = "r" in mode or "+" in mode
        self._writes = "r" not in mode or "+" in mode
        self._appends = "a" in mode
        self._position = 0
        self._position_lock = threading.RLock()
        #: Number of this File as an owner of locks.
        self.lock_owner = os.getpid() << 32 | next(_owners)
        if self._appends:
            self._position = self.stat().st_size

    # ---- what io asks for ----

    def readable(self) -> bool:
        """Returns whether the file was opened for reading."""
        self._check_open()
        return self._reads

    def writable(self) -> bool:
        """Returns whether the file was opened for writing."""
        self._check_open()
        return self._writes

    def seekable(self) -> bool:
        """Returns True."""
        self._check_open()
        return True

    def isatty(self) -> bool:
        """Returns False."""
        return False

    def fileno(self) -> int:
        """Raises io.UnsupportedOperation: the kernel knows nothing of this file."""
        raise io.UnsupportedOperation("an NFS file without a mount has no file descriptor")

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check_reads(self) -> None:
        self._check_open()
        if not self._reads:
            raise io.UnsupportedOperation("not readable")

    def _check_writes(self) -> None:
        self._check_open()
        if not self._writes:
            raise io.UnsupportedOperation("not writable")

    # ---- reading ----

    def preadinto(self, buffer: Any, offset: int) -> int:
        """Reads into a buffer, from the offset. Returns the number of bytes; fewer than its size only at the end."""
        self._check_reads()
        address, size, _hold = writable(buffer)
        if size == 0:
            return 0
        return self._native.run(lib.pread, self._pointer, address, size, _offset(offset))

    def preadinto_holes(self, buffer: Any, offset: int) -> Tuple[int, Holes]:
        """Like preadinto, and returns also which holes the server reported, if it reports holes (option read_plus)."""
        self._check_reads()
        return ops.perform(self._native, fops.pread_holes(self._pointer, buffer, _offset(offset)))

    def pread(self, size: int, offset: int) -> bytes:
        """Returns up to `size` bytes from the offset; fewer only at the end of the file."""
        self._check_reads()
        data, address = new_bytes(size)
        if not data:
            return b""
        count = self._native.run(lib.pread, self._pointer, address, size, _offset(offset))
        return data if count == size else data[:count]

    def preadv(self, buffers: Iterable[Any], offset: int) -> int:
        """Reads into several buffers, one after the other. Returns the number of bytes."""
        self._check_reads()
        parts, count, _holds = fops.vector(buffers, writable)
        return self._native.run(lib.preadv, self._pointer, parts, count, _offset(offset)) if count else 0

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer, from the position. Returns the number of bytes; 0 at the end of the file."""
        with self._position_lock:
            count = self.preadinto(buffer, self._position)
            self._position += count
            return count

    def read(self, size: Optional[int] = -1) -> bytes:
        """Returns up to `size` bytes from the position; without `size` all that follow."""
        if size is None or size < 0:
            return self.readall()
        with self._position_lock:
            data = self.pread(size, self._position)
            self._position += len(data)
            return data

    def readall(self) -> bytes:
        """Returns everything from the position to the end that the file has when this is called."""
        self._check_reads()
        with self._position_lock:
            left = self.stat().st_size - self._position
            return self.read(max(0, left))

    # ---- writing ----

    def pwrite(self, data: Any, offset: int, *, on_disk: bool = False, keep: bool = False) -> int:
        """Writes all of the data at the offset. Returns its size.

        It is on the server's disk after fsync or close, or at once with `on_disk`. Until then the library has a copy,
        from which it writes again what a restarted server lost. With `keep` it makes no copy: the data must not change
        until fsync or close has returned. A reference keeps it alive until then, and resizing it (a bytearray) or
        closing it (an mmap) raises BufferError."""
        self._check_writes()
        where = readable(data)
        if where[1] == 0:
            return 0
        function, arguments = fops.pwrite(self._pointer, where, data, _offset(offset), on_disk, keep)
        return self._native.run(function, *arguments)

    def pwritev(self, buffers: Iterable[Any], offset: int, *, on_disk: bool = False) -> int:
        """Writes several buffers, one after the other. Returns the number of bytes."""
        self._check_writes()
        parts, count, _holds = fops.vector(buffers, readable)
        flags = _c.ON_DISK if on_disk else 0
        return self._native.run(lib.pwritev, self._pointer, parts, count, _offset(offset), flags) if count else 0

    def write(self, data: Any) -> int:
        """Writes all of the data at the position; in mode "a" at the end, which other clients may move meanwhile."""
        with self._position_lock:
            if self._appends:
                self._check_writes()
                self._position = self.stat().st_size
            count = self.pwrite(data, self._position)
            self._position += count
            return count

    def flush(self) -> None:
        """Does nothing: what was written is at the server. fsync puts it onto the server's disk."""
        self._check_open()

    def fsync(self) -> None:
        """Puts what was written onto the server's disk."""
        self._check_open()
        ops.perform(self._native, fops.sync(self._pointer))

    # ---- position and size ----

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position. os.SEEK_DATA and os.SEEK_HOLE find data and holes; OSError ENXIO: there is none."""
        self._check_open()
        with self._position_lock:
            if whence == os.SEEK_CUR:
                offset += self._position
            elif whence == os.SEEK_END:
                offset += self.stat().st_size
            elif whence in (os.SEEK_DATA, os.SEEK_HOLE):
                offset = ops.perform(self._native, fops.seek(self._pointer, _offset(offset), whence == os.SEEK_HOLE))
            elif whence != os.SEEK_SET:
                raise ValueError(f"invalid whence ({whence})")
            self._position = _offset(offset)
            return self._position

    def tell(self) -> int:
        """Returns the position."""
        self._check_open()
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        """Sets the size, by default to the position."""
        self._check_writes()
        if size is None:
            size = self._position
        ops.perform(self._native, fops.set_attributes(self._pointer, ops.changes(size=size)))
        return size

    def stat(self) -> Stat:
        """Returns the attributes."""
        self._check_open()
        return ops.perform(self._native, fops.stat(self._pointer))

    def chmod(self, mode: int) -> None:
        """Sets the permission bits."""
        self._check_open()
        ops.perform(self._native, fops.set_attributes(self._pointer, ops.changes(mode=mode)))

    # ---- locks: advisory, as those of fcntl ----

    def lock(self, *, exclusive: bool = True, offset: int = 0, length: Optional[int] = None, wait: float = 0.0,
             owner: Optional[int] = None) -> None:
        """Locks a range; without `length` to the end, however far the file grows.

        Waits up to `wait` seconds for a lock that conflicts; then raises BlockingIOError. `owner` is a number for
        each party that locks, by default one for each File."""
        self._check_open()
        range_ = fops.lock_range(owner or self.lock_owner, exclusive, offset, length)
        self._native.run(lib.lock_range, self._pointer, ctypes.byref(range_), int(wait * 1000))

    def unlock(self, *, offset: int = 0, length: Optional[int] = None, owner: Optional[int] = None) -> None:
        """Puts onto the server's disk what was written, and unlocks."""
        self._check_open()
        range_ = fops.lock_range(owner or self.lock_owner, True, offset, length)
        ops.perform(self._native, fops.unlock(self._pointer, range_))

    def test_lock(self, *, exclusive: bool = True, offset: int = 0, length: Optional[int] = None,
                  owner: Optional[int] = None) -> Optional[Lock]:
        """Returns a lock that conflicts with the one that is described, or None."""
        self._check_open()
        range_ = fops.lock_range(owner or self.lock_owner, exclusive, offset, length)
        return ops.perform(self._native, fops.test_lock(self._pointer, range_))

    # ---- holes and copies ----

    def next_extent(self, offset: int) -> Optional[Extent]:
        """Returns the next extent, data or hole, at or after the offset; None at the end of the file."""
        self._check_open()
        return ops.perform(self._native, fops.next_extent(self._pointer, _offset(offset)))

    def extents(self) -> Iterator[Extent]:
        """Yields all extents."""
        offset = 0
        while True:
            found = self.next_extent(offset)
            if found is None:
                return
            yield found
            offset = found.offset + found.length

    def allocate(self, offset: int, length: int) -> None:
        """Reserves space on the server's disk; the file grows if it ends earlier."""
        self._check_writes()
        self._native.run(lib.allocate, self._pointer, _offset(offset), length)

    def punch(self, offset: int, length: int) -> None:
        """Turns a range into a hole."""
        self._check_writes()
        self._native.run(lib.punch, self._pointer, _offset(offset), length)

    def copy_from(self, source: "File", source_offset: int = 0, offset: int = 0, count: Optional[int] = None) -> int:
        """Copies within the server from a file of the same client, by default all of it. Returns how many bytes;
        they are on the server's disk. OSError EOPNOTSUPP if the server cannot."""
        self._check_writes()
        source._check_open()
        return ops.drive(self._native, fops.copy(source._pointer, _offset(source_offset), self._pointer,
                                                 _offset(offset), count))

    # ---- the end ----

    def close(self) -> None:
        """Puts what was written onto the server's disk and closes the file. Errors of earlier writes show here."""
        if self.closed:
            return
        super().close()
        if not self._native.closed and self._native.generation == process.generation:
            ops.perform(self._native, fops.close(self._pointer))

    def __del__(self, _warn: Any = warnings.warn, _process: Any = process) -> None:
        # io.IOBase would call close(), which may block. The Handle has the file closed in the background.
        if not self.closed and hasattr(self, "_handle") and not _process.exiting and not self._native.closed:
            _warn(f"unclosed file {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<nfsrdma.File {getattr(self, 'name', '?')!r} mode={getattr(self, 'mode', '?')!r}>"


def _offset(offset: int) -> int:
    if offset < 0:
        raise ValueError("an offset is not negative")
    return offset


