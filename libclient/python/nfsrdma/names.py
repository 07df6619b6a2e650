"""Names: what Client and Directory have in common. The methods are named as in the module os.

A path that begins with "/" begins at the server's root. Others begin at the directory, or for a Client at the path
of its target. Paths may be str, bytes or os.PathLike. All methods may be called from any thread at the same time.
"""

from __future__ import annotations

import os
import posixpath
import stat
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _acl, _c, _many
from . import _operations as ops
from ._c import lib
from ._native import Native
from ._operations import Operation, Path, Steps, encode
from .errors import Error, make
from .types import CountOrError, Entry, ReadResult, Space, Stat, StatOrError

T = TypeVar("T")


class Place:
    """Where paths begin: a client and a directory of it."""

    _native: Native
    _directory: int
    #: What relative paths begin with, for the library, which lets them begin at `_directory`.
    _start: str = ""

    def _path(self, path: Path) -> bytes:
        return encode(path)

    def _shown(self, path: Path) -> str:
        return os.fsdecode(path)


class Names(Place):
    """Operations on names, by blocking calls."""

    def _perform(self, operation: "Operation[T]") -> T:
        return ops.perform(self._native, operation)

    def _drive(self, steps: "Steps[T]") -> T:
        return ops.drive(self._native, steps)

    # ---- attributes ----

    def stat(self, path: Path, *, follow_symlinks: bool = True) -> Stat:
        """Returns the attributes of a file."""
        return self._perform(ops.stat(self._directory, self._path(path), follow_symlinks))

    def lstat(self, path: Path) -> Stat:
        """Returns the attributes of the name itself, if it is a symbolic link."""
        return self.stat(path, follow_symlinks=False)

    def exists(self, path: Path) -> bool:
        """Returns whether the file exists. A symbolic link that leads nowhere does not."""
        return self._stat_or_none(path) is not None

    def isdir(self, path: Path) -> bool:
        """Returns whether the path leads to a directory."""
        found = self._stat_or_none(path)
        return found is not None and found.is_dir()

    def isfile(self, path: Path) -> bool:
        """Returns whether the path leads to a regular file."""
        found = self._stat_or_none(path)
        return found is not None and found.is_file()

    def islink(self, path: Path) -> bool:
        """Returns whether the name is a symbolic link."""
        found = self._stat_or_none(path, follow_symlinks=False)
        return found is not None and found.is_symlink()

    def _stat_or_none(self, path: Path, follow_symlinks: bool = True) -> Optional[Stat]:
        try:
            return self.stat(path, follow_symlinks=follow_symlinks)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def access(self, path: Path, mode: int) -> bool:
        """Returns whether the server grants os.R_OK, os.W_OK and os.X_OK, as far as `mode` has them."""
        if mode == os.F_OK:
            return self.exists(path)
        return self._perform(Operation(lib.access, (self._directory, self._path(path), mode), ops.number)) == mode

    def chmod(self, path: Path, mode: int) -> None:
        """Sets the permission bits."""
        self._set(path, ops.changes(mode=mode))

    def chown(self, path: Path, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """Sets owner and group; -1 leaves one as it is."""
        self._set(path, ops.changes(uid=uid, gid=gid), follow_symlinks)

    def truncate(self, path: Path, length: int) -> None:
        """Sets the size."""
        self._set(path, ops.changes(size=length))

    def utime(self, path: Path, times: Optional[Tuple[float, float]] = None, *, ns: Optional[Tuple[int, int]] = None,
              follow_symlinks: bool = True) -> None:
        """Sets the times of access and change; without arguments to the server's clock."""
        self._set(path, ops.time_changes(times, ns), follow_symlinks)

    def _set(self, path: Path, wanted: Any, follow: bool = True) -> None:
        if wanted.set:
            self._perform(ops.set_attributes(self._directory, self._path(path), wanted, follow))

    def space(self, path: Path = "") -> Space:
        """Returns the space of the file system that holds the path, as statvfs does."""
        return self._perform(ops.space(self._directory, self._path(path)))

    # ---- names ----

    def mkdir(self, path: Path, mode: int = 0o755) -> None:
        """Makes a directory. The server applies no umask."""
        self._perform(Operation(lib.mkdir, (self._directory, self._path(path), mode), ops.nothing))

    def makedirs(self, path: Path, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Makes a directory and those above it that are missing."""
        self._drive(ops.makedirs(self._directory, os.fsdecode(self._path(path)), mode, exist_ok))

    def mknod(self, path: Path, mode: int, device: int = 0) -> None:
        """Makes a fifo, a socket or a device. `mode` has its type, such as stat.S_IFIFO, and permissions, to which the
        server applies no umask. `device` is a number of os.makedev."""
        self._perform(ops.mknod(self._directory, self._path(path), mode, device))

    def mkfifo(self, path: Path, mode: int = 0o644) -> None:
        """Makes a fifo."""
        self.mknod(path, mode | stat.S_IFIFO)

    def rmdir(self, path: Path) -> None:
        """Removes an empty directory."""
        self._perform(Operation(lib.rmdir, (self._directory, self._path(path)), ops.nothing))

    def unlink(self, path: Path) -> None:
        """Removes a name that is no directory."""
        self._perform(Operation(lib.unlink, (self._directory, self._path(path)), ops.nothing))

    remove = unlink

    def rename(self, old: Path, new: Path, *, to: "Optional[Place]" = None) -> None:
        """Renames, and replaces what is there. `to`: where `new` begins, if not here."""
        to = to or self
        self._perform(Operation(lib.rename, (self._directory, self._path(old), to._directory, to._path(new)),
                                ops.nothing))

    replace = rename

    def link(self, existing: Path, created: Path, *, to: "Optional[Place]" = None) -> None:
        """Makes a further name of a file. `to`: where `created` begins, if not here."""
        to = to or self
        self._perform(Operation(lib.link, (self._directory, self._path(existing), to._directory, to._path(created)),
                                ops.nothing))

    def symlink(self, text: Path, created: Path) -> None:
        """Makes a symbolic link with this text."""
        self._perform(Operation(lib.symlink, (self._directory, encode(text), self._path(created)), ops.nothing))

    def readlink(self, path: Path) -> str:
        """Returns the text of a symbolic link."""
        return os.fsdecode(self._drive(ops.whole(lib.readlink, (self._directory, self._path(path)), 1024)))

    # ---- listings ----

    def listdir(self, path: Path = "") -> List[str]:
        """Returns the names in a directory."""
        return self._drive(ops.listdir(self._listing(path)))

    def scandir(self, path: Path = "") -> Iterator[Entry]:
        """Yields the names in a directory with their attributes. Memory does not grow with the directory."""
        listing = self._listing(path)
        while True:
            count = self._perform(listing.next_page())
            if count == 0:
                return
            yield from list(listing.entries(count))

    def _listing(self, path: Path) -> ops.Listing:
        return ops.Listing(self._native, self._directory, self._path(path), self._shown(path))

    def walk(self, top: Path = "", topdown: bool = True) -> Iterator[Tuple[str, List[str], List[str]]]:
        """Yields (path, names of directories, names of others) of the tree, as os.walk. Follows no symbolic links,
        and leaves out directories that are removed meanwhile."""
        start = self._shown(top)
        try:
            entries = list(self.scandir(start))
        except (FileNotFoundError, NotADirectoryError):
            return
        directories = [entry.name for entry in entries if entry.is_dir()]
        others = [entry.name for entry in entries if not entry.is_dir()]
        if topdown:
            yield start, directories, others
        for name in directories:
            yield from self.walk(posixpath.join(start, name), topdown)
        if not topdown:
            yield start, directories, others

    # ---- extended attributes and access control lists ----

    def getxattr(self, path: Path, name: str, *, follow_symlinks: bool = True) -> bytes:
        """Returns the value of an extended attribute; `name` as Linux has it, "user.NAME"."""
        before = (*self._at(path, follow_symlinks), xattr_name(name))
        return self._drive(ops.whole(lib.get_xattr, before, 1024))

    def setxattr(self, path: Path, name: str, value: bytes, flags: int = 0, *, follow_symlinks: bool = True) -> None:
        """Sets an extended attribute. `flags`: os.XATTR_CREATE or os.XATTR_REPLACE."""
        value = bytes(value)
        self._perform(Operation(lib.set_xattr, (*self._at(path, follow_symlinks), xattr_name(name), value,
                                                len(value), flags), ops.nothing))

    def removexattr(self, path: Path, name: str, *, follow_symlinks: bool = True) -> None:
        """Removes an extended attribute."""
        self._perform(Operation(lib.remove_xattr, (*self._at(path, follow_symlinks), xattr_name(name)), ops.nothing))

    def listxattr(self, path: Path, *, follow_symlinks: bool = True) -> List[str]:
        """Returns the names of the extended attributes, as Linux has them."""
        found = self._drive(ops.whole(lib.list_xattrs, self._at(path, follow_symlinks), 4096))
        return xattr_names(found)

    def get_acl(self, path: Path, *, follow_symlinks: bool = True, numeric: bool = True) -> str:
        """Returns the access control list as getfacl or nfs4_getfacl print it. `numeric`: ids stay numbers."""
        return self._drive(_acl.get(self._directory, self._path(path), follow_symlinks, numeric))

    def set_acl(self, path: Path, text: str, *, follow_symlinks: bool = True) -> None:
        """Replaces the access control list."""
        self._drive(_acl.put(self._directory, self._path(path), follow_symlinks, text))

    def _at(self, path: Path, follow: bool) -> Tuple[int, bytes, int]:
        return self._directory, self._path(path), 0 if follow else _c.NO_FOLLOW

    # ---- many files at once ----

    def read_many(self, paths: Sequence[Path], buffer: Any = None, *, room: Optional[int] = None,
                  attributes: bool = False) -> List[ReadResult]:
        """Reads many small files, a dozen or more with each request, into one buffer.

        File number i is read to buffer[i * room:]. `room` is by default an equal share of the buffer, or 64 KiB
        without a buffer. Each result has its data as a memoryview of the buffer, and its own error."""
        return self._perform(_many.read_many(self, paths, buffer, room, attributes))

    def write_many(self, files: Union[Mapping[Any, Any], Iterable[Tuple[Path, Any]]],
                   mode: int = 0o644) -> List[CountOrError]:
        """Writes many small files: pairs of path and data, or a dict. Returns for each the size or an Error.

        The data becomes the file's whole content, and is on the server's disk."""
        return self._perform(_many.write_many(self, pairs_of(files), mode))

    def stat_many(self, paths: Sequence[Path], *, follow_symlinks: bool = True) -> List[StatOrError]:
        """Returns for each path its attributes or an Error."""
        return self._perform(_many.stat_many(self, paths, follow_symlinks))


def pairs_of(files: Union[Mapping[Any, Any], Iterable[Tuple[Path, Any]]]) -> Iterable[Tuple[Path, Any]]:
    """Returns what write_many was given as pairs."""
    return files.items() if isinstance(files, Mapping) else files


def xattr_name(name: str) -> bytes:
    """Returns the name that the protocol has for Linux's "user.NAME"."""
    if not name.startswith("user."):
        raise make(95, f"extended attribute {name!r}: the server keeps only those that begin with 'user.'")
    return encode(name[5:])


def xattr_names(found: bytes) -> List[str]:
    """Returns Linux's names for those that the library stored."""
    return ["user." + os.fsdecode(name) for name in found.split(b"\0") if name]


