"""Client and Directory, and what can be asked of a server without connecting to its NFS service."""

from __future__ import annotations

import ctypes
import os
import posixpath
import threading
import warnings
import weakref
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, List, Literal, Optional, Tuple, TypeVar, Union, overload

from . import _c
from . import _operations as ops
from ._c import lib
from ._native import SLICE, Handle, Native, limits, process
from ._operations import Path, encode
from .errors import take
from .file import File, open_flags, stack
from .names import Names
from .types import Export, Finding, Mount

if TYPE_CHECKING:
    from .queue import Queue

T = TypeVar("T")
LogFunction = Callable[[str], None]


# ---- options ----

class _Options:
    """Owns an nfsrdma_options."""

    def __init__(self, target: Optional[str], options: Dict[str, Any]) -> None:
        self.pointer = lib.options_new()
        if not self.pointer:
            raise MemoryError
        self.log: Any = None
        error = ctypes.c_void_p()
        # The target gets the defaults that the configuration has for it, so the configuration is chosen first.
        self._set({name: value for name, value in options.items() if name == "config"})
        if target is not None and lib.options_set_target(self.pointer, encode(target), ctypes.byref(error)) < 0:
            raise take(error.value)
        self._set({name: value for name, value in options.items() if name != "config"})

    def _set(self, options: Dict[str, Any]) -> None:
        error = ctypes.c_void_p()
        for name, value in options.items():
            if lib.options_set(self.pointer, encode(name), encode(_option_text(name, value)), ctypes.byref(error)) < 0:
                raise take(error.value)

    def set_log(self, log: LogFunction) -> None:
        """Has `log` called with each notice. What it raises is printed and ignored."""
        def notice(_data: Any, text: bytes) -> None:
            limits.in_log = True
            try:
                log(text.decode("utf-8", "replace"))
            finally:
                limits.in_log = False

        self.log = _c.Log(notice)
        lib.options_set_log(self.pointer, self.log, None)

    def __del__(self, _free: Any = lib.options_free) -> None:
        _free(self.pointer)


def _option_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        values = {known: values for known, values, _ in option_help()}.get(name, "")
        return (("off", "on") if "on or off" in values else ("no", "yes"))[value]
    return os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


def option_help() -> List[Tuple[str, str, str]]:
    """Returns all options as (name, values that it takes, what it is for)."""
    found: List[Tuple[str, str, str]] = []
    option = _c.option()
    while lib.option_help(len(found), ctypes.byref(option)) == 0:
        found.append((option.name.decode(), (option.values or b"").decode(), (option.text or b"").decode()))
    return found


# ---- connecting ----

class _Interrupt:
    """A pipe that ends what blocks inside the library. Closed when nobody refers to it any more."""

    def __init__(self, settings: _Options) -> None:
        self.ends = os.pipe()
        lib.options_set_interrupt(settings.pointer, self.ends[0])

    def __call__(self) -> None:
        os.write(self.ends[1], b"x")

    def __del__(self, _close: Any = os.close) -> None:
        for descriptor in self.ends:
            _close(descriptor)


def _interruptible(work: Callable[[], T], interrupt: _Interrupt) -> T:
    """Runs `work`, which blocks inside the library, so that Ctrl-C ends it: on the main thread by a helper."""
    if threading.get_ident() != process.main:
        return work()
    values: List[T] = []
    errors: List[BaseException] = []

    def run() -> None:
        try:
            values.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="nfsrdma-connect", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(SLICE / 1000)
    except BaseException:
        interrupt()
        thread.join(5)
        raise
    if errors:
        raise errors.pop()
    return values.pop()


def _connect(target: str, log: Optional[LogFunction], options: Dict[str, Any]) -> Native:
    settings = _Options(target, options)
    if log is not None:
        settings.set_log(log)
    interrupt = _Interrupt(settings)

    def work() -> Native:
        error = ctypes.c_void_p()
        pointer = lib.connect(None, settings.pointer, ctypes.byref(error))
        if not pointer:
            raise take(error.value)
        return Native(pointer, (settings.log, interrupt))

    return _interruptible(work, interrupt)


# ---- the classes ----

