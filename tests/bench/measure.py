#!/usr/bin/env python3
"""Runs a command and prints what it took as one line of JSON: measure.py [--told] LABEL BYTES COMMAND ...

User and system time are those of the command itself (wait4), in microseconds' resolution: to be started inside
`lab ns`, so that the shell and ip(8) that enter the namespace are not counted. The command's stdout goes to /dev/null.
With --told it is read: the command says there how long it took by its own clock ("seconds":1.5 as nfsrdma-cli --json,
copied, 1.5 s as dd), without what it takes to start a program and to connect; as a rate that is told_mb_per_second.
"""
import json
import os
import re
import sys
import tempfile
import time

arguments = sys.argv[1:]
told = arguments[0] == "--told"
if told:
    arguments.pop(0)
label, size, command = arguments[0], int(arguments[1]), arguments[2:]
said = tempfile.TemporaryFile("w+") if told else open(os.devnull, "w+", encoding="utf-8")
begun = time.monotonic()
child = os.fork()
if child == 0:
    os.dup2(said.fileno(), 1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"measure.py: {command[0]}: {error}", file=sys.stderr)
        os._exit(127)
_, status, usage = os.wait4(child, 0)
seconds = time.monotonic() - begun
code = os.waitstatus_to_exitcode(status)
rate = {}
if told and code == 0:
    said.seek(0)
    match = re.search(r'"seconds":([0-9.]+)|copied, ([0-9.e-]+) s', said.read())
    rate = {"told_mb_per_second": round(size / 1e6 / float(match[1] or match[2]), 2)}
print(json.dumps({"tool": label, "bytes": size, "seconds": round(seconds, 6), "mb_per_second": round(size / 1e6 / seconds, 2),
                  "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 6), "user_seconds": round(usage.ru_utime, 6),
                  "system_seconds": round(usage.ru_stime, 6)} | rate))
sys.exit(0 if code == 0 else 1)
