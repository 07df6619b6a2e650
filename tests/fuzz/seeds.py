#!/usr/bin/env python3
"""Turns captures of NFS/RDMA over iWARP into the seed corpus of the fuzz targets.

    seeds.py [--port 20049] [--to tests/fuzz/corpus] CAPTURE.pcap …

Each target gets its seeds in the form that its source file describes: MPA frames and private data as they came,
FPDU streams cut to a few KiB with payloads of long messages shortened and with the handles that fuzz_stream uses,
RPC-over-RDMA messages out of Sends, scripts around Replies, and NFS results and arguments by operation. tshark
tells which operations an RPC message has; where each one begins is found by their numbers.

What names a machine or its user is overwritten with text of the same length: the machine name of AUTH_SYS and the
client owner, wherever they occur. Addresses and ports are not part of any seed.

A capture is made with: dumpcap -P -i INTERFACE -f 'tcp port 20049' -w CAPTURE.pcap (no MPA markers). The result
depends on nothing but the captures. Needs tshark.
"""
import argparse
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, os.pardir, "lab"))
import split_fpdus  # noqa: E402

MOST_BYTES = 90_000  # of a target's seeds
MOST_FILES = {"replies": 150, "requester": 46}
MOST_FILES_ELSE = 60
MPA_REQUEST, MPA_REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
READ_RESPONSE, READ_REQUEST = 2, 1


def u32(data, at=0):
    return struct.unpack_from(">I", data, at)[0]


def pad(length):
    return length + -length % 4


# ---- captures ----

class Unit:
    """An MPA frame or an FPDU."""

    def __init__(self, data, to_client):
        self.data, self.to_client = data, to_client
        self.is_mpa = data[:16] in (MPA_REQUEST, MPA_REPLY)
        if self.is_mpa:
            return
        size = struct.unpack_from(">H", data)[0]
        self.tagged = data[2] & 0x80 != 0
        self.last = data[2] & 0x40 != 0
        self.opcode = data[3] & 15
        self.head = 2 + (14 if self.tagged else 18)
        self.payload = data[self.head : 2 + size]


def frames(path):
    """The TCP segments of a pcap: (connection, to whom, sequence number, SYN, data)."""
    raw = open(path, "rb").read()
    order = {0xA1B2C3D4: "<", 0xA1B23C4D: "<", 0xD4C3B2A1: ">", 0x4D3CB2A1: ">"}.get(struct.unpack_from("<I", raw)[0])
    if order is None or struct.unpack_from(order + "I", raw, 20)[0] != 1:
        sys.exit(f"{path}: not a pcap file of Ethernet frames")
    at = 24
    while at < len(raw):
        captured = struct.unpack_from(order + "I", raw, at + 8)[0]
        data = raw[at + 16 : at + 16 + captured]
        at += 16 + captured
        kind = struct.unpack_from(">H", data, 12)[0]
        if kind == 0x0800 and data[23] == 6:
            begin = 14 + (data[14] & 15) * 4
            end = 14 + (struct.unpack_from(">H", data, 16)[0] or captured - 14)
            addresses = (data[26:30], data[30:34])
        elif kind == 0x86DD and data[20] == 6:
            begin, end = 54, 54 + (struct.unpack_from(">H", data, 18)[0] or captured - 54)
            addresses = (data[22:38], data[38:54])
        else:
            continue
        tcp = data[begin:end]
        yield addresses, struct.unpack_from(">HH", tcp), u32(tcp, 4), tcp[13], tcp[(tcp[12] >> 4) * 4 :]


def connections(path, port):
    """Lists of units in the order of their last bytes, one list for each connection."""
    found, ways = {}, {}
    for addresses, ports, seq, flags, data in frames(path):
        if port not in ports:
            continue
        to_client = ports[0] == port
        key = (addresses, ports) if to_client else (addresses[::-1], ports[::-1])
        if flags & split_fpdus.SYN:
            ways[key, to_client] = split_fpdus.Direction((seq + 1) % 2**32)
            if not to_client:
                found.setdefault(key, [])
            continue
        if not data or (key, to_client) not in ways:
            continue
        way = ways[key, to_client]
        way.push(seq, data)
        while (unit := way.pop()) is not None:
            found.setdefault(key, []).append(Unit(unit[1], to_client))
    return list(found.values())


