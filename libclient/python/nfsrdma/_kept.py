"""Writes with keep=True: the library makes no copy, and uses the caller's buffer until the data is on the server's disk.

`_kept` refers to those buffers. The library calls back, on any thread, when it does not need a buffer any more. Neither
Python code nor a destructor may run there, because it could call the library, or swallow a Ctrl-C. So the callback is
the method `append` of a deque, and drop_released() drops the references later: when fsync, close or unlock have ended,
when a File was freed, and before the next such write.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from typing import Any, Deque, Dict, List, Tuple

from . import _c
from ._c import lib

#: By the number that the library gives back: the buffer, and what holds it at its place.
_kept: Dict[int, Tuple[Any, Any]] = {}
_released: Deque[int] = deque()
_on_release = _c.Release(_released.append)
_numbers = itertools.count(1)


class _Lock:
    """Reentrant, because a signal handler may write. A child of fork gets a new one."""

    def __init__(self) -> None:
        self.now = threading.RLock()


_lock = _Lock()


def _after_fork() -> None:
    """Forgets in a child what its parent writes."""
    _lock.now = threading.RLock()
    _kept.clear()
    _released.clear()


os.register_at_fork(after_in_child=_after_fork)


def pwrite(file: int, address: Any, size: int, offset: int, flags: int, keep: Tuple[Any, Any], call: Any,
           error: Any) -> int:
    """Calls nfsrdma_pwrite_kept, which calls back even if it fails.

    `keep`: the buffer, and what holds it at its place."""
    number = next(_numbers)
    _kept[number] = keep
    result: int = lib.pwrite_kept(file, address, size, offset, flags, _on_release, number, call, error)
    return result


def drop_released(_result: int = 0) -> None:
    """Drops the references to buffers that the library needs no longer. When this returns, those can be resized."""
    buffers: List[Any] = []  # freed after the lock: that may run the program's destructors
    with _lock.now:
        while _released:
            buffer, _ = _kept.pop(_released.popleft(), (None, None))
            buffers.append(buffer)
