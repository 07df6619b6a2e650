"""Names for asyncio: the methods of nfsrdma.names.Names, as coroutines."""

from __future__ import annotations

import os
import posixpath
import stat
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _acl, _c, _many
from . import _operations as ops
from ._c import lib
from ._operations import Operation, Path, Steps, encode
from .names import Place, pairs_of, xattr_name, xattr_names
from .types import CountOrError, Entry, ReadResult, Space, Stat, StatOrError

if TYPE_CHECKING:
    from .aio import LoopQueue

T = TypeVar("T")


class AsyncNames(Place):
    """Operations on names, as coroutines. See nfsrdma.names.Names for what they do."""

    def _queue(self) -> "LoopQueue":
        raise NotImplementedError

    async def _perform(self, operation: "Operation[T]") -> T:
        return await self._queue().perform(operation, self)

    async def _drive(self, steps: "Steps[T]") -> T:
        return await self._queue().drive(steps, self)

    # ---- attributes ----

    async def stat(self, path: Path, *, follow_symlinks: bool = True) -> Stat:
        """Returns the attributes of a file."""
        return await self._perform(ops.stat(self._directory, self._path(path), follow_symlinks))

    async def lstat(self, path: Path) -> Stat:
        """Returns the attributes of the name itself, if it is a symbolic link."""
        return await self.stat(path, follow_symlinks=False)

    async def exists(self, path: Path) -> bool:
        """Returns whether the file exists."""
        return await self._stat_or_none(path) is not None

    async def isdir(self, path: Path) -> bool:
        """Returns whether the path leads to a directory."""
        found = await self._stat_or_none(path)
        return found is not None and found.is_dir()

    async def isfile(self, path: Path) -> bool:
        """Returns whether the path leads to a regular file."""
        found = await self._stat_or_none(path)
        return found is not None and found.is_file()

    async def _stat_or_none(self, path: Path) -> Optional[Stat]:
        try:
            return await self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    async def access(self, path: Path, mode: int) -> bool:
        """Returns whether the server grants os.R_OK, os.W_OK and os.X_OK, as far as `mode` has them."""
        if mode == os.F_OK:
            return await self.exists(path)
        return await self._perform(Operation(lib.access, (self._directory, self._path(path), mode),
                                             ops.number)) == mode

    async def chmod(self, path: Path, mode: int) -> None:
        """Sets the permission bits."""
        await self._set(path, ops.changes(mode=mode))

    async def chown(self, path: Path, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """Sets owner and group; -1 leaves one as it is."""
        await self._set(path, ops.changes(uid=uid, gid=gid), follow_symlinks)

    async def truncate(self, path: Path, length: int) -> None:
        """Sets the size."""
        await self._set(path, ops.changes(size=length))

    async def utime(self, path: Path, times: Optional[Tuple[float, float]] = None, *,
                    ns: Optional[Tuple[int, int]] = None, follow_symlinks: bool = True) -> None:
        """Sets the times of access and change; without arguments to the server's clock."""
        await self._set(path, ops.time_changes(times, ns), follow_symlinks)

    async def _set(self, path: Path, wanted: Any, follow: bool = True) -> None:
        if wanted.set:
            await self._perform(ops.set_attributes(self._directory, self._path(path), wanted, follow))

    async def space(self, path: Path = "") -> Space:
        """Returns the space of the file system that holds the path."""
        return await self._perform(ops.space(self._directory, self._path(path)))

    # ---- names ----

    async def mkdir(self, path: Path, mode: int = 0o755) -> None:
        """Makes a directory."""
        await self._perform(Operation(lib.mkdir, (self._directory, self._path(path), mode), ops.nothing))

    async def makedirs(self, path: Path, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Makes a directory and those above it that are missing."""
        await self._drive(ops.makedirs(self._directory, os.fsdecode(self._path(path)), mode, exist_ok))

    async def mknod(self, path: Path, mode: int, device: int = 0) -> None:
        """Makes a fifo, a socket or a device."""
        await self._perform(ops.mknod(self._directory, self._path(path), mode, device))

    async def mkfifo(self, path: Path, mode: int = 0o644) -> None:
        """Makes a fifo."""
        await self.mknod(path, mode | stat.S_IFIFO)

    async def rmdir(self, path: Path) -> None:
        """Removes an empty directory."""
        await self._perform(Operation(lib.rmdir, (self._directory, self._path(path)), ops.nothing))

    async def unlink(self, path: Path) -> None:
        """Removes a name that is no directory."""
        await self._perform(Operation(lib.unlink, (self._directory, self._path(path)), ops.nothing))

    async def rename(self, old: Path, new: Path) -> None:
        """Renames, and replaces what is there."""
        await self._perform(Operation(lib.rename, (self._directory, self._path(old), self._directory,
                                                   self._path(new)), ops.nothing))

    async def link(self, existing: Path, created: Path) -> None:
        """Makes a further name of a file."""
        await self._perform(Operation(lib.link, (self._directory, self._path(existing), self._directory,
                                                 self._path(created)), ops.nothing))

    async def symlink(self, text: Path, created: Path) -> None:
        """Makes a symbolic link with this text."""
        await self._perform(Operation(lib.symlink, (self._directory, encode(text), self._path(created)), ops.nothing))

    async def readlink(self, path: Path) -> str:
        """Returns the text of a symbolic link."""
        return os.fsdecode(await self._drive(ops.whole(lib.readlink, (self._directory, self._path(path)), 1024)))

    # ---- listings ----

    async def listdir(self, path: Path = "") -> List[str]:
        """Returns the names in a directory."""
        return await self._drive(ops.listdir(self._listing(path)))

    async def scandir(self, path: Path = "") -> AsyncIterator[Entry]:
        """Yields the names in a directory with their attributes."""
        listing = self._listing(path)
        while True:
            count = await self._perform(listing.next_page())
            if count == 0:
                return
            for entry in list(listing.entries(count)):
                yield entry

    def _listing(self, path: Path) -> ops.Listing:
        return ops.Listing(self._native, self._directory, self._path(path), self._shown(path))

    async def walk(self, top: Path = "") -> AsyncIterator[Tuple[str, List[str], List[str]]]:
        """Yields (path, names of directories, names of others) of the tree, from the top."""
        start = self._shown(top)
        try:
            entries = [entry async for entry in self.scandir(start)]
        except (FileNotFoundError, NotADirectoryError):
            return
        directories = [entry.name for entry in entries if entry.is_dir()]
        yield start, directories, [entry.name for entry in entries if not entry.is_dir()]
        for name in directories:
            async for found in self.walk(posixpath.join(start, name)):
                yield found

    # ---- extended attributes and access control lists ----

    async def getxattr(self, path: Path, name: str, *, follow_symlinks: bool = True) -> bytes:
        """Returns the value of an extended attribute."""
        before = (*self._at(path, follow_symlinks), xattr_name(name))
        return await self._drive(ops.whole(lib.get_xattr, before, 1024))

    async def setxattr(self, path: Path, name: str, value: bytes, flags: int = 0, *,
                       follow_symlinks: bool = True) -> None:
        """Sets an extended attribute."""
        value = bytes(value)
        await self._perform(Operation(lib.set_xattr, (*self._at(path, follow_symlinks), xattr_name(name), value,
                                                      len(value), flags), ops.nothing))

    async def removexattr(self, path: Path, name: str, *, follow_symlinks: bool = True) -> None:
        """Removes an extended attribute."""
        await self._perform(Operation(lib.remove_xattr, (*self._at(path, follow_symlinks), xattr_name(name)),
                                      ops.nothing))

    async def listxattr(self, path: Path, *, follow_symlinks: bool = True) -> List[str]:
        """Returns the names of the extended attributes."""
        return xattr_names(await self._drive(ops.whole(lib.list_xattrs, self._at(path, follow_symlinks), 4096)))

    async def get_acl(self, path: Path, *, follow_symlinks: bool = True, numeric: bool = True) -> str:
        """Returns the access control list as text."""
        return await self._drive(_acl.get(self._directory, self._path(path), follow_symlinks, numeric))

    async def set_acl(self, path: Path, text: str, *, follow_symlinks: bool = True) -> None:
        """Replaces the access control list."""
        await self._drive(_acl.put(self._directory, self._path(path), follow_symlinks, text))

    def _at(self, path: Path, follow: bool) -> Tuple[int, bytes, int]:
        return self._directory, self._path(path), 0 if follow else _c.NO_FOLLOW

    # ---- many files at once ----

    async def read_many(self, paths: Sequence[Path], buffer: Any = None, *, room: Optional[int] = None,
                        attributes: bool = False) -> List[ReadResult]:
        """Reads many small files into one buffer."""
        return await self._perform(_many.read_many(self, paths, buffer, room, attributes))

    async def write_many(self, files: Union[Mapping[Any, Any], Iterable[Tuple[Path, Any]]],
                         mode: int = 0o644) -> List[CountOrError]:
        """Writes many small files."""
        return await self._perform(_many.write_many(self, pairs_of(files), mode))

    async def stat_many(self, paths: Sequence[Path], *, follow_symlinks: bool = True) -> List[StatOrError]:
        """Returns for each path its attributes or an Error."""
        return await self._perform(_many.stat_many(self, paths, follow_symlinks))
