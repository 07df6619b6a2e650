"""Native objects: who frees them, and blocking calls that Ctrl-C can interrupt.

Ownership. A Native is one nfsrdma_client. A Handle is a file, a directory, a listing or a queue of it, and keeps its
Native alive. A Handle is freed only when no Python object refers to it any more, so no thread can be inside a call on
it; close() of a file or a client ends its work at the server but frees nothing.

Destructors. Python may run them anywhere, for example while the library calls the program's log function, where no
call is allowed. So a destructor only puts its object into a queue, and a thread of this module, the closer, frees it.
The closer frees a client after the last of its Handles, in whatever order the garbage collector found them.

Blocking calls. Python runs signal handlers on the main thread, between two steps of Python code, so a call that blocks
inside C would delay them. On the main thread a call is therefore started with a completion queue, and awaited in
slices of SLICE milliseconds, between which Python sees its signals. If one raises an exception, freeing the queue
cancels the call, and its buffers are out of the server's reach before the exception goes on. Other threads use plain
blocking calls.

fork(2). A child gets a new generation number. It frees nothing of its parent's.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import sys
import threading
import weakref
from queue import SimpleQueue
from typing import Any, Callable, List, Optional, Tuple, TypeVar

from . import _c, _kept
from ._c import lib
from .errors import make, take

#: Milliseconds between two looks at Python's signals.
SLICE = 100
#: What a completion has as its result before it is delivered.
_NOT_DELIVERED = -2

T = TypeVar("T")
_byref = ctypes.byref
_get_ident = threading.get_ident


class _Process:
    """What this process knows of itself."""

    def __init__(self) -> None:
        self.generation = 0
        self.exiting = False
        self.begin()

    def begin(self) -> None:
        """Starts anew, at first and in a child of fork."""
        self.main = threading.main_thread().ident
        self.dead: "SimpleQueue[Any]" = SimpleQueue()
        self.closer: Optional[threading.Thread] = None
        self.lock = threading.Lock()
        self.clients: "weakref.WeakSet[Native]" = weakref.WeakSet()
        #: Buffers that files are written through: they have to be flushed while there is a session.
        self.buffers: "weakref.WeakSet[Any]" = weakref.WeakSet()

    def after_fork(self) -> None:
        self.generation += 1
        self.begin()

    def start_closer(self) -> None:
        with self.lock:
            if self.closer is None:
                self.closer = threading.Thread(target=_free_dead, args=(self.dead,), name="nfsrdma-closer", daemon=True)
                self.closer.start()
                _disconnect_with_worker()


def _free_dead(dead: "SimpleQueue[Any]") -> None:
    """Runs in the closer: frees what destructors put into the queue, until it gets None."""
    while True:
        item = dead.get()
        if item is None:
            return
        native, free, pointer = item
        native.release(free, pointer)
        del item, native


process = _Process()
os.register_at_fork(after_in_child=process.after_fork)


def _disconnect_with_worker() -> None:
    """Ends the sessions of a child of multiprocessing at its end, where Python calls atexit only since version 3.13."""
    children = sys.modules.get("multiprocessing.process")
    if children is not None and children.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, _disconnect_all, exitpriority=0)


@atexit.register
def _disconnect_all() -> None:
    """Ends all sessions when the interpreter exits. Nothing is freed from here on: the process ends."""
    for buffer in list(process.buffers):
        try:
            buffer.flush()
        except ValueError:
            pass  # closed
        except OSError as error:
            print(f"nfsrdma: data of {buffer!r} was lost at exit: {error}", file=sys.stderr)
    process.exiting = True
    for native in list(process.clients):
        native.disconnect()
    if process.closer is not None:
        process.dead.put(None)
        process.closer.join(4)


# ---- how the calls of a thread are made ----

class _Limits(threading.local):
    call: Optional[_c.call] = None
    in_log = False  # the thread is inside the program's log function, where no call is allowed


limits = _Limits()


class call_options:
    """A context manager: blocking calls that this thread makes inside get this tag and this time limit.

    `tag` is a number from 1 to 2**63 - 1 for Client.cancel. `timeout` is in seconds; None: as the option timeo says.
    """

    def __init__(self, *, timeout: Optional[float] = None, tag: int = 0) -> None:
        self._call = _c.call(tag=tag, timeout=0 if timeout is None else max(1, int(timeout * 1000)))
        self._outer: List[Optional[_c.call]] = []

    def __enter__(self) -> "call_options":
        self._outer.append(limits.call)
        limits.call = self._call
        return self

    def __exit__(self, *_: Any) -> None:
        limits.call = self._outer.pop()


class Handle:
    """A native object of a client that is freed when the last reference to this goes."""

    __slots__ = ("native", "free", "pointer", "__weakref__")

    def __init__(self, native: "Native", free: Any, pointer: int) -> None:
        self.native, self.free, self.pointer = native, free, pointer
        native.count_child()

    def __del__(self, _process: _Process = process) -> None:
        if self.native.generation == _process.generation and not _process.exiting:
            _process.dead.put((self.native, self.free, self.pointer))


class _Waiter:
    """A completion queue for one sliced call at a time, with the structs that the call needs."""

    __slots__ = ("queue", "call", "call_ref", "error", "error_ref", "completion", "completion_ref", "keep")

    def __init__(self, pointer: int) -> None:
        self.error = ctypes.c_void_p()
        self.error_ref = _byref(self.error)
        self.queue = lib.queue_new(pointer, self.error_ref)
        if not self.queue:
            raise take(self.error.value)
        self.call = _c.call(queue=self.queue)
        self.call_ref = _byref(self.call)
        self.completion = _c.completion()
        self.completion_ref = _byref(self.completion)
        self.keep: Any = None

    def free(self) -> None:
        """Cancels the call that is under way, if any."""
        queue, self.queue = self.queue, None
        if queue:
            lib.queue_free(queue)
        self.keep = None


class Native:
    """One connected nfsrdma_client."""

    __slots__ = ("pointer", "generation", "closed", "root", "path", "_children", "_orphaned", "_lock", "_idle", "_waiters",
                 "_keep", "__weakref__")

    def __init__(self, pointer: int, keep: Any) -> None:
        """`keep`: what the client refers to: its log callback and its interrupt descriptor."""
        self.pointer = pointer
        self.generation = process.generation
        self.closed = False
        self.root: int = lib.root(pointer)
        self.path: str = os.fsdecode(lib.path(pointer))
        self._children = 0
        self._orphaned = False
        self._lock = threading.Lock()
        self._waiters: List[_Waiter] = []  # all
        self._idle: List[_Waiter] = []
        self._keep = keep
        process.start_closer()
        process.clients.add(self)

    def __del__(self, _process: _Process = process) -> None:
        if self.generation == _process.generation and not _process.exiting:
            _process.dead.put((self, None, 0))

    # ---- lifetime ----

    def count_child(self) -> None:
        """Counts a Handle, which must be freed before the client."""
        with self._lock:
            self._children += 1

    def release(self, free: Optional[Callable[[int], None]], pointer: int) -> None:
        """Frees a Handle's object, or (without `free`) the client. Runs in the closer only."""
        if free is not None:
            free(pointer)
            _kept.drop_released()
            with self._lock:
                self._children -= 1
        else:
            self._orphaned = True
        if self._orphaned and self._children == 0 and self.pointer:
            for waiter in self._waiters:
                waiter.free()
            pointer, self.pointer = self.pointer, 0
            lib.client_free(pointer)
            self._keep = None

    def disconnect(self) -> None:
        """Ends the session; errors are of no interest to anybody any more. Later calls do nothing."""
        if not self.closed:
            self.closed = True
            if self.generation == process.generation:
                lib.disconnect(self.pointer, None)

    def check(self) -> None:
        """Raises an error if the client was closed, or connected by this process's parent."""
        if self.generation != process.generation:
            raise make(errno.ENOTCONN, "this client was connected before fork: the child needs a client of its own")
        if self.closed:
            raise make(errno.ENOTCONN, "this client was closed")

    # ---- blocking calls ----

    def run(self, function: Any, *arguments: Any) -> int:
        """Calls the function with these arguments, `call` and `error`. Returns its result, or raises its Error."""
        return self.perform(function, arguments, int)

    def perform(self, function: Any, arguments: Tuple[Any, ...], finish: Callable[[int], T]) -> T:
        """Makes a blocking call. `finish` turns its result into the value to return."""
        if self.closed or self.generation != process.generation:
            self.check()
        if limits.in_log:
            raise make(errno.EDEADLK, "a log function must not use nfsrdma")
        if _get_ident() == process.main:
            return self._perform_in_slices(function, arguments, finish)
        error = ctypes.c_void_p()
        call = limits.call
        result: int = function(*arguments, None if call is None else _byref(call), _byref(error))
        if result < 0:
            raise take(error.value)
        return finish(result)

    def _perform_in_slices(self, function: Any, arguments: Tuple[Any, ...], finish: Callable[[int], T]) -> T:
        try:
            waiter = self._idle.pop()
        except IndexError:
            waiter = _Waiter(self.pointer)
            self._waiters.append(waiter)
        completion = waiter.completion
        completion.result = _NOT_DELIVERED
        finishing = False
        value: Optional[T] = None
        try:
            self._start_and_wait(waiter, function, arguments)
            finishing = True
            if completion.result >= 0:
                value = finish(completion.result)
        except BaseException:
            waiter.free()
            self._waiters.remove(waiter)
            if not finishing and completion.result >= 0:
                # The signal came when the call had ended. What it has opened belongs to a Handle, and is closed.
                with contextlib.suppress(Exception):
                    finish(completion.result)
            raise
        result, error = completion.result, completion.error
        self._idle.append(waiter)
        if result < 0:
            raise take(error)
        return value  # type: ignore[return-value]

    @staticmethod
    def _start_and_wait(waiter: _Waiter, function: Any, arguments: Tuple[Any, ...]) -> None:
        """Makes a call, and leaves its result in the waiter's completion."""
        waiter.keep = arguments
        call, wanted = waiter.call, limits.call
        if wanted is not None:
            call.tag, call.timeout = wanted.tag, wanted.timeout
        elif call.tag or call.timeout:
            call.tag = call.timeout = 0
        waiter.error.value = None
        if function(*arguments, waiter.call_ref, waiter.error_ref) < 0:
            waiter.completion.result, waiter.completion.error = -1, waiter.error.value
        else:
            while lib.reap(waiter.queue, waiter.completion_ref, 1, 1, SLICE) == 0:
                if lib.queue_pending(waiter.queue) == 0:
                    raise make(errno.EIO, "the library lost a call")
        waiter.keep = None
