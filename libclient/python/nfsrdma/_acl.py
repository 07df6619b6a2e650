"""Access control lists as text, with names of users and groups if wanted."""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
from typing import Any, Optional

from . import _c
from ._c import lib
from ._operations import Operation, Steps, nothing
from .errors import take


def _name_of(_data: Any, group: int, number: int, text: int, room: int) -> int:
    try:
        name = os.fsencode(grp.getgrgid(number).gr_name if group else pwd.getpwuid(number).pw_name)
    except (KeyError, OSError):
        return 0
    if len(name) + 1 > room:
        return 0
    ctypes.memmove(text, name + b"\0", len(name) + 1)
    return 1


def _id_of(_data: Any, group: int, name: bytes, number: Any) -> int:
    try:
        text = os.fsdecode(name)
        number[0] = grp.getgrnam(text).gr_gid if group else pwd.getpwnam(text).pw_uid
    except (KeyError, OSError):
        return 0
    return 1


_NAMES = _c.acl_names(name=_c.NameOf(_name_of), id=_c.IdOf(_id_of))


def _names(numeric: bool) -> Any:
    return None if numeric else ctypes.byref(_NAMES)


class _List:
    """Owns an nfsrdma_acl."""

    __slots__ = ("pointer",)

    def __init__(self, pointer: Optional[int]) -> None:
        self.pointer = pointer

    def __del__(self, _free: Any = lib.acl_free) -> None:
        _free(self.pointer)


def _fetch(directory: int, path: bytes, flags: int) -> "Operation[_List]":
    found = ctypes.c_void_p()
    return Operation(lib.get_acl, (directory, path, flags, ctypes.byref(found)), lambda _: _List(found.value))


def get(directory: int, path: bytes, follow: bool, numeric: bool) -> "Steps[str]":
    """Fetches a list as text."""
    found: _List = yield _fetch(directory, path, 0 if follow else _c.NO_FOLLOW)
    text = lib.acl_text(found.pointer, _names(numeric))
    if not text:
        raise MemoryError
    try:
        return ctypes.string_at(text).decode("utf-8", "surrogateescape")
    finally:
        lib.text_free(text)


def put(directory: int, path: bytes, follow: bool, text: str) -> "Steps[None]":
    """Replaces a list by what the text says. What a POSIX list leaves out is completed as by setfacl."""
    error = ctypes.c_void_p()
    reference = ctypes.byref(error)
    wanted = _List(lib.acl_parse(text.encode("utf-8", "surrogateescape"), _names(False), reference))
    if not wanted.pointer:
        raise take(error.value)
    flags = 0 if follow else _c.NO_FOLLOW
    if lib.acl_form(wanted.pointer) == _c.ACL_POSIX:
        current: _List = yield _fetch(directory, path, flags)
        if lib.acl_form(current.pointer) == _c.ACL_POSIX:
            if lib.acl_complete(wanted.pointer, current.pointer, reference) < 0:
                raise take(error.value)
            if lib.acl_sort(wanted.pointer, reference) < 0:
                raise take(error.value)
    yield Operation(lib.set_acl, (directory, path, flags, wanted.pointer), nothing, wanted)
