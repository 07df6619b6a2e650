#!/usr/bin/env python3
"""A TCP listener that is no NFS/RDMA server, each MODE in its own way, to see what a client says about it.

    listener.py MODE ADDRESS PORT      prints "ready" when it listens; serves until it is killed

silent          accepts and never sends a byte
close           accepts and closes at once
reject          answers the MPA request with a rejection, whatever it asked for
markers         accepts the MPA request and wants markers, which the client does not send
crc             accepts and wants CRCs although the client asked for none, then is silent
badkey          answers with an MPA frame whose key is wrong
short           sends half of an MPA reply, then is silent
longdata        an MPA reply that announces more private data than MPA allows (512 bytes)
garbage         answers with random bytes
http            answers as a web server does
accept-garbage  a proper MPA reply, then random bytes in place of FPDUs
accept-silent   a proper MPA reply, then nothing: Calls are never answered
accept-close    a proper MPA reply, then closes on the first Call
"""
import random
import socket
import struct
import sys
import threading
import time

REJECT, CRC, MARKERS, ENHANCED = 0x20, 0x40, 0x80, 0x10
# IRD and ORD of 16 as enhanced MPA puts them in front; RFC 8797: version 1, 4096 bytes both ways.
PRIVATE = bytes.fromhex("00100010" "f6ab0e1801000303")


def receive(peer, size):
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def mpa_request(peer):
    """Reads the request and returns its flags and revision."""
    head = receive(peer, 20)
    receive(peer, struct.unpack(">H", head[18:])[0])
    return head[16], head[17]


def mpa_reply(flags, revision, private=PRIVATE, key=b"MPA ID Rep Frame", length=None):
    if revision < 2 and private == PRIVATE:
        private = PRIVATE[4:]
    return key + struct.pack(">BBH", flags, revision, len(private) if length is None else length) + private


def serve(mode, peer):
    noise = random.Random(1)
    try:
        if mode == "close":
            return
        if mode == "silent":
            time.sleep(600)
        if mode in ("garbage", "http"):
            peer.recv(4096)
            peer.sendall(noise.randbytes(4096) if mode == "garbage" else
                         b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            time.sleep(600 if mode == "garbage" else 0.2)
            return
        flags, revision = mpa_request(peer)
        flags &= ENHANCED | CRC
        if mode == "reject":
            peer.sendall(mpa_reply(flags | REJECT, revision, b""))
            time.sleep(0.2)
            return
        if mode == "short":
            peer.sendall(mpa_reply(flags, revision)[:10])
        elif mode == "badkey":
            peer.sendall(mpa_reply(flags, revision, key=b"MPA ID Rep Flame"))
        elif mode == "longdata":
            peer.sendall(mpa_reply(flags, revision, bytes(600), length=0xFFFF))
        elif mode == "markers":
            peer.sendall(mpa_reply(flags | MARKERS, revision))
        elif mode == "crc":
            peer.sendall(mpa_reply(flags | CRC, revision))
        else:
            peer.sendall(mpa_reply(flags, revision))
            peer.recv(1)
            if mode == "accept-close":
                return
            if mode == "accept-garbage":
                peer.sendall(noise.randbytes(65536))
        time.sleep(600)
    except (OSError, EOFError):
        pass
    finally:
        peer.close()


def main():
    modes = [line.split()[0] for line in __doc__.splitlines()[4:] if line.strip()]
    if len(sys.argv) != 4 or sys.argv[1] not in modes:
        sys.exit(__doc__)
    mode, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family, backlog=64) as server:
        print("ready", flush=True)
        while True:
            peer, _ = server.accept()
            threading.Thread(target=serve, args=(mode, peer), daemon=True).start()


if __name__ == "__main__":
    main()
