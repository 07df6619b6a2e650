"""The C interface of libnfsrdma.so.1, declared for ctypes.

Every struct and every function of nfsrdma/nfsrdma.h is here, with its name in the header;
tests/python/test_header.py compares them. All pointers are declared as c_void_p, which takes integers (addresses),
bytes, None and what ctypes.byref returns, and costs the least per call. ctypes.CDLL releases the GIL during every
call. This module has no state beside the loaded library.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Tuple

# ---- constants of the header ----

READ, WRITE, CREATE, EXCLUSIVE, TRUNCATE = 1, 2, 4, 8, 16
ON_DISK = 1
NO_FOLLOW = 1
MORE = 1
HAS_UID, HAS_GID = 1, 2
SET_MODE, SET_UID, SET_GID, SET_SIZE = 1, 2, 4, 8
SET_ACCESSED, SET_MODIFIED, SET_ACCESSED_NOW, SET_MODIFIED_NOW = 16, 32, 64, 128
XATTR_CREATE, XATTR_REPLACE = 1, 2
ACL_POSIX, ACL_NFS4 = 1, 2
FINDING_OK, FINDING_WARNING, FINDING_FAILED, FINDING_SKIPPED = 0, 1, 2, 3
TO_THE_END = 2**64 - 1

# ---- structs ----


class Sized(ctypes.Structure):
    """A struct that may grow in later versions: `struct_size` says which version this program knows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.struct_size = ctypes.sizeof(self)


class option(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("values", c_char_p), ("text", c_char_p)]


class fact(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class finding(Sized):
    _fields_ = [("struct_size", c_size_t), ("step", c_char_p), ("seen", c_char_p), ("advice", c_char_p),
                ("facts", c_void_p), ("fact_count", c_size_t), ("duration", c_int64), ("state", c_uint32),
                ("reserved", c_uint32)]


class diagnosis(Sized):
    _fields_ = [("struct_size", c_size_t), ("read", c_char_p), ("limit", c_int64), ("write", c_uint32),
                ("reserved", c_uint32)]


class completion(ctypes.Structure):
    _fields_ = [("tag", c_uint64), ("result", c_int64), ("error", c_void_p)]


class call(Sized):
    _fields_ = [("struct_size", c_size_t), ("queue", c_void_p), ("done", c_void_p), ("data", c_void_p),
                ("tag", c_uint64), ("timeout", c_int64), ("flags", c_uint32), ("reserved", c_uint32)]


class time(ctypes.Structure):
    _fields_ = [("seconds", c_int64), ("nanoseconds", c_uint32), ("reserved", c_uint32)]


class attributes(Sized):
    _fields_ = [("struct_size", c_size_t), ("type", c_uint32), ("mode", c_uint32), ("links", c_uint32),
                ("has", c_uint32), ("uid", c_uint32), ("gid", c_uint32),
                ("size", c_uint64), ("space_used", c_uint64), ("file_id", c_uint64), ("change", c_uint64),
                ("filesystem_major", c_uint64), ("filesystem_minor", c_uint64),
                ("device_major", c_uint32), ("device_minor", c_uint32),
                ("accessed", time), ("modified", time), ("changed", time),
                ("owner", c_void_p), ("owner_room", c_size_t), ("group", c_void_p), ("group_room", c_size_t)]


class changes(Sized):
    _fields_ = [("struct_size", c_size_t), ("set", c_uint32), ("mode", c_uint32), ("uid", c_uint32),
                ("gid", c_uint32), ("size", c_uint64), ("accessed", time), ("modified", time)]


class space(Sized):
    _fields_ = [("struct_size", c_size_t), ("total", c_uint64), ("free", c_uint64), ("available", c_uint64),
                ("files_total", c_uint64), ("files_free", c_uint64), ("files_available", c_uint64)]


class entry(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("cookie", c_uint64), ("attributes", c_void_p),
                ("has_attributes", c_uint32), ("reserved", c_uint32)]


class extent(Sized):
    _fields_ = [("struct_size", c_size_t), ("offset", c_uint64), ("length", c_uint64), ("is_hole", c_uint32),
                ("reserved", c_uint32)]


class holes(Sized):
    _fields_ = [("struct_size", c_size_t), ("has_holes", c_uint32), ("hole_ends", c_uint64)]


class lock(Sized):
    _fields_ = [("struct_size", c_size_t), ("owner", c_uint64), ("write", c_uint32), ("ours", c_uint32),
                ("offset", c_uint64), ("length", c_uint64)]


class read_item(ctypes.Structure):
    _fields_ = [("path", c_void_p), ("data", c_void_p), ("room", c_size_t), ("attributes", c_void_p),
                ("count", c_int64), ("eof", c_uint32), ("has_attributes", c_uint32), ("error", c_void_p)]


class write_item(ctypes.Structure):
    _fields_ = [("path", c_void_p), ("data", c_void_p), ("size", c_size_t), ("attributes", c_void_p),
                ("mode", c_uint32), ("has_attributes", c_uint32), ("count", c_int64), ("error", c_void_p)]


class stat_item(ctypes.Structure):
    _fields_ = [("path", c_void_p), ("attributes", c_void_p), ("count", c_int64), ("error", c_void_p)]


class ace(Sized):
    _fields_ = [("struct_size", c_size_t), ("type", c_uint32), ("flags", c_uint32), ("permissions", c_uint32),
                ("id", c_uint32), ("inherited", c_uint32), ("who", c_char_p)]


def format_of(kind: Any) -> str:
    """Returns the format of a struct for the module struct. Structs in it are taken apart."""
    return "".join(format_of(member) if issubclass(member, ctypes.Structure) else member._type_
                   for _, member in kind._fields_)


NameOf = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_uint32, c_void_p, c_size_t)
IdOf = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_char_p, ctypes.POINTER(c_uint32))