def operations(path):
    """{(xid, is a Reply): numbers of its operations}, by tshark."""
    with tempfile.TemporaryDirectory() as work:
        split = os.path.join(work, "split.pcap")
        split_fpdus.main(path, split)
        fields = ["rpc.xid", "rpc.msgtyp", "nfs.opcode"]
        command = ["tshark", "-r", split, "-Y", "nfs.opcode", "-T", "fields"]
        command += [x for field in fields for x in ("-e", field)]
        out = subprocess.run(command, check=True, capture_output=True, text=True)
    found = {}
    for line in out.stdout.splitlines():
        xids, kinds, numbers = line.split("\t")
        if "," not in xids and "," not in kinds:
            found[int(xids, 0), kinds == "1"] = [int(n, 0) for n in numbers.split(",")]
    return found


# ---- what must not be told ----

def strip_names(data):
    """Overwrites what names this machine, at the same length."""
    out = bytearray(data)
    for name in NAMES:
        # A short name might be anything: only where it stands as an XDR string.
        prefix = struct.pack(">I", len(name)) if len(name) < 4 else b""
        at = out.find(prefix + name)
        while at >= 0:
            begin = at + len(prefix)
            out[begin : begin + len(name)] = (b"client-" * 150)[: len(name)]
            at = out.find(prefix + name, begin + len(name))
    return bytes(out)


def collect_names(messages):
    """The texts of AUTH_SYS machine names, client owners, server owners and scopes."""
    names = set()
    for message in messages:
        rpc = message.rpc
        if message.to_client and message.operations == [42] and len(rpc) > 80 and u32(rpc, 40) == 0:
            at = 40 + 4 + 8 + 4 + 4 + 4 + 8  # status, clientid, sequenceid, flags, SP4_NONE, so_minor_id
            for _ in range(2):
                names.add(bytes(rpc[at + 4 : at + 4 + u32(rpc, at)]))
                at += opaque(rpc, at)
            continue
        if len(rpc) < 40 or u32(rpc, 4) != 0 or u32(rpc, 24) != 1:
            continue
        length = u32(rpc, 36)
        if 0 < length <= 255:
            names.add(bytes(rpc[40 : 40 + length]))
        args = compound_args(rpc)
        if args is not None and len(args) > 24 and u32(args, 12) == 42:  # EXCHANGE_ID first
            length = u32(args, 24)
            if 0 < length <= 1024:
                names.add(bytes(args[28 : 28 + length]))
    # Parts that are names by themselves: "machine" in "machine/4711".
    for name in list(names):
        names.update(part for part in re.split(rb"[^A-Za-z0-9.-]", name) if len(part) > 4 and not part.isdigit())
    names.add(os.uname().nodename.encode())
    return sorted((n for n in names if n), key=len, reverse=True)


# ---- RPC-over-RDMA ----

class Message:
    """A Send: header and RPC message."""

    def __init__(self, data, to_client, numbers):
        self.data, self.to_client = data, to_client
        self.header_size = self.measure()
        self.rpc = data[self.header_size :] if self.header_size else b""
        self.proc = u32(data, 12)
        self.operations = numbers.get((u32(data), to_client), [])

    def measure(self):
        """0 for a header that is cut short."""
        try:
            if u32(self.data, 12) > 1:
                return 0
            at = 16
            while u32(self.data, at):
                at += 24
            at += 4
            while u32(self.data, at):
                at += 8 + 16 * u32(self.data, at + 4)
            at += 4
            return at + 8 + 16 * u32(self.data, at + 4) if u32(self.data, at) else at + 4
        except struct.error:
            return 0

    def has_chunks(self):
        return self.header_size > 28


def messages_of(units, numbers):
    parts = {False: b"", True: b""}
    for unit in units:
        if unit.is_mpa or unit.tagged or unit.opcode not in (3, 4, 5, 6):
            continue
        parts[unit.to_client] += unit.payload
        if unit.last:
            if len(parts[unit.to_client]) >= 28:
                yield Message(parts[unit.to_client], unit.to_client, numbers)
            parts[unit.to_client] = b""


