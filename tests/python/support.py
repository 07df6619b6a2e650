"""What the tests share: the server that the environment names, and a fresh directory on it for each test."""

from __future__ import annotations

import errno
import functools
import os
import sys
import threading
import unittest
import uuid
from typing import Any, Callable

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEADER = os.path.join(ROOT, "libclient/include/nfsrdma/nfsrdma.h")
sys.path.insert(0, os.path.join(ROOT, "libclient/python"))

import nfsrdma  # noqa: E402

URL = os.environ.get("NFSRDMA_URL", "")


def connect(**options: Any) -> nfsrdma.Client:
    return nfsrdma.Client(URL, **options)


@unittest.skipUnless(URL, "NFSRDMA_URL names no server")
class ServerTest(unittest.TestCase):
    """Has a client and a directory on the server, where relative paths of self.client begin."""

    client: nfsrdma.Client
    top: str

    def setUp(self) -> None:
        self.client = connect()
        self.addCleanup(self.client.close)
        self.top = os.path.join(self.client.path, f"python-{uuid.uuid4().hex[:12]}")
        self.client.mkdir(self.top, 0o777)
        self.addCleanup(remove_tree, self.top)
        start, mark, query = URL.partition("?")
        self.url = start.rstrip("/") + "/" + os.path.basename(self.top) + mark + query
        self.client.close()
        self.client = nfsrdma.Client(self.url)
        self.addCleanup(self.client.close)

    def file(self, name: str, data: bytes = b"") -> str:
        """Makes a file; returns its path."""
        path = os.path.join(self.top, name)
        self.client.write_bytes(path, data)
        return path

    def is_simple(self) -> bool:
        """Returns whether the server is the load generators' responder, which neglects EXCLUSIVE and atime. It is known
        by that it has no LINK."""
        return not try_to(lambda: self.client.link(self.file("linked"), "link"))

    def locked(self, name: str = "locked") -> nfsrdma.File:
        """Returns a file that is locked: a second owner waits. This is how tests get a call that takes long."""
        self.file(name, b"x")
        holder = self.client.open(name, "r+b")
        self.addCleanup(holder.close)
        try:
            holder.lock()
        except nfsrdma.Error as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOLCK, errno.ECONNREFUSED):
                self.skipTest(f"SKIPPED: the server has no locks: {error}")
            raise
        return holder


def try_to(work: Callable[[], Any]) -> bool:
    """Returns whether the server has the operation."""
    try:
        work()
    except nfsrdma.Error as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    return True


def remove_tree(top: str) -> None:
    with connect() as client:
        for path, directories, others in client.walk(top, topdown=False):
            for name in others:
                client.unlink(os.path.join(path, name))
            client.rmdir(path)


def tolerant(test: Callable[..., None]) -> Callable[..., None]:
    """Skips a test if the server's version of NFS does not have the operation."""

    @functools.wraps(test)
    def run(self: unittest.TestCase) -> None:
        try:
            test(self)
        except nfsrdma.Error as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS):
                self.skipTest(f"SKIPPED: the server does not have this: {error}")
            raise

    return run


def in_thread(work: Callable[[], Any]) -> "threading.Thread":
    thread = threading.Thread(target=work)
    thread.start()
    return thread
