"""Client and Directory: names, attributes, listings, many files, errors."""

from __future__ import annotations

import os
import pathlib
import pickle
import stat
import unittest

import nfsrdma
import support
from support import tolerant


class NamesTest(support.ServerTest):
    def test_names(self) -> None:
        client = self.client
        client.mkdir("dir")
        client.makedirs("dir/a/b/c")
        client.makedirs("dir/a/b/c", exist_ok=True)
        with self.assertRaises(FileExistsError):
            client.makedirs("dir/a/b/c")
        self.file("dir/file", b"12345")
        self.file("dir/other", b"1")
        self.assertEqual(sorted(client.listdir("dir")), ["a", "file", "other"])
        client.rename("dir/other", "dir/moved")
        self.assertTrue(client.exists("dir/moved"))
        self.assertFalse(client.exists("dir/other"))
        self.assertTrue(client.isdir("dir/a") and client.isfile("dir/file") and not client.islink("dir/file"))
        client.unlink("dir/moved")
        with self.assertRaises(OSError):
            client.rmdir("dir")
        client.rmdir("dir/a/b/c")

    @tolerant
    def test_links(self) -> None:
        self.file("file", b"12345")
        self.client.link("file", "link")
        self.assertEqual(self.client.stat("link").st_nlink, 2)
        with self.assertRaises(FileExistsError):
            self.client.link("file", "link")

    @tolerant
    def test_symlinks(self) -> None:
        client = self.client
        self.file("file", b"12345")
        client.symlink("file", "symlink")
        self.assertEqual(client.readlink("symlink"), "file")
        self.assertTrue(client.lstat("symlink").is_symlink() and client.islink("symlink"))
        self.assertTrue(client.stat("symlink").is_file() and client.isfile("symlink"))
        client.symlink("nowhere", "dangling")
        self.assertFalse(client.exists("dangling"))
        with self.assertRaises(OSError):
            client.readlink("file")
        text = "/".join(["x" * 100] * 12)
        self.client.symlink(text, "long")
        self.assertEqual(self.client.readlink("long"), text)

    def test_attributes(self) -> None:
        client = self.client
        self.file("file", b"12345")
        client.chmod("file", 0o640)
        client.utime("file", (1000.5, 2000.25))
        found = client.stat("file")
        self.assertEqual((found.st_size, stat.S_IMODE(found.st_mode), found.st_nlink), (5, 0o640, 1))
        self.assertTrue(stat.S_ISREG(found.st_mode))
        self.assertEqual(found.st_mtime, 2000.25)
        if not self.is_simple():
            self.assertEqual(found.st_atime, 1000.5)
            self.assertFalse(client.access("file", os.X_OK))
        client.utime("file", ns=(5, 7))
        self.assertEqual(client.stat("file").st_mtime_ns, 7)
        client.utime("file")
        self.assertGreater(client.stat("file").st_mtime, 10**9)
        client.truncate("file", 2)
        self.assertEqual(client.stat("file").st_size, 2)
        client.chown("file", -1, -1)
        self.assertTrue(client.access("file", os.R_OK))
        space = client.space()
        self.assertGreaterEqual(space.total, space.free)

    @tolerant
    def test_mknod(self) -> None:
        self.client.mkfifo("fifo", 0o600)
        self.client.mknod("socket", stat.S_IFSOCK | 0o755)
        self.assertEqual(self.client.stat("fifo").st_mode, stat.S_IFIFO | 0o600)
        self.assertEqual(self.client.stat("socket").st_mode, stat.S_IFSOCK | 0o755)
        with self.assertRaises(FileExistsError):
            self.client.mkfifo("socket")
        with self.assertRaisesRegex(nfsrdma.Error, "mknod does not create files"):
            self.client.mknod("file", stat.S_IFREG | 0o644)
        try:
            self.client.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 300))
        except PermissionError:
            self.skipTest("SKIPPED: only root makes devices")
        found = self.client.stat("null")
        self.assertTrue(stat.S_ISCHR(found.st_mode))
        self.assertEqual((os.major(found.st_rdev), os.minor(found.st_rdev)), (1, 300))

    def test_listings(self) -> None:
        names = [f"file {number:03}" for number in range(100)] + ["ä", "\udc80"]
        try:
            self.client.write_bytes(names[-1], b"")
        except nfsrdma.Error:
            names.pop()  # the server wants UTF-8
        for result in self.client.write_many([(name, name[-3:].encode("utf-8", "surrogateescape")) for name in names]):
            self.assertIsInstance(result, int)
        self.assertEqual(sorted(self.client.listdir()), sorted(names))
        entries = list(self.client.scandir())
        self.assertEqual(sorted(entry.name for entry in entries), sorted(names))
        self.assertTrue(all(entry.is_file() and not entry.is_dir() for entry in entries))
        self.assertEqual(entries[0].stat().st_ino, self.client.stat(entries[0]).st_ino)
        self.client.makedirs("d/e")
        self.assertEqual([path for path, _, _ in self.client.walk()],
                         [self.top, self.top + "/d", self.top + "/d/e"])
        with self.assertRaises(NotADirectoryError):
            self.client.listdir(names[0])

    def test_directory(self) -> None:
        self.client.mkdir("dir")
        directory = self.client.open_directory("dir")
        self.client.rename("dir", "renamed")
        with directory.open("file", "wb") as file:
            file.write(b"hello")
        self.assertEqual(self.client.read_bytes("renamed/file"), b"hello")
        self.assertEqual(directory.listdir(), ["file"])
        self.assertIs(directory.client, self.client)
        inner = directory.open_directory(self.top)
        self.assertIn("renamed", inner.listdir())
        directory.rename("file", "moved", to=inner)
        self.assertEqual(self.client.read_bytes("moved"), b"hello")

    def test_bytes_and_paths(self) -> None:
        self.file("file", b"1")
        self.assertEqual(self.client.stat(b"file").st_size, 1)
        self.assertEqual(self.client.stat(pathlib.PurePosixPath("file")).st_size, 1)
        with self.assertRaises(ValueError):
            self.client.stat("file\0more")

    @tolerant
    def test_xattrs(self) -> None:
        self.file("file")
        value = os.urandom(3000)
        self.client.setxattr("file", "user.one", value)
        self.client.setxattr("file", "user.two", b"2", os.XATTR_CREATE)
        self.assertEqual(self.client.getxattr("file", "user.one"), value)
        self.assertEqual(sorted(self.client.listxattr("file")), ["user.one", "user.two"])
        with self.assertRaises(FileExistsError):
            self.client.setxattr("file", "user.two", b"2", os.XATTR_CREATE)
        self.client.removexattr("file", "user.one")
        self.assertEqual(self.client.listxattr("file"), ["user.two"])
        with self.assertRaises(OSError):
            self.client.getxattr("file", "security.x")

    @tolerant
    def test_acl(self) -> None:
        self.file("file")
        text = self.client.get_acl("file")
        self.assertIn(":", text)
        self.client.set_acl("file", text)
        self.assertEqual(self.client.get_acl("file"), text)
        with self.assertRaises(nfsrdma.Error):
            self.client.set_acl("file", "nonsense")

    # ---- many files ----

    def test_many(self) -> None:
        files = {f"many{number}": os.urandom(number * 100) for number in range(50)}
        self.assertEqual(self.client.write_many(files), [len(data) for data in files.values()])
        paths = [*files, "missing"]
        buffer = bytearray(51 * 4000)
        results = self.client.read_many(paths, buffer, room=4000, attributes=True)
        for result, data in zip(results, files.values()):
            self.assertIsNone(result.error)
            self.assertEqual(bytes(result.data), data[:4000])
            self.assertEqual(result.eof, len(data) <= 4000)
            self.assertEqual(result.stat.st_size, len(data))
        self.assertEqual(bytes(buffer[4000:4100]), files["many1"])
        self.assertIsInstance(results[-1].error, FileNotFoundError)
        with self.assertRaises(FileNotFoundError):
            results[-1].value()
        self.assertEqual(bytes(self.client.read_many(["many3"])[0].value()), files["many3"])
        memory = nfsrdma.Memory(buffer)[1000:6000]
        self.assertEqual(bytes(self.client.read_many(["many3"], memory)[0].value()), files["many3"])
        self.assertEqual(bytes(buffer[1000:1300]), files["many3"])
        stats = self.client.stat_many(paths)
        self.assertEqual([found.st_size for found in stats[:-1]], [len(data) for data in files.values()])
        self.assertIsInstance(stats[-1], FileNotFoundError)
        names = [f"many{number}" for number in range(3)]
        mixed = [names[0], names[1].encode(), pathlib.PurePosixPath(self.top, names[2])]
        for place in (self.client, self.client.open_directory()):
            for some in (names, mixed, [f"{self.top}/{name}" for name in names], [names[0], f"{self.top}/{names[1]}",
                                                                                 f"../{os.path.basename(self.top)}/{names[2]}"]):
                self.assertEqual([found.st_size for found in place.stat_many(path for path in some)], [0, 100, 200])
                results = place.read_many(some, room=200)
                self.assertEqual([bytes(result.value()) for result in results], [files[name] for name in names])
                self.assertEqual([result.path for result in results], [os.fsdecode(path) for path in some])
            self.assertEqual([found.is_dir() for found in place.stat_many(["", names[0]])], [True, False])
            for empty in ([""], [b""]):
                self.assertTrue(place.stat_many(empty)[0].is_dir())
            for wrong in ([names[0], "many1\0"], ["\0many1"], [b"a\0b"]):
                with self.assertRaises(ValueError):
                    place.stat_many(wrong)
        self.assertEqual(self.client.read_many([]), [])
        self.assertEqual(self.client.stat_many([]), [])
        self.assertEqual(self.client.write_many([]), [])
        with self.assertRaises(ValueError):
            self.client.read_many(paths, bytearray(100), room=4000)
        failed, good = self.client.write_many([("no/such/directory", b"x"), ("good", bytearray(b"yy"))])
        self.assertIsInstance(failed, FileNotFoundError)
        self.assertEqual(good, 2)

    # ---- errors ----

    def test_errors(self) -> None:
        with self.assertRaises(FileNotFoundError) as caught:
            self.client.stat("missing")
        error = caught.exception
        self.assertIsInstance(error, nfsrdma.Error)
        self.assertEqual(error.kind, nfsrdma.Kind.SERVER)
        self.assertEqual(error.errno, 2)
        self.assertFalse(error.outcome_unknown)
        self.assertTrue(error.operation and error.message and str(error))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.kind), (type(error), str(error), error.kind))
        self.client.mkdir("dir")
        with self.assertRaises(IsADirectoryError):
            self.client.open("dir")
        with self.assertRaises(FileExistsError):
            self.client.mkdir("dir")
        self.file("file")
        with self.assertRaises(NotADirectoryError):
            self.client.stat("file/x")
        if not self.is_simple():
            with self.assertRaises(FileExistsError):
                self.client.open("file", "xb")

    def test_usage(self) -> None:
        with self.assertRaises(nfsrdma.Error) as caught:
            nfsrdma.Client(support.URL, no_such_option=1)
        self.assertEqual(caught.exception.kind, nfsrdma.Kind.USAGE)
        with self.assertRaises(nfsrdma.Error):
            nfsrdma.Client("no target")
        for value in (True, False):  # options that take on or off, and yes or no
            nfsrdma.Client(support.URL, crc=value, read_plus=value).close()
        self.assertIn("rsize", [name for name, _, _ in nfsrdma.option_help()])

    def test_info(self) -> None:
        info = self.client.info()
        self.assertTrue(info)
        self.assertGreater(self.client.ping(), 0)
        self.assertTrue(nfsrdma.version())

    def test_closed(self) -> None:
        client = support.connect()
        file = client.open(self.file("file", b"12"))
        client.close()
        client.close()
        self.assertTrue(client.closed)
        with self.assertRaises(nfsrdma.Error):
            client.stat("/")
        with self.assertRaises(nfsrdma.Error):
            file.read()
        file.close()


if __name__ == "__main__":
    unittest.main()
