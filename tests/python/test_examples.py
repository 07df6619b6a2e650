"""The examples in libclient/examples/python run, and the package can be installed."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import filecmp
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict

import support

PACKAGE = os.path.join(support.ROOT, "libclient/python")
EXAMPLES = os.path.join(support.ROOT, "libclient/examples/python")


def run(name: str, *arguments: str, path: str = "") -> str:
    """Runs an example. `path`: where it finds modules first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (path, PACKAGE)))}
    done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, check=False, env=environment)
    if done.returncode != 0:
        raise AssertionError(f"{name}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class ExamplesTest(support.ServerTest):
    def below(self, name: str) -> str:
        start, mark, query = self.url.partition("?")
        return start + "/" + name + mark + query

    def test_hello(self) -> None:
        self.file("file", b"123")
        output = run("hello.py", self.url)
        self.assertIn("           3 file\n", output)
        self.assertIn("b'Hello over RDMA\\n'", output)
        self.assertIn("as expected:", output)

    def test_parallel_copy(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for size in (0, 1, (20 << 20) + 5):
                with open(folder + "/source", "wb") as file:
                    file.write(os.urandom(size))
                run("parallel_copy.py", folder + "/source", self.below("copied"))
                run("parallel_copy.py", self.below("copied"), folder + "/back")
                self.assertTrue(filecmp.cmp(folder + "/source", folder + "/back", shallow=False))

    def test_load_safetensors(self) -> None:
        """With and without numpy. A copy of the file stands for the one on a mount."""
        run("load_safetensors.py", self.below("model"), "--make", "8", "--tensors", "16")
        data = bytearray(self.client.read_bytes("model"))
        with tempfile.NamedTemporaryFile() as copy, tempfile.TemporaryDirectory() as without:
            copy.write(data)
            copy.flush()
            with open(without + "/numpy.py", "w", encoding="utf-8") as module:
                module.write("raise ImportError\n")
            for path in ("", without):
                output = run("load_safetensors.py", self.below("model"), "--mount", copy.name, path=path)
                self.assertRegex(output, "^nfsrdma: 16 tensors, 8388608 bytes in .*\n"
                                         "mount, mmap: 16 tensors, 8388608 bytes in .*\n$")
            data[-1] ^= 1
            self.client.write_bytes("model", data)
            with self.assertRaisesRegex(AssertionError, "the two differ"):
                run("load_safetensors.py", self.below("model"), "--mount", copy.name)
        self.client.truncate("model", len(data) - 1)
        with self.assertRaisesRegex(AssertionError, "the file ends before its last tensor"):
            run("load_safetensors.py", self.below("model"))

    def test_dataset(self) -> None:
        self.client.mkdir("set")
        large = os.urandom(50000)  # is read again, alone
        self.file("set/large", large)
        output = run("dataset.py", self.below("set"), "--make", "700", "--batch", "100")
        self.assertRegex(output, "^one by one: 701 files, ([0-9]+) bytes in .*\n"
                                 "batches: 701 files, \\1 bytes in .*\n"
                                 "batches, 2 workers: 701 files, \\1 bytes in .*\n$")


class ReadmeTest(support.ServerTest):
    def test_blocks(self) -> None:
        """The programs in the README of the package run."""
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("SKIPPED: no numpy")
        with open(os.path.join(support.ROOT, "libclient/python/README.md"), encoding="utf-8") as file:
            blocks = re.findall("^```python\n(.*?)^```", file.read(), flags=re.M | re.S)
        self.assertEqual(len(blocks), 3)
        data = os.urandom(5 << 20)
        self.file("data.bin", data)
        self.client.mkdir("images")
        self.file("images/one", b"123")
        names: Dict[str, Any] = {"asyncio": asyncio}
        output = io.StringIO()
        for block in blocks:
            block = block.replace("nfs://server/export", self.url)
            code = compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            with contextlib.redirect_stdout(output):
                waiting = eval(code, names)
                if waiting is not None:
                    asyncio.run(waiting)
        self.assertRegex(output.getvalue(), "one 3\n.*missing: .*no such file")
        self.assertEqual(names["array"].tobytes(), data[:4 << 20])
        self.assertEqual(names["data"], data)
        self.assertEqual(b"".join(names["parts"]), data[:4 << 20])
        self.assertEqual(self.client.read_bytes("notes.txt"), b"text, by io.TextIOWrapper\n")


class InstallTest(unittest.TestCase):
    def test_metadata(self) -> None:
        """The version in the package is that of the project."""
        with open(os.path.join(support.ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            self.assertIn(f"project(nfsrdma VERSION {support.nfsrdma.__version__} ", file.read())


if __name__ == "__main__":
    unittest.main()
