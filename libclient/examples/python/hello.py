#!/usr/bin/env python3
"""Lists a directory, writes a file there, and reads it back.

    hello.py nfs://server/export
"""

import sys

import nfsrdma


def main(target: str) -> None:
    with nfsrdma.Client(target) as client:
        print(f"connected by NFSv{client.info()['version']}; a round trip takes {client.ping() * 1e6:.0f} us")

        for entry in client.scandir():
            print(f"{entry.stat().st_size:12} {entry.name}{'/' if entry.is_dir() else ''}")

        with client.open("hello.txt", "w", encoding="utf-8") as file:
            file.write("Hello over RDMA\n")
        print(client.read_bytes("hello.txt"))
        client.unlink("hello.txt")

        try:
            client.stat("hello.txt")
        except FileNotFoundError as error:
            print("as expected:", error)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
