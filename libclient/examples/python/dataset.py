#!/usr/bin/env python3
"""A data set of many small files, in the manner of PyTorch, read by read_many.

    dataset.py nfs://server/export/set [--make 20000] [--batch 256]

A batch is one call of read_many: with NFSv4.1 and 4.2 one request carries a dozen files and more, and several requests
are in flight. SmallFiles has the methods of torch.utils.data.Dataset, with __getitems__ for whole batches, which
DataLoader calls if it is there. Each worker process makes a client of its own: use
DataLoader(..., multiprocessing_context="spawn"), or "fork" without RDMA devices.
"""

import argparse
import os
import random
import time
from typing import Any, Dict, Iterator, List, Sequence

import nfsrdma

ROOM = 16384  # bytes; larger files are read again, alone


class SmallFiles:
    """The files of a directory, in the order of their names."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._client: Any = None
        self._pid = 0
        self.names: List[str] = sorted(entry.name for entry in self.client.scandir() if entry.is_file())

    @property
    def client(self) -> nfsrdma.Client:
        """The client of this process."""
        if self._pid != os.getpid():
            self._client, self._pid = nfsrdma.Client(self.target), os.getpid()
        client: nfsrdma.Client = self._client
        return client

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_client": None, "_pid": 0}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> bytes:
        return self.client.read_bytes(self.names[index])

    def __getitems__(self, indexes: Sequence[int]) -> List[bytes]:
        """Returns the contents of several files."""
        results = self.client.read_many([self.names[index] for index in indexes], room=ROOM)
        return [bytes(result.value()) if result.eof else self.client.read_bytes(result.path) for result in results]


def batches(count: int, size: int) -> Iterator[List[int]]:
    """Yields all numbers below `count` in random order, `size` at a time."""
    order = list(range(count))
    random.shuffle(order)
    for first in range(0, count, size):
        yield order[first:first + size]


def make(target: str, count: int) -> None:
    with nfsrdma.Client(target) as client:
        client.makedirs("", exist_ok=True)
        for first in range(0, count, 500):
            files = {f"sample{number:06}": os.urandom(random.randint(500, 8000))
                     for number in range(first, min(count, first + 500))}
            for result in client.write_many(files):
                if isinstance(result, nfsrdma.Error):
                    raise result


def main() -> None:
    parser = argparse.ArgumentParser(description="Reads a data set of small files in batches.")
    parser.add_argument("target")
    parser.add_argument("--make", metavar="COUNT", type=int, help="write so many files first")
    parser.add_argument("--batch", type=int, default=256)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.target, arguments.make)
    files = SmallFiles(arguments.target)
    start, size = time.monotonic(), 0
    for batch in batches(len(files), arguments.batch):
        size += sum(map(len, files.__getitems__(batch)))
    seconds = time.monotonic() - start
    print(f"{len(files)} files, {size} bytes in {seconds:.2f} s: {len(files) / seconds:.0f} files/s")
    files.client.close()


if __name__ == "__main__":
    main()
