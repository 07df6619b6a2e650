#!/usr/bin/env bash
# Figures that a mount has to keep: what a listing asks for, how long a stat() waits beside a writer, what two appenders
# lose, and how much memory the daemon takes when the disk is full, the server is gone, or a thousand delegations go back.
#
#   figures.sh [SECTION …]    only these: listing stat append full gone delegations
#
# row: F1 F6 F8 F22 S18
#
# Environment: mount_lib.sh's; NFSRDMA_LONG=1: the server is gone for a minute, not for ten seconds.
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
# shellcheck disable=SC2154  # all of mount_lib.sh and lib.sh
wanted=" ${*:-listing stat append full gone delegations} "
section() { [[ $wanted == *" $1 "* ]] && say "--- $1, at $SECONDS s ---"; }
most_memory=$((150 * 1024))
# count NAME OPERATION: how often the kernel has asked that mount's daemon for it.
count() { client timeout 20 sed -n "s/^fuse $2 .*count=\([0-9]*\).*/\1/p" "$work/$1/.nfsrdma-stats" | grep . || echo 0; }
# watch NAME: the most that its daemon has ever had resident, in $work/NAME.most, until it ends. One that takes a
# gigabyte is ended, before it takes the machine with it.
watch() {
  local most pid=${daemon[$1]}
  while most=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2> /dev/null) && [ -n "$most" ]; do
    echo "$most" > "$work/$1.most"
    if [ "$most" -gt $((1024 * 1024)) ]; then kill -KILL "$pid"; fi
    sleep 0.1
  done &
  children+=($!)
}
memory_kept() { # NAME WHAT
  local most
  most=$(cat "$work/$1.most")
  check "$2: the daemon had $most kB at most, under $most_memory" [ "$most" -lt "$most_memory" ]
}
unmount() { # NAME WHAT
  check "$2: umount" client timeout 60 umount "$work/$1"
  ended "$1" "$2"
}

if section listing; then
  on_server "mkdir '$export/many' && cd '$export/many' && seq -f 'name-%g' 20000 | xargs touch"
  start_mount l /
  began=$(now_ms)
  same "ls -l of 20,000 names" 20001 "$(client ls -l "$work/l$remote/many" | wc -l)"
  say "it took $(($(now_ms) - began)) ms"
  lookups=$(count l LOOKUP)
  check "ls -l of 20,000 names: $lookups LOOKUPs, under 20" [ "$lookups" -lt 20 ]
  unmount l "after the listing"
fi

if section stat; then
  start_mount w / allow_other
  "$lab" slow 400mbit || fail "the link cannot be slowed down"
  client dd if=/dev/zero of="$work/w$remote/written" bs=1M count=200 2> "$work/dd.out" &
  writer=$!
  children+=("$writer")
  w=$work/w$remote
  # 200 ms where nothing else wants the cores.
  limit=$([ -n "${NFSRDMA_LONG:-}" ] && echo 0.2 || echo 0.5)
  a=$w b=$limit program "stat of a file that dd writes at 400 Mbit/s answers within $limit s" << 'PY'
limit = float(b)
while not os.path.exists(a + '/written'): time.sleep(0.02)
size, took = 0, []
while size < 180 << 20:
    began = time.monotonic()
    size = os.stat(a + '/written').st_size
    took.append(time.monotonic() - began)
    time.sleep(0.1)
if max(took) >= limit: print('%d of %d took longer, the longest %.2f s' % (sum(t >= limit for t in took), len(took), max(took)))
PY
  check "dd ends well" wait "$writer"
  "$lab" fast
  client rm -f "$w/written"
  unmount w "after the writer"
fi

if section append; then
  start_mount a /
  start_mount b /
  a=$work/a$remote b=$work/b$remote program "two mounts that append in turns and fsync lose no line of 2,000" << 'PY'
fds = [os.open(m + '/log', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) for m in (a, b)]
for i in range(1000):
    for who, fd in enumerate(fds):
        os.write(fd, b'%d %04d\n' % (who, i))
        os.fsync(fd)
