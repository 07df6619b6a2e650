"""AsyncFile: an open file for asyncio. Module nfsrdma.aio makes them."""

from __future__ import annotations

import ctypes
import itertools
import os
from typing import TYPE_CHECKING, Any, Optional, Tuple, TypeVar

from . import _file_operations as fops
from . import _operations as ops
from ._buffers import new_bytes, readable, writable
from ._c import lib
from ._native import Handle
from ._operations import Operation, Steps
from .types import Extent, Holes, Lock, Stat

if TYPE_CHECKING:
    from .aio import AsyncClient

T = TypeVar("T")
_owners = itertools.count(1 << 31)


class AsyncFile:
    """An open file. read, readinto and write use the position, so one task at a time may use them; pread, preadinto
    and pwrite do not, and any number of them may be under way."""

    def __init__(self, client: "AsyncClient", handle: Handle, name: str, mode: str) -> None:
        self._client, self._handle, self._pointer = client, handle, handle.pointer
        self.name, self.mode = name, mode
        self.closed = False
        self._position = 0
        #: Number of this file as an owner of locks.
        self.lock_owner = os.getpid() << 32 | next(_owners)

    @classmethod
    async def _open(cls, client: "AsyncClient", path: bytes, name: str, mode: str, flags: int,
                    permissions: int) -> "AsyncFile":
        handle = await client._perform(ops.open_file(client._native, client._directory, path, flags, permissions))
        file = cls(client, handle, name, mode)
        if "a" in mode:
            file._position = (await file.stat()).st_size
        return file

    async def _perform(self, operation: "Operation[T]") -> T:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return await self._client._queue().perform(operation, self)

    async def _drive(self, steps: "Steps[T]", owner: Any = None) -> T:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return await self._client._queue().drive(steps, (self, owner))

    # ---- reading and writing ----

    async def preadinto(self, buffer: Any, offset: int) -> int:
        """Reads into a buffer, which must not be used until this returns. Returns the number of bytes."""
        address, size, hold = writable(buffer)
        if size == 0:
            return 0
        return await self._perform(Operation(lib.pread, (self._pointer, address, size, offset), ops.number, hold))

    async def preadinto_holes(self, buffer: Any, offset: int) -> Tuple[int, Holes]:
        """Like preadinto, and returns also which holes the server reported, as File.preadinto_holes."""
        return await self._perform(fops.pread_holes(self._pointer, buffer, offset))

    async def pread(self, size: int, offset: int) -> bytes:
        """Returns up to `size` bytes from the offset; fewer only at the end of the file."""
        data, address = new_bytes(size)
        if not data:
            return b""
        count = await self._perform(Operation(lib.pread, (self._pointer, address, size, offset), ops.number, data))
        return data if count == size else data[:count]

    async def pwrite(self, data: Any, offset: int, *, on_disk: bool = False, keep: bool = False) -> int:
        """Writes all of the data, which must not change until this returns, with `keep` until fsync or close has
        returned, as File.pwrite. Returns its size."""
        where = readable(data)
        if where[1] == 0:
            return 0
        function, arguments = fops.pwrite(self._pointer, where, data, offset, on_disk, keep)
        return await self._perform(Operation(function, arguments, ops.number, where[2]))

    async def readinto(self, buffer: Any) -> int:
        """Reads into a buffer, from the position."""
        count = await self.preadinto(buffer, self._position)
        self._position += count
        return count

    async def read(self, size: int = -1) -> bytes:
        """Returns up to `size` bytes from the position; without `size` all that follow."""
        if size < 0:
            size = max(0, (await self.stat()).st_size - self._position)
        data = await self.pread(size, self._position)
        self._position += len(data)
        return data

    async def write(self, data: Any) -> int:
        """Writes all of the data at the position; in mode "a" at the end."""
        if "a" in self.mode:
            self._position = (await self.stat()).st_size
        count = await self.pwrite(data, self._position)
        self._position += count
        return count

    async def fsync(self) -> None:
        """Puts what was written onto the server's disk."""
        await self._perform(fops.sync(self._pointer))

    # ---- position, size, attributes ----

    async def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position, as File.seek."""
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += (await self.stat()).st_size
        elif whence in (os.SEEK_DATA, os.SEEK_HOLE):
            offset = await self._perform(fops.seek(self._pointer, offset, whence == os.SEEK_HOLE))
        if offset < 0:
            raise ValueError("an offset is not negative")
        self._position = offset
        return offset

    def tell(self) -> int:
        """Returns the position."""
        return self._position

    async def truncate(self, size: Optional[int] = None) -> int:
        """Sets the size, by default to the position."""
        size = self._position if size is None else size
        await self._perform(fops.set_attributes(self._pointer, ops.changes(size=size)))
        return size

    async def stat(self) -> Stat:
        """Returns the attributes."""
        return await self._perform(fops.stat(self._pointer))

    async def next_extent(self, offset: int) -> Optional[Extent]:
        """Returns the next extent, data or hole; None at the end of the file."""
        return await self._perform(fops.next_extent(self._pointer, offset))

    async def allocate(self, offset: int, length: int) -> None:
        """Reserves space on the server's disk."""
        await self._perform(Operation(lib.allocate, (self._pointer, offset, length), ops.nothing))

    async def punch(self, offset: int, length: int) -> None:
        """Turns a range into a hole."""
        await self._perform(Operation(lib.punch, (self._pointer, offset, length), ops.nothing))

    async def copy_from(self, source: "AsyncFile", source_offset: int = 0, offset: int = 0,
                        count: Optional[int] = None) -> int:
        """Copies within the server, as File.copy_from."""
        return await self._drive(fops.copy(source._pointer, source_offset, self._pointer, offset, count), source)

    # ---- locks ----

    async def lock(self, *, exclusive: bool = True, offset: int = 0, length: Optional[int] = None, wait: float = 0.0,
                   owner: Optional[int] = None) -> None:
        """Locks a range, as File.lock."""
        range_ = fops.lock_range(owner or self.lock_owner, exclusive, offset, length)
        await self._perform(Operation(lib.lock_range, (self._pointer, ctypes.byref(range_), int(wait * 1000)),
                                      ops.nothing))

    async def unlock(self, *, offset: int = 0, length: Optional[int] = None, owner: Optional[int] = None) -> None:
        """Unlocks a range."""
        range_ = fops.lock_range(owner or self.lock_owner, True, offset, length)
        await self._perform(fops.unlock(self._pointer, range_))

    async def test_lock(self, *, exclusive: bool = True, offset: int = 0, length: Optional[int] = None,
                        owner: Optional[int] = None) -> Optional[Lock]:
        """Returns a lock that conflicts, or None."""
        range_ = fops.lock_range(owner or self.lock_owner, exclusive, offset, length)
        return await self._perform(fops.test_lock(self._pointer, range_))

    # ---- the end ----

    async def close(self) -> None:
        """Puts what was written onto the server's disk and closes the file."""
        if self.closed:
            return
        operation = fops.close(self._pointer)
        try:
            if not self._client.client.closed:
                await self._perform(operation)
        finally:
            self.closed = True

    async def __aenter__(self) -> "AsyncFile":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<nfsrdma.aio.AsyncFile {self.name!r} mode={self.mode!r}>"
