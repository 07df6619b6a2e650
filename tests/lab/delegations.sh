#!/usr/bin/env bash
# Write delegations of the kernel's server, which grants them from Linux 6.6 on: the lab's usual kernel (6.1) does not, and
# build-kernel.sh makes one of 6.12 that does. A mount closes its files before their data is on the server, and whoever else
# looks at one of them sees all of it: on the server itself, by a second mount, behind a restart.
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"

case $(on_server 'uname -r') in
  5.* | 6.[0-5].*) skip "the server's kernel grants no write delegations (tests/lab/build-kernel.sh OUTPUT 6.12)" ;;
esac
a=$work/a b=$work/b
delegated() { states "$1" | grep -q 'type: deleg, access: w'; }
sum_of() { client sha256sum "$1" | cut -d' ' -f1; }
start_mount a "$remote" allow_other
start_mount b "$remote"
# The grace period of a server that just came up: no delegations before its end.
grace() {
  client sh -c "rm -f '$a/probe'; echo probe > '$a/probe'"
  eventually 1 delegated probe
}
check "the server grants a write delegation" eventually 30 grace

"$lab" slow 400mbit
for i in 1 2 3; do
  ms=$(client python3 - "$a/big$i" << 'PYTHON'
import os, sys, time
data = os.urandom(16 << 20)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
for at in range(0, len(data), 1 << 20): os.write(file, data[at:at + (1 << 20)])
begun = time.monotonic()
os.close(file)
print(int((time.monotonic() - begun) * 1000))
PYTHON
  )
  case $i in
    1) there=$(on_server "sha256sum < '$export/big$i'" | cut -d' ' -f1) who="the server itself" ;;
    2) there=$(sum_of "$b/big$i") who="a second mount" ;;
    3)
      same "big$i: a second mount sees how large it is" $((16 * MiB)) "$(client stat -c %s "$b/big$i")"
      there=$(sum_of "$b/big$i") who="a second mount"
      ;;
  esac
  say "big$i: close took $ms ms"
  same "big$i: $who sees what was written" "$(sum_of "$a/big$i")" "$there"
done
"$lab" fast

program "many small files: closed, read again by the second mount" << 'PYTHON'
os.mkdir(a + "/many")
for i in range(300):
    with open(f"{a}/many/{i}", "w") as file: file.write(f"{i}\n" * (i * 10))
for i in range(300):
    with open(f"{b}/many/{i}") as file: assert file.read() == f"{i}\n" * (i * 10), i
PYTHON
program "in turns: each sees what the other has written, whoever of them closed last" << 'PYTHON'
for i in range(60):
    with open((a, b)[i % 2] + "/turns", "a") as file: file.write(f"{i}\n")
    with open((b, a)[i % 2] + "/turns") as file: assert file.read() == "".join(f"{j}\n" for j in range(i + 1)), i
PYTHON
program "what the mode keeps from its maker is his only once" << 'PYTHON'
os.setgid(65534); os.setuid(65534)
os.close(os.open(a + "/once", os.O_WRONLY | os.O_CREAT, 0o400))
try: os.open(a + "/once", os.O_WRONLY)
except PermissionError: pass
else: print("opened for writing")
os.close(os.open(a + "/once", os.O_RDONLY))
os.close(os.open(a + "/blind", os.O_WRONLY | os.O_CREAT, 0o200))
os.close(os.open(a + "/blind", os.O_WRONLY | os.O_CREAT, 0o200))
PYTHON

"$lab" slow 400mbit
client sh -c "head -c $((16 * MiB)) /dev/urandom > '$a/restart'" &
sleep 0.5
"$lab" restart-nfsd
wait $!
"$lab" fast
same "behind a restart of the server: a second mount sees what was written" "$(sum_of "$a/restart")" "$(sum_of "$b/restart")"

client umount "$a"
ended a "unmount"
client umount "$b"
ended b "unmount of the second"
same "delegations that are left on the server" 0 "$(delegations_held)"