for fd in fds: os.close(fd)
lines = open(a + '/log', 'rb').read().split(b'\n')[:-1]
wanted = [b'%d %04d' % (who, i) for i in range(1000) for who in (0, 1)]
if lines != wanted: print('%d lines, %d of them right, the first lost one: %r' %
                          (len(lines), len(set(lines) & set(wanted)), next((w for w in wanted if w not in lines), None)))
PY
  unmount a "after appending"
  unmount b "after appending"
fi

if section full; then
  if on_server "mkdir -p '$export/small' && mount -t tmpfs -o size=4m,mode=1777 tmpfs '$export/small' &&
      exportfs -o rw,no_root_squash,insecure,fsid=78,no_subtree_check '10.77.0.0/24:$export/small'"; then
    start_mount f /
    watch f
    a=$work/f$remote/small program "four writers of 100 MiB on a disk of 4 are told" << 'PY'
import threading
told = [0] * 4
def write(i):
    f = os.open(a + '/f%d' % i, os.O_WRONLY | os.O_CREAT)
    for call in [lambda: os.write(f, b'x' * 1048576)] * 100 + [lambda: os.fsync(f), lambda: os.close(f)]:
        try: call()
        except OSError as e:
            assert e.errno == errno.ENOSPC, e
            told[i] += 1
threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert all(told), told
PY
    unmount f "after a full disk"
    memory_kept f "a full disk"
    on_server "exportfs -u '10.77.0.0/24:$export/small'; umount -l '$export/small'"
  else
    fail "no small file system on the server"
  fi
fi

if section gone; then
  start_mount g /
  watch g
  writers=()
  for i in 1 2 3 4; do
    client sh -c "exec dd if=/dev/urandom of='$work/g$remote/gone.$i' bs=1M count=100 conv=fsync" 2> "$work/gone.$i" &
    writers+=($!)
    children+=($!)
  done
  begun() { [ "$(on_server "cat '$export'/gone.* 2> /dev/null | wc -c")" -gt $((8 * MiB)) ]; }
  check "four writers begin" eventually 20 begun
  "$lab" cut
  sleep "$([ -n "${NFSRDMA_LONG:-}" ] && echo 60 || echo 10)"
  "$lab" mend
  for i in 1 2 3 4; do
    status=0
    eventually 60 gone "${writers[i - 1]}" || kill -KILL "${writers[i - 1]}"
    wait "${writers[i - 1]}" || status=$?
    same "writer $i over a server that was gone" "0 $((100 * MiB))" "$status $(on_server "stat -c %s '$export/gone.$i'")"
  done
  client sh -c "rm -f '$work/g$remote'/gone.*"
  unmount g "after a server that was gone"
  memory_kept g "a server that was gone"
fi

if section delegations; then
  on_server "mkdir '$export/held' && cd '$export/held' && for i in \$(seq 1000); do echo \$i > f\$i; done; chmod 666 f*"
  start_mount d / allow_other
  watch d
  # Beside what is only read: some read past the kernel's cache, several at once, and parked and taken up again.
  a=$work/d$remote/held program "1,000 files are read" << 'PY'
import mmap, threading
def read(first):
    page = mmap.mmap(-1, 4096)
    for turn in range(2):
        for i in range(first, 1001, 8):
            direct = os.O_DIRECT if (i // 8 + turn) % 3 == 0 else 0
            f = os.open('%s/f%d' % (a, i), os.O_RDONLY | direct)
            page.seek(0)
            n = os.readv(f, [page])
            os.close(f)
            if page[:n] != b'%d\n' % i: print(i, page[:n])
threads = [threading.Thread(target=read, args=(i,)) for i in range(1, 9)]
for t in threads: t.start()
for t in threads: t.join()
PY
  held=$(delegations_held)
  check "the server has given $held delegations, 900 at least" [ "$held" -ge 900 ]
  began=$(now_ms)
  unmount d "with $held delegations"
  took=$(($(now_ms) - began))
  check "with $held delegations: it took $took ms, under 10,000" [ "$took" -lt 10000 ]
  memory_kept d "an unmount with $held delegations"
  same "delegations that are left on the server" 0 "$(delegations_held)"
fi