def compound_args(rpc):
    """COMPOUND's arguments in a Call."""
    at = 32 + pad(u32(rpc, 28))  # the verifier, behind the credential
    if len(rpc) < at + 8 or u32(rpc, 20) != 1:
        return None
    return rpc[at + 8 + pad(u32(rpc, at + 4)) :]


def pieces(body, numbers, sizes, status):
    """Cuts the operations of a COMPOUND apart: [(number, bytes behind the number)]. `sizes` has the least size of
    each one's body, or a function of it; `status`: each begins with one, which is zero but for the last."""
    out, at = [], 0
    for index, number in enumerate(numbers):
        if at + 4 > len(body) or u32(body, at) != number:
            return out
        least = sizes.get(number, 4 if status else 0)
        least = least(body, at + 4) if callable(least) else least
        if status and u32(body, at + 4) != 0:
            least = 4
        end = at + 4 + least
        if index + 1 == len(numbers):
            end = len(body)
        else:
            while end + 8 <= len(body):
                good = u32(body, end) == numbers[index + 1]
                if good and (not status or index + 2 == len(numbers) or u32(body, end + 4) == 0):
                    break
                end += 4
        out.append((number, body[at + 4 : end]))
        at = end
    return out


def opaque(body, at):
    return 4 + pad(u32(body, at)) if at + 4 <= len(body) else 4


def bitmap(body, at):
    return 4 + 4 * u32(body, at) if at + 4 <= len(body) else 4


RESULT_SIZES = {53: 40, 18: 40, 38: 20, 10: lambda b, a: 4 + opaque(b, a + 4), 3: 12, 4: 20, 5: 12, 6: 24, 28: 24,
                29: 44, 9: lambda b, a: 4 + bitmap(b, a + 4), 25: 12, 43: 40, 42: 24}
ARGUMENT_SIZES = {53: 32, 22: opaque, 15: opaque, 9: bitmap, 3: 4, 4: 20, 5: 12, 25: 28, 38: 28, 26: 28, 18: 44,
                  34: 16, 6: 16}


# ---- the targets ----

class Corpus:
    def __init__(self):
        self.seeds = {}

    def add(self, target, kind, data):
        """`kind` groups what is alike: the seeds that are kept are spread over the kinds."""
        data = strip_names(data)
        kinds = self.seeds.setdefault(target, {}).setdefault(kind, {})
        # Alike but for numbers: one of each size will do.
        kinds.setdefault(len(data), data)

    def write(self, to):
        for target, kinds in sorted(self.seeds.items()):
            kept, total = {}, 0
            most = MOST_FILES.get(target, MOST_FILES_ELSE)
            alike = [seeds for _, seeds in sorted(kinds.items(), key=lambda item: str(item[0]))]
            queues = [sorted(seeds.values(), key=lambda d: (len(d), d)) for seeds in alike]
            while any(queues) and len(kept) < most:
                for queue in queues:
                    if not queue or len(kept) >= most:
                        continue
                    data = queue.pop(0)
                    if total + len(data) <= MOST_BYTES:
                        name = hashlib.sha256(data).hexdigest()[:16]
                        total += len(data) if name not in kept else 0
                        kept[name] = data
            folder = os.path.join(to, target)
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            for name, data in kept.items():
                with open(os.path.join(folder, name), "wb") as out:
                    out.write(data)
            print(f"{target}: {len(kept)} seeds, {total} bytes")


def mpa_seeds(corpus, units):
    for unit in units:
        if not unit.is_mpa:
            continue
        reply = unit.data[:16] == MPA_REPLY
        for flags, cuts in ((0, 0), (5, 2), (14, 1)):
            corpus.add("mpa", (reply, flags), bytes([flags, cuts]) + unit.data)
        if reply:
            # Refused at first, then accepted.
            refused = bytearray(unit.data)
            refused[16] |= 0x20
            corpus.add("mpa", "again", bytes([8, 3]) + bytes(refused) + unit.data)
        corpus.add("private_data", reply, unit.data[20:])
        corpus.add("private_data", "bare", unit.data[24:])


WRITABLE, READABLE, SINKS = (1, 2, 3), (4, 5), (6, 7, 8)


