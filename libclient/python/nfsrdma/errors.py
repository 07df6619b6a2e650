"""The exceptions: class Error, and one subclass for each subclass of OSError that Python has.

`except FileNotFoundError` and `except nfsrdma.Error` both catch the error of a file that does not exist. Kind
says which side caused a failure. Errors can be pickled.
"""

from __future__ import annotations

import enum
import errno
import os
from typing import Any, Dict, Optional, Type

from ._c import lib


class Kind(enum.IntEnum):
    """Which side caused a failure."""

    USAGE = 0  #: a wrong option, target or argument: nothing was sent
    LOCAL = 1  #: this machine could not do it: memory, files, limits
    CONNECTION = 2  #: the server was not reached, or the connection was lost for good
    TIMEOUT = 3  #: the deadline passed; the operation may or may not have been done
    PROTOCOL = 4  #: the server broke a protocol
    SERVER = 5  #: the server answered, and its answer was no
    CANCELLED = 6  #: cancelled by the program; the operation may or may not have been done
    UNKNOWN_OUTCOME = 7  #: the reply was lost for good: check before repeating the operation


class Error(OSError):
    """What failed, on which server or file, and what to do next.

    `errno` and `kind` are for decisions; str(error) is for people.
    """

    kind: Kind = Kind.USAGE
    #: The operation that failed, such as "OPEN" or "connect"; "" if none.
    operation: str = ""
    #: The server or the file.
    peer: str = ""
    #: One sentence.
    message: str = ""
    #: The end of the message, if it says what to do next.
    next_step: str = ""
    #: The server's own status number (an nfsstat3 or nfsstat4), or 0.
    status: int = 0
    #: True if the operation may have been done although it failed.
    outcome_unknown: bool = False

    def __str__(self) -> str:
        return str(self.strerror)


class NotFound(Error, FileNotFoundError):
    """ENOENT."""


class Exists(Error, FileExistsError):
    """EEXIST."""


class NotPermitted(Error, PermissionError):
    """EACCES or EPERM."""


class IsDirectory(Error, IsADirectoryError):
    """EISDIR."""


class NotDirectory(Error, NotADirectoryError):
    """ENOTDIR."""


class TimedOut(Error, TimeoutError):
    """ETIMEDOUT."""


class Cancelled(Error, InterruptedError):
    """ECANCELED or EINTR: the program cancelled the call."""


class WouldBlock(Error, BlockingIOError):
    """EAGAIN: for example a lock that another client holds."""


class Refused(Error, ConnectionRefusedError):
    """ECONNREFUSED."""


class Reset(Error, ConnectionResetError):
    """ECONNRESET."""


class Aborted(Error, ConnectionAbortedError):
    """ECONNABORTED."""


class Broken(Error, BrokenPipeError):
    """EPIPE or ESHUTDOWN."""


_CLASSES: Dict[int, Type[Error]] = {
    errno.ENOENT: NotFound,
    errno.EEXIST: Exists,
    errno.EACCES: NotPermitted,
    errno.EPERM: NotPermitted,
    errno.EISDIR: IsDirectory,
    errno.ENOTDIR: NotDirectory,
    errno.ETIMEDOUT: TimedOut,
    errno.ECANCELED: Cancelled,
    errno.EINTR: Cancelled,
    errno.EAGAIN: WouldBlock,
    errno.ECONNREFUSED: Refused,
    errno.ECONNRESET: Reset,
    errno.ECONNABORTED: Aborted,
    errno.EPIPE: Broken,
    errno.ESHUTDOWN: Broken,
}


def class_of(number: int) -> Type[Error]:
    """Returns the class of errors with this errno."""
    return _CLASSES.get(number, Error)


def make(number: int, text: Optional[str] = None, **members: Any) -> Error:
    """Returns an error that this package itself reports."""
    error = class_of(number)(number, text or os.strerror(number))
    error.message = str(error)
    for name, value in members.items():
        setattr(error, name, value)
    return error


def _text(function: Any, pointer: int) -> str:
    return (function(pointer) or b"").decode("utf-8", "surrogateescape")


def take(pointer: Optional[int]) -> Error:
    """Turns the library's error into an exception, and frees the library's."""
    if not pointer:
        return make(errno.EIO, "the library reported a failure without an error", kind=Kind.LOCAL)
    try:
        number = lib.error_errno(pointer)
        error = class_of(number)(number, _text(lib.error_text, pointer))
        kind = lib.error_kind(pointer)
        error.kind = Kind(kind) if kind in Kind.__members__.values() else Kind.LOCAL
        error.operation = _text(lib.error_operation, pointer)
        error.peer = _text(lib.error_peer, pointer)
        error.message = _text(lib.error_message, pointer)
        error.next_step = _text(lib.error_next_step, pointer)
        error.status = lib.error_status(pointer)
        error.outcome_unknown = bool(lib.error_outcome_unknown(pointer))
        return error
    finally:
        lib.error_free(pointer)