class _Opener(Names):
    """Names that can be opened."""

    _keep: Any

    @overload  # type: ignore[misc]
    def open(self, path: Path, mode: Literal["rb", "wb", "ab", "xb", "r+b", "rb+", "w+b", "wb+", "a+b", "ab+", "x+b",
                                             "xb+"] = ..., buffering: Literal[0] = ..., *,
             permissions: int = ...) -> File: ...

    @overload
    def open(self, path: Path, mode: str, buffering: Optional[int] = ..., encoding: Optional[str] = ...,
             errors: Optional[str] = ..., newline: Optional[str] = ..., *, permissions: int = ...) -> IO[Any]: ...

    def open(self, path: Path, mode: str = "rb", buffering: Optional[int] = None, encoding: Optional[str] = None,
             errors: Optional[str] = None, newline: Optional[str] = None, *, permissions: int = 0o644) -> Any:
        """Opens a file; modes as of the function open.

        Binary modes return a File, which has no buffer. With `buffering` (-1: 1 MiB, or a size) they return an
        io.BufferedReader, BufferedWriter or BufferedRandom on top of it; text modes return an io.TextIOWrapper.
        `permissions` are those of a file that is created; the server applies no umask."""
        flags = open_flags(mode)
        if "b" in mode and (encoding, errors, newline) != (None, None, None):
            raise ValueError("binary mode takes no encoding, errors or newline")
        handle = self._perform(ops.open_file(self._native, self._directory, self._path(path), flags, permissions))
        file = File(handle, self, self._shown(path), mode)
        try:
            return stack(file, mode, buffering, encoding, errors, newline)
        except BaseException:
            file.close()
            raise

    def open_directory(self, path: Path = "") -> "Directory":
        """Opens a directory, so that paths can begin there. It stays the same directory when it is renamed."""
        handle = self._perform(ops.open_directory(self._native, self._directory, self._path(path)))
        return Directory(handle, self, self._shown(path))

    def read_bytes(self, path: Path) -> bytes:
        """Returns the contents of a file."""
        with self.open(path, "rb") as file:
            return file.readall()

    def write_bytes(self, path: Path, data: Any, *, permissions: int = 0o644) -> int:
        """Makes the data the contents of a file. Returns its size."""
        with self.open(path, "wb", permissions=permissions) as file:
            return file.pwrite(data, 0)


class Directory(_Opener):
    """A directory at which paths begin. Returned by open_directory."""

    def __init__(self, handle: Handle, parent: Any, path: str) -> None:
        self._handle, self._keep, self._native = handle, parent, handle.native
        self._directory = handle.pointer
        #: The path that it was opened with.
        self.path = path

    @property
    def client(self) -> "Client":
        """The client."""
        client: Client = self._keep.client
        return client

    def _path(self, path: Path) -> bytes:
        return encode(path) or b"."

    def __repr__(self) -> str:
        return f"<nfsrdma.Directory {self.path!r}>"


class Client(_Opener):
    """A connection to a server. See the package for examples.

    `target` is "nfs://host[:port]/path?option=value", "host:/path" or "[address]:/path". `options` are those of
    nfsrdma-cli and the mount, for example Client(target, rsize="64K", nconnect=4); option_help() lists them.
    `log` is called with notices of what went wrong and how the library deals with it, on any thread; it must not
    use this package.

    A Client may be used from any thread. A process that was forked needs a Client of its own."""

    def __init__(self, target: str, *, log: Optional[LogFunction] = None, **options: Any) -> None:
        self._native = _connect(target, log, options)
        self._directory = self._native.root
        self._start = posixpath.join(self._native.path, "")
        self._queues: "weakref.WeakSet[Queue]" = weakref.WeakSet()
        self.target = target

    @property
    def path(self) -> str:
        """The path of the target: absolute, "/" if the target named none. Relative paths begin there."""
        return self._native.path

    @property
    def client(self) -> "Client":
        """This client, as Directory.client."""
        return self

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        return self._native.closed

    def _path(self, path: Path) -> bytes:
        data = encode(path)
        return posixpath.join(os.fsencode(self._start), data) if data else os.fsencode(self._native.path)

    def _shown(self, path: Path) -> str:
        return os.fsdecode(self._path(path))

    def ping(self) -> float:
        """Returns the time of one round trip, in seconds."""
        return self._native.run(lib.ping, self._native.pointer) / 1e9

    def info(self) -> Dict[str, Union[int, str]]:
        """Returns what was negotiated with the server, and counters, by name."""
        self._native.check()
        return self._entries(lib.info_get(self._native.pointer))

    def statistics(self) -> Dict[str, Union[int, str]]:
        """Returns counters by name: totals, and for each kind of call "READ.count", "READ.total_us" and others, which
        nfsrdma_info(3) lists."""
        self._native.check()
        return self._entries(lib.statistics_get(self._native.pointer))

    @staticmethod
    def _entries(found: Any) -> Dict[str, Union[int, str]]:
        if not found:
            raise MemoryError
        try:
            values: Dict[str, Union[int, str]] = {}
            while True:
                name = lib.info_name(found, len(values))
                if name is None:
                    return values
                text = (lib.info_text(found, name) or b"").decode("utf-8", "replace")
                values[name.decode()] = int(text) if text.isascii() and text.isdigit() else text
        finally:
            lib.info_free(found)

    def cancel(self, tag: Any) -> int:
        """Ends the calls that have this tag with class Cancelled: blocking calls of other threads (call_options),
        and those of queues. Returns how many it ended."""
        if self._native.closed:
            return 0
        ended = 0
        if isinstance(tag, int) and 0 < tag < 1 << 63:
            ended += lib.cancel(self._native.pointer, tag)
        for queue in list(self._queues):
            ended += queue.cancel(tag)
        return ended

    def close(self) -> None:
        """Closes all files and ends the session. Ends calls of other threads with an error."""
        self._native.disconnect()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self, _warn: Any = warnings.warn, _process: Any = process) -> None:
        native = getattr(self, "_native", None)
        if native is not None and not native.closed and native.generation == _process.generation \
                and not _process.exiting:
            _warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __reduce__(self) -> Any:
        raise TypeError("a Client cannot be pickled: each process makes one of its own")

    def __repr__(self) -> str:
        return f"<nfsrdma.Client {self.target!r}>"

    @staticmethod
    def exports(target: str, **options: Any) -> List[Export]:
        """Returns a server's exports: the function nfsrdma.exports."""
        return exports(target, **options)


