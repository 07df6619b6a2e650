#!/usr/bin/env python3
"""Loads a .safetensors file into memory: the header, then all tensors by many reads in flight.

    load_safetensors.py nfs://server/export/model.safetensors [--mount PATH] [--make MEGABYTES]

The server writes each tensor by RDMA into the memory that numpy then shows as an array: nothing is copied. --mount
names the same file on a mount; it is then also loaded through mmap, and both times are printed. --make writes a file
of that size first, for a try.

A file is 8 bytes with the size of the header, the header in JSON, and the tensors' bytes.
"""

import argparse
import json
import mmap
import os
import struct
import time
from typing import Any, Dict

import nfsrdma
import numpy

PIECE = 4 << 20
DEPTH = 32
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
         "U8": "u1", "BOOL": "?"}
Tensors = Dict[str, Any]


def tensors_of(header: Dict[str, Any], data: Any) -> Tensors:
    """Returns the arrays that the header describes; `data` are the bytes behind it."""
    found = {}
    for name, what in header.items():
        if name != "__metadata__":
            first, end = what["data_offsets"]
            array = numpy.frombuffer(data, dtype=numpy.uint8, count=end - first, offset=first)
            found[name] = array.view(TYPES[what["dtype"]]).reshape(what["shape"])
    return found


def read_header(file: nfsrdma.File) -> Any:
    """Returns the header, and where the bytes of the tensors begin."""
    (size,) = struct.unpack("<Q", file.pread(8, 0))
    if size > 100 << 20:
        raise SystemExit("this is no safetensors file")
    return json.loads(file.pread(size, 8)), 8 + size


def load(client: nfsrdma.Client) -> Tensors:
    with client.open("") as file:
        header, start = read_header(file)
        size = file.stat().st_size - start
        data = mmap.mmap(-1, max(size, 1))  # pages come as the server's data arrives
        memory, queue = nfsrdma.Memory(data), nfsrdma.Queue(client)
        offset = 0
        while offset < size or queue.pending:
            while offset < size and queue.pending < DEPTH:
                queue.submit_read(file, memory[offset:offset + PIECE], start + offset, more=True)
                offset += PIECE
            for _, count in queue.reap(least=1):
                if isinstance(count, nfsrdma.Error):
                    raise count
    return tensors_of(header, data)


def load_by_mmap(path: str) -> Tensors:
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        (size,) = struct.unpack("<Q", data[:8])
        found = tensors_of(json.loads(data[8:8 + size]), memoryview(data)[8 + size:])
        return {name: numpy.array(tensor) for name, tensor in found.items()}  # touches all pages


def make(client: nfsrdma.Client, megabytes: int) -> None:
    header, data = {}, []
    for number in range(megabytes):
        header[f"layer.{number}"] = {"dtype": "F32", "shape": [512, 512],
                                     "data_offsets": [number << 20, (number + 1) << 20]}
        data.append(os.urandom(1 << 20))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with client.open("", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for part in data:
            file.write(part)


def timed(what: str, work: Any) -> Tensors:
    start = time.monotonic()
    tensors: Tensors = work()
    seconds = time.monotonic() - start
    size = sum(tensor.nbytes for tensor in tensors.values())
    print(f"{what}: {len(tensors)} tensors, {size} bytes in {seconds:.3f} s: {size / seconds / 1e6:.0f} MB/s")
    return tensors


def main() -> None:
    parser = argparse.ArgumentParser(description="Loads a .safetensors file from a server.")
    parser.add_argument("target")
    parser.add_argument("--mount", metavar="PATH", help="the same file on a mount")
    parser.add_argument("--make", metavar="MEGABYTES", type=int, help="write such a file first")
    arguments = parser.parse_args()
    with nfsrdma.Client(arguments.target) as client:
        if arguments.make:
            make(client, arguments.make)
        tensors = timed("nfsrdma", lambda: load(client))
    if arguments.mount:
        mapped = timed("mount, mmap", lambda: load_by_mmap(arguments.mount))
        if any(not numpy.array_equal(tensors[name], mapped[name], equal_nan=False) and
               tensors[name].tobytes() != mapped[name].tobytes() for name in tensors):
            raise SystemExit("the two differ")


if __name__ == "__main__":
    main()
