"""How calls are made: Ctrl-C, limits, threads, fork, and what happens to objects that nobody closed."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import warnings
import weakref
from typing import Any, List
from unittest import mock

import nfsrdma
import nfsrdma._native
import support

SOON = 5.0  # seconds within which something must end that would otherwise take half a minute


def child(program: str, *arguments: str, expect: int = 0) -> str:
    """Runs a program in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-W", "ignore", "-c",
                           f"import sys; sys.path.insert(0, {support.HERE!r})\nimport support, nfsrdma\n{program}",
                           *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          check=False)
    if done.returncode != expect:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class InterruptTest(support.ServerTest):
    def interrupt_after(self, delay: float) -> None:
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        self.addCleanup(timer.join)

    def test_ctrl_c(self) -> None:
        """Ctrl-C ends a call that takes long, and the client goes on."""
        self.locked()
        with self.client.open("locked", "r+b") as second:
            start = time.monotonic()
            self.interrupt_after(0.3)
            with self.assertRaises(KeyboardInterrupt):
                second.lock(wait=30)
            self.assertLess(time.monotonic() - start, SOON)
            self.assertEqual(second.pread(1, 0), b"x")
        self.assertEqual(self.client.read_bytes("locked"), b"x")

    def test_handler(self) -> None:
        """A signal handler that returns does not end the call, and may make calls of its own."""
        found: List[Any] = []
        old = signal.signal(signal.SIGUSR1, lambda *_: found.append(self.client.stat("locked").st_size))
        self.addCleanup(signal.signal, signal.SIGUSR1, old)
        self.locked()
        with self.client.open("locked", "r+b") as second:
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            with self.assertRaises(BlockingIOError):
                second.lock(wait=0.8)
            timer.join()
        self.assertEqual(found, [1])

    def test_reap(self) -> None:
        """Ctrl-C ends a wait for a queue."""
        queue = nfsrdma.Queue(self.client)
        self.assertEqual(queue.reap(1, 1, 0.01), [])  # nothing is under way
        holder = self.locked()
        with self.client.open("locked", "r+b") as second:
            from nfsrdma import _file_operations as fops, _c
            import ctypes

            wanted = fops.lock_range(second.lock_owner, True, 0, None)
            queue._start(_c.lib.lock_range, (second._pointer, ctypes.byref(wanted), 30000), "slow", (second, wanted),
                         False)
            self.assertEqual(queue.pending, 1)
            start = time.monotonic()
            self.assertEqual(queue.reap(1, 1, 0.25), [])
            self.assertGreaterEqual(time.monotonic() - start, 0.2)
            self.interrupt_after(0.3)
            with self.assertRaises(KeyboardInterrupt):
                queue.reap(1, 1)
            self.assertEqual(queue.cancel("slow"), 1)
            [(tag, result)] = queue.reap(1, 1)
            self.assertEqual(tag, "slow")
            self.assertIsInstance(result, nfsrdma.Cancelled)
            self.assertEqual(result.kind, nfsrdma.Kind.CANCELLED)
            self.assertLess(time.monotonic() - start, SOON)
        holder.unlock()

    def wait_for_closer(self) -> None:
        """Waits until all that was opened is freed."""
        for _ in range(500):
            if self.client._native._children == 0:
                return
            time.sleep(0.01)
        self.fail("a file was not freed")

    def test_open(self) -> None:
        """A signal that comes when a call has just ended: what it has opened is closed, and nothing is lost."""
        self.file("file", b"x")
        freed: List[Any] = []
        for _ in range(5):
            self.wait_for_closer()
            real = nfsrdma._native.lib.reap

            def reap(*arguments: Any) -> int:
                count: int = real(*arguments)
                if count:
                    raise KeyboardInterrupt
                return count

            with mock.patch.object(nfsrdma._native.lib, "reap", reap), self.assertRaises(KeyboardInterrupt):
                self.client.open("file")
            self.wait_for_closer()
            freed.append(self.client.read_bytes("file"))
        self.assertEqual(freed, [b"x"] * 5)

    def test_connect(self) -> None:
        """Ctrl-C ends connecting. The listener accepts connections and says nothing."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.interrupt_after(0.3)
            start = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                nfsrdma.Client(f"nfs://127.0.0.1:{listener.getsockname()[1]}/", connect_timeout="20s", fabric="iwarp")
            self.assertLess(time.monotonic() - start, SOON)


class LimitTest(support.ServerTest):
    def test_timeout(self) -> None:
        self.locked()
        for work in (lambda run: run(), lambda run: support.in_thread(run).join()):
            with self.client.open("locked", "r+b") as second:
                errors: List[BaseException] = []

                def run() -> None:
                    with nfsrdma.call_options(timeout=0.3):
                        try:
                            second.lock(wait=30)
                        except BaseException as error:
                            errors.append(error)

                start = time.monotonic()
                work(run)
                self.assertLess(time.monotonic() - start, SOON)
                self.assertIsInstance(errors[0], (TimeoutError, BlockingIOError))
                self.assertEqual(self.client.stat("locked").st_size, 1)

    def test_cancel(self) -> None:
        """Another thread cancels calls by their tag: those of threads."""
        self.locked()
        with self.client.open("locked", "r+b") as second:
            errors: List[BaseException] = []

            def run() -> None:
                with nfsrdma.call_options(tag=7):
                    try:
                        second.lock(wait=30)
                    except BaseException as error:
                        errors.append(error)

            start = time.monotonic()
            thread = support.in_thread(run)
            while self.client.cancel(7) == 0 and time.monotonic() - start < SOON:
                time.sleep(0.02)
            thread.join()
            self.assertLess(time.monotonic() - start, SOON)
            self.assertIsInstance(errors[0], nfsrdma.Cancelled)
            self.assertEqual(self.client.cancel(7), 0)

    def test_close_ends_calls(self) -> None:
        self.locked()
        other = nfsrdma.Client(self.url)
        second = other.open("locked", "r+b")
        errors: List[BaseException] = []

        def run() -> None:
            try:
                second.lock(wait=30)
            except BaseException as error:
                errors.append(error)

        thread = support.in_thread(run)
        time.sleep(0.2)
        start = time.monotonic()
        other.close()
        thread.join()
        self.assertLess(time.monotonic() - start, SOON)
        self.assertIsInstance(errors[0], nfsrdma.Error)


class ThreadTest(support.ServerTest):
    def test_threads(self) -> None:
        data = os.urandom(64 * 1024)
        self.file("file", data)
        failures: List[BaseException] = []

        def work(number: int) -> None:
            try:
                with self.client.open("file") as file:
                    for offset in range(0, len(data), 4096):
                        assert file.pread(4096, offset) == data[offset:offset + 4096]
                    self.client.write_bytes(f"file{number}", data[:number])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(self.client.listdir()), 9)

    def test_gil(self) -> None:
        """Other threads run while a call blocks."""
        self.locked()
        counted = 0
        with self.client.open("locked", "r+b") as second:
            def run() -> None:
                with self.assertRaises(BlockingIOError):
                    second.lock(wait=0.5)

            thread = support.in_thread(run)
            while thread.is_alive():
                counted += 1
                time.sleep(0.01)
        self.assertGreater(counted, 10)

    def test_log(self) -> None:
        notices: List[str] = []
        with nfsrdma.Client(support.URL, log=notices.append) as client:
            client.ping()
        self.assertTrue(all(isinstance(text, str) for text in notices))

    def test_calls_in_log(self) -> None:
        """A log function that makes calls gets an error, not a deadlock."""
        from nfsrdma import _native

        _native.limits.in_log = True
        try:
            with self.assertRaises(nfsrdma.Error) as caught:
                self.client.stat("/")
            self.assertEqual(caught.exception.errno, errno.EDEADLK)
        finally:
            _native.limits.in_log = False


class DiagnoseTest(support.ServerTest):
    def test_good_and_bad(self) -> None:
        """Each step gives a Finding, and the verdict names what is wrong."""
        self.file("file", b"123")
        reported: "List[nfsrdma.Finding]" = []
        good = nfsrdma.diagnose(self.url, read="file", write=True, report=reported.append)
        self.assertEqual(good, reported)
        self.assertEqual((good[0].step, good[-1].step), ("resolve", "verdict"))
        self.assertNotIn("failed", {finding.state for finding in good})
        found = {finding.step: finding for finding in good}
        self.assertEqual(found["read"].facts["bytes"], "3")
        self.assertIn("write", found)
        self.assertEqual(self.client.listdir(), ["file"])
        start, mark, query = self.url.partition("?")
        bad = nfsrdma.diagnose(start + "/none" + mark + query)
        self.assertEqual([finding.step for finding in bad if finding.state == "failed"], ["export", "verdict"])
        self.assertIn("/none does not exist", bad[-1].seen)


class LifetimeTest(support.ServerTest):
    def test_dropped(self) -> None:
        """A file keeps its client alive; what nobody closed is closed in the background, with a warning."""
        self.file("file", b"123")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = nfsrdma.Client(self.url)
            file = client.open("file")
            alive = weakref.ref(client)
            del client
            self.assertEqual(file.read(), b"123")
            self.assertIsNotNone(alive())
            start = time.monotonic()
            del file
            # The warning refers to the file.
            self.assertEqual([caught.pop().category for _ in caught[:]], [ResourceWarning])
            gc.collect()
            self.assertEqual([caught.pop().category for _ in caught[:]], [ResourceWarning])
            self.assertLess(time.monotonic() - start, 1)
        self.assertIsNone(alive())

    def test_cycle(self) -> None:
        """The garbage collector may find client and files in any order."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(5):
                client = nfsrdma.Client(self.url)
                objects: List[Any] = [client, client.open("file", "wb"), client.open_directory(),
                                      nfsrdma.Queue(client), client.scandir()]
                objects[1].write(b"1")
                next(objects[4])
                objects.append(objects)
                del client, objects
                gc.collect()
        self.assertEqual(self.client.stat("file").st_size, 1)

    def test_exit(self) -> None:
        """The interpreter exits with files open, calls under way, and a client in use by daemon threads."""
        self.locked()
        child(f"""
import threading, time
clients = [nfsrdma.Client({self.url!r}, log=lambda text: None) for _ in range(3)]
files = [client.open("locked", "r+b") for client in clients]
queue = nfsrdma.Queue(clients[0])
queue.submit_read(files[0], bytearray(100), 0)
threading.Thread(target=lambda: files[1].lock(wait=30), daemon=True).start()
left = clients[2].open("left", "wb", -1)
left.write(b"buffered")
time.sleep(0.2)
""")
        self.assertEqual(self.client.read_bytes("left"), b"buffered")

    def test_pickle(self) -> None:
        import pickle

        with self.assertRaises(TypeError):
            pickle.dumps(self.client)


