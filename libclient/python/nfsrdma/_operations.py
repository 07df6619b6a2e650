"""What each operation on names asks of the library, apart from how the call is made.

An Operation holds a function of the library, its arguments, and what turns its result into a Python value. The
blocking classes and those of asyncio perform the same Operations. What takes several calls is a generator that
yields Operations and is sent their values; `drive` (here, blocking) and aio.drive run it.

The arguments of an Operation keep alive what its call refers to.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import posixpath
from typing import Any, Callable, Generator, Generic, Iterator, List, Optional, Tuple, TypeVar, Union

from . import _c
from ._c import lib
from ._native import Handle, Native
from .errors import Error, take
from .types import Entry, Space, Stat, stat_of, type_of

T = TypeVar("T")
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Steps = Generator["Operation[Any]", Any, T]

#: Room for an owner or a group as text.
_OWNER_ROOM = 256
_byref = ctypes.byref


class Operation(Generic[T]):
    """One call of the library. `keep` are objects that must outlive it."""

    __slots__ = ("function", "arguments", "finish", "keep")

    def __init__(self, function: Any, arguments: Tuple[Any, ...], finish: Callable[[int], T],
                 keep: Any = None) -> None:
        self.function, self.arguments, self.finish, self.keep = function, arguments, finish, keep


def nothing(_result: int) -> None:
    """Finishes an Operation whose result says only that it succeeded."""


def number(result: int) -> int:
    """Finishes an Operation whose result is its value."""
    return result


def perform(native: Native, operation: "Operation[T]") -> T:
    """Makes a blocking call."""
    return native.perform(operation.function, operation.arguments, operation.finish)


def drive(native: Native, steps: "Steps[T]") -> T:
    """Performs the Operations that a generator yields, by blocking calls, and returns what the generator returns."""
    try:
        operation = next(steps)
        while True:
            try:
                value = perform(native, operation)
            except Error as error:
                operation = steps.throw(error)
            else:
                operation = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()


def encode(path: Path) -> bytes:
    """Returns a path as the library takes it."""
    # os.fsencode does the same; for texts it takes several times as long.
    data = path.encode(_ENCODING, _ERRORS) if type(path) is str else os.fsencode(path)
    if b"\0" in data:
        raise ValueError("embedded null byte")
    return data


# ---- attributes ----

def new_attributes(named: bool) -> Tuple[Any, Any]:
    """Returns a struct for attributes, and if `named` room for owner and group behind it."""
    found = _c.attributes()
    if not named:
        return found, None
    room = ctypes.create_string_buffer(2 * _OWNER_ROOM)
    address = ctypes.addressof(room)
    found.owner, found.owner_room = address, _OWNER_ROOM
    found.group, found.group_room = address + _OWNER_ROOM, _OWNER_ROOM
    return found, room


def named_stat(found: Any, room: Any) -> Stat:
    """Turns what new_attributes(True) returned into a Stat."""
    owner, _, _ = room.raw[:_OWNER_ROOM].partition(b"\0")
    group, _, _ = room.raw[_OWNER_ROOM:].partition(b"\0")
    return stat_of(found, owner.decode("utf-8", "replace"), group.decode("utf-8", "replace"))


def stat(directory: int, path: bytes, follow: bool) -> Operation[Stat]:
    """GETATTR of a name."""
    found, room = new_attributes(True)
    return Operation(lib.stat, (directory, path, 0 if follow else _c.NO_FOLLOW, _byref(found)),
                     lambda _: named_stat(found, room), room)


def changes(*, mode: Optional[int] = None, uid: int = -1, gid: int = -1, size: Optional[int] = None) -> Any:
    """Returns a struct nfsrdma_changes with those members that are given."""
    wanted = _c.changes()
    if mode is not None:
        wanted.set, wanted.mode = wanted.set | _c.SET_MODE, mode & 0o7777
    if uid != -1:
        wanted.set, wanted.uid = wanted.set | _c.SET_UID, uid
    if gid != -1:
        wanted.set, wanted.gid = wanted.set | _c.SET_GID, gid
    if size is not None:
        if size < 0:
            raise ValueError("a size is not negative")
        wanted.set, wanted.size = wanted.set | _c.SET_SIZE, size
    return wanted


def time_changes(times: Optional[Tuple[float, float]], ns: Optional[Tuple[int, int]]) -> Any:
    """Returns the changes that os.utime makes: to `times` in seconds, or `ns`; neither: to the server's clock."""
    if times is not None and ns is not None:
        raise ValueError("utime: either times or ns may be given")
    wanted = _c.changes()
    if times is None and ns is None:
        wanted.set = _c.SET_ACCESSED_NOW | _c.SET_MODIFIED_NOW
        return wanted
    accessed, modified = ns if ns is not None else [round(t * 10**9) for t in times or ()]
    wanted.set = _c.SET_ACCESSED | _c.SET_MODIFIED
    wanted.accessed.seconds, wanted.accessed.nanoseconds = divmod(accessed, 10**9)
    wanted.modified.seconds, wanted.modified.nanoseconds = divmod(modified, 10**9)
    return wanted


