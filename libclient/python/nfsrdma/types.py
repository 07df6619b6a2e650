"""The values that calls return: attributes, directory entries, space, locks, extents. All are immutable."""

from __future__ import annotations

import os
import stat as _stat
import struct
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from . import _c
from .errors import Error

#: The type bits of st_mode for each type that the server can report.
_FORMATS = (0, _stat.S_IFREG, _stat.S_IFDIR, _stat.S_IFLNK, _stat.S_IFBLK, _stat.S_IFCHR, _stat.S_IFIFO,
            _stat.S_IFSOCK)
_NANO = 10**9
#: Makes a NamedTuple of all its members, in half the time of its class.
new_tuple = tuple.__new__
_NOBODY = 65534


def type_of(mode: int) -> int:
    """Returns the library's number for the type bits of a mode; 0: there is none."""
    kind = _stat.S_IFMT(mode)
    return _FORMATS.index(kind) if kind in _FORMATS else 0


class Stat(NamedTuple):
    """The attributes of a file. The members st_* have the names and units of os.stat_result."""

    st_mode: int  #: type and permission bits
    st_nlink: int
    st_uid: int  #: 65534 if the owner has no number on this machine; see `owner`
    st_gid: int
    st_size: int
    st_ino: int
    st_dev: int
    st_rdev: int  #: of a device: its number, as os.makedev has it
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    space_used: int  #: bytes that the file takes on the server's disk
    change: int  #: a counter that increases with each change
    filesystem: Tuple[int, int]
    owner: Optional[str] = None  #: as the server reports it: a number or name@domain; None if not asked for
    group: Optional[str] = None

    @property
    def st_atime(self) -> float:
        """Time of the last access, in seconds."""
        return self.st_atime_ns / _NANO

    @property
    def st_mtime(self) -> float:
        """Time of the last change of the contents, in seconds."""
        return self.st_mtime_ns / _NANO

    @property
    def st_ctime(self) -> float:
        """Time of the last change of contents or attributes, in seconds."""
        return self.st_ctime_ns / _NANO

    @property
    def st_blocks(self) -> int:
        """Space on the server's disk, in units of 512 bytes."""
        return (self.space_used + 511) // 512

    @property
    def st_blksize(self) -> int:
        """Size of efficient reads and writes."""
        return 1 << 20

    def is_dir(self) -> bool:
        """Returns whether this is a directory."""
        return _stat.S_ISDIR(self.st_mode)

    def is_file(self) -> bool:
        """Returns whether this is a regular file."""
        return _stat.S_ISREG(self.st_mode)

    def is_symlink(self) -> bool:
        """Returns whether this is a symbolic link."""
        return _stat.S_ISLNK(self.st_mode)


#: Reads all members at once, because reading members of ctypes structs one by one takes several times as long.
_members = struct.Struct(_c.format_of(_c.attributes))
unpack_attributes = _members.iter_unpack


def stat_of(found: Any, owner: Optional[str] = None, group: Optional[str] = None) -> Stat:
    """Turns a struct nfsrdma_attributes into a Stat."""
    return stat_of_members(_members.unpack_from(found), owner, group)


def stat_of_members(members: Tuple[int, ...], owner: Optional[str] = None, group: Optional[str] = None) -> Stat:
    """Turns the members of a struct nfsrdma_attributes into a Stat."""
    (_, kind, mode, links, has, uid, gid, size, space_used, file_id, change, major, minor, device_major, device_minor,
     accessed, accessed_ns, _, modified, modified_ns, _, changed, changed_ns, _, *_) = members
    return new_tuple(Stat, (
        (_FORMATS[kind] if kind < len(_FORMATS) else 0) | mode, links,
        uid if has & _c.HAS_UID else _NOBODY, gid if has & _c.HAS_GID else _NOBODY,
        size, file_id, (major << 32 ^ minor) & (2**64 - 1), os.makedev(device_major, device_minor),
        accessed * _NANO + accessed_ns, modified * _NANO + modified_ns, changed * _NANO + changed_ns,
        space_used, change, (major, minor), owner, group))


class Entry(NamedTuple):
    """One name in a directory, like os.DirEntry. The attributes came with the name, without further requests."""

    name: str
    path: str
    attributes: Optional[Stat]  #: None if the server could not report them

    def stat(self) -> Stat:
        """Returns the attributes of the name itself; raises ValueError if the server did not report them."""
        if self.attributes is None:
            raise ValueError(f"the server reported no attributes of {self.path}")
        return self.attributes

    def inode(self) -> int:
        """Returns the number of the file."""
        return self.stat().st_ino

    def is_dir(self) -> bool:
        """Returns whether this is a directory; symbolic links are not followed."""
        return self.attributes is not None and self.attributes.is_dir()

    def is_file(self) -> bool:
        """Returns whether this is a regular file; symbolic links are not followed."""
        return self.attributes is not None and self.attributes.is_file()

    def is_symlink(self) -> bool:
        """Returns whether this is a symbolic link."""
        return self.attributes is not None and self.attributes.is_symlink()

    def __fspath__(self) -> str:
        return self.path


class Space(NamedTuple):
    """Space of a file system: bytes, and numbers of inodes."""

    total: int
    free: int
    available: int  #: to this user
    files_total: int
    files_free: int
    files_available: int


class Extent(NamedTuple):
    """A range of a file that is all data, or all hole."""

    offset: int
    length: int
    is_hole: bool


class Holes(NamedTuple):
    """Which holes a read met."""

    has_holes: bool  #: some of the bytes that were read are in holes
    hole_ends: Optional[int]  #: end of the hole that contains the last byte; None if the last byte is data


class Lock(NamedTuple):
    """A byte-range lock, as test_lock reports it. `length` None: to the end, however far the file grows."""

    owner: int
    exclusive: bool
    ours: bool  #: the holder is `owner` of this client
    offset: int
    length: Optional[int]


class ReadResult(NamedTuple):
    """What became of one file of read_many."""

    path: str
    data: memoryview  #: the bytes that were read; empty if the read failed
    eof: bool  #: the file ends there; False: it is longer than its room
    stat: Optional[Stat]  #: if asked for: the attributes just after the read
    error: Optional[Error]

    def value(self) -> memoryview:
        """Returns the data; raises the error if the read failed."""
        if self.error is not None:
            raise self.error
        return self.data


class Export(NamedTuple):
    """One export of a server. `clients`: who may mount it; empty: everybody."""

    path: str
    clients: Tuple[str, ...]


class Finding(NamedTuple):
    """What one step of a diagnosis has found. `state`: "ok", "warning", "failed" or "skipped". `seen` and `advice` are
    for people; `facts` are what the step has measured, by name."""

    step: str
    state: str
    seconds: float
    seen: str
    advice: str
    facts: Dict[str, str]


class Mount(NamedTuple):
    """A client that has mounted an export."""

    client: str
    path: str


StatOrError = Union[Stat, Error]
CountOrError = Union[int, Error]
