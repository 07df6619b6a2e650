#!/usr/bin/env python3
"""Writes the seeds of fuzz_callback and fuzz_records: Calls as a server makes them, byte by byte from the XDR of
RFC 5662 and 7863, and such Calls as records (RFC 5531 11).

    callback_seeds.py [DIRECTORY]      (tests/fuzz/corpus)
"""
import hashlib
import os
import struct
import sys

SESSION = b"\x11" * 16
STATEID = struct.pack(">I", 1) + b"\x22" * 12
AUTH_SYS = struct.pack(">II", 1, 28) + struct.pack(">II4sIIII", 0, 4, b"host", 0, 0, 1, 7)
NONE = bytes(8)


def words(*values):
    return struct.pack(">%dI" % len(values), *values)


def opaque(data):
    return words(len(data)) + data + bytes(-len(data) % 4)


HANDLE = opaque(b"\x0a\x0b\x0c")


def sequence(number, slot=0, cache=0, lists=b""):
    return words(11) + SESSION + words(number, slot, slot, cache) + (lists or words(0))


def call(*operations, minor=2, credential=NONE, program=0x40000000, version=1, procedure=1, xid=0x1234):
    head = words(xid, 0, 2, program, version, procedure) + credential + NONE
    if procedure != 1:
        return head
    return head + opaque(b"cb") + words(minor, 0, len(operations)) + b"".join(operations)


def script(options, *calls):
    return bytes([options]) + b"".join(struct.pack(">H", len(c)) + c for c in calls)


RECALL = words(4) + STATEID + words(0) + HANDLE
GETATTR = words(3) + HANDLE + words(1, 0x18)
RECALL_ANY = words(8, 4, 1, 3)
RECALL_SLOT = words(10, 7)
NOTIFY_LOCK = words(13) + HANDLE + words(0, 9) + opaque(b"owner")
REFERRING = words(1) + SESSION + words(2, 5, 0, 6, 1)
LAYOUTRECALL = words(5, 4, 3, 0, 1) + HANDLE + words(0, 0, 0xffffffff, 0xffffffff) + STATEID
NOTIFY = words(6) + STATEID + HANDLE + words(1, 1, 4) + opaque(b"entry")
PUSH = words(7) + HANDLE + words(1) + STATEID + words(0, 0, 0, 1, 0)
OFFLOAD = words(15) + HANDLE + STATEID + words(0, 0, 0, 4096, 2) + bytes(8)

SEEDS = [
    script(0, call(procedure=0), call(program=7), call(version=4), call(procedure=2)),
    script(0, call(sequence(1), RECALL, credential=AUTH_SYS), call(sequence(2), GETATTR)),
    script(0, call(sequence(1, 0, 1), RECALL), call(sequence(1, 0, 1), RECALL), call(sequence(1, 0, 1), GETATTR)),
    script(0, call(sequence(1, 2, 0, REFERRING), RECALL), call(sequence(1, 3))),
    script(1, call(sequence(1), RECALL_ANY, RECALL_SLOT, NOTIFY_LOCK, minor=1), call(sequence(2), minor=0)),
    script(2, call(sequence(1), RECALL_SLOT, GETATTR)),
    script(4, call(sequence(1, 0, 1), GETATTR), call(sequence(2, 0, 1), RECALL)),
    script(8, call(sequence(1), RECALL), call(RECALL)),
    script(16, call(sequence(1), RECALL, RECALL_SLOT), call(sequence(2), sequence(3))),
    script(0, call(sequence(1), LAYOUTRECALL), call(sequence(2), NOTIFY), call(sequence(3), PUSH)),
    script(0, call(sequence(1), OFFLOAD), call(sequence(2), words(14, 0)), call(sequence(3), words(12, 0, 1)),
           call(sequence(4), words(9, 1, 1, 3)), call(sequence(5), words(99))),
    script(32, call(RECALL, GETATTR, minor=0, credential=AUTH_SYS), call(RECALL_SLOT, minor=0), call(RECALL, minor=1)),
]


def fragment(data, last=True):
    return words(len(data) | (1 << 31 if last else 0)) + data


RECORDS = [
    struct.pack(">HB", 65535, 0) + fragment(call(procedure=0)) + fragment(call(RECALL, minor=0)),
    struct.pack(">HB", 200, 3) + fragment(call(procedure=0), False) + fragment(b"", False) + fragment(b"end") + words(0),
    struct.pack(">HB", 16, 5) + fragment(b"0123456789", False) + fragment(b"0123456789"),
    struct.pack(">HB", 16, 0) + b"GET / HTTP/1.1\r\n",
]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    corpus = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "corpus")
    for name, seeds in (("callback", SEEDS), ("records", RECORDS)):
        os.makedirs(os.path.join(corpus, name), exist_ok=True)
        for seed in seeds:
            with open(os.path.join(corpus, name, hashlib.sha256(seed).hexdigest()[:16]), "wb") as out:
                out.write(seed)


if __name__ == "__main__":
    main()
