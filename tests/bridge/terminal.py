#!/usr/bin/env python3
"""A user in front of a terminal, for terminal.sh: terminal.py SCENE NFSRDMA-CLI TARGET HOME

The terminal belongs to a shell with job control (dash, which leaves the state of a terminal as a stopped program has left
it) of an ordinary user, and that shell starts nfsrdma-cli. Exit status: 0, or 1 with what was missing in the last line of standard error.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

NOBODY = 65534
SECOND_SCREEN, FIRST_SCREEN = rb"\x1b\[\?1049h", rb"\x1b\[\?1049l"


class Terminal:
    def __init__(self, home):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            for name in ("ENV", "XDG_STATE_HOME"):
                os.environ.pop(name, None)
            os.environ.update(HOME=home, PS1="ready$ ", TERM="xterm")
            os.execvp("dash", ["dash", "-i"])
        self.resize(24, 80)
        self.until(rb"ready\$ ")

    def until(self, pattern, seconds=10):
        """Reads until the pattern has been written, and drops what was written up to its end."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            if time.monotonic() > deadline:
                sys.exit("no %r in %r" % (pattern, self.seen[-300:]))
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096)
                except OSError:
                    sys.exit("the terminal is gone: %r" % self.seen[-300:])
        self.seen = self.seen[found.end():]

    def keys(self, text):
        os.write(self.fd, text)

    def line(self, text):
        self.keys(text + b"\r")

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect_mode(self, is_usual, what):
        """Usual: lines with echo. libedit and top take keys as they come."""
        deadline = time.monotonic() + 3
        while True:
            flags = termios.tcgetattr(self.fd)[3]
            if bool(flags & termios.ICANON) == is_usual and bool(flags & termios.ECHO) == is_usual:
                return
            if time.monotonic() > deadline:
                sys.exit("%s: the terminal's state is wrong: %x" % (what, flags))
            time.sleep(0.02)

    def foreground(self):
        return os.tcgetpgrp(self.fd)

    def stopped(self):
        """The job has stopped, and dash has the terminal."""
        self.until(rb"ready\$ ")

    def leave(self):
        self.line(b"exit 0")
        deadline = time.monotonic() + 5
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                sys.exit("dash did not end")
            time.sleep(0.02)


