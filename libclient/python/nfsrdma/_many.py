"""read_many, write_many and stat_many: items for the library from lists of paths, and results from items.

The items are one array of 64-bit words, whose columns are set and read by slices, because setting members of ctypes
structs one by one takes longer than the library needs for a file.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
from array import array
from itertools import accumulate, islice
from typing import Any, Iterable, List, Optional, Sequence, Tuple

from . import _c
from ._buffers import bytes_address, readable, view_of, writable
from ._c import lib
from ._operations import Operation, Path
from .errors import take
from .types import CountOrError, ReadResult, StatOrError, stat_of

#: Words of an nfsrdma_read_item: path, data, room, attributes, count, eof and has_attributes, error.
READ_WORDS = 7
_EOF, _HAS = (1, 1 << 32) if sys.byteorder == "little" else (1 << 32, 1)
WRITE_ITEM = struct.Struct("=QQQQIIqQ")
STAT_ITEM = struct.Struct("=QQqQ")
_ATTRIBUTES = ctypes.sizeof(_c.attributes)


def _addresses(paths: Sequence[bytes]) -> Tuple[List[int], bytes]:
    """Returns the address of each path, ended by a zero, and the block that holds them."""
    block = b"\0".join(paths) + b"\0"
    ends = accumulate(map((1).__add__, map(len, paths)), initial=bytes_address(block))
    return list(islice(ends, len(paths))), block


def _room_for_attributes(count: int) -> Any:
    room = (_c.attributes * count)()
    for found in room:
        found.struct_size = _ATTRIBUTES
    return room


def _new_memory(size: int) -> Any:
    """Returns memory of which only what is written takes space. A small one is a bytearray."""
    return bytearray(size) if size < 1 << 16 else mmap.mmap(-1, size)


def read_many(directory: int, paths: Sequence[bytes], shown: Sequence[str], buffer: Any, room: Optional[int],
              attributes: bool) -> "Operation[List[ReadResult]]":
    """Reads many files into one buffer, `room` bytes for each."""
    count = len(paths)
    if buffer is None:
        room = 65536 if room is None else room
        buffer = _new_memory(max(1, room * count))
    address, size, hold = writable(buffer)
    share = size // max(1, count) if room is None else room
    if share <= 0 and count:
        raise ValueError("room must be positive")
    if share * count > size:
        raise ValueError(f"{count} files with room {share} take {share * count} bytes; the buffer has {size}")
    names, block = _addresses(paths)
    found = _room_for_attributes(count) if attributes else None
    base = ctypes.addressof(found) if found is not None else 0
    items = array("Q", bytes(8 * READ_WORDS * max(1, count)))
    if count:
        items[0::READ_WORDS] = array("Q", names)
        items[1::READ_WORDS] = array("Q", range(address, address + share * count, share))
        items[2::READ_WORDS] = array("Q", [share]) * count
    if base:
        items[3::READ_WORDS] = array("Q", range(base, base + _ATTRIBUTES * count, _ATTRIBUTES))
    item_address, _, item_hold = writable(items)
    view = view_of(buffer) if count else memoryview(b"")

    def finish(_result: int) -> List[ReadResult]:
        lengths, states = items[4::READ_WORDS], items[5::READ_WORDS]
        failed = max(lengths, default=0) >= 1 << 63  # -1
        if not failed and found is None:
            firsts = range(0, share * count, share)
            return [ReadResult(name, view[first:first + length], (state & _EOF) != 0, None, None)
                    for name, first, length, state in zip(shown, firsts, lengths, states)]
        return [_result_of(items, index, shown[index], view[index * share:(index + 1) * share], found)
                for index in range(count)]

    return Operation(lib.read_many, (directory, item_address, count, 8 * READ_WORDS), finish,
                     (block, hold, item_hold, found, items))


def _result_of(items: "array[int]", index: int, shown: str, room: memoryview, found: Any) -> ReadResult:
    """Returns the result of one file, which may have failed."""
    length, state, error = items[index * READ_WORDS + 4:(index + 1) * READ_WORDS]
    if length >= 1 << 63:
        return ReadResult(shown, room[:0], False, None, take(error))
    stat = stat_of(found[index]) if found is not None and state & _HAS else None
    return ReadResult(shown, room[:length], (state & _EOF) != 0, stat, None)


def write_many(directory: int, files: Iterable[Tuple[bytes, Any]], mode: int) -> "Operation[List[CountOrError]]":
    """Writes many files. Their data is on the server's disk when the call ends."""
    pairs = list(files)
    count, width = len(pairs), WRITE_ITEM.size
    names, block = _addresses([path for path, _ in pairs])
    items = bytearray(width * count or 1)
    holds = []
    for index, (_, data) in enumerate(pairs):
        address, size, hold = readable(data)
        holds.append(hold)
        if type(address) is bytes:
            address = bytes_address(address)
        WRITE_ITEM.pack_into(items, index * width, names[index], address or 0, size, 0, mode, 0, -1, 0)
    item_address, _, item_hold = writable(items)

    def finish(_result: int) -> List[CountOrError]:
        parts = WRITE_ITEM.iter_unpack(memoryview(items)[:width * count])
        return [item[6] if item[6] >= 0 else take(item[7]) for item in parts]

    return Operation(lib.write_many, (directory, item_address, count, width), finish, (block, holds, item_hold))


def stat_many(directory: int, paths: Sequence[bytes], follow: bool) -> "Operation[List[StatOrError]]":
    """Asks for the attributes of many names."""
    count, width = len(paths), STAT_ITEM.size
    names, block = _addresses(paths)
    found = _room_for_attributes(count)
    base = ctypes.addressof(found)
    items = bytearray(width * count or 1)
    for index, name in enumerate(names):
        STAT_ITEM.pack_into(items, index * width, name, base + index * _ATTRIBUTES, -1, 0)
    item_address, _, item_hold = writable(items)

    def finish(_result: int) -> List[StatOrError]:
        parts = STAT_ITEM.iter_unpack(memoryview(items)[:width * count])
        return [stat_of(found[index]) if item[2] >= 0 else take(item[3]) for index, item in enumerate(parts)]

    flags = 0 if follow else _c.NO_FOLLOW
    return Operation(lib.stat_many, (directory, item_address, count, width, flags), finish,
                     (block, item_hold, found))


def shown_paths(paths: Iterable[Path]) -> List[str]:
    """Returns the paths as text."""
    return [path if type(path) is str else os.fsdecode(path) for path in paths]
