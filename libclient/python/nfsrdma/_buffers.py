"""Addresses of Python buffers, and `bytes` that are filled in place.

The library gets the address of the caller's own memory: nothing is copied on the way.
"""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, List, Tuple

_char_from = ctypes.c_char.from_buffer
_address = ctypes.addressof

try:
    _new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
    _new_bytes.restype, _new_bytes.argtypes = ctypes.py_object, (ctypes.c_char_p, ctypes.c_ssize_t)
    _bytes_address = ctypes.pythonapi.PyBytes_AsString
    _bytes_address.restype, _bytes_address.argtypes = ctypes.c_void_p, (ctypes.py_object,)
    _get_buffer = ctypes.pythonapi.PyObject_GetBuffer
    _get_buffer.restype, _get_buffer.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    _release_buffer = ctypes.pythonapi.PyBuffer_Release
    _release_buffer.restype, _release_buffer.argtypes = None, (ctypes.c_void_p,)
except AttributeError as missing:  # pragma: no cover
    raise ImportError("nfsrdma needs CPython") from missing


class _View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class _Export:
    """Holds a contiguous buffer, readable only perhaps, at its place."""

    __slots__ = ("view",)

    def __init__(self, buffer: Any) -> None:
        self.view = _View()
        _get_buffer(buffer, ctypes.byref(self.view), 0)

    def __del__(self, _release: Any = _release_buffer, _byref: Any = ctypes.byref) -> None:
        _release(_byref(self.view))


class Memory:
    """A writable buffer whose address is known. Use it for buffers that are passed to calls again and again.

    While it exists, the buffer stays at its place: a bytearray cannot be resized, an mmap not be closed.
    `Memory(buffer)[a:b]` is a part of it.
    """

    __slots__ = ("address", "size", "hold")

    def __init__(self, buffer: Any) -> None:
        self.address, self.size, self.hold = writable(buffer)

    def __getitem__(self, part: slice) -> "Memory":
        first, last, step = part.indices(self.size)
        if step != 1:
            raise ValueError("parts of a Memory are contiguous")
        smaller = Memory.__new__(Memory)
        smaller.address, smaller.size, smaller.hold = self.address + first, max(0, last - first), self.hold
        return smaller

    def __len__(self) -> int:
        return self.size


def view_of(buffer: Any) -> memoryview:
    """Returns a buffer, or a Memory, as a memoryview of its bytes."""
    if type(buffer) is Memory:
        array = (ctypes.c_char * buffer.size).from_address(buffer.address)
        array._hold = buffer.hold  # type: ignore[attr-defined]
        return memoryview(array).cast("B")
    view = memoryview(buffer)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def writable(buffer: Any) -> Tuple[int, int, Any]:
    """Returns address and size of a writable contiguous buffer, and an object that holds it at its place."""
    if type(buffer) is Memory:
        return buffer.address, buffer.size, buffer.hold
    size = len(buffer) if type(buffer) is bytearray else memoryview(buffer).nbytes
    if size == 0:
        return 0, 0, buffer
    hold = _char_from(buffer)
    return _address(hold), size, hold


def readable(buffer: Any) -> Tuple[Any, int, Any]:
    """Returns address and size of any contiguous buffer, and an object that holds it at its place.

    Instead of the address of `bytes` it returns the object, which ctypes takes as well."""
    if type(buffer) is bytes:
        return buffer, len(buffer), buffer
    if type(buffer) is Memory:
        return buffer.address, buffer.size, buffer.hold
    export = _Export(buffer)
    return export.view.buf, export.view.len, export


def addresses_of(buffers: List[Any]) -> Tuple[Iterable[int], Iterable[int], Any]:
    """Returns addresses and sizes of contiguous buffers, and an object that holds them at their places."""
    if set(map(type, buffers)) == {bytes}:
        pointers = (ctypes.c_char_p * len(buffers))(*buffers)
        return memoryview(pointers).cast("B").cast("P"), map(len, buffers), pointers
    found = [readable(buffer) for buffer in buffers]
    addresses = [bytes_address(address) if type(address) is bytes else address or 0 for address, _, _ in found]
    return addresses, [size for _, size, _ in found], found


def bytes_address(data: bytes) -> int:
    """Returns the address of the contents."""
    address: int = _bytes_address(data)
    return address


def new_bytes(size: int) -> Tuple[bytes, int]:
    """Returns `bytes` with room for `size` bytes, and the address to fill before anybody else sees them."""
    if size <= 0:
        return b"", 0
    data: bytes = _new_bytes(None, size)
    return data, bytes_address(data)