class acl_names(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", NameOf), ("id", IdOf), ("data", c_void_p)]


class iovec(ctypes.Structure):
    """struct iovec of <sys/uio.h>."""

    _fields_ = [("base", c_void_p), ("size", c_size_t)]


Log = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)
Release = ctypes.CFUNCTYPE(None, c_void_p)
ExportEntry = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
MountEntry = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
Report = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)

# ---- functions ----

_p, _s, _i, _n = c_void_p, c_char_p, c_int, c_size_t
_u32, _u64, _i64 = c_uint32, c_uint64, c_int64
# Every call of the server ends with these parameters: `call` and `error`.
_call = (_p, _p)
_name = (_p, _s)  # a directory and a path

PROTOTYPES: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "version": (_s, ()),
    "error_kind": (_i, (_p,)),
    "error_errno": (_i, (_p,)),
    "error_status": (_u32, (_p,)),
    "error_outcome_unknown": (_i, (_p,)),
    "error_operation": (_s, (_p,)),
    "error_peer": (_s, (_p,)),
    "error_message": (_s, (_p,)),
    "error_next_step": (_s, (_p,)),
    "error_text": (_s, (_p,)),
    "error_copy": (_p, (_p,)),
    "error_free": (None, (_p,)),
    "options_new": (_p, ()),
    "options_copy": (_p, (_p,)),
    "options_free": (None, (_p,)),
    "options_set": (_i, (_p, _s, _s, _p)),
    "options_set_all": (_i, (_p, _s, _p)),
    "options_set_target": (_i, (_p, _s, _p)),
    "options_get": (_s, (_p, _s)),
    "options_origin": (_s, (_p, _s)),
    "statistics_get": (_p, (_p,)),
    "options_set_log": (None, (_p, _p, _p)),
    "options_set_interrupt": (None, (_p, _i)),
    "option_help": (_i, (_n, _p)),
    "connect": (_p, (_s, _p, _p)),
    "disconnect": (_i, (_p, _p)),
    "client_free": (None, (_p,)),
    "path": (_s, (_p,)),
    "root": (_p, (_p,)),
    "submit": (None, (_p,)),
    "cancel": (_i64, (_p, _u64)),
    "queue_new": (_p, (_p, _p)),
    "queue_free": (None, (_p,)),
    "reap": (_i64, (_p, _p, _n, _n, _i64)),
    "queue_descriptor": (_i, (_p,)),
    "queue_pending": (_n, (_p,)),
    "wait": (_i, (_p, _i64, _p, _n)),
    "descriptor": (_i, (_p,)),
    "service": (None, (_p,)),
    "ping": (_i64, (_p, *_call)),
    "post": (_i64, (_p, *_call)),
    "info_get": (_p, (_p,)),
    "info_free": (None, (_p,)),
    "info_name": (_s, (_p, _n)),
    "info_text": (_s, (_p, _s)),
    "info_number": (_u64, (_p, _s)),
    "list_exports": (_i, (_s, _p, _p, _p, _p)),
    "list_mounts": (_i, (_s, _p, _p, _p, _p)),
    "diagnose": (_i, (_s, _p, _p, _p, _p, _p)),
    "stat": (_i64, (*_name, _u32, _p, *_call)),
    "set_attributes": (_i64, (*_name, _u32, _p, *_call)),
    "access": (_i64, (*_name, _u32, *_call)),
    "statfs": (_i64, (*_name, _p, *_call)),
    "readlink": (_i64, (*_name, _p, _n, *_call)),
    "mkdir": (_i64, (*_name, _u32, *_call)),
    "symlink": (_i64, (_p, _s, _s, *_call)),
    "mknod": (_i64, (*_name, _u32, _u32, _u32, _u32, *_call)),
    "unlink": (_i64, (*_name, *_call)),
    "rmdir": (_i64, (*_name, *_call)),
    "rename": (_i64, (*_name, *_name, *_call)),
    "link": (_i64, (*_name, *_name, *_call)),
    "open_dir": (_i64, (*_name, _p, *_call)),
    "dir_free": (None, (_p,)),
    "listing_new": (_p, (*_name, _p)),
    "listing_free": (None, (_p,)),
    "listing_next": (_i64, (_p, *_call)),
    "listing_entry": (_i, (_p, _n, _p)),
    "open": (_i64, (*_name, _u32, _u32, _p, *_call)),
    "close": (_i64, (_p, *_call)),
    "file_free": (None, (_p,)),
    "pread": (_i64, (_p, _p, _n, _u64, *_call)),
    "preadv": (_i64, (_p, _p, _n, _u64, *_call)),
    "pwrite": (_i64, (_p, _p, _n, _u64, _u32, *_call)),
    "pwritev": (_i64, (_p, _p, _n, _u64, _u32, *_call)),
    "pwrite_kept": (_i64, (_p, _p, _n, _u64, _u32, _p, _p, *_call)),
    "sync": (_i64, (_p, *_call)),
    "fstat": (_i64, (_p, _p, *_call)),
    "fset_attributes": (_i64, (_p, _p, *_call)),
    "pread_holes": (_i64, (_p, _p, _n, _u64, _p, *_call)),
    "next_extent": (_i64, (_p, _u64, _p, *_call)),
    "seek": (_i64, (_p, _u64, _i, _p, *_call)),
    "allocate": (_i64, (_p, _u64, _u64, *_call)),
    "punch": (_i64, (_p, _u64, _u64, *_call)),
    "copy": (_i64, (_p, _u64, _p, _u64, _u64, *_call)),
    "lock_range": (_i64, (_p, _p, _i64, *_call)),
    "unlock_range": (_i64, (_p, _p, *_call)),
    "test_lock": (_i64, (_p, _p, _p, *_call)),
    "read_many": (_i64, (_p, _p, _n, _n, *_call)),
    "write_many": (_i64, (_p, _p, _n, _n, *_call)),
    "stat_many": (_i64, (_p, _p, _n, _n, _u32, *_call)),
    "get_xattr": (_i64, (*_name, _u32, _s, _p, _n, *_call)),
    "set_xattr": (_i64, (*_name, _u32, _s, _p, _n, _u32, *_call)),
    "remove_xattr": (_i64, (*_name, _u32, _s, *_call)),
    "list_xattrs": (_i64, (*_name, _u32, _p, _n, *_call)),
    "acl_new": (_p, (_i,)),
    "acl_free": (None, (_p,)),
    "acl_form": (_i, (_p,)),
    "acl_entry": (_i, (_p, _n, _p)),
    "acl_add": (_i, (_p, _p, _p)),
    "acl_parse": (_p, (_s, _p, _p)),
    "acl_text": (_p, (_p, _p)),
    "text_free": (None, (_p,)),
    "acl_complete": (_i, (_p, _p, _p)),
    "acl_sort": (_i, (_p, _p)),
    "get_acl": (_i64, (*_name, _u32, _p, *_call)),
    "set_acl": (_i64, (*_name, _u32, _p, *_call)),
}


class Library:
    """The functions, as attributes without their prefix: `lib.pread` is nfsrdma_pread."""

    def __init__(self, name: str) -> None:
        try:
            self.cdll = ctypes.CDLL(name)
        except OSError as error:
            raise ImportError(f"nfsrdma: the library cannot be loaded: {error}. Install libnfsrdma, or let the "
                              "environment variable NFSRDMA_LIBRARY name libnfsrdma.so.1") from error
        for short, (result, arguments) in PROTOTYPES.items():
            function = getattr(self.cdll, "nfsrdma_" + short)
            function.restype = result
            function.argtypes = arguments
            setattr(self, short, function)

    def __getattr__(self, name: str) -> Any:  # only for type checkers: all functions are in the instance
        raise AttributeError(name)


lib = Library(os.environ.get("NFSRDMA_LIBRARY") or "libnfsrdma.so.1")
