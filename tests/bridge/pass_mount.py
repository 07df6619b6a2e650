#!/usr/bin/env python3
"""Mounts as a container's privileged half does, and passes the open /dev/fuse on to a program without rights.

    pass_mount.py MOUNTPOINT UID PROGRAM [ARGUMENT]...

PROGRAM runs as the user UID without capabilities; an ARGUMENT that is @ becomes /dev/fd/N. "ready" is printed when the
program says READY=1 at NOTIFY_SOCKET. SIGTERM is passed on. SIGUSR1 unmounts while the program runs, as a sidecar does
that takes a volume away. At the end, the mount goes, and the exit status is the program's.
"""
import ctypes
import os
import signal
import socket
import sys
import tempfile

MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
PR_SET_NO_NEW_PRIVS = 38
libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def mount(mountpoint: str, descriptor: int, user: int) -> None:
    options = f"fd={descriptor},rootmode=40000,user_id={user},group_id={user},allow_other"
    checked(libc.mount(b"server:/export", mountpoint.encode(), b"fuse.nfsrdma", MS_NOSUID | MS_NODEV,
                       options.encode()), "mount " + mountpoint)


def become(user: int) -> None:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def start(descriptor: int, user: int, words: "list[str]") -> int:
    words = [f"/dev/fd/{descriptor}" if word == "@" else word for word in words]
    child = os.fork()
    if child != 0:
        return child
    try:
        become(user)
        os.set_inheritable(descriptor, True)
        os.execv(words[0], words)
    finally:
        os._exit(127)


def main() -> int:
    mountpoint, user, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    place = tempfile.mkdtemp()
    os.chmod(place, 0o755)
    os.environ["NOTIFY_SOCKET"] = place + "/notify"
    notified.bind(place + "/notify")
    os.chmod(place + "/notify", 0o777)
    notified.settimeout(20)
    descriptor = os.open("/dev/fuse", os.O_RDWR)
    mount(mountpoint, descriptor, user)
    child = start(descriptor, user, words)
    os.close(descriptor)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda *_: libc.umount2(mountpoint.encode(), MNT_DETACH))
    try:
        if notified.recv(4096).startswith(b"READY=1"):
            print("ready", child, flush=True)
    except socket.timeout:
        print("not ready", child, flush=True)
    _, status = os.waitpid(child, 0)
    libc.umount2(mountpoint.encode(), MNT_DETACH)
    return os.waitstatus_to_exitcode(status) & 0xFF


sys.exit(main())
