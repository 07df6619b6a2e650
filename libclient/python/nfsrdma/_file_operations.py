"""What operations on an open file ask of the library (see _operations)."""

from __future__ import annotations

import ctypes
import errno
from typing import Any, Callable, Iterable, List, Optional, Tuple

from . import _c, _kept
from . import _operations as ops
from ._buffers import bytes_address, writable
from ._c import lib
from ._operations import Operation, Steps
from .errors import make
from .types import Extent, Holes, Lock, Stat

_byref = ctypes.byref
#: Most bytes that one COPY asks for. Servers copy fewer if they want.
_COPY = 1 << 30


def vector(buffers: Iterable[Any], address_of: Callable[[Any], Tuple[Any, int, Any]]) -> Tuple[Any, int, List[Any]]:
    """Returns an array of struct iovec, its length without empty parts, and what holds the buffers at their places."""
    found = [part for part in map(address_of, buffers) if part[1] > 0]
    parts = (_c.iovec * max(1, len(found)))()
    for part, (address, size, _) in zip(parts, found):
        part.base = bytes_address(address) if type(address) is bytes else address
        part.size = size
    return parts, len(found), [hold for _, _, hold in found]


def pwrite(file: int, where: Tuple[Any, int, Any], data: Any, offset: int, on_disk: bool,
           keep: bool) -> Tuple[Any, Tuple[Any, ...]]:
    """Returns the function and its arguments that write a buffer. `where`: what readable(data) has returned."""
    address, size, hold = where
    arguments = (file, address, size, offset, _c.ON_DISK if on_disk else 0)
    if not keep:
        return lib.pwrite, arguments
    _kept.drop_released()
    return _kept.pwrite, (*arguments, (data, hold))


def sync(file: int) -> "Operation[None]":
    """COMMIT."""
    return Operation(lib.sync, (file,), _kept.drop_released)


def close(file: int) -> "Operation[None]":
    """COMMIT and CLOSE."""
    return Operation(lib.close, (file,), _kept.drop_released)


def pread_holes(file: int, buffer: Any, offset: int) -> "Operation[Tuple[int, Holes]]":
    """READ_PLUS. The value is the number of bytes, and the holes."""
    address, size, hold = writable(buffer)
    found = _c.holes()
    return Operation(lib.pread_holes, (file, address, size, offset, _byref(found)),
                     lambda count: (count, Holes(bool(found.has_holes), found.hole_ends or None)), hold)


def stat(file: int) -> "Operation[Stat]":
    """Attributes."""
    found, room = ops.new_attributes(True)
    return Operation(lib.fstat, (file, _byref(found)), lambda _: ops.named_stat(found, room), room)


def set_attributes(file: int, wanted: Any) -> "Operation[None]":
    """Changes of attributes."""
    return Operation(lib.fset_attributes, (file, _byref(wanted)), ops.nothing)


def seek(file: int, offset: int, hole: bool) -> "Operation[int]":
    """Finds data or a hole."""
    found = ctypes.c_uint64()

    def finish(result: int) -> int:
        if result == 0:
            raise make(errno.ENXIO, "no hole follows" if hole else "no data follows", operation="SEEK")
        return found.value

    return Operation(lib.seek, (file, offset, int(hole), _byref(found)), finish)


def next_extent(file: int, offset: int) -> "Operation[Optional[Extent]]":
    """Finds the next extent."""
    found = _c.extent()
    return Operation(lib.next_extent, (file, offset, _byref(found)),
                     lambda result: Extent(found.offset, found.length, bool(found.is_hole)) if result else None)


def lock_range(owner: int, exclusive: bool, offset: int, length: Optional[int]) -> Any:
    """Returns a struct nfsrdma_lock."""
    if length is not None and length <= 0:
        raise ValueError("the length of a lock is positive, or None: to the end")
    return _c.lock(owner=owner, write=int(exclusive), offset=offset,
                   length=_c.TO_THE_END if length is None else length)


def unlock(file: int, wanted: Any) -> "Operation[None]":
    """COMMIT and LOCKU."""
    return Operation(lib.unlock_range, (file, _byref(wanted)), _kept.drop_released)


def test_lock(file: int, wanted: Any) -> "Operation[Optional[Lock]]":
    """Looks for a lock that conflicts."""
    found = _c.lock()

    def finish(result: int) -> Optional[Lock]:
        if not result:
            return None
        # Ganesha reports a lock to the end with length 0, as struct flock has it.
        length = None if found.length in (0, _c.TO_THE_END) else found.length
        return Lock(found.owner, bool(found.write), bool(found.ours), found.offset, length)

    return Operation(lib.test_lock, (file, _byref(wanted), _byref(found)), finish)


def copy(source: int, source_offset: int, file: int, offset: int, count: Optional[int]) -> "Steps[int]":
    """Copies `count` bytes, or all that follow, and returns how many there were."""
    done = 0
    while count is None or done < count:
        wanted = _COPY if count is None else min(_COPY, count - done)
        copied: int = yield Operation(lib.copy, (source, source_offset + done, file, offset + done, wanted), ops.number)
        if copied == 0:
            break
        done += copied
    return done
