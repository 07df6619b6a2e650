"""fsspec: files at "nfsrdma://host[:port]/path".

    import fsspec
    with fsspec.open("nfsrdma://server/export/table.parquet") as file: ...
    fs = fsspec.filesystem("nfsrdma", host="server", rsize="64K")

Storage options are `host`, `port`, and the options of nfsrdma.option_help(). Whole files and ranges go by asyncio,
many at a time; file objects of `open` read by blocking calls, with the cache that `cache_type` names.
"""

from __future__ import annotations

import asyncio
import os
import stat as _stat
from typing import Any, Dict, List, Optional
from urllib.parse import urlsplit

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractBufferedFile

from .aio import AsyncClient, AsyncFile
from .client import option_help
from .errors import Error
from .types import Stat

#: Bytes of one read or write of get and put, and how many of them are in flight.
_PIECE = 1 << 20
_IN_FLIGHT = 8
_TYPES = {_stat.S_IFREG: "file", _stat.S_IFDIR: "directory", _stat.S_IFLNK: "link"}


class NfsRdmaFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """A file system of fsspec. Its paths begin at the server's root."""

    protocol = "nfsrdma"
    root_marker = "/"
    cachable = True

    def __init__(self, host: str = "", port: Optional[int] = None, **storage_options: Any) -> None:
        names = {name for name, _, _ in option_help()}
        self._nfs_options = {name: storage_options[name] for name in list(storage_options) if name in names}
        super().__init__(**{name: value for name, value in storage_options.items() if name not in names})
        if not host:
            raise ValueError('nfsrdma: storage option "host" is missing; or use "nfsrdma://host/path"')
        self.host, self.port = host, port
        self._connected: Optional[AsyncClient] = None
        self._connecting: Optional["asyncio.Lock"] = None

    # ---- URLs ----

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(part) for part in path]
        path = os.fspath(path)
        if path.startswith("nfsrdma://"):
            path = path[len("nfsrdma://"):].partition("/")[2]
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(url: str) -> Dict[str, Any]:
        parts = urlsplit(url)
        if parts.scheme != "nfsrdma" or not parts.hostname:
            return {}
        found: Dict[str, Any] = {"host": parts.hostname}
        if parts.port is not None:
            found["port"] = parts.port
        return found

    @classmethod
    def _parent(cls, path: str) -> str:
        found: str = os.path.dirname(cls._strip_protocol(path))
        return found

    # ---- the client ----

    @property
    def target(self) -> str:
        """The URL that the client connects to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"nfs://{host}{'' if self.port is None else f':{self.port}'}/"

    async def _client(self) -> AsyncClient:
        """Returns the client; connects at first."""
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._connected is None:
                self._connected = await AsyncClient(self.target, **self._nfs_options).connect()
            return self._connected

    async def _close(self) -> None:
        """Ends the session. The next operation connects again."""
        client, self._connected = self._connected, None
        if client is not None:
            await client.aclose()

    # ---- what is there ----

    async def _info(self, path: str, **kwargs: Any) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        client = await self._client()
        found = await client.lstat(path)
        return await self._described(client, path, found)

    async def _described(self, client: AsyncClient, path: str, found: Stat) -> Dict[str, Any]:
        """Returns the attributes as fsspec has them. A symbolic link is described by what it leads to."""
        link: Dict[str, Any] = {}
        if found.is_symlink():
            try:
                link = {"islink": True, "destination": await client.readlink(path)}
                found = await client.stat(path)
            except FileNotFoundError:
                pass
        return {"name": path, "size": found.st_size, "type": _TYPES.get(_stat.S_IFMT(found.st_mode), "other"),
                "mode": found.st_mode, "uid": found.st_uid, "gid": found.st_gid, "ino": found.st_ino,
                "nlink": found.st_nlink, "mtime": found.st_mtime, "created": found.st_ctime, "islink": False, **link}

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> List[Any]:
        path = self._strip_protocol(path)
        client = await self._client()
        try:
            if not detail:
                return sorted([os.path.join(path, name) for name in await client.listdir(path)])
            found = []
            async for entry in client.scandir(path):
                attributes = entry.attributes or await client.lstat(entry.path)
                found.append(await self._described(client, entry.path, attributes))
            return sorted(found, key=lambda info: str(info["name"]))
        except NotADirectoryError:
            info = await self._info(path)
            return [info] if detail else [info["name"]]

    async def _modified(self, path: str) -> Any:
        import datetime

        return datetime.datetime.fromtimestamp((await self._info(path))["mtime"], datetime.timezone.utc)

    # ---- contents ----

    async def _cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None,
                        **kwargs: Any) -> bytes:
        client = await self._client()
        async with await client.open(self._strip_protocol(path)) as file:
            start = 0 if start is None else start
            if start < 0 or end is None or end < 0:
                size = (await file.stat()).st_size
                start = max(0, size + start) if start < 0 else start
                end = size if end is None else size + end if end < 0 else end
            return await file.pread(max(0, end - start), start)

    async def _pipe_file(self, path: str, value: Any, **kwargs: Any) -> None:
        client = await self._client()
        async with await client.open(self._strip_protocol(path), "wb") as file:
            await file.pwrite(value, 0)

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = None, **kwargs: Any) -> None:
        client = await self._client()
        rpath = self._strip_protocol(rpath)
        if await client.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        async with await client.open(rpath) as file:
            size = (await file.stat()).st_size
            if callback is not None:
                callback.set_size(size)
            with open(lpath, "wb") as local:
                async def piece(offset: int) -> int:
                    data = await file.pread(min(_PIECE, size - offset), offset)
                    os.pwrite(local.fileno(), data, offset)
                    return len(data)

                await _pieces(piece, size, callback)

    async def _put_file(self, lpath: Any, rpath: str, callback: Any = None, **kwargs: Any) -> None:
        client = await self._client()
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            await client.makedirs(rpath, exist_ok=True)
            return
        with open(lpath, "rb") as local:
            size = os.fstat(local.fileno()).st_size
            if callback is not None:
                callback.set_size(size)
            async with await client.open(rpath, "wb") as file:
                async def piece(offset: int) -> int:
                    return await file.pwrite(os.pread(local.fileno(), _PIECE, offset), offset)

                await _pieces(piece, size, callback)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies within the server if it can, else through this machine."""
        client = await self._client()
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if await client.isdir(path1):
            await client.makedirs(path2, exist_ok=True)
            return
        async with await client.open(path1) as source, await client.open(path2, "wb") as file:
            try:
                await file.copy_from(source)
            except Error as error:
                if error.errno not in (_ENOTSUP, _EXDEV):
                    raise
                await _copy_through(source, file)

    async def _mv_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        client = await self._client()
        await client.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: Optional[int] = None,
           **kwargs: Any) -> None:
        """Renames a file or a directory with all that is in it."""
        from fsspec.asyn import sync

        sync(self.loop, self._mv_file, path1, path2)

    # ---- directories ----

    async def _mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        client = await self._client()
        path = self._strip_protocol(path)
        if create_parents:
            await client.makedirs(path)
        else:
            await client.mkdir(path)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        client = await self._client()
        await client.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        client = await self._client()
        path = self._strip_protocol(path)
        try:
            await client.unlink(path)
        except (IsADirectoryError, PermissionError):
            if not (await client.lstat(path)).is_dir():
                raise
            await client.rmdir(path)

    async def _rm(self, path: Any, recursive: bool = False, batch_size: Optional[int] = None, **kwargs: Any) -> None:
        """Removes files, and with `recursive` directories, what is deepest first."""
        paths = await self._expand_path(path, recursive=recursive)
        client = await self._client()
        entries = {found: await client.lstat(found) for found in paths}
        await asyncio.gather(*(client.unlink(found) for found, what in entries.items() if not what.is_dir()))
        for found in sorted((found for found, what in entries.items() if what.is_dir()), reverse=True):
            await client.rmdir(found)

    async def _rmdir(self, path: str) -> None:
        client = await self._client()
        await client.rmdir(self._strip_protocol(path))

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        from fsspec.asyn import sync

        sync(self.loop, self._rmdir, path)

    # ---- file objects ----

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True,
              cache_options: Any = None, **kwargs: Any) -> "NfsRdmaFile":
        if block_size in (None, "default"):
            block_size = _PIECE
        return NfsRdmaFile(self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs)


