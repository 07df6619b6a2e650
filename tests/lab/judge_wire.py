#!/usr/bin/env python3
"""Lets tshark judge a capture of NFS over RDMA over iWARP, one FPDU per frame (split_fpdus.py makes one).

    judge_wire.py CAPTURE.pcap [--need WHAT:COUNT ...]

Reports what breaks the rules, one line each, and exits 1 if anything does. The dissection is tshark's alone; this
program compares what tshark found. Two passes (-2) are what makes tshark put a Write chunk's data where a Reply was
reduced; in one pass it calls every READ malformed, the kernel client's too.

--need demands that at least COUNT exchanges of a kind were seen, so that an empty capture does not pass:
calls, read-with-write-chunk, read-plus-with-write-chunk, hole, write-with-read-chunk, reply-chunk, no-reply-chunk,
long-call, connection.
"""
import argparse
import collections
import subprocess
import sys

FIELDS = """frame.number tcp.stream tcp.dstport frame.protocols iwarp_mpa.rej_flag iwarp_mpa.privatedata iwarp_mpa.ulpdulength
iwarp_ddp.last_flag iwarp_ddp.msn iwarp_rdma.opcode rpcordma.xid rpcordma.msg_type rpcordma.flow_control rpcordma.reads_count
rpcordma.writes_count rpcordma.reply_count rpcordma.segment_count rpcordma.position rpcordma.rdma_handle
rpcordma.rdma_length rpc.xid rpc.msgtyp rpc.program rpc.procedure nfs.opcode nfs.count4 nfs.maxcount nfs.attr
nfs.write.data_length nfs.read.data_length nfs.content.type""".split()

SENDS = (3, 4, 5, 6)
RDMA_MSG, RDMA_NOMSG = 0, 1
OP_GETATTR, OP_GETFH, OP_OPEN, OP_READ, OP_READDIR, OP_READLINK, OP_SECINFO, OP_WRITE = 9, 10, 18, 25, 26, 27, 33, 38
OP_EXCHANGE_ID, OP_SECINFO_NO_NAME, OP_READ_PLUS = 42, 52, 68
HOLE = 1  # nfs.content.type
ATTR_ACL, ATTR_FS_LOCATIONS, ATTR_OWNER = 12, 24, 36

# RFC 8166 3.3.2: without private data, 1024 bytes each way.
DEFAULT_THRESHOLD = 1024
# Transport header without chunks (28), accepted RPC reply with an empty verifier (24), COMPOUND4res without a tag (12).
REPLY_BASE = 28 + 24 + 12


def number(text):
    return int(text, 0)


class Frame:
    def __init__(self, line):
        self.raw = dict(zip(FIELDS, line.split("\t")))

    def all(self, name):
        text = self.raw.get(name, "")
        return [number({"True": "1", "False": "0"}.get(t, t)) for t in text.split(",")] if text else []

    def one(self, name):
        values = self.all(name)
        return values[0] if values else None

    @property
    def id(self):
        return "frame " + self.raw["frame.number"]


def wants_padding(message, opcodes, length, chunk):
    """tshark 4.0 puts a Write chunk's data back into the Reply and then misses the fill bytes of an odd length, which
    a server rightly does not write (RFC 8166 3.4.6.2). Only that: a READ, last in its COMPOUND, whose length is odd
    and equals what the chunk says."""
    return (message == "Malformed Packet (Exception occurred)" and opcodes.split(",")[-1] == str(OP_READ)
            and length.isdigit() and int(length) % 4 != 0 and chunk == length)


def looks_inline(message, opcodes, length, chunk):
    """tshark 4.0 looks for the data of a READ_PLUS in the Reply alone. Only that: a READ_PLUS, last in its COMPOUND, whose
    first data is as long as what the Write chunk returned."""
    return (message == "Malformed Packet (Exception occurred)" and opcodes.split(",")[-1] == str(OP_READ_PLUS)
            and length != "" and length.split(",")[0] == chunk.split(",")[0])


def tshark(*arguments):
    run = subprocess.run(["tshark", "-2", "-n", *arguments], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"tshark failed: {run.stderr.strip()}")
    return run.stdout.splitlines()


