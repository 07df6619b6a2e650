#!/usr/bin/env python3
"""A data set of many small files, in the manner of PyTorch, whose batches are read by read_many.

    dataset.py nfs://server/export/set [--make 20000] [--batch 256] [--workers 2]

A batch is one call of read_many: with NFSv4.1 and 4.2 one request carries a dozen files and more, and several requests
are in flight. SmallFiles has the methods of torch.utils.data.Dataset; __getitems__, for a whole batch, is what
DataLoader calls if it is there:

    DataLoader(SmallFiles(target), batch_size=256, shuffle=True, num_workers=2, collate_fn=list)

Each worker process makes a client of its own, whether it was forked or spawned. Over an RDMA device, fork works only if
the parent has used none: pass multiprocessing_context="spawn". The program prints how many files come per second: one
by one, in batches, and in batches that worker processes fetch.
"""

import argparse
import itertools
import multiprocessing
import os
import random
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence

import nfsrdma

ROOM = 16384  # bytes; larger files are read again, alone
ALONE = 1000  # files that are read one by one


class SmallFiles:
    """The files of a directory, in the order of their names."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._client: Any = None
        self._pid = 0
        self.names: List[str] = sorted(entry.name for entry in self.client.scandir() if entry.is_file())

    @property
    def client(self) -> nfsrdma.Client:
        """The client of this process: a child cannot use that of its parent."""
        if self._pid != os.getpid():
            self._client, self._pid = nfsrdma.Client(self.target), os.getpid()
        client: nfsrdma.Client = self._client
        return client

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_client": None, "_pid": 0}  # a spawned process makes its own

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> bytes:
        return self.__getitems__([index])[0]

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


class Worker:
    """What a worker process has: the data set, which it gets once."""

    files: SmallFiles

    @classmethod
    def begin(cls, files: SmallFiles) -> None:
        cls.files = files

    @classmethod
    def fetch(cls, indexes: Sequence[int]) -> List[bytes]:
        return cls.files.__getitems__(indexes)


def fetched_by_workers(files: SmallFiles, size: int, workers: int) -> Iterator[List[bytes]]:
    """Yields batches that processes fetch, as those of a DataLoader do."""
    with multiprocessing.Pool(workers, Worker.begin, (files,)) as pool:
        yield from pool.imap_unordered(Worker.fetch, batches(len(files), size))
        pool.close()
        pool.join()  # each worker ends its session


def make(target: str, count: int) -> None:
    with nfsrdma.Client(target) as client:
        client.makedirs("", exist_ok=True)
        for first in range(0, count, 500):
            files = {f"sample{number:06}": os.urandom(random.randint(4096, ROOM))
                     for number in range(first, min(count, first + 500))}
            for result in client.write_many(files):
                if isinstance(result, nfsrdma.Error):
                    raise result


def timed(what: str, work: Callable[[], Iterable[List[bytes]]]) -> None:
    start, count, size = time.monotonic(), 0, 0
    for batch in work():
        count += len(batch)
        size += sum(map(len, batch))
    seconds = time.monotonic() - start
    print(f"{what}: {count} files, {size} bytes in {seconds:.2f} s: {count / seconds:.0f} files/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reads a data set of small files in batches.")
    parser.add_argument("target")
    parser.add_argument("--make", metavar="COUNT", type=int, help="write so many files first")
    parser.add_argument("--batch", metavar="SIZE", type=int, default=256)
    parser.add_argument("--workers", metavar="COUNT", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.target, arguments.make)
    files = SmallFiles(arguments.target)
    size = arguments.batch
    timed("one by one", lambda: ([files[index]] for [index] in itertools.islice(batches(len(files), 1), ALONE)))
    timed("batches", lambda: map(files.__getitems__, batches(len(files), size)))
    if arguments.workers:
        timed(f"batches, {arguments.workers} workers", lambda: fetched_by_workers(files, size, arguments.workers))
    files.client.close()


if __name__ == "__main__":
    main()
