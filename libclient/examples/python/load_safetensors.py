#!/usr/bin/env python3
"""Loads a .safetensors file into memory, by many reads in flight; and beside it through a mount by mmap, for comparison.

    load_safetensors.py nfs://server/export/model.safetensors [--mount PATH] [--make MEGABYTES [--tensors NUMBER]]

The memory for all tensors is made first. The server then writes into it by RDMA: nothing is copied. With numpy the
tensors are its arrays; without, they are flat memoryviews. --mount names the same file on a mount, which is loaded
through mmap, as the library safetensors does: the kernel reads a page when it is touched, and the tensors are copied.
What the kernel has cached of the file is dropped before. --make writes such a file first, for a try.

A file is 8 bytes with the size of the header, the header in JSON, and the tensors' bytes.
"""

import argparse
import json
import mmap
import os
import struct
import time
from typing import Any, Callable, Dict, Tuple

import nfsrdma

try:
    import numpy
except ImportError:
    numpy = None

PIECE = 4 << 20  # bytes of one read; the library splits it if the server takes less
DEPTH = 32  # reads in flight
LARGEST_HEADER = 100 << 20
#: Types of numpy, and of memoryview, for those of the header. Neither knows BF16.
TYPES = {"F64": ("<f8", "d"), "F32": ("<f4", "f"), "F16": ("<f2", "H"), "BF16": ("<u2", "H"), "I64": ("<i8", "q"),
         "U64": ("<u8", "Q"), "I32": ("<i4", "i"), "U32": ("<u4", "I"), "I16": ("<i2", "h"), "U16": ("<u2", "H"),
         "I8": ("i1", "b"), "U8": ("u1", "B"), "BOOL": ("?", "?")}
Tensors = Dict[str, Any]


def tensor_of(data: memoryview, what: Dict[str, Any]) -> Any:
    """Returns the tensor that these bytes are."""
    array_type, view_type = TYPES[what["dtype"]]
    if numpy is None:
        return data.cast(view_type)
    return numpy.frombuffer(data, dtype=array_type).reshape(what["shape"])


def tensors_of(header: Dict[str, Any], data: memoryview) -> Tensors:
    """Returns the tensors that the header describes; `data` are the bytes behind it."""
    return {name: tensor_of(data[slice(*what["data_offsets"])], what)
            for name, what in header.items() if name != "__metadata__"}


# ---- by nfsrdma ----

def read_header(file: nfsrdma.File) -> Tuple[Dict[str, Any], int]:
    """Returns the header, and where the bytes of the tensors begin."""
    (size,) = struct.unpack("<Q", file.pread(8, 0))
    if size > LARGEST_HEADER:
        raise SystemExit("this is no safetensors file")
    return json.loads(file.pread(size, 8)), 8 + size


def read_all(client: nfsrdma.Client, file: nfsrdma.File, buffer: Any, start: int) -> None:
    """Fills the buffer from the file, beginning at `start`, with DEPTH reads in flight."""
    memory, queue, offset = nfsrdma.Memory(buffer), nfsrdma.Queue(client), 0
    while offset < len(memory) or queue.pending:
        while offset < len(memory) and queue.pending < DEPTH:
            piece = memory[offset:offset + PIECE]
            queue.submit_read(file, piece, start + offset, len(piece), more=True)
            offset += PIECE
        for wanted, count in queue.reap(least=1):
            if isinstance(count, nfsrdma.Error):
                raise count
            if count < wanted:
                raise SystemExit("the file ends before its last tensor")


def load(client: nfsrdma.Client) -> Tensors:
    with client.open("") as file:
        header, start = read_header(file)
        size = max((what["data_offsets"][1] for name, what in header.items() if name != "__metadata__"), default=0)
        memory = mmap.mmap(-1, max(size, 1))  # unlike a bytearray it is not filled with zeros first
        read_all(client, file, memoryview(memory)[:size], start)
        return tensors_of(header, memoryview(memory)[:size])


# ---- by a mount ----

def forget(path: str) -> None:
    """Drops what the kernel has cached of a file."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def load_by_mmap(path: str) -> Tensors:
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    (size,) = struct.unpack("<Q", mapped[:8])
    header = json.loads(bytes(mapped[8:8 + size]))
    tensors = tensors_of(header, mapped[8 + size:])
    copy: Callable[[Any], Any] = numpy.array if numpy is not None else lambda view: memoryview(bytearray(view))
    return {name: copy(tensor) for name, tensor in tensors.items()}


# ---- a file for a try ----

def make(client: nfsrdma.Client, megabytes: int, tensors: int) -> None:
    """Writes `tensors` tensors of random bytes, which are `megabytes` MiB together."""
    rows = (megabytes << 20) // (4 * 256 * tensors)
    size = 4 * 256 * rows
    header = {f"layer.{number}": {"dtype": "F32", "shape": [rows, 256],
                                  "data_offsets": [number * size, (number + 1) * size]} for number in range(tensors)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with client.open("", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(tensors):
            file.write(os.urandom(size))


# ---- the comparison ----

def timed(what: str, work: Callable[[], Tensors]) -> Tensors:
    start = time.monotonic()
    tensors = work()
    seconds = time.monotonic() - start
    size = sum(tensor.nbytes for tensor in tensors.values())
    print(f"{what}: {len(tensors)} tensors, {size} bytes in {seconds:.3f} s: {size / seconds / 1e6:.0f} MB/s", flush=True)
    return tensors


def main() -> None:
    parser = argparse.ArgumentParser(description="Loads a .safetensors file from a server.")
    parser.add_argument("target")
    parser.add_argument("--mount", metavar="PATH", help="the same file on a mount")
    parser.add_argument("--make", metavar="MEGABYTES", type=int, help="write such a file first")
    parser.add_argument("--tensors", metavar="NUMBER", type=int, default=8, help="tensors in that file")
    arguments = parser.parse_args()
    with nfsrdma.Client(arguments.target) as client:
        if arguments.make:
            make(client, arguments.make, arguments.tensors)
        tensors = timed("nfsrdma", lambda: load(client))
    if arguments.mount:
        forget(arguments.mount)
        mapped = timed("mount, mmap", lambda: load_by_mmap(arguments.mount))
        if tensors.keys() != mapped.keys() or any(tensors[name].tobytes() != mapped[name].tobytes() for name in mapped):
            raise SystemExit("the two differ")


if __name__ == "__main__":
    main()