class ForkTest(support.ServerTest):
    def test_child(self) -> None:
        """In a child, the parent's objects fail at once with ENOTCONN; a client of its own works."""
        output = child(f"""
import os
client = nfsrdma.Client({self.url!r})
client.write_bytes("file", b"parent")
file = client.open("file")
queue = nfsrdma.Queue(client)
def refused(work):
    try:
        work()
    except nfsrdma.Error as error:
        assert error.errno == {errno.ENOTCONN}, error
    else:
        raise SystemExit("no error")
pid = os.fork()
if pid == 0:
    for work in (lambda: client.stat("file"), lambda: file.read(), lambda: client.listdir(), client.info, client.ping,
                 lambda: queue.submit_read(file, bytearray(1), 0), lambda: nfsrdma.Queue(client),
                 lambda: client.open("file")):
        refused(work)
    assert queue.reap(1, 1, 1) == []
    file.close()
    client.close()
    with nfsrdma.Client({self.url!r}) as own:
        own.write_bytes("child", b"child")
    del client, file, queue
    print("child", flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert file.read() == b"parent"
print("parent")
""")
        self.assertEqual(output.split(), ["child", "parent"])

    def test_multiprocessing(self) -> None:
        """Processes that were forked, each with a client of its own."""
        output = child(f"""
import multiprocessing
client = nfsrdma.Client({self.url!r})
client.write_many([(f"file{{n}}", bytes(n)) for n in range(20)])
def start():
    global own
    own = nfsrdma.Client({self.url!r})
def size(n):
    return len(own.read_bytes(f"file{{n}}"))
with multiprocessing.get_context("fork").Pool(3, start) as pool:
    print(sum(pool.map(size, range(20))))
assert client.stat("file7").st_size == 7
""")
        self.assertEqual(output.split(), ["190"])
        self.assertIn("fork", multiprocessing.get_all_start_methods())

    def test_worker_exits(self) -> None:
        """A child of multiprocessing flushes buffers and ends its sessions, as a program does at its exit."""
        child(f"""
import multiprocessing
def work(name):
    client = nfsrdma.Client({self.url!r})
    process.client, process.file = client, client.open(name, "wb", -1)
    process.file.write(b"buffered")
process = multiprocessing.get_context("fork").Process(target=work, args=("written",))
process.start()
process.join()
assert process.exitcode == 0
""")
        self.assertEqual(self.client.read_bytes("written"), b"buffered")


if __name__ == "__main__":
    unittest.main()
