"""nfsrdma.aio: coroutines, cancellation, several event loops."""

from __future__ import annotations

import asyncio
import gc
import os
import stat
import threading
import time
import unittest
import weakref
from typing import Any, Awaitable, Callable, List

import nfsrdma
import support
from nfsrdma.aio import AsyncClient
from test_queue import Array


class AsyncTest(support.ServerTest):
    def run_async(self, work: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with AsyncClient(self.url) as client:
                return await work(client)

        return asyncio.run(main())

    def test_files(self) -> None:
        data = os.urandom(100000)

        async def work(client: AsyncClient) -> None:
            async with await client.open("file", "w+b") as file:
                self.assertEqual(await file.write(data), len(data))
                await file.fsync()
                self.assertEqual(await file.seek(10), 10)
                self.assertEqual(await file.read(5), data[10:15])
                self.assertEqual(await file.read(), data[15:])
                buffer = bytearray(100)
                await file.seek(-100, os.SEEK_END)
                self.assertEqual(await file.readinto(buffer), 100)
                self.assertEqual(buffer, data[-100:])
                parts = await asyncio.gather(*(file.pread(1000, offset) for offset in range(0, len(data), 1000)))
                self.assertEqual(b"".join(parts), data)
                kept = bytearray(b"kept")
                await file.pwrite(kept, 0, keep=True)
                await file.fsync()
                kept.clear()
                first = bytearray(5)
                self.assertEqual((await file.preadinto_holes(first, 0))[0], 5)
                self.assertEqual(first, b"kept" + data[4:5])
                await file.pwrite(data[:4], 0)
                await file.truncate(5)
                self.assertEqual((await file.stat()).st_size, 5)
            with self.assertRaises(ValueError):
                await file.read()
            with self.assertRaises(FileNotFoundError):
                await client.open("missing")
            async with await client.open("file", "ab") as file:
                await file.write(b"+")
            self.assertEqual(self.client.read_bytes("file"), data[:5] + b"+")

        self.run_async(work)

    def test_names(self) -> None:
        async def work(client: AsyncClient) -> None:
            await client.makedirs("a/b")
            await client.makedirs("a/b", exist_ok=True)
            counts = await client.write_many({f"a/{number}": bytes(number) for number in range(30)})
            self.assertEqual(counts, list(range(30)))
            self.assertEqual(len(await client.listdir("a")), 31)
            self.assertEqual(len([entry async for entry in client.scandir("a") if entry.is_file()]), 30)
            self.assertEqual([path async for path, _, _ in client.walk()], [self.top, self.top + "/a",
                                                                          self.top + "/a/b"])
            results = await client.read_many(["a/3", "a/none"], attributes=True)
            self.assertEqual((bytes(results[0].data), results[0].stat.st_size), (bytes(3), 3))
            self.assertIsInstance(results[1].error, FileNotFoundError)
            self.assertEqual((await client.stat_many(["a/5"]))[0].st_size, 5)
            await client.rename("a/1", "a/one")
            if support.try_to(lambda: self.client.symlink("one", "a/link")):
                self.assertEqual(await client.readlink("a/link"), "one")
                await client.link("a/one", "a/two")
                await client.symlink("one", "a/second")
                await client.mkfifo("a/fifo", 0o600)
                self.assertTrue(stat.S_ISFIFO((await client.stat("a/fifo")).st_mode))
            await client.unlink("a/2")
            await client.chmod("a/one", 0o600)
            self.assertEqual((await client.lstat("a/one")).st_mode & 0o777, 0o600)
            self.assertTrue(await client.exists("a") and await client.isdir("a") and not await client.isfile("a"))
            self.assertTrue(await client.access("a/one", os.R_OK))
            await client.rmdir("a/b")
            self.assertGreater(await client.ping(), 0)
            self.assertTrue(client.info())
            self.assertGreater((await client.space()).total, 0)

        self.run_async(work)

    def test_cancelled(self) -> None:
        """Cancelling a task cancels its call, whose objects stay alive until it has completed."""
        self.locked()

        async def work(client: AsyncClient) -> None:
            async with await client.open("locked", "r+b") as file:
                start = time.monotonic()
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(file.lock(wait=30), 0.2)
                self.assertLess(time.monotonic() - start, 5)
                self.assertEqual(await file.pread(1, 0), b"x")
                queue = client._queue()
                buffers = []
                for _ in range(20):
                    buffer = Array(1)
                    buffers.append(weakref.ref(buffer))
                    task = asyncio.ensure_future(file.preadinto(buffer, 0))
                    del buffer
                    await asyncio.sleep(0)
                    under_way = len(queue._flying)
                    task.cancel()
                    gc.collect()
                    self.assertTrue(buffers[-1]() is not None or under_way == 0)
                    await asyncio.wait([task])
                    del task
                for _ in range(500):
                    if queue._flying:
                        await asyncio.sleep(0.01)
                self.assertEqual(queue._flying, {})
                gc.collect()
                # The interpreter may hold the last exception, and with it the frame that has the buffer.
                self.assertLessEqual(sum(buffer() is not None for buffer in buffers), 1)

        self.run_async(work)

    def test_cancelled_open(self) -> None:
        """A file whose open was cancelled is closed, whichever came first."""
        self.file("file", b"x")

        async def work(client: AsyncClient) -> None:
            for _ in range(20):
                task = asyncio.ensure_future(client.open("file"))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            async with await client.open("file") as file:
                self.assertEqual(await file.read(), b"x")

        self.run_async(work)

    def test_loops(self) -> None:
        """Two event loops in two threads use one client at the same time."""
        data = os.urandom(50000)
        self.file("file", data)

        async def work(client: AsyncClient) -> None:
            seen: List[bytes] = []

            async def read_all() -> None:
                async with await client.open("file") as file:
                    for _ in range(5):
                        parts = await asyncio.gather(*(file.pread(1000, at) for at in range(0, len(data), 1000)))
                        seen.append(b"".join(parts))

            thread = threading.Thread(target=lambda: asyncio.run(read_all()))
            thread.start()
            await read_all()
            await asyncio.get_running_loop().run_in_executor(None, thread.join)
            self.assertEqual(seen, [data] * 10)

        self.run_async(work)

    def test_closed_with_calls(self) -> None:
        """aclose ends what is under way."""
        self.locked()

        async def main() -> None:
            client = await AsyncClient(self.url).connect()
            file = await client.open("locked", "r+b")
            task = asyncio.ensure_future(file.lock(wait=30))
            await asyncio.sleep(0.1)
            await client.aclose()
            with self.assertRaises(nfsrdma.Error):
                await asyncio.wait_for(task, 5)
            with self.assertRaises(nfsrdma.Error):
                await client.stat("locked")

        asyncio.run(main())

    def test_not_connected(self) -> None:
        async def main() -> None:
            with self.assertRaises(ValueError):
                await AsyncClient(self.url).stat("/")
            with self.assertRaises(nfsrdma.Error):
                await AsyncClient("no target").connect()

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
