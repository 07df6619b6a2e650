"""File: what io asks for, buffers, positions, locks, holes and copies."""

from __future__ import annotations

import gc
import io
import mmap
import os
import unittest
import weakref
from typing import Any, List
from unittest import mock

import nfsrdma
import nfsrdma.file
import support
from nfsrdma import _buffers, _file_operations, _kept
from support import tolerant
from test_queue import Array

try:
    import numpy
except ImportError:
    numpy = None


class FileTest(support.ServerTest):
    def test_read(self) -> None:
        data = os.urandom(300000)
        self.file("file", data)
        with self.client.open("file") as file:
            self.assertIsInstance(file, io.RawIOBase)
            self.assertTrue(file.readable() and file.seekable() and not file.writable())
            self.assertEqual(file.read(10), data[:10])
            self.assertEqual(file.tell(), 10)
            self.assertEqual(file.read(), data[10:])
            self.assertEqual(file.read(10), b"")
            self.assertEqual(file.seek(-5, os.SEEK_END), len(data) - 5)
            self.assertEqual(file.read(100), data[-5:])
            self.assertEqual(file.pread(7, 1000), data[1000:1007])
            self.assertEqual(file.pread(0, 0), b"")
            parts = [bytearray(3), bytearray(0), bytearray(5)]
            self.assertEqual(file.preadv(parts, 1), 8)
            self.assertEqual(b"".join(parts), data[1:9])
            with self.assertRaises(io.UnsupportedOperation):
                file.write(b"x")
            with self.assertRaises(io.UnsupportedOperation):
                file.fileno()
            with self.assertRaises(ValueError):
                file.pread(1, -1)
            with self.assertRaises(TypeError):
                file.readinto(b"not writable")
        with self.assertRaises(ValueError):
            file.read()

    def test_buffers(self) -> None:
        """The library gets the address of the caller's own buffer."""
        data = os.urandom(4096)
        self.file("file", data)
        array, mapping = bytearray(4096), mmap.mmap(-1, 4096)
        cases: List[Any] = [(array, array), (memoryview(array)[100:200], array), (mapping, mapping),
                            (_buffers.Memory(array)[5:10], array)]
        if numpy is not None:
            matrix = numpy.zeros((64, 8), dtype=numpy.float64)
            cases += [(matrix, matrix), (matrix[3:5], matrix)]
        for buffer, whole in cases:
            where, size, hold = _buffers.writable(buffer)
            start = _buffers.writable(whole)[0]
            self.assertTrue(start <= where < start + 4096)
            if numpy is not None and isinstance(buffer, numpy.ndarray):
                self.assertEqual(where, buffer.ctypes.data)
            real = nfsrdma.file.lib.pread
            with mock.patch.object(nfsrdma.file.lib, "pread", side_effect=real) as spy, self.client.open("file") as file:
                self.assertEqual(file.readinto(buffer), size)
                self.assertEqual(spy.call_args[0][1:3], (where, size))
            self.assertEqual(bytes(_buffers.view_of(whole))[where - start:where - start + size], data[:size])
            del hold
        if numpy is not None:
            with self.client.open("file") as file, self.assertRaises((BufferError, ValueError, TypeError)):
                file.readinto(matrix[:, 1])

    def test_write(self) -> None:
        with self.client.open("file", "w+b") as file:
            for part in (b"bytes", bytearray(b"array"), memoryview(b"view"), b""):
                self.assertEqual(file.write(part), len(part))
            self.assertEqual(file.pwritev([b"B", bytearray(b"YT")], 0), 3)
            file.pwrite(b"!", 20, on_disk=True)
            file.flush()
            file.fsync()
            self.assertEqual(file.stat().st_size, 21)
            file.seek(0)
            self.assertEqual(file.read(), b"BYTesarrayview" + bytes(6) + b"!")
            file.truncate(5)
            self.assertEqual(file.pread(100, 0), b"BYTes")
        with self.client.open("file", "ab") as file:
            self.assertEqual(file.tell(), 5)
            file.write(b"+")
        self.assertEqual(self.client.read_bytes("file"), b"BYTes+")
        self.assertEqual(self.client.stat("file").st_mode & 0o777, 0o644)
        if numpy is not None:
            self.client.write_bytes("numbers", numpy.arange(10, dtype="<u4"))
            self.assertEqual(self.client.stat("numbers").st_size, 40)

    def test_kept(self) -> None:
        """With keep=True the library has the caller's own buffer until fsync or close."""
        file = self.client.open("file", "w+b")
        data = bytearray(os.urandom(100000))
        wanted, alive = bytes(data), len(_kept._kept)
        with mock.patch.object(_kept.lib, "pwrite_kept", side_effect=_kept.lib.pwrite_kept) as spy:
            self.assertEqual(file.pwrite(data, 0, keep=True), len(data))
            self.assertEqual(spy.call_args[0][1], _buffers.writable(data)[0])
        self.assertEqual(file.pwrite(b"!", len(data), keep=True, on_disk=True), 1)
        self.assertEqual(file.pwrite(b"", 0, keep=True), 0)
        if not self.is_simple():  # that one has written to its disk at once
            with self.assertRaises(BufferError):
                data.extend(b"moves")
        file.fsync()
        data.extend(b"moves")
        self.assertEqual(len(_kept._kept), alive)
        self.assertEqual(file.pread(200000, 0), wanted + b"!")
        data[:5] = b"close"
        file.pwrite(data, 0, keep=True)
        file.close()
        data.clear()
        self.assertEqual(self.client.read_bytes("file")[:5], b"close")
        with self.client.open("file") as file, self.assertRaises(io.UnsupportedOperation):
            file.pwrite(data, 0, keep=True)

    def test_kept_and_dropped(self) -> None:
        """A buffer that is kept stays alive without a reference of the program's. A failed write gives it back."""
        buffer = Array(os.urandom(5000))
        wanted, alive = bytes(buffer), weakref.ref(buffer)
        file = self.client.open("file", "w+b")
        file.pwrite(memoryview(buffer), 0, keep=True)
        del buffer
        gc.collect()
        if not self.is_simple():
            self.assertEqual(bytes(alive() or b""), wanted)
        file.fsync()
        gc.collect()
        self.assertIsNone(alive())
        self.assertEqual(file.pread(5000, 0), wanted)
        self.client.close()
        buffer = Array(5000)
        with self.assertRaises(nfsrdma.Error):
            file.pwrite(buffer, 0, keep=True)
        buffer.clear()

    def test_kept_and_fork(self) -> None:
        """A child does not hold what its parent writes."""
        buffer = bytearray(5000)
        with self.client.open("file", "wb") as file:
            file.pwrite(buffer, 0, keep=True)
            child = os.fork()
            if child == 0:
                try:
                    buffer.clear()
                finally:
                    os._exit(len(buffer) > 0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_kept_until_the_client_ends(self) -> None:
        """Client.close puts the data onto the server's disk, and gives the buffers back."""
        buffer = bytearray(os.urandom(5000))
        client = support.connect()
        file = client.open(self.top + "/file", "wb")
        file.pwrite(buffer, 0, keep=True)
        client.close()
        _kept.drop_released()
        self.assertEqual(self.client.read_bytes("file"), buffer)
        buffer.clear()

    def test_layers(self) -> None:
        with self.client.open("text", "w", encoding="utf-8") as file:
            self.assertIsInstance(file, io.TextIOWrapper)
            file.write("zeile ä\nzwei\n")
        with self.client.open("text", "r", encoding="utf-8") as file:
            self.assertEqual(list(file), ["zeile ä\n", "zwei\n"])
        with self.client.open("text", "rb", -1) as file:
            self.assertIsInstance(file, io.BufferedReader)
            self.assertEqual(file.readline(), "zeile ä\n".encode())
        with self.client.open("text", "r+b", 4096) as file:
            self.assertIsInstance(file, io.BufferedRandom)
            file.seek(3)
            file.write(b"!")
        self.assertTrue(self.client.read_bytes("text").startswith(b"zei!e"))
        for mode in ("", "q", "rw", "rbt"):
            with self.assertRaises(ValueError):
                self.client.open("text", mode)
        with self.assertRaises(ValueError):
            self.client.open("text", "r", 0)

    def test_large(self) -> None:
        data = os.urandom(5 << 20)
        with self.client.open("large", "wb", -1) as file:
            for first in range(0, len(data), 77777):
                file.write(data[first:first + 77777])
        self.assertEqual(self.client.read_bytes("large"), data)

    def test_locks(self) -> None:
        first = self.locked()
        second = self.client.open("locked", "r+b")
        with second:
            with self.assertRaises(BlockingIOError):
                second.lock(length=10)
            held = second.test_lock(exclusive=False)
            self.assertEqual((held.owner, held.exclusive, held.length), (first.lock_owner, True, None))
            first.unlock()
            self.assertIsNone(second.test_lock())
            second.lock(wait=1)
            second.unlock()
            with self.assertRaises(ValueError):
                second.lock(length=0)

    @tolerant
    def test_holes(self) -> None:
        with self.client.open("sparse", "w+b") as file:
            file.pwrite(b"x" * 65536, 1 << 20)
            file.fsync()
            self.assertEqual(file.seek(0, os.SEEK_DATA), 1 << 20)
            self.assertEqual(file.seek(0, os.SEEK_HOLE), 0)
            self.assertEqual([(extent.offset, extent.is_hole) for extent in file.extents()],
                             [(0, True), (1 << 20, False)])
            with self.assertRaises(OSError):
                file.seek(1 << 30, os.SEEK_DATA)

    def test_preadinto_holes(self) -> None:
        data = b"x" * 65536
        with self.client.open("sparse", "w+b") as file:
            file.pwrite(data, 1 << 20)
            file.truncate(2 << 20)
            buffer = bytearray(b"?" * ((1 << 20) + 65536))
            count, holes = file.preadinto_holes(buffer, 0)
            self.assertEqual(count, len(buffer))
            self.assertEqual(buffer, bytes(1 << 20) + data)
            self.assertIsNone(holes.hole_ends)
            self.assertEqual(file.preadinto_holes(bytearray(5), 4 << 20), (0, nfsrdma.Holes(False, None)))
            self.assertEqual(file.preadinto_holes(bytearray(), 0), (0, nfsrdma.Holes(False, None)))
        # Few servers report holes.
        operation = _file_operations.pread_holes(0, buffer, 0)
        found = operation.arguments[4]._obj
        found.has_holes, found.hole_ends = 1, 7
        self.assertEqual(operation.finish(5), (5, nfsrdma.Holes(True, 7)))

    @tolerant
    def test_space(self) -> None:
        with self.client.open("space", "w+b") as file:
            file.allocate(0, 1 << 20)
            self.assertEqual(file.stat().st_size, 1 << 20)
            file.pwrite(b"x" * 65536, 0)
            file.punch(0, 65536)
            self.assertEqual(file.pread(10, 0), bytes(10))

    @tolerant
    def test_copy(self) -> None:
        data = os.urandom(1 << 20)
        self.file("source", data)
        with self.client.open("source") as source, self.client.open("copy", "w+b") as copy:
            self.assertEqual(copy.copy_from(source), len(data))
            self.assertEqual(copy.copy_from(source, 10, 0, 5), 5)
        self.assertEqual(self.client.read_bytes("copy"), data[10:15] + data[5:])


if __name__ == "__main__":
    unittest.main()