def set_attributes(directory: int, path: bytes, wanted: Any, follow: bool = True) -> Operation[None]:
    """SETATTR of a name."""
    return Operation(lib.set_attributes, (directory, path, 0 if follow else _c.NO_FOLLOW, _byref(wanted)), nothing)


def space(directory: int, path: bytes) -> Operation[Space]:
    """Space of the file system that holds the name."""
    found = _c.space()
    return Operation(lib.statfs, (directory, path, _byref(found)),
                     lambda _: Space(found.total, found.free, found.available, found.files_total, found.files_free,
                                     found.files_available))


# ---- names ----

def sized(function: Any, before: Tuple[Any, ...], room: int) -> Operation[bytes]:
    """Calls a function that stores bytes into (room, size) and returns how many."""
    data = ctypes.create_string_buffer(room)
    return Operation(function, (*before, data, room), lambda count: data.raw[:count])


def whole(function: Any, before: Tuple[Any, ...], room: int) -> "Steps[bytes]":
    """Calls such a function with as much room as it needs."""
    while True:
        try:
            found: bytes = yield sized(function, before, room)
            return found
        except Error as error:
            if error.errno != errno.ERANGE:
                raise
        needed: int = yield Operation(function, (*before, None, 0), number)
        room = max(needed, room) + 64


def mknod(directory: int, path: bytes, mode: int, device: int) -> Operation[None]:
    """Makes a fifo, a socket or a device."""
    return Operation(lib.mknod, (directory, path, type_of(mode), mode & 0o7777, os.major(device), os.minor(device)),
                     nothing)


def open_file(native: Native, directory: int, path: bytes, flags: int, mode: int) -> Operation[Handle]:
    """OPEN. The value is a Handle: if nobody wants it any more, the file is closed."""
    opened = ctypes.c_void_p()
    return Operation(lib.open, (directory, path, flags, mode, _byref(opened)),
                     lambda _: Handle(native, lib.file_free, opened.value or 0))


def open_directory(native: Native, directory: int, path: bytes) -> Operation[Handle]:
    """Opens a directory."""
    opened = ctypes.c_void_p()
    return Operation(lib.open_dir, (directory, path, _byref(opened)),
                     lambda _: Handle(native, lib.dir_free, opened.value or 0))


def makedirs(directory: int, path: str, mode: int, exist_ok: bool) -> "Steps[None]":
    """MKDIR of a directory and of those above it that are missing."""
    missing: List[str] = [path]
    while missing:
        try:
            yield Operation(lib.mkdir, (directory, encode(missing[-1]), mode), nothing)
            missing.pop()
        except Error as error:
            parent = posixpath.dirname(missing[-1].rstrip("/"))
            if error.errno == errno.ENOENT and parent not in ("", "/", missing[-1]):
                missing.append(parent)
                continue
            if error.errno == errno.EEXIST and len(missing) > 1:
                missing.pop()  # another client has made this one meanwhile
                continue
            if not exist_ok:
                raise
            # Servers answer EEXIST, EACCES or EROFS for a directory that exists; as os.makedirs, look.
            found: Stat = yield stat(directory, encode(path), True)
            if not found.is_dir():
                raise
            return


# ---- listings ----

class Listing:
    """A directory that is being listed, page by page."""

    def __init__(self, native: Native, directory: int, path: bytes, shown: str) -> None:
        """`shown`: what the paths of the entries begin with."""
        native.check()
        error = ctypes.c_void_p()
        pointer = lib.listing_new(directory, path, _byref(error))
        if not pointer:
            raise take(error.value)
        self.handle = Handle(native, lib.listing_free, pointer)
        self._shown = shown
        self._entry, self._attributes = _c.entry(), _c.attributes()

    def next_page(self) -> Operation[int]:
        """Fetches the next page. The value is the number of entries; 0: no more."""
        return Operation(lib.listing_next, (self.handle.pointer,), number, self)

    def names(self, count: int) -> Iterator[str]:
        """Yields the names of the page."""
        entry, pointer, fill = self._entry, self.handle.pointer, lib.listing_entry
        reference = _byref(entry)
        for index in range(count):
            if fill(pointer, index, reference) == 0:
                yield os.fsdecode(entry.name)

    def entries(self, count: int) -> Iterator[Entry]:
        """Yields the entries of the page."""
        entry, attributes = self._entry, self._attributes
        entry.attributes = ctypes.addressof(attributes)
        for name in self.names(count):
            yield Entry(name, posixpath.join(self._shown, name), stat_of(attributes) if entry.has_attributes else None)


def listdir(listing: Listing) -> "Steps[List[str]]":
    """Fetches all names of a directory."""
    names: List[str] = []
    while True:
        count = yield listing.next_page()
        if count == 0:
            return names
        names.extend(listing.names(count))
