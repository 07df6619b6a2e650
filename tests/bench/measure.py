#!/usr/bin/env python3
"""Runs a command and prints what it took as one line of JSON: measure.py LABEL BYTES COMMAND ...

User and system time are those of the command itself (wait4), in microseconds' resolution: to be started inside
`lab ns`, so that the shell and ip(8) that enter the namespace are not counted. The command's stdout goes to /dev/null.
"""
import json
import os
import sys
import time

label, size, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
begun = time.monotonic()
child = os.fork()
if child == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"measure.py: {command[0]}: {error}", file=sys.stderr)
        os._exit(127)
_, status, usage = os.wait4(child, 0)
seconds = time.monotonic() - begun
code = os.waitstatus_to_exitcode(status)
print(json.dumps({"tool": label, "bytes": size, "seconds": round(seconds, 6), "mb_per_second": round(size / 1e6 / seconds, 2),
                  "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 6), "user_seconds": round(usage.ru_utime, 6),
                  "system_seconds": round(usage.ru_stime, 6)}))
sys.exit(0 if code == 0 else 1)
