#!/usr/bin/env python3
"""Copies a file to or from a server with many requests in flight, from one thread.

    parallel_copy.py nfs://server/export/big.iso big.iso      # from the server
    parallel_copy.py big.iso nfs://server/export/big.iso      # to the server

One Queue keeps DEPTH pieces in flight. Each piece has a part of one buffer; when its read or write has completed, the
part takes the next piece.
"""

import os
import sys
import time

import nfsrdma

DEPTH, PIECE = 16, 1 << 20


def download(file: nfsrdma.File, queue: nfsrdma.Queue, local: int) -> int:
    size, offset = file.stat().st_size, 0
    buffer = bytearray(DEPTH * PIECE)
    memory, view = nfsrdma.Memory(buffer), memoryview(buffer)
    free = list(range(DEPTH))
    while offset < size or queue.pending:
        while free and offset < size:
            slot = free.pop()
            queue.submit_read(file, memory[slot * PIECE:(slot + 1) * PIECE], offset, (slot, offset))
            offset += PIECE
        for (slot, where), count in queue.reap(least=1):
            if isinstance(count, nfsrdma.Error):
                raise count
            os.pwrite(local, view[slot * PIECE:slot * PIECE + count], where)
            free.append(slot)
    return size


def upload(file: nfsrdma.File, queue: nfsrdma.Queue, local: int) -> int:
    size, offset = os.fstat(local).st_size, 0
    while offset < size or queue.pending:
        while queue.pending < DEPTH and offset < size:
            queue.submit_write(file, os.pread(local, PIECE, offset), offset)
            offset += PIECE
        for _, count in queue.reap(least=1):
            if isinstance(count, nfsrdma.Error):
                raise count
    file.fsync()
    return size


def main(source: str, target: str) -> None:
    start = time.monotonic()
    up = target.startswith("nfs://")
    with nfsrdma.Client(target if up else source) as client, \
            client.open("", "wb" if up else "rb") as file, \
            open(source if up else target, "rb" if up else "wb") as local:
        size = (upload if up else download)(file, nfsrdma.Queue(client), local.fileno())
    seconds = time.monotonic() - start
    print(f"{size} bytes in {seconds:.2f} s: {size / seconds / 1e6:.0f} MB/s")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
