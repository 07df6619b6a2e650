"""Queue: many reads and writes in flight from one thread.

    queue = nfsrdma.Queue(client)
    for i in range(64):
        queue.submit_read(file, buffers[i], i * 4096, tag=i)
    for tag, result in queue.reap(64, 64):    # a number of bytes, or an Error
        ...

Buffers stay alive until their calls have completed. A queue may be used from any thread.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import struct
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Union

from . import _c
from . import _file_operations as fops
from ._buffers import readable, writable
from ._c import lib
from ._native import SLICE, Handle, process
from .errors import Error, make, take

if TYPE_CHECKING:
    from .client import Client
    from .file import File

Result = Tuple[Any, Union[int, Error]]

_COMPLETION = struct.Struct("=QqQ")
#: The library's tags of queues have this bit, so that they differ from those of call_options.
QUEUE_TAG = 1 << 63
next_tag = itertools.count(QUEUE_TAG + 1).__next__
_pread, _reap = lib.pread, lib.reap


def unpack_completions(completions: Any, count: int) -> Iterator[Tuple[int, int, int]]:
    """Returns (tag, result, error) of the first `count` structs of an array of nfsrdma_completion."""
    return _COMPLETION.iter_unpack(memoryview(completions).cast("B")[:count * _COMPLETION.size])  # type: ignore


class Queue:
    """Starts reads and writes, and hands out their results."""

    def __init__(self, client: "Client", capacity: int = 256) -> None:
        """`capacity`: most results that one `reap` takes."""
        self._native = client._native
        self._client = client
        self._native.check()
        self._error = ctypes.c_void_p()
        self._error_ref = ctypes.byref(self._error)
        pointer = lib.queue_new(self._native.pointer, self._error_ref)
        if not pointer:
            raise take(self._error.value)
        self._handle = Handle(self._native, lib.queue_free, pointer)
        self._pointer = pointer
        self._call = _c.call(queue=pointer)
        self._call_ref = ctypes.byref(self._call)
        self._lock = threading.Lock()
        self._reaping = threading.Lock()
        self._capacity = capacity
        self._completions = (_c.completion * capacity)()
        #: Calls under way, by the library's tag: the program's tag, and what must stay alive.
        self._flying: Dict[int, Tuple[Any, Any]] = {}
        client._queues.add(self)

    # ---- starting calls ----

    def submit_read(self, file: "File", buffer: Any, offset: int, tag: Any = None, *, more: bool = False) -> None:
        """Starts a read into the buffer. `tag` may be any object. With `more` the call may be held back until the
        next call without it, or `reap` or `submit`: calls that are sent together cost less."""
        address, size, hold = writable(buffer)
        self._start(_pread, (file._pointer, address, size, offset), tag, (file, hold), more)

    def submit_write(self, file: "File", data: Any, offset: int, tag: Any = None, *, on_disk: bool = False,
                     more: bool = False, keep: bool = False) -> None:
        """Starts a write of all of the data, which must not change until its result is here, with `keep` until
        File.fsync or close has returned, as File.pwrite."""
        where = readable(data)
        function, arguments = fops.pwrite(file._pointer, where, data, offset, on_disk, keep)
        self._start(function, arguments, tag, (file, where[2]), more)

    def _start(self, function: Any, arguments: Tuple[Any, ...], tag: Any, keep: Any, more: bool) -> None:
        if keep[0].closed:
            raise ValueError("I/O operation on closed file")
        if keep[0]._native is not self._native:
            raise make(errno.EXDEV, "the file belongs to another client")
        self._begin(function, arguments, tag, keep, more)

    def _begin(self, function: Any, arguments: Tuple[Any, ...], tag: Any, keep: Any, more: bool) -> None:
        native = self._native
        if native.closed or native.generation != process.generation:
            native.check()
        number = next_tag()
        flying, call = self._flying, self._call
        with self._lock:
            flying[number] = tag, keep
            call.tag = number
            call.flags = 1 if more else 0
            if function(*arguments, self._call_ref, self._error_ref) >= 0:
                return
            del flying[number]
            raise take(self._error.value)

    def post(self, tag: Any = None) -> None:
        """Adds a result of 0 with this tag, and so wakes a thread that waits in reap."""
        self._begin(lib.post, (self._native.pointer,), tag, None, False)

    def submit(self) -> None:
        """Sends what was started with `more`."""
        self._native.check()
        lib.submit(self._native.pointer)

    # ---- results ----

    def reap(self, most: Optional[int] = None, least: int = 0, timeout: Optional[float] = None) -> List[Result]:
        """Returns up to `most` pairs of tag and result: the number of bytes, or an Error.

        Waits until there are `least`, at most `timeout` seconds (None: for as long as it takes), and no longer than
        calls are under way. Ctrl-C may lose the results that have just arrived; the buffers of such calls stay alive as
        long as the queue."""
        most = self._capacity if most is None else min(most, self._capacity)
        least = min(least, most)
        with self._reaping:
            if least == 0 or timeout == 0:
                return self._take(most, least, 0)
            if threading.get_ident() != process.main:
                return self._take(most, least, -1 if timeout is None else int(timeout * 1000))
            return self._take_in_slices(most, least, timeout)

    def _take_in_slices(self, most: int, least: int, timeout: Optional[float]) -> List[Result]:
        """Waits in slices, so that Python sees its signals."""
        end = None if timeout is None else time.monotonic() + timeout
        found: List[Result] = []
        while True:
            wait = SLICE if end is None else max(0, min(SLICE, int((end - time.monotonic()) * 1000)))
            found += self._take(most - len(found), least - len(found), wait)
            if len(found) >= least or not self.pending or (end is not None and time.monotonic() >= end):
                return found

    def _take(self, most: int, least: int, timeout: int) -> List[Result]:
        count = _reap(self._pointer, self._completions, most, least, timeout)
        if count == 0:
            return []
        pop = self._flying.pop
        return [(pop(number)[0], result if result >= 0 else take(error))
                for number, result, error in unpack_completions(self._completions, count)]

    @property
    def pending(self) -> int:
        """Number of calls whose results were not reaped."""
        if self._native.generation != process.generation:
            return 0
        count: int = lib.queue_pending(self._pointer)
        return count

    def fileno(self) -> int:
        """Returns a descriptor for select and poll: when it is readable, call reap with timeout 0."""
        descriptor: int = lib.queue_descriptor(self._pointer)
        return descriptor

    descriptor = property(fileno)

    def cancel(self, tag: Any) -> int:
        """Ends the calls of this queue that have this tag with class Cancelled. Their results come by reap."""
        if self._native.closed or self._native.generation != process.generation:
            return 0
        numbers = [number for number, (wanted, _) in list(self._flying.items()) if wanted == tag]
        return sum(lib.cancel(self._native.pointer, number) for number in numbers)

    def __len__(self) -> int:
        return self.pending
