"""asyncio: AsyncClient and AsyncFile, whose methods are coroutines.

    async with nfsrdma.aio.AsyncClient("nfs://server/export") as client:
        async with await client.open("data.bin") as file:
            parts = await asyncio.gather(*(file.pread(65536, i * 65536) for i in range(64)))

Each event loop that uses a client has a completion queue of its own, whose descriptor the loop watches. Calls that
are started in one turn of the loop are sent together. If a task is cancelled, its call is cancelled, and what the
call refers to, such as a buffer, stays alive until it has completed.

An AsyncClient may be used by several event loops, each in its own thread.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import weakref
from typing import Any, Dict, Generic, List, Optional, Tuple, TypeVar

from . import _c
from . import _operations as ops
from ._async_file import AsyncFile
from ._async_names import AsyncNames
from ._c import lib
from ._native import Handle, Native
from ._operations import Operation, Path, Steps
from .client import Client
from .errors import Error, take
from .file import open_flags
from .queue import next_tag, unpack_completions

T = TypeVar("T")
_CAPACITY = 256
_NOT_CONNECTED = "not connected: use `async with`, or await connect()"


class _Flight(Generic[T]):
    """A call under way."""

    __slots__ = ("future", "operation", "owner")

    def __init__(self, future: "asyncio.Future[T]", operation: "Operation[T]", owner: Any) -> None:
        self.future, self.operation, self.owner = future, operation, owner

    def end(self, result: int, error: Optional[int]) -> None:
        """Delivers the result. That of a cancelled task is dropped: a file that was opened is closed."""
        try:
            if result < 0:
                raise take(error)
            value = self.operation.finish(result)
        except BaseException as problem:
            if not self.future.done():
                self.future.set_exception(problem)
        else:
            if not self.future.done():
                self.future.set_result(value)


class LoopQueue:
    """The completion queue that one event loop has at one client. Used on the loop's thread only."""

    def __init__(self, native: Native, loop: asyncio.AbstractEventLoop) -> None:
        native.check()
        self._error = ctypes.c_void_p()
        self._error_ref = ctypes.byref(self._error)
        pointer = lib.queue_new(native.pointer, self._error_ref)
        if not pointer:
            raise take(self._error.value)
        self._native = native
        self._handle = Handle(native, lib.queue_free, pointer)
        self._call = _c.call(queue=pointer, flags=_c.MORE)
        self._call_ref = ctypes.byref(self._call)
        self._completions = (_c.completion * _CAPACITY)()
        self._flying: Dict[int, _Flight[Any]] = {}
        self._will_send = self._closing = False
        self._descriptor: int = lib.queue_descriptor(pointer)
        # Only a weak reference: the dictionary of the queues has the loop as a weak key.
        self._loop = weakref.ref(loop)
        loop.add_reader(self._descriptor, self.reap)

    async def perform(self, operation: "Operation[T]", owner: Any) -> T:
        """Makes a call. `owner` stays alive until it has completed."""
        native, loop = self._native, asyncio.get_running_loop()
        native.check()
        number = next_tag()
        flight: _Flight[T] = _Flight(loop.create_future(), operation, owner)
        self._flying[number] = flight
        self._call.tag = number
        if operation.function(*operation.arguments, self._call_ref, self._error_ref) < 0:
            del self._flying[number]
            raise take(self._error.value)
        if not self._will_send:
            self._will_send = True
            loop.call_soon(self._send)
        try:
            return await flight.future
        except asyncio.CancelledError:
            if number in self._flying and not native.closed:
                lib.cancel(native.pointer, number)
            raise

    async def drive(self, steps: "Steps[T]", owner: Any) -> T:
        """Performs the Operations that a generator yields, and returns what the generator returns."""
        try:
            operation = next(steps)
            while True:
                try:
                    value = await self.perform(operation, owner)
                except Error as error:
                    operation = steps.throw(error)
                else:
                    operation = steps.send(value)
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self) -> None:
        self._will_send = False
        if not self._native.closed:
            lib.submit(self._native.pointer)

    def reap(self) -> None:
        """Delivers what has completed. Called when the descriptor is readable."""
        while True:
            count = lib.reap(self._handle.pointer, self._completions, _CAPACITY, 0, 0)
            for number, result, error in unpack_completions(self._completions, count):
                flight = self._flying.pop(number, None)
                if flight is not None:
                    flight.end(result, error)
            if count < _CAPACITY:
                break
        loop = self._loop()
        if self._closing and not self._flying and loop is not None and not loop.is_closed():
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Delivers the last results, and then stops watching the descriptor. The client was disconnected."""
        self._closing = True
        self.reap()


class AsyncClient(AsyncNames):
    """A connection to a server, as nfsrdma.Client. `async with AsyncClient(...)` connects and closes it; or await
    connect() and aclose()."""

    def __init__(self, target: str, **options: Any) -> None:
        self._target, self._options = target, options
        self._client: Optional[Client] = None
        self._queues: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopQueue]" = weakref.WeakKeyDictionary()
        self._queues_lock = threading.Lock()

    async def connect(self) -> "AsyncClient":
        """Connects, on a thread of the loop's executor."""
        loop = asyncio.get_running_loop()
        pending = loop.run_in_executor(None, lambda: Client(self._target, **self._options))
        try:
            self._client = await asyncio.shield(pending)
        except asyncio.CancelledError:
            pending.add_done_callback(_close_unwanted)
            raise
        self._native = self._client._native
        self._directory, self._start = self._client._directory, self._client._start
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("_native", "_directory"):  # set by connect
            raise ValueError(_NOT_CONNECTED)
        raise AttributeError(name)

    @property
    def client(self) -> Client:
        """The blocking Client that this one uses."""
        if self._client is None:
            raise ValueError(_NOT_CONNECTED)
        return self._client

    @property
    def path(self) -> str:
        """The path of the target, where relative paths begin."""
        return self.client.path

    def _path(self, path: Path) -> bytes:
        return self.client._path(path)

    def _shown(self, path: Path) -> str:
        return self.client._shown(path)

    def _queue(self) -> LoopQueue:
        """Returns the queue of the running loop."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = LoopQueue(self.client._native, loop)
            with self._queues_lock:
                self._queues[loop] = queue
        return queue

    async def open(self, path: Path, mode: str = "rb", *, permissions: int = 0o644) -> AsyncFile:
        """Opens a file in a binary mode."""
        if "b" not in mode:
            raise ValueError("an AsyncFile has no text mode")
        return await AsyncFile._open(self, self._path(path), self._shown(path), mode, open_flags(mode), permissions)

    async def ping(self) -> float:
        """Returns the time of one round trip, in seconds."""
        return await self._perform(Operation(lib.ping, (self._native.pointer,), ops.number)) / 1e9

    def info(self) -> Dict[str, Any]:
        """Returns what was negotiated with the server, and counters."""
        return dict(self.client.info())

    async def aclose(self) -> None:
        """Closes all files and ends the session. Calls that are under way end with an error."""
        if self._client is None:
            return
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._client.close)
        with self._queues_lock:
            queues: List[Tuple[asyncio.AbstractEventLoop, LoopQueue]] = list(self._queues.items())
            self._queues.clear()
        for other, queue in queues:
            if other is loop:
                queue.close()
            elif not other.is_closed():
                other.call_soon_threadsafe(queue.close)

    async def __aenter__(self) -> "AsyncClient":
        return self if self._client is not None else await self.connect()

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<nfsrdma.aio.AsyncClient {self._target!r}>"


def _close_unwanted(pending: "asyncio.Future[Client]") -> None:
    if not pending.cancelled() and pending.exception() is None:
        pending.result().close()


__all__ = ["AsyncClient", "AsyncFile"]