_ENOTSUP, _EXDEV = 95, 18


async def _pieces(piece: Any, size: int, callback: Any) -> None:
    """Calls `piece` for each piece of a file, several at a time. A piece that comes short ends it."""
    offsets = iter(range(0, size, _PIECE))

    async def one_after_another() -> None:
        for offset in offsets:
            count = await piece(offset)
            if callback is not None:
                callback.relative_update(count)

    await asyncio.gather(*(one_after_another() for _ in range(_IN_FLIGHT)))


async def _copy_through(source: AsyncFile, file: AsyncFile) -> None:
    async def piece(offset: int) -> int:
        return await file.pwrite(await source.pread(_PIECE, offset), offset)

    await _pieces(piece, (await source.stat()).st_size, None)


class NfsRdmaFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file object with fsspec's caches for reading and its buffer for writing. With autocommit=False (transactions)
    the data goes to a temporary name, until commit() renames it."""

    def __init__(self, fs: NfsRdmaFileSystem, path: str, mode: str = "rb", block_size: int = _PIECE,
                 autocommit: bool = True, **kwargs: Any) -> None:
        from fsspec.asyn import sync

        if mode not in ("rb", "wb", "ab"):
            raise NotImplementedError(f"mode {mode!r}: this file system has rb, wb and ab")
        client = sync(fs.loop, fs._client).client
        path = fs._strip_protocol(path)
        self._place = path if autocommit else f"{path}.nfsrdma-{os.getpid()}-{id(self):x}"
        self._nfs = client.open(self._place, mode)
        self._client = client
        if mode == "rb":
            kwargs.setdefault("size", self._nfs.stat().st_size)
        super().__init__(fs, path, mode, block_size, autocommit, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self._nfs.pread(max(0, end - start), start)
        return data

    def _initiate_upload(self) -> None:
        self._start = self._nfs.tell()  # the end of the file in mode "ab"

    def _upload_chunk(self, final: bool = False) -> bool:
        self._nfs.pwrite(self.buffer.getbuffer(), self._start + self.offset)
        return True

    def close(self) -> None:
        """Writes what is buffered, puts it onto the server's disk, and closes the file."""
        try:
            super().close()
        finally:
            if hasattr(self, "_nfs"):
                self._nfs.close()

    def commit(self) -> None:
        """Moves the data to its name."""
        if not self.autocommit:
            self._client.rename(self._place, self.path)

    def discard(self) -> None:
        """Removes the temporary name."""
        if not self.autocommit:
            self._client.unlink(self._place)