def stream_seeds(corpus, units):
    """What one side heard, in pieces of some FPDUs. Long tagged messages keep their shape with short payloads."""
    for to_client in (True, False):
        heard = [u for u in units if u.to_client == to_client and not u.is_mpa]
        for begin in range(0, len(heard), 24):
            out, handles, message, sizes, kinds = b"", {}, {}, [], set()
            for unit in heard[begin : begin + 24]:
                kinds.add(unit.opcode)
                head, payload = bytearray(unit.data[: unit.head]), bytes(unit.payload)
                if unit.tagged:
                    stag, offset = u32(head, 4), struct.unpack_from(">Q", head, 8)[0]
                    choice = SINKS if unit.opcode == READ_RESPONSE else WRITABLE
                    if stag not in handles:
                        used = sum(1 for h in handles.values() if h in choice)
                        # What is long goes to the large one.
                        handles[stag] = choice[0] if unit.opcode != READ_RESPONSE else choice[min(used, 2)]
                    state = message.setdefault(stag, [offset, len(payload)])
                    short = 96 if state[1] > 96 else state[1]
                    number = (offset - state[0]) // state[1] if state[1] else 0
                    payload = payload[: short if len(payload) > short else len(payload)]
                    struct.pack_into(">IQ", head, 4, handles[stag], number * short)
                elif unit.opcode == READ_REQUEST and len(payload) == 28:
                    request = bytearray(payload)
                    struct.pack_into(">IIQ", request, 12, min(u32(request, 12), 4096), READABLE[0], 0)
                    payload = bytes(request)
                elif unit.opcode in (4, 6):
                    struct.pack_into(">I", head, 4, WRITABLE[1])
                    payload = payload[:600]
                else:
                    payload = payload[:600]
                if len(payload) < len(unit.payload) and not unit.tagged:
                    head[2] |= 0x40
                struct.pack_into(">H", head, 0, unit.head - 2 + len(payload))
                fpdu = bytes(head) + payload
                out += fpdu + bytes(-len(fpdu) % 4 + 4)
                sizes.append(len(out))
                if len(out) > 3000:
                    break
            if not out:
                continue
            reads = 8 if READ_RESPONSE in kinds else 0
            middle = sizes[len(sizes) // 2]
            # Flags, cuts in, cuts out, what is revoked, after how much, injected: see stream.cpp.
            variants = [(4, 0, 0, 0, 0, 0), (4 | 1 | 16, 0, 11, 0, 0, 0), (4 | 32, 7, 0, 4, middle, 0),
                        (4 | 1 | 2 | 64, 5, 4, 1, middle, 40)]
            for flags, *others in variants:
                kind = (to_client, tuple(sorted(kinds)), flags)
                corpus.add("stream", kind, struct.pack(">BBBBHB", flags | reads, *others) + out)


def reply_scripts(message):
    """Calls that such a Reply may be for, the Reply, and the rest of a life: see requester.cpp."""
    data = message.data[:3000]
    shape = 2 if message.header_size > 36 else 0
    if message.proc == 1:
        shape = 6
    calls = bytes([0, shape, 200, 0, 3, 60, 1, 4, 100, 0, 25, 9])
    mended = bytes([7, 0, 0]) + struct.pack(">H", len(data)) + data
    good = bytes([8, 0]) + struct.pack(">H", 900) + bytes([8, 0])
    rest = bytes([12, 5, 2, 0, 12, 12, 5, 12, 6])
    answers = bytes([10, 11, 1, 14])
    # What answers at once and what by steps; where exposing fails; invalidation, small segments.
    for flags, fails in ((0x87, 0), (0x00, 0), (0x97, 3), (0xAF, 0)):
        begin = bytes([flags, fails, 0x17, 0x1B]) + (b"" if flags & 0x80 else bytes([13, 3, 55]))
        replies = mended + answers + good + answers + good + rest + answers + mended
        yield shape, begin + calls + answers + replies + bytes([15, 0, 0])


def backward_scripts():
    """The server calls, with our calls in between: kinds of Calls, answers of several sizes, a lost connection."""
    calls = bytes([0, 2, 200, 0, 6, 60, 3, 55, 8, 0, 3, 132, 8, 0])
    for flags in (0x00, 0x07, 0x27):
        for credits in (0x57, 0xC7):
            script = bytes([flags, 0, credits, 0x1B, 13, 19, 1]) + calls
            for kind in range(16):
                script += bytes([16, kind, 12 + 3 * kind, 5 + kind, 17, kind, kind])
                if kind % 4 == 3:
                    script += bytes([18, 2, 10])
            yield script + bytes([5, 17, 0, 7, 12, 9, 3, 55, 16, 1, 0, 9, 17, 0, 1, 16, 0xF1, 0, 0, 14, 12, 9])


def message_seeds(corpus, messages):
    for index, script in enumerate(backward_scripts()):
        corpus.add("requester", ("backward", index), script)
    for message in messages:
        ops = tuple(message.operations)
        kind = (message.to_client, message.proc, message.header_size)
        corpus.add("header", kind, message.data[: message.header_size + 64 if message.header_size else 64])
        if message.to_client:
            for index, (shape, script) in enumerate(reply_scripts(message)):
                corpus.add("requester", (shape, message.proc, index), script)
            raw = bytes([0x80, 0, 8, 9, 0, 0, 8, 6, 0]) + struct.pack(">H", len(message.data)) + message.data
            corpus.add("requester", "raw", raw)
        if not message.rpc or message.proc != 0:
            continue
        rpc = message.rpc
        if message.to_client:
            reply_seeds(corpus, message, ops)
        else:
            args = compound_args(rpc)
            if args is None:
                continue
            corpus.add("replies", ("call", ops), bytes([4, 0, 0, 0, 0]) + args)
            for number, body in pieces(args[args_head(args) :], ops, ARGUMENT_SIZES, False):
                corpus.add("replies", ("args", number), bytes([1, number, 0, 0, 0]) + body)


def args_head(args):
    """Behind tag, minor version and count."""
    return 4 + pad(u32(args)) + 8


def reply_seeds(corpus, message, ops):
    rpc = message.rpc
    corpus.add("replies", "rpc", bytes([2, 0, 0, 0, 0]) + rpc[:40])
    if len(rpc) < 36 or u32(rpc, 8) != 0 or u32(rpc, 20) != 0 or not ops:
        return
    body = rpc[24:]
    written = write_chunk_length(message)
    flags = 1 | 2 | 4 if written else 0
    placed = struct.pack(">H", min(written, 4096))
    corpus.add("replies", ("reply", ops), bytes([3, 0, flags]) + placed + body)
    expected = bytes([min(len(ops), 15)]) + bytes(ops[:15])
    corpus.add("replies", ("taken", ops), bytes([8, 0, flags]) + placed + expected + rpc)
    head = 4 + 4 + pad(u32(body, 4)) + 4
    for number, result in pieces(body[head:], ops, RESULT_SIZES, True):
        ok = len(result) >= 4 and u32(result) == 0
        reduced = number in (25, 27) and written
        corpus.add("replies", ("result", number, ok), bytes([0, number, flags if reduced else 1]) + placed + result)
        if number == 26:
            corpus.add("replies", "readdir", bytes([5, 0, 0, 0, 0]) + result[:4000])
        if number == 9 and ok:
            corpus.add("replies", ("attributes", u32(result, 4)), bytes([6, 0, 0, 0, 0]) + result[4:])


def write_chunk_length(message):
    data = message.data
    if u32(data, 16) != 0 or u32(data, 20) != 1:
        return 0
    return sum(u32(data, 28 + 16 * i + 4) for i in range(u32(data, 24)))


def main():
    global NAMES
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=20049)
    parser.add_argument("--to", default=os.path.join(HERE, "corpus"))
    parser.add_argument("captures", nargs="+")
    options = parser.parse_args()
    corpus, streams, messages = Corpus(), [], []
    for path in options.captures:
        numbers = operations(path)
        for units in connections(path, options.port):
            streams.append(units)
            messages.extend(messages_of(units, numbers))
    NAMES = collect_names(messages)
    for units in streams:
        mpa_seeds(corpus, units)
        stream_seeds(corpus, units)
    message_seeds(corpus, messages)
    corpus.write(options.to)


NAMES = []
if __name__ == "__main__":
    main()