def private_data(text):
    """The sizes (send, receive) that RFC 8797 private data in an MPA frame announces, wherever it stands."""
    data = bytes.fromhex(text.replace(":", ""))
    at = data.find(b"\xf6\xab\x0e\x18")
    if at < 0 or len(data) < at + 8 or data[at + 4] != 1:
        return DEFAULT_THRESHOLD, DEFAULT_THRESHOLD
    return (data[at + 6] + 1) * 1024, (data[at + 7] + 1) * 1024


class Connection:
    def __init__(self):
        self.client = self.server = None
        self.grant = 1  # RFC 8166 3.3.3
        self.waiting = set()

    @property
    def thresholds(self):
        if not self.client or not self.server:
            return DEFAULT_THRESHOLD, DEFAULT_THRESHOLD
        return min(self.client[0], self.server[1]), min(self.server[0], self.client[1])


class Call:
    """One RPC: its Call as rpcordma saw it, and the operations as NFS saw them, which may be frames later."""

    def __init__(self, frame, connection):
        self.frame = frame
        self.connection = connection
        self.body = None
        self.reply = None
        self.reads = frame.one("rpcordma.reads_count") or 0
        self.writes = frame.one("rpcordma.writes_count") or 0
        self.reply_chunk = frame.one("rpcordma.reply_count") or 0

    def lengths(self):
        """Segment lengths of the Read list, of the Write list and of the Reply chunk, in that order on the wire."""
        return split_lengths(self.frame)

    def reply_bounds(self):
        """The largest possible Reply: at least this, at most that (strings of the server's choice up to 1024)."""
        low = high = REPLY_BASE + self.writes * 8 + 16 * len(self.lengths()[1])
        body = self.body
        attributes = body.all("nfs.attr")
        counts = body.all("nfs.count4")
        for op in body.all("nfs.opcode"):
            if op == OP_READDIR:
                low += max(body.all("nfs.maxcount"), default=0)
                high += max(body.all("nfs.maxcount"), default=0) + 64
            elif op == OP_READ:
                inline = 0 if self.writes else max(counts, default=0)
                low += 16 + inline
                high += 20 + inline
            elif op == OP_READ_PLUS:
                # Of two elements, the second one's data is in the Reply.
                low += 24 + max(counts, default=0)
                high += 64 + max(counts, default=0)
            elif op == OP_READLINK:
                low += 12
                high += 12 if self.writes else 64 * 1024
            elif op in (OP_EXCHANGE_ID, OP_SECINFO, OP_SECINFO_NO_NAME):
                low += 8
                high += 64 * 1024
            elif op == OP_GETATTR:
                low += 16
                if {ATTR_ACL, ATTR_FS_LOCATIONS} & set(attributes):
                    high += 64 * 1024
                else:
                    high += 2400 if ATTR_OWNER in attributes else 400
            elif op == OP_OPEN:
                low += 60
                high += 1400
            elif op == OP_GETFH:
                low += 12
                high += 140
            else:
                low += 8
                high += 100
        return low, high


def split_lengths(frame):
    lengths = frame.all("rpcordma.rdma_length")
    reads = frame.one("rpcordma.reads_count") or 0
    reply = frame.one("rpcordma.reply_count") or 0
    segments = frame.all("rpcordma.segment_count")
    in_writes = sum(segments[: len(segments) - reply] if reply else segments)
    return lengths[:reads], lengths[reads : reads + in_writes], lengths[reads + in_writes :]


