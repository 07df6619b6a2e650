"""Queue: calls in flight, their results, and buffers that stay alive."""

from __future__ import annotations

import gc
import os
import select
import threading
import unittest
import weakref
from typing import Any, Dict, List

import nfsrdma
import support


class Array(bytearray):
    """A bytearray that can be referred to weakly."""


class QueueTest(support.ServerTest):
    def test_reads(self) -> None:
        data = os.urandom(256 * 4096)
        self.file("file", data)
        queue = nfsrdma.Queue(self.client)
        buffers = [bytearray(4096) for _ in range(256)]
        with self.client.open("file") as file:
            for number, buffer in enumerate(buffers):
                queue.submit_read(file, buffer, number * 4096, tag=number, more=True)
            queue.submit()
            results: List[Any] = []
            while len(results) < 256:
                results += queue.reap(100, 1)
        self.assertEqual(sorted(results), [(number, 4096) for number in range(256)])
        self.assertEqual(b"".join(buffers), data)
        self.assertEqual((queue.pending, len(queue)), (0, 0))

    def test_writes(self) -> None:
        queue = nfsrdma.Queue(self.client)
        with self.client.open("file", "w+b") as file:
            for number in range(64):
                queue.submit_write(file, bytes([number]) * 100, number * 100, tag=("any", number), on_disk=number == 5)
            self.assertEqual(sorted(queue.reap(64, 64)), [(("any", number), 100) for number in range(64)])
            self.assertEqual(file.pread(6400, 0), b"".join(bytes([number]) * 100 for number in range(64)))

    def test_kept(self) -> None:
        """With keep=True a buffer stays at its place until fsync, not only until its result is here."""
        queue = nfsrdma.Queue(self.client)
        buffers = [bytearray([number]) * 5000 for number in range(20)]
        with self.client.open("file", "w+b") as file:
            for number, buffer in enumerate(buffers):
                queue.submit_write(file, buffer, number * 5000, keep=True, more=True)
            self.assertEqual(queue.reap(20, 20), [(None, 5000)] * 20)
            if not self.is_simple():
                with self.assertRaises(BufferError):
                    buffers[0].clear()
            file.fsync()
            self.assertEqual(file.pread(100000, 0), b"".join(buffers))
            for buffer in buffers:
                buffer.clear()

    def test_errors(self) -> None:
        self.file("file", b"x")
        queue = nfsrdma.Queue(self.client)
        with self.client.open("file", "rb") as file:
            queue.submit_write(file, b"no", 0, tag="failed")
            [(tag, error)] = queue.reap(1, 1)
            self.assertEqual(tag, "failed")
            self.assertIsInstance(error, nfsrdma.Error)
        with self.assertRaises(ValueError):
            queue.submit_read(file, bytearray(1), 0)
        with support.connect() as other, other.open(self.top + "/file") as file:
            with self.assertRaises(OSError):
                queue.submit_read(file, bytearray(1), 0)

    def test_buffers_stay_alive(self) -> None:
        self.file("file", b"hello")
        queue = nfsrdma.Queue(self.client)
        file = self.client.open("file")
        buffer = Array(5)
        alive, file_alive = weakref.ref(buffer), weakref.ref(file)
        queue.submit_read(file, buffer, 0)
        with self.assertRaises(BufferError):
            buffer.extend(b"moves")
        del buffer
        gc.collect()
        self.assertEqual(bytes(alive() or b""), bytes(alive() or b""))
        self.assertIsNotNone(alive())
        self.assertEqual(queue.reap(1, 1), [(None, 5)])
        gc.collect()
        self.assertIsNone(alive())
        file.close()
        del file
        self.assertIsNone(file_alive())

    def test_descriptor(self) -> None:
        self.file("file", b"hello")
        queue = nfsrdma.Queue(self.client)
        buffer = bytearray(5)
        with self.client.open("file") as file:
            queue.submit_read(file, buffer, 0, tag=1)
            results: List[Any] = []
            while not results:
                self.assertTrue(select.select([queue], [], [], 5)[0])
                results = queue.reap(1, 0)
        self.assertEqual((results, bytes(buffer)), ([(1, 5)], b"hello"))

    def test_threads(self) -> None:
        """Several threads submit to and reap from one queue."""
        self.file("file", bytes(1000))
        queue = nfsrdma.Queue(self.client)
        seen: Dict[Any, int] = {}
        with self.client.open("file") as file:
            def submit(first: int) -> None:
                for number in range(first, first + 100):
                    queue.submit_read(file, bytearray(10), number, tag=number)

            def reap() -> None:
                while len(seen) < 400:
                    for tag, count in queue.reap(16, 1, 0.01):
                        seen[tag] = count

            threads = [threading.Thread(target=submit, args=(first,)) for first in range(0, 400, 100)]
            threads += [threading.Thread(target=reap) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(seen, {number: 10 for number in range(400)})

    def test_post(self) -> None:
        """A result that another thread adds ends a reap that waits."""
        queue = nfsrdma.Queue(self.client)
        self.file("empty", b"")
        poster = threading.Timer(0.05, queue.post, ["work"])
        with self.client.open("empty") as file:
            queue.submit_read(file, bytearray(10), 0, tag="read", more=True)
            poster.start()
            results: List[Any] = []
            while len(results) < 2:
                results += queue.reap(2, 2)
        poster.join()
        self.assertEqual(sorted(results), [("read", 0), ("work", 0)])
        queue.post("alone")
        self.assertEqual(queue.reap(1, 1), [("alone", 0)])

    def test_dropped(self) -> None:
        """A queue may go while its calls are under way."""
        self.file("file", bytes(1000))
        with self.client.open("file") as file:
            for _ in range(20):
                queue = nfsrdma.Queue(self.client)
                for number in range(20):
                    queue.submit_read(file, bytearray(10), number)
                del queue
            self.assertEqual(file.pread(1, 0), b"\0")


if __name__ == "__main__":
    unittest.main()