# ---- without a client ----

def _listed(function: Any, callback: Any, target: str, options: Dict[str, Any]) -> None:
    settings = _Options(None, options)

    def work() -> None:
        error = ctypes.c_void_p()
        if function(encode(target), settings.pointer, callback, None, ctypes.byref(error)) < 0:
            raise take(error.value)

    _interruptible(work, _Interrupt(settings))


def exports(target: str, **options: Any) -> List[Export]:
    """Asks a server's mount service for its exports, as showmount -e does."""
    found: List[Export] = []

    def add(_data: Any, path: bytes, clients: bytes) -> None:
        found.append(Export(os.fsdecode(path), tuple(os.fsdecode(clients).split())))

    _listed(lib.list_exports, _c.ExportEntry(add), target, options)
    return found


def mounts(target: str, **options: Any) -> List[Mount]:
    """Asks a server's mount service who has mounted its exports, as showmount -a does."""
    found: List[Mount] = []

    def add(_data: Any, client: bytes, path: bytes) -> None:
        found.append(Mount(os.fsdecode(client), os.fsdecode(path)))

    _listed(lib.list_mounts, _c.MountEntry(add), target, options)
    return found


_FINDING_STATES = ("ok", "warning", "failed", "skipped")


def _finding_of(address: int) -> Finding:
    """Copies an nfsrdma_finding."""
    told = _c.finding.from_address(address)
    facts = (_c.fact * told.fact_count).from_address(told.facts) if told.fact_count else ()
    return Finding(os.fsdecode(told.step), _FINDING_STATES[told.state], told.duration / 1e9, os.fsdecode(told.seen),
                   os.fsdecode(told.advice), {os.fsdecode(one.name): os.fsdecode(one.value) for one in facts})


def diagnose(target: str, read: Optional[str] = None, write: bool = False, limit: float = 30,
             report: Optional[Callable[[Finding], None]] = None, **options: Any) -> List[Finding]:
    """Finds out why a target cannot be used, or is slow, as nfsrdma-cli doctor does. Returns what each step has found;
    the last Finding is the verdict.

    `read`: a file to read from. `write`: make a file in the target's directory, and remove it. `limit`: seconds for all.
    `report` is called with each Finding as soon as its step has ended, on the thread that runs the diagnosis."""
    found: List[Finding] = []

    def add(_data: Any, address: int) -> None:
        found.append(_finding_of(address))
        if report is not None:
            report(found[-1])

    wanted = _c.diagnosis(read=None if read is None else os.fsencode(read), limit=max(int(limit * 1000), 1),
                          write=int(write))

    def function(text: bytes, settings: Any, callback: Any, data: Any, error: Any) -> int:
        failures: int = lib.diagnose(text, settings, ctypes.byref(wanted), callback, data, error)
        return failures

    _listed(function, _c.Report(add), target, options)
    return found


def version() -> str:
    """Returns the version of the library."""
    text: bytes = lib.version()
    return text.decode()