def conclude(problems, seen, needs):
    """Prints what is wrong, and what was seen, of which there must be `needs` ("what:count"). The exit status."""
    for need in needs:
        what, _, count = need.partition(":")
        if seen[what] < int(count or 1):
            problems.append(f"{what}: {seen[what]} seen, {count or 1} needed")
    for problem in problems[:40]:
        print(problem)
    if len(problems) > 40:
        print(f"… and {len(problems) - 40} more")
    print("seen:", ", ".join(f"{k} {v}" for k, v in sorted(seen.items())))
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("capture")
    parser.add_argument("--need", action="append", default=[])
    options = parser.parse_args()

    problems = []
    seen = collections.Counter()

    def complain(where, what):
        problems.append(f"{where}: {what}")

    # Groups: checksum, undecoded, reassembly.
    for line in tshark("-r", options.capture, "-Y",
                       "_ws.malformed || _ws.unreassembled || _ws.short || _ws.expert.severity == error || "
                       "_ws.expert.group in {16777216, 83886080, 100663296} || tcp.segments || "
                       "rpcordma.fragment.error || iwarp_rdma.send.fragment.error",
                       "-T", "fields", "-e", "frame.number", "-e", "_ws.col.Info", "-e", "_ws.expert.message",
                       "-e", "nfs.opcode", "-e", "nfs.read.data_length", "-e", "rpcordma.rdma_length"):
        frame, info, message, opcodes, length, chunk = line.split("\t")
        if wants_padding(message, opcodes, length, chunk):
            seen["padding-not-sent"] += 1
            continue
        if looks_inline(message, opcodes, length, chunk):
            seen["data-looked-for-inline"] += 1
            continue
        complain(f"frame {frame}", f"tshark: {info} {message}")

    arguments = ["-r", options.capture, "-Y", "tcp.len > 0", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]
    for name in FIELDS:
        arguments += ["-e", name]
    connections = collections.defaultdict(Connection)
    calls = {}
    backward = set()
    handles = {}
    sends = collections.Counter()
    for line in tshark(*arguments):
        frame = Frame(line)
        stream = frame.one("tcp.stream")
        connection = connections[stream]
        to_server = frame.raw["tcp.dstport"] == "20049"
        protocols = frame.raw["frame.protocols"].split(":")
        if "iwarp_mpa" not in protocols:
            complain(frame.id, f"not MPA: {frame.raw['frame.protocols']}")
            continue
        if frame.one("iwarp_mpa.ulpdulength") is None:
            sizes = private_data(frame.raw["iwarp_mpa.privatedata"])
            if to_server:
                connection.client = sizes
                seen["connection"] += 1
            elif frame.one("iwarp_mpa.rej_flag"):
                seen["connection"] -= 1  # asked again in another way
            else:
                connection.server = sizes
            continue
        opcode = frame.one("iwarp_rdma.opcode")
        if opcode is None:
            complain(frame.id, "an FPDU without DDP and RDMAP")
            continue
        if opcode == 7:
            complain(frame.id, "an RDMAP Terminate")
        call_threshold, reply_threshold = connection.thresholds
        if opcode in SENDS:
            key = stream, to_server, frame.one("iwarp_ddp.msn")
            sends[key] += frame.one("iwarp_mpa.ulpdulength") - 18
            if sends[key] > (call_threshold if to_server else reply_threshold):
                complain(frame.id, f"a Send of {sends[key]} bytes exceeds the inline threshold")
            if frame.one("iwarp_ddp.last_flag") and "rpcordma" not in protocols:
                complain(frame.id, f"a Send that is no RPC-over-RDMA: {frame.raw['frame.protocols']}")
        xid = frame.one("rpcordma.xid")
        if xid is not None and frame.one("rpc.msgtyp") == (1 if to_server else 0):
            # RFC 8167: the server's Call and our Reply; tshark has no dissector for the callback program.
            if to_server and (stream, xid) not in backward:
                complain(frame.id, "a Reply to no backward Call")
            backward.add((stream, xid))
            seen["backward"] += 1
            continue
        if xid is not None:
            kind = frame.one("rpcordma.msg_type")
            if kind not in (RDMA_MSG, RDMA_NOMSG):
                complain(frame.id, f"message type {kind}")
            if to_server:
                call = calls[stream, xid] = Call(frame, connection)
                connection.waiting.add(xid)
                allowed = min(connection.grant, frame.one("rpcordma.flow_control"))
                if len(connection.waiting) > allowed:
                    complain(frame.id, f"{len(connection.waiting)} Calls outstanding, {allowed} allowed")
                for handle in set(frame.all("rpcordma.rdma_handle")):
                    if handles.setdefault(handle, (stream, xid)) != (stream, xid):
                        complain(frame.id, f"memory handle {handle:#x} was another RPC's")
                positions = frame.all("rpcordma.position")
                if any(p % 4 for p in positions) or len(set(positions)) > 1:
                    complain(frame.id, f"Read chunk at positions {positions}")
                if kind == RDMA_NOMSG:
                    seen["long-call"] += 1
                    if positions and positions[0] != 0:
                        complain(frame.id, "RDMA_NOMSG without a Position Zero Read chunk")
            elif (stream, xid) not in calls:
                complain(frame.id, f"a Reply to nobody's xid {xid:#x}")
            else:
                call = calls[stream, xid]
                call.reply = frame
                connection.waiting.discard(xid)
                connection.grant = max(1, frame.one("rpcordma.flow_control"))
        rpc_xid = frame.one("rpc.xid")
        if rpc_xid is not None:
            call = calls.get((stream, rpc_xid))
            null = frame.one("rpc.program") == 100003 and frame.one("rpc.procedure") == 0
            if "nfs" not in protocols and not null:
                complain(frame.id, f"RPC, but not dissected as NFS: {frame.raw['frame.protocols']}")
            elif call and frame.one("rpc.msgtyp") == 0:
                call.body = frame

    for (_, xid), call in calls.items():
        where = call.frame.id
        if call.body is None:
            complain(where, f"tshark found no NFS in Call {xid:#x}")
            continue
        if call.reply is None:
            complain(where, f"Call {xid:#x} has no Reply")
            continue
        if call.reply.one("rpc.xid") != xid or call.reply.one("rpc.msgtyp") != 1:
            complain(call.reply.id, f"tshark found no RPC Reply for {xid:#x}")
        seen["calls"] += 1
        ops = call.body.all("nfs.opcode")
        call_threshold, reply_threshold = call.connection.thresholds
        reads, writes, _ = call.lengths()
        names = f"operations {ops}"

        for size in call.body.all("nfs.write.data_length"):
            if size > call_threshold and not call.reads:
                complain(where, f"WRITE of {size} bytes without a Read chunk")
            if call.reads and call.frame.one("rpcordma.msg_type") == RDMA_MSG:
                seen["write-with-read-chunk"] += 1
                if sum(reads) != size:
                    complain(where, f"WRITE of {size} bytes with Read chunks of {sum(reads)}")
                if not all(call.frame.all("rpcordma.position")):
                    complain(where, "WRITE data in a Position Zero Read chunk of an RDMA_MSG")
        if OP_READ in ops:
            wanted = sum(call.body.all("nfs.count4"))
            if wanted > reply_threshold and not call.writes:
                complain(where, f"READ of {wanted} bytes without a Write chunk")
            if call.writes and sum(writes):
                seen["read-with-write-chunk"] += 1
                if sum(writes) != wanted:
                    complain(where, f"READ of {wanted} bytes with Write chunks of {sum(writes)}")
                got = sum(call.reply.all("nfs.read.data_length"))
                returned = sum(split_lengths(call.reply)[1])
                if got != returned:
                    complain(call.reply.id, f"READ returned {got} bytes, its Write chunks {returned}")
        elif OP_READ_PLUS in ops:
            # RFC 8267 4.1.1: one Write chunk of the bytes asked for, in which the first data comes.
            wanted = sum(call.body.all("nfs.count4"))
            if ops[-1] != OP_READ_PLUS:
                complain(where, f"READ_PLUS is not the last of {names}")
            if call.writes:
                seen["read-plus-with-write-chunk"] += 1
                if call.writes != 1 or sum(writes) != wanted:
                    complain(where, f"READ_PLUS of {wanted} bytes with {call.writes} Write chunks of {sum(writes)}")
                data = call.reply.all("nfs.read.data_length")[:1]
                returned = sum(split_lengths(call.reply)[1])
                if sum(data) != returned:
                    complain(call.reply.id, f"READ_PLUS returned {data} bytes first, its Write chunk {returned}")
            seen["hole"] += call.reply.all("nfs.content.type").count(HOLE)
        elif call.writes and OP_READLINK not in ops:
            complain(where, f"a Write chunk for {names}")
        if call.reads and OP_WRITE not in ops and call.frame.one("rpcordma.msg_type") == RDMA_MSG and 6 not in ops:
            complain(where, f"a Read chunk for {names}")

        low, high = call.reply_bounds()
        if low > reply_threshold:
            if not call.reply_chunk:
                complain(where, f"no Reply chunk for {names}: Reply up to {low} bytes or more, threshold {reply_threshold}")
            seen["reply-chunk"] += 1
        elif high <= reply_threshold:
            if call.reply_chunk:
                complain(where, f"a Reply chunk for {names}: Reply of at most {high} bytes, threshold {reply_threshold}")
            seen["no-reply-chunk"] += 1
        else:
            seen["reply-chunk-undecided"] += 1

    return conclude(problems, seen, options.need)


if __name__ == "__main__":
    sys.exit(main())
