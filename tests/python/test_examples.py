"""The examples in libclient/examples/python run, and the package can be installed."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import tempfile
import unittest

import support

EXAMPLES = os.path.join(support.ROOT, "libclient/examples/python")


def run(name: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.path.join(support.ROOT, "libclient/python")}
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
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("SKIPPED: no numpy")
        self.assertIn("8 tensors, 8388608 bytes", run("load_safetensors.py", self.below("model"), "--make", "8"))
        with tempfile.NamedTemporaryFile() as copy:
            copy.write(self.client.read_bytes("model"))
            copy.flush()
            self.assertIn("mount, mmap: 8 tensors", run("load_safetensors.py", self.below("model"), "--mount", copy.name))

    def test_dataset(self) -> None:
        self.assertIn("700 files", run("dataset.py", self.below("set"), "--make", "700", "--batch", "100"))


class InstallTest(unittest.TestCase):
    def test_metadata(self) -> None:
        """The version in the package is that of the project."""
        with open(os.path.join(support.ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            self.assertIn(f"project(nfsrdma VERSION {support.nfsrdma.__version__} ", file.read())


if __name__ == "__main__":
    unittest.main()
