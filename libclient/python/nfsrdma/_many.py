"""read_many, write_many and stat_many: items for the library from lists of paths, and results from items.

The items are one array of 64-bit words, whose columns are set and read by slices, because setting members of ctypes
structs one by one takes longer than the library needs for a file. The paths are joined and encoded together, if they
are texts of ASCII characters.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from array import array
from itertools import accumulate, islice, repeat
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Sequence, Tuple

from . import _c
from ._buffers import addresses_of, bytes_address, view_of, writable
from ._c import lib
from ._operations import Operation, Path
from .errors import take
from .types import CountOrError, ReadResult, Stat, StatOrError, new_tuple, stat_of_members, unpack_attributes

if TYPE_CHECKING:
    from .names import Place

#: Shift of the first and the second uint32_t in a word of 64 bits.
_FIRST, _SECOND = (0, 32) if sys.byteorder == "little" else (32, 0)
_EOF, _HAS = 1 << _FIRST, 1 << _SECOND
_ATTRIBUTES = ctypes.sizeof(_c.attributes)


class Items:
    """An array of structs, each a row of 64-bit words. `columns`: their values; None: zeros."""

    __slots__ = ("words", "width", "end", "address", "hold")

    def __init__(self, count: int, *columns: Optional[Iterable[int]]) -> None:
        self.width = len(columns)
        self.end = self.width * count
        self.words = array("q", bytes(8 * self.width * max(1, count)))
        for index, column in enumerate(columns):
            if column is not None:
                self.words[index:self.end:self.width] = array("q", column)
        self.address, _, self.hold = writable(self.words)

    def column(self, index: int) -> "array[int]":
        """Returns the values of a column."""
        return self.words[index:self.end:self.width]

    @property
    def arguments(self) -> Tuple[int, int, int]:
        """Address, number and size of the structs, as the library takes them."""
        return self.address, self.end // self.width, 8 * self.width


def read_items(count: int, names: Any, addresses: Any, rooms: Any, attributes: Any) -> Items:
    """Returns structs nfsrdma_read_item."""
    return Items(count, names, addresses, rooms, attributes, None, None, None)


def write_items(count: int, names: Any, addresses: Any, sizes: Any, mode: int) -> Items:
    """Returns structs nfsrdma_write_item."""
    return Items(count, names, addresses, sizes, None, repeat(mode << _FIRST, count), None, None)


def stat_items(count: int, names: Any, attributes: Any) -> Items:
    """Returns structs nfsrdma_stat_item."""
    return Items(count, names, attributes, None, None)


class _Room:
    """Structs nfsrdma_attributes for `count` files."""

    __slots__ = ("items", "addresses")

    def __init__(self, count: int) -> None:
        self.items = Items(count, repeat(_ATTRIBUTES, count), *repeat(None, _ATTRIBUTES // 8 - 1))
        self.addresses = range(self.items.address, self.items.address + _ATTRIBUTES * count, _ATTRIBUTES)

    def stats(self) -> Iterable[Stat]:
        """Returns what the library has stored."""
        return map(stat_of_members, unpack_attributes(self.items.words))


# ---- paths ----

def _joined(place: "Place", paths: Sequence[Path]) -> Optional[bytes]:
    """Returns the paths as the library takes them, each ended by a zero; None: they have to be encoded one by one."""
    start = place._start
    try:
        text: str = "".join((start, ("\0" + start).join(paths), "\0"))  # type: ignore[arg-type]
    except TypeError:
        return None  # not all are texts
    plain = text.isascii() and text.count("\0") == len(paths) and "" not in paths
    if not plain or (start and (text[len(start)] == "/" or f"\0{start}/" in text)):
        return None  # an absolute one does not begin at the start
    return text.encode("ascii")


def _addresses(place: "Place", paths: Sequence[Path]) -> Tuple[List[int], bytes]:
    """Returns the address of each path, and the block that holds them."""
    block = _joined(place, paths) if paths else b""
    if block is not None:
        lengths, more = map(len, paths), len(place._start) + 1  # type: ignore[arg-type]
    else:
        encoded = [place._path(path) for path in paths]
        block = b"\0".join(encoded) + b"\0"
        lengths, more = map(len, encoded), 1
    ends = accumulate(map(more.__add__, lengths), initial=bytes_address(block))
    return list(islice(ends, len(paths))), block


def _shown(path: Path) -> str:
    return path if type(path) is str else os.fsdecode(path)


# ---- the three ----

def _new_memory(size: int) -> Any:
    """Returns memory of which only what is written takes space. A small one is a bytearray."""
    return bytearray(size) if size < 1 << 16 else mmap.mmap(-1, size)


def read_many(place: "Place", paths: Sequence[Path], buffer: Any, room: Optional[int],
              attributes: bool) -> "Operation[List[ReadResult]]":
    """Reads many files into one buffer, `room` bytes for each."""
    paths = list(paths)
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
    names, block = _addresses(place, paths)
    found = _Room(count) if attributes else None
    rooms = range(address, address + share * count, share) if count else ()
    items = read_items(count, names, rooms, repeat(share, count), found.addresses if found is not None else None)
    view = view_of(buffer) if count else memoryview(b"")
    shown, firsts = list(map(_shown, paths)), range(0, share * count, share) if count else ()

    def finish(_result: int) -> List[ReadResult]:
        lengths, states = items.column(4), items.column(5)
        if found is None and min(lengths, default=0) >= 0:
            return [new_tuple(ReadResult, (name, view[first:first + length], (state & _EOF) != 0, None, None))
                    for name, first, length, state in zip(shown, firsts, lengths, states)]
        stats: Iterable[Optional[Stat]] = repeat(None) if found is None else found.stats()
        return [_result_of(name, view[first:first + share], length, state, stat, error)
                for name, first, length, state, stat, error
                in zip(shown, firsts, lengths, states, stats, items.column(6))]

    return Operation(lib.read_many, (place._directory, *items.arguments), finish, (block, hold, items, found))


def _result_of(name: str, room: memoryview, length: int, state: int, stat: Optional[Stat], error: int) -> ReadResult:
    """Returns the result of one file, which may have failed."""
    if length < 0:
        return ReadResult(name, room[:0], False, None, take(error))
    return new_tuple(ReadResult, (name, room[:length], (state & _EOF) != 0, stat if state & _HAS else None, None))


def write_many(place: "Place", files: Iterable[Tuple[Path, Any]], mode: int) -> "Operation[List[CountOrError]]":
    """Writes many files. Their data is on the server's disk when the call ends."""
    pairs = list(files)
    starts, sizes, holds = addresses_of([data for _, data in pairs])
    names, block = _addresses(place, [path for path, _ in pairs])
    items = write_items(len(pairs), names, starts, sizes, mode)

    def finish(_result: int) -> List[CountOrError]:
        return _values(items.column(5), items.column(5), items.column(6))

    return Operation(lib.write_many, (place._directory, *items.arguments), finish, (block, holds, items))


def stat_many(place: "Place", paths: Sequence[Path], follow: bool) -> "Operation[List[StatOrError]]":
    """Asks for the attributes of many names."""
    paths = list(paths)
    names, block = _addresses(place, paths)
    found = _Room(len(paths))
    items = stat_items(len(paths), names, found.addresses)

    def finish(_result: int) -> List[StatOrError]:
        return _values(found.stats(), items.column(2), items.column(3))

    flags = 0 if follow else _c.NO_FOLLOW
    return Operation(lib.stat_many, (place._directory, *items.arguments, flags), finish, (block, items, found))


def _values(values: Iterable[Any], counts: "array[int]", errors: "array[int]") -> List[Any]:
    """Returns the values, or the errors of those whose count is -1."""
    if min(counts, default=0) >= 0:
        return list(islice(values, len(counts)))
    return [value if count >= 0 else take(error) for value, count, error in zip(values, counts, errors)]
