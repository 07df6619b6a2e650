#!/usr/bin/env python3
"""Rewrites a capture of iWARP connections so that each TCP segment carries one FPDU (or one MPA request or reply).

    split_fpdus.py IN.pcap OUT.pcap

Why: tshark keeps the state of an RPC-over-RDMA message by frame, so of several Sends in one TCP segment, which is how
this project sends them, it dissects the first only, and of an FPDU whose length field is cut by a segment's end none.
What the peers said is left as it was, byte by byte and in its order; only the packets around it are made anew. Each
takes the time at which its last byte was captured. Acknowledgements without data are left out.

Each connection gets a client's port of its own, from 61000 on in their order. MPA has no port that tshark would know it
by, and a port that a client gets at random may be another protocol's (48898 is AMS's), or come a second time.

Left out, too, are connections that began before the capture did: on a slow machine the last words of an earlier one
still come. (Whoever needs what they said finds that it is missing.)

Exit status 1 when a stream holds bytes that are no complete FPDU (and does not end with a reset), or has a gap.
Needs MPA without markers; knows Ethernet, IPv4 and IPv6.
"""
import struct
import sys

SYN, FIN, RST, ACK = 2, 1, 4, 16

FIRST_PORT = 61000


class Direction:
    """One way of one connection: bytes waiting for the rest of their FPDU, and what arrived out of order."""

    def __init__(self, next_seq, ports=None):
        self.first_seq = self.next_seq = next_seq
        self.ports = ports  # as the rewritten capture has them
        self.other = None
        self.held = {}
        self.buffer = bytearray()
        self.negotiated = False
        self.reset = False

    def push(self, seq, data):
        """Takes a segment's data; returns False for one that ends in a gap for now."""
        self.held[seq] = max(data, self.held.get(seq, b""), key=len)
        moved = True
        while moved:
            moved = False
            for start in sorted(self.held, key=lambda s: (s - self.next_seq + 2**31) % 2**32):
                skip = (self.next_seq - start) % 2**32
                if skip >= 2**31:
                    break  # begins behind the gap
                piece = self.held.pop(start)[skip:]
                self.buffer += piece
                self.next_seq = (self.next_seq + len(piece)) % 2**32
                moved = True
                break

    def pop(self):
        """The next complete FPDU or MPA frame with its sequence number, or None."""
        if len(self.buffer) < 2:
            return None
        if self.negotiated:
            size = 2 + struct.unpack_from(">H", self.buffer)[0]
            size += -size % 4 + 4
        else:
            if len(self.buffer) < 20:
                return None
            if self.buffer[:8] != b"MPA ID R":
                raise ValueError("a stream does not begin with an MPA request or reply")
            if self.buffer[16] & 0x80:
                raise ValueError("MPA markers are in use")
            size = 20 + struct.unpack_from(">H", self.buffer, 18)[0]
        if len(self.buffer) < size:
            return None
        self.negotiated = True
        seq = (self.next_seq - len(self.buffer)) % 2**32
        out = bytes(self.buffer[:size])
        del self.buffer[:size]
        return seq, out


def frame(link, ip, tcp, ports, seq, ack, flags, data):
    """The captured frame's headers around other data."""
    tcp = bytearray(tcp[:20])
    tcp[:4] = ports
    struct.pack_into(">II", tcp, 4, seq, ack)
    tcp[12] = 5 << 4
    tcp[13] = flags
    ip = bytearray(ip)
    if ip[0] >> 4 == 4:
        ip = ip[:20]
        ip[0] = 0x45
        struct.pack_into(">H", ip, 2, 40 + len(data))
    else:
        struct.pack_into(">H", ip, 4, 20 + len(data))
    return bytes(link) + bytes(ip) + bytes(tcp) + data


def main(source, target):
    raw = memoryview(open(source, "rb").read())
    magic = struct.unpack_from("<I", raw)[0]
    order = {0xA1B2C3D4: "<", 0xA1B23C4D: "<", 0xD4C3B2A1: ">", 0x4D3CB2A1: ">"}.get(magic)
    if order is None or struct.unpack_from(order + "I", raw, 20)[0] != 1:
        sys.exit(f"{source}: not a pcap file of Ethernet frames")
    streams = {}  # the newest Direction of each addresses and ports
    ways = []
    at = 24
    with open(target, "wb") as out:
        out.write(raw[:24])

        def write(seconds, fraction, data):
            out.write(struct.pack(order + "IIII", seconds, fraction, len(data), len(data)) + data)

        while at < len(raw):
            seconds, fraction, captured, original = struct.unpack_from(order + "IIII", raw, at)
            data = raw[at + 16 : at + 16 + captured]
            at += 16 + captured
            if captured < original:
                sys.exit(f"{source}: a frame was captured in part")
            kind = struct.unpack_from(">H", data, 12)[0]
            if kind == 0x0800:
                length = (data[14] & 15) * 4
                total = struct.unpack_from(">H", data, 16)[0]
                # 0: a super-segment of over 64 KiB
                end = 14 + total if total else captured
                addresses = bytes(data[26:34])
            elif kind == 0x86DD:
                length = 40
                payload = struct.unpack_from(">H", data, 18)[0]
                end = 54 + payload if payload else captured
                addresses = bytes(data[22:54])
            else:
                continue
            ip = data[14 : 14 + length]
            tcp = data[14 + length : end]
            ports = bytes(tcp[:4])
            seq, ack = struct.unpack_from(">II", tcp, 4)
            flags = tcp[13]
            payload = bytes(tcp[(tcp[12] >> 4) * 4 :])
            key = addresses + ports
            way = streams.get(key)
            if flags & SYN:
                first = (seq + 1) % 2**32
                if not way or way.first_seq != first:
                    half = len(addresses) // 2
                    other = streams.get(addresses[half:] + addresses[:half] + ports[2:] + ports[:2])
                    if not flags & ACK:
                        way = Direction(first, struct.pack(">H", FIRST_PORT + len(ways)) + ports[2:])
                    elif other:
                        way = Direction(first, other.ports[2:] + other.ports[:2])
                        way.other, other.other = other, way
                    else:
                        continue
                    streams[key] = way
                    ways.append(way)
                write(seconds, fraction, frame(data[:14], ip, tcp, way.ports, seq, ack, flags, b""))
                continue
            if way is None:
                continue
            if payload:
                way.push(seq, payload)
                while (unit := way.pop()) is not None:
                    write(seconds, fraction, frame(data[:14], ip, tcp, way.ports, unit[0], ack, 0x18, unit[1]))
            if flags & RST:
                way.reset = True
                if way.other:
                    way.other.reset = True
            if flags & (FIN | RST):
                seq = (way.next_seq - len(way.buffer)) % 2**32
                write(seconds, fraction, frame(data[:14], ip, tcp, way.ports, seq, ack, flags, b""))
    bad = 0
    for number, way in enumerate(ways):
        if (way.buffer or way.held) and not way.reset:
            print(f"{source}: direction {number}: {len(way.buffer)} bytes are no complete FPDU, "
                  f"{len(way.held)} segments lie behind a gap", file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(sys.argv[1], sys.argv[2]))
    except ValueError as problem:
        sys.exit(f"{sys.argv[1]}: {problem}")
