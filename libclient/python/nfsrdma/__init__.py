"""NFS over RDMA without a mount.

    import nfsrdma

    with nfsrdma.Client("nfs://server/export") as client:
        for entry in client.scandir():
            print(entry.name, entry.stat().st_size)
        with client.open("data.bin") as file:
            count = file.readinto(array)          # the server writes into the array by RDMA
        results = client.read_many(paths)         # a dozen small files and more with each request

Client has the names of the module os, File those of io. Errors are subclasses of Error and of Python's own:
`except FileNotFoundError` works. nfsrdma.Queue keeps many reads in flight from one thread, nfsrdma.aio is for
asyncio, and nfsrdma.fsspec_fs for fsspec.

Threads. Everything may be used from any thread. No call holds the GIL. Ctrl-C ends blocking calls of the main thread
within a tenth of a second.

fork. A child of os.fork, and so of multiprocessing with "fork", cannot use the clients of its parent: their calls
raise Error with ENOTCONN at once. Let each process make a Client of its own; over an RDMA device (not: the iwarp
fabric) that works only if the parent has none, and multiprocessing should use "spawn" or "forkserver".

What is not closed is closed in the background when the last reference goes, with a ResourceWarning.
"""

from typing import TYPE_CHECKING, Any

from ._buffers import Memory
from ._native import call_options
from .client import Client, Directory, diagnose, exports, mounts, option_help, version
from .errors import (Aborted, Broken, Cancelled, Error, Exists, IsDirectory, Kind, NotDirectory, NotFound, NotPermitted,
                     Refused, Reset, TimedOut, WouldBlock)
from .file import File
from .queue import Queue
from ._version import version as __version__
from .types import Entry, Export, Extent, Finding, Holes, Lock, Mount, ReadResult, Space, Stat

if TYPE_CHECKING:
    from . import aio as aio

__all__ = [
    "Aborted", "Broken", "Cancelled", "Client", "Directory", "Entry", "Error", "Exists", "Export", "Extent", "File",
    "Finding", "Holes", "IsDirectory", "Kind", "Lock", "Memory", "Mount", "NotDirectory", "NotFound", "NotPermitted",
    "Queue", "ReadResult", "Refused", "Reset", "Space", "Stat", "TimedOut", "WouldBlock", "call_options", "diagnose",
    "exports", "mounts", "option_help", "version",
]


def __getattr__(name: str) -> Any:
    """Loads nfsrdma.aio at its first use, because asyncio takes longer to load than all the rest."""
    if name != "aio":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(".aio", __name__)