class Scenes:
    def __init__(self, cli, target, home):
        self.cli, self.target, self.home = cli.encode(), target, home
        self.t = Terminal(home)

    def start_shell(self):
        self.t.line(self.cli + b" shell '" + self.target.encode() + b"'")
        self.t.until(rb"/t> ")
        self.t.expect_mode(False, "at the prompt")

    def end_of_input(self):
        """Types Ctrl-D. It ends the shell only once libedit has the keys, which it takes behind its prompt."""
        self.t.until(rb"/t> ")
        self.t.expect_mode(False, "before Ctrl-D")
        self.t.keys(b"\x04")

    def end_shell(self):
        """The shell works: it runs a command, and ends."""
        self.t.line(b"pwd")
        self.t.until(rb":/export/t\r\n")
        self.t.until(rb"/t> ")
        self.t.line(b"exit")
        self.t.until(rb"ready\$ ")
        self.t.expect_mode(True, "after the shell")
        self.t.leave()

    def stop(self):
        self.start_shell()
        self.t.keys(b"cat fi")
        self.t.until(rb"cat fi")
        self.t.keys(b"\x1a")
        self.t.stopped()
        self.t.expect_mode(True, "stopped")
        self.t.line(b"echo still he''re")
        self.t.until(rb"still here\r\n")
        self.t.line(b"fg")
        self.t.until(rb"/t> cat fi")
        self.t.expect_mode(False, "continued")
        self.t.line(b"le")
        self.t.until(rb"\ntext\r\n")
        self.t.until(rb"/t> ")
        # A command that runs is stopped as any program is.
        self.t.line(b"tail -f file")
        self.t.until(rb"\ntext\r\n")
        self.t.keys(b"\x1a")
        self.t.stopped()
        self.t.line(b"fg")
        time.sleep(0.3)
        self.t.keys(b"\x03")
        self.t.until(rb"/t> ")
        self.end_shell()

    def sigstop(self):
        self.start_shell()
        os.killpg(self.t.foreground(), signal.SIGSTOP)
        self.t.stopped()
        self.t.line(b"stty sane; echo sa''ne")
        self.t.until(rb"sane\r\n")
        self.t.expect_mode(True, "after stty")
        self.t.line(b"fg")
        self.t.until(rb"/t> ")
        self.t.expect_mode(False, "continued")
        self.end_shell()

    def background(self):
        self.start_shell()
        self.t.keys(b"\x1a")
        self.t.stopped()
        self.t.line(b"bg; sleep 0.3; jobs")
        self.t.until(rb"(?i)stopped")
        self.t.expect_mode(True, "in the background")
        self.t.line(b"fg")
        self.t.until(rb"/t> ")
        self.t.expect_mode(False, "in the foreground again")
        self.end_shell()

    def local(self):
        self.start_shell()
        self.t.line(b"!trap 'echo cau''ght' INT; echo be''gun; for i in 1 2; do sleep 9; done; echo en''ded")
        self.t.until(rb"begun\r\n")
        self.t.keys(b"\x03")
        self.t.until(rb"caught\r\n")
        time.sleep(1.3)
        self.t.keys(b"\x03")
        self.t.until(rb"caught\r\n")
        self.t.until(rb"ended\r\n")
        self.t.until(rb"/t> ")
        # A program that the signal ends takes the rest of the line with it.
        self.t.line(b"!echo star''ted; exec sleep 9")
        self.t.until(rb"started\r\n")
        self.t.keys(b"\x03")
        self.t.until(rb"/t> ")
        self.end_shell()

    def freeze(self):
        open(self.home + "/freeze", "w").close()
        deadline = time.monotonic() + 30
        while not os.path.exists(self.home + "/frozen"):
            if time.monotonic() > deadline:
                sys.exit("nobody stopped the bridge")
            time.sleep(0.02)

    def silent(self):
        self.start_shell()
        self.freeze()
        self.t.line(b"cat file")
        time.sleep(0.5)
        self.t.keys(b"\x03")
        self.t.until(rb"/t> ", 3)
        self.t.line(b"lpwd")
        self.t.until(rb"\n/.*\r\n")
        self.end_of_input()
        # The end of the session waits for the server for a moment.
        self.t.until(rb"ready\$ ", 15)
        self.t.expect_mode(True, "after the shell")
        self.t.leave()

    def put_without_end(self):
        """A command that cleans up after Ctrl-C, for which it waits for a server that does not answer."""
        self.start_shell()
        self.t.line(b"put -q /dev/zero endless")
        time.sleep(0.5)
        self.freeze()
        self.t.keys(b"\x03")

    def quick(self):
        self.put_without_end()
        time.sleep(0.2)
        self.t.keys(b"\x03")
        self.t.until(rb"could not be removed", 1.5)
        self.t.until(rb"/t> ", 1.5)
        self.t.line(b"lpwd")
        self.t.until(rb"\n/.*\r\n")
        self.end_of_input()
        self.t.until(rb"ready\$ ", 15)
        self.t.leave()

    def second(self):
        self.put_without_end()
        time.sleep(1.3)
        if self.t.foreground() == self.t.pid:
            sys.exit("the command has ended before the second Ctrl-C")
        self.t.keys(b"\x03")
        self.t.until(rb"ready\$ ", 1)
        self.t.expect_mode(True, "after the shell")
        self.t.line(b"echo status=$?")
        self.t.until(rb"\nstatus=130\r\n")
        self.t.leave()

    def top(self):
        self.t.line(self.cli + b" top -d 30")
        self.t.until(SECOND_SCREEN)
        self.t.until(rb"every 30\.0 s")
        self.t.expect_mode(False, "in top")
        self.t.keys(b"\x1a")
        self.t.until(FIRST_SCREEN)
        self.t.stopped()
        self.t.expect_mode(True, "stopped")
        self.t.line(b"bg; sleep 0.3; jobs")
        self.t.until(rb"(?i)stopped")
        self.t.expect_mode(True, "in the background")
        self.t.line(b"fg")
        self.t.until(SECOND_SCREEN)
        self.t.until(rb"every 30\.0 s", 3)
        self.t.expect_mode(False, "continued")
        self.t.resize(10, 60)
        self.t.until(rb"every 30\.0 s", 3)
        os.killpg(self.t.foreground(), signal.SIGSTOP)
        self.t.stopped()
        self.t.line(b"stty sane; fg")
        self.t.until(rb"every 30\.0 s", 3)
        self.t.expect_mode(False, "continued after SIGSTOP")
        self.t.keys(b"s")
        self.t.until(rb"by rate", 3)
        self.t.keys(b"q")
        self.t.until(FIRST_SCREEN)
        self.t.until(rb"ready\$ ")
        self.t.expect_mode(True, "after top")
        self.t.leave()


def has_libedit(cli):
    return b"libedit" in subprocess.run(["ldd", cli], capture_output=True, check=False).stdout


def main():
    scene, cli, target, home = sys.argv[1:5]
    if scene in ("stop", "sigstop", "background") and not has_libedit(cli):
        open(home + "/without-libedit", "w").close()
        return
    getattr(Scenes(cli, target, home), scene)()


main()
