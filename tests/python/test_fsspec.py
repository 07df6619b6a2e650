"""nfsrdma.fsspec_fs, through fsspec's own interface."""

from __future__ import annotations

import os
import tempfile
import unittest
from urllib.parse import urlsplit

import support

try:
    import fsspec
    from fsspec.implementations.local import LocalFileSystem  # noqa: F401
except ImportError:
    fsspec = None


@unittest.skipIf(fsspec is None, "SKIPPED: python3-fsspec is not installed")
class FsspecTest(support.ServerTest):
    def setUp(self) -> None:
        super().setUp()
        from nfsrdma.fsspec_fs import NfsRdmaFileSystem

        fsspec.register_implementation("nfsrdma", NfsRdmaFileSystem, clobber=True)
        parts = urlsplit(self.url)
        self.prefix = f"nfsrdma://{parts.netloc}"
        options = dict(pair.split("=") for pair in parts.query.split("&") if pair)
        self.fs = fsspec.filesystem("nfsrdma", host=parts.hostname, port=parts.port, skip_instance_cache=True, **options)
        self.addCleanup(lambda: fsspec.asyn.sync(self.fs.loop, self.fs._close))

    def at(self, name: str) -> str:
        return f"{self.top}/{name}"

    def test_urls(self) -> None:
        cls = type(self.fs)
        self.assertEqual(cls._strip_protocol("nfsrdma://host:20049/a/b/"), "/a/b")
        self.assertEqual(cls._strip_protocol("nfsrdma://host"), "/")
        self.assertEqual(cls._strip_protocol("/a"), "/a")
        self.assertEqual(cls._parent("/a/b"), "/a")
        self.assertEqual(cls._get_kwargs_from_urls("nfsrdma://host:123/a"), {"host": "host", "port": 123})

    def test_files(self) -> None:
        fs, data = self.fs, os.urandom(3000)
        fs.pipe(self.at("file"), data)
        self.assertEqual(fs.cat(self.at("file")), data)
        self.assertEqual(fs.cat_file(self.at("file"), 10, 20), data[10:20])
        self.assertEqual(fs.cat_file(self.at("file"), -10), data[-10:])
        self.assertEqual(fs.cat_file(self.at("file"), 5, -5), data[5:-5])
        self.assertEqual(fs.cat_ranges([self.at("file")] * 2, [0, 100], [10, 110]), [data[:10], data[100:110]])
        info = fs.info(self.at("file"))
        self.assertEqual((info["name"], info["size"], info["type"]), (self.at("file"), 3000, "file"))
        self.assertTrue(fs.exists(self.at("file")) and fs.isfile(self.at("file")))
        self.assertFalse(fs.exists(self.at("none")))
        with self.assertRaises(FileNotFoundError):
            fs.cat(self.at("none"))
        with fsspec.open(self.prefix + self.at("file")) as file:
            self.assertEqual(file.read(), data)

    def test_directories(self) -> None:
        fs = self.fs
        fs.makedirs(self.at("a/b"))
        fs.makedirs(self.at("a/b"), exist_ok=True)
        fs.mkdir(self.at("c/d"))
        fs.mkdir(self.at("e"), create_parents=False)
        fs.pipe({self.at("a/1.txt"): b"1", self.at("a/b/2.txt"): b"22"})
        if not support.try_to(lambda: self.client.symlink("1.txt", "a/link")):
            self.file("a/link")
        self.assertEqual(fs.ls(self.at("a"), detail=False), [self.at("a/1.txt"), self.at("a/b"), self.at("a/link")])
        kinds = {os.path.basename(info["name"]): info["type"] for info in fs.ls(self.at("a"))}
        self.assertEqual(kinds, {"1.txt": "file", "b": "directory", "link": "file"})
        self.assertEqual(fs.ls(self.at("a/1.txt"), detail=False), [self.at("a/1.txt")])
        self.assertEqual(sorted(fs.find(self.at("a"))), [self.at("a/1.txt"), self.at("a/b/2.txt"), self.at("a/link")])
        self.assertEqual(sorted(fs.glob(self.at("a/**.txt")))[0], self.at("a/1.txt"))
        self.assertEqual(fs.du(self.at("a/b")), 2)
        fs.mv(self.at("a"), self.at("moved"))
        fs.cp_file(self.at("moved/b/2.txt"), self.at("copy"))
        self.assertEqual(fs.cat(self.at("copy")), b"22")
        fs.rm_file(self.at("copy"))
        fs.rmdir(self.at("e"))
        fs.rm(self.at("moved"), recursive=True)
        self.assertFalse(fs.exists(self.at("moved")))

    def test_get_and_put(self) -> None:
        data = os.urandom((5 << 20) + 123)
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, "local")
            with open(local, "wb") as file:
                file.write(data)
            self.fs.put(local, self.at("put"))
            self.assertEqual(self.client.read_bytes("put"), data)
            self.fs.get(self.at("put"), os.path.join(folder, "got"))
            with open(os.path.join(folder, "got"), "rb") as file:
                self.assertEqual(file.read(), data)

    def test_file_objects(self) -> None:
        data = os.urandom(100000)
        with self.fs.open(self.at("file"), "wb", block_size=30000) as file:
            for first in range(0, len(data), 7000):
                file.write(data[first:first + 7000])
        with self.fs.open(self.at("file"), "ab") as file:
            file.write(b"more")
        for cache_type in ("readahead", "bytes", "none", "mmap"):
            with self.fs.open(self.at("file"), block_size=4096, cache_type=cache_type) as file:
                file.seek(50000)
                self.assertEqual(file.read(10), data[50000:50010])
                file.seek(0)
                self.assertEqual(file.read(), data + b"more")
        with self.fs.open(self.at("text"), "w") as file:
            file.write("ä\n")
        with self.fs.open(self.at("text"), "r") as file:
            self.assertEqual(file.read(), "ä\n")

    def test_transaction(self) -> None:
        with self.fs.transaction:
            with self.fs.open(self.at("file"), "wb") as file:
                file.write(b"1")
            self.assertFalse(self.client.exists("file"))
        self.assertEqual(self.client.read_bytes("file"), b"1")

    def test_entry_point(self) -> None:
        with open(os.path.join(support.ROOT, "libclient/python/pyproject.toml"), encoding="utf-8") as file:
            self.assertIn('nfsrdma = "nfsrdma.fsspec_fs:NfsRdmaFileSystem"', file.read())


if __name__ == "__main__":
    unittest.main()
