"""File: what io asks for, buffers, positions, locks, holes and copies."""

from __future__ import annotations

import io
import mmap
import os
import unittest
from typing import Any, List
from unittest import mock

import nfsrdma
import nfsrdma.file
import support
from nfsrdma import _buffers
from support import tolerant

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
