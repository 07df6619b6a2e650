#!/usr/bin/env bash
# What people do with nfsrdma-cli every day, on a Ganesha through the bridge: ranges and tail -f, patterns, find -delete,
# errors as JSON, the shell in a script and on a terminal, bench.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
need_tools python3

start_bridge plain || exit 1
port=$bridge_port
base=nfs://127.0.0.1:$port/export/daily
daily=$export/daily
cli() { as_user "$cli_binary" "$@"; }

mkdir -p "$daily/log" "$daily/data/deep"
seq 20 > "$daily/log/messages"
for name in a.csv b.csv deep/c.csv; do echo "$name" > "$daily/data/$name"; done
chown -R 65534:65534 "$daily"

# ---- ranges and tail ----

expect_exit 0 "cat --range" cli cat --range 0-1,-3 "$base/log/messages"
same "cat --range: the bytes" "$(head -c 2 "$daily/log/messages"; tail -c 3 "$daily/log/messages")" "$(cat "$work/out")"
expect_exit 0 "tail -n 3" cli tail -n 3 "$base/log/messages"
same "tail -n 3: the lines" "$(seq 18 20)" "$(cat "$work/out")"

setpriv --reuid 65534 --regid 65534 --clear-groups "$cli_binary" tail -n 1 -f -s 0.1 "$base/log/messages" > "$work/followed" 2> "$work/follow.err" &
tail_pid=$!
children+=("$tail_pid")
check "tail -f: the end is there" eventually 10 grep -qx 20 "$work/followed"
echo grown >> "$daily/log/messages"
check "tail -f: growth" eventually 10 grep -qx grown "$work/followed"
mv "$daily/log/messages" "$daily/log/messages.1" && echo new > "$daily/log/messages"
check "tail -f: a log that was rotated" eventually 10 grep -qx new "$work/followed"
: > "$daily/log/messages"
check "tail -f: says that the file was truncated" eventually 10 grep -q 'file truncated' "$work/follow.err"
kill -INT "$tail_pid"
wait "$tail_pid"
same "tail -f: ends on SIGINT" 130 $?
# shellcheck disable=SC2016
timeout 10 bash -c '"$0" tail -f -s 0.1 "$1" 2> /dev/null | true' "$cli_binary" "$base/log/messages.1"
same "tail -f: ends when its reader goes away" 0 $?

# ---- patterns, find, JSON ----

expect_exit 0 "cat of a pattern" cli cat "$base/data/**/*.csv"
same "cat of a pattern: sorted by paths" "a.csv b.csv deep/c.csv" "$(xargs < "$work/out")"
expect_exit 1 "rm of a pattern without a match" cli rm "$base/data/a.csv" "$base/data/*.none"
one_sentence "rm of a pattern without a match" "--no-glob"
check "rm of a pattern without a match: nothing is done" test -e "$daily/data/a.csv"
expect_exit 0 "ls -t" cli ls -tr "$base/log"
same "ls -tr: the oldest first" "messages.1 messages" "$(xargs < "$work/out")"
expect_exit 0 "find -delete" cli find "$base/data" -name 'c*' -size -1k -delete
check "find -delete: a size that no file has" test -e "$daily/data/deep/c.csv"
expect_exit 0 "find -delete" cli find "$base/data" -type f -path '*/deep/*' -size -2k -mmin -5 -delete
check "find -delete: what it found" test ! -e "$daily/data/deep/c.csv"
expect_exit 1 "an error as JSON" cli rm --json "$base/none"
same "an error as JSON: its members" "LOOKUP ENOENT NFS4ERR_NOENT" "$(jq -r '[.operation, .errno, .status] | join(" ")' "$work/err")"

# ---- the shell ----

cat > "$work/script" <<'END'
cd data
ls -1 --sort name *.csv
rm 'b.csv'
cat a.csv
END
as_user "$cli_binary" shell -e "$base" < "$work/script" > "$work/out" 2> "$work/err"
same "shell: a script" 0 $?
same "shell: what the script writes" "/export/daily/data/a.csv /export/daily/data/b.csv a.csv" "$(sed 's/^127.0.0.1://' "$work/out" | xargs)"
check "shell: what the script removes" test ! -e "$daily/data/b.csv"

mkdir -p "$work/home" && chown 65534:65534 "$work/home"
# The shell on a terminal: Ctrl-C, completion, a bridge that is gone for a while, Ctrl-D.
cat > "$work/terminal.py" <<'END'
import os, pty, re, signal, subprocess, sys, termios, time
cli, target, work = sys.argv[1:4]
pid, fd = pty.fork()
if pid == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    os.environ.update(HOME=work + "/home", TERM="dumb"); os.environ.pop("XDG_STATE_HOME", None)
    os.execv(cli, [cli, "shell", "-o", "timeo=20", target])
seen = b""
def until(pattern, seconds=10):
    global seen
    deadline = time.time() + seconds
    while not re.search(pattern, seen):
        if time.time() > deadline: sys.exit("no %r in %r" % (pattern, seen[-400:]))
        import select
        if select.select([fd], [], [], 0.1)[0]:
            try: seen += os.read(fd, 4096)
            except OSError: sys.exit("the shell is gone: %r" % seen[-400:])
    seen = seen[re.search(pattern, seen).end():]
def keys(text): os.write(fd, text)
until(rb"daily> "); keys(b"pwd\r"); until(rb":/export/daily\r\n"); until(rb"> ")
keys(b"cat data/a\t\r"); until(rb"a\.csv\r\n.*a\.csv\r\n|a\.csv \r\na\.csv"); until(rb"> ")
keys(b"tail -f -s 0.1 log/messages.1\r"); until(rb"grown"); keys(b"\x03"); until(rb"daily> ")
keys(b"half a line\x03"); until(rb"daily> "); keys(b"lpwd\r"); until(rb"/\w+.*\r\n"); until(rb"> ")
open(work + "/stop", "w").close()
while not os.path.exists(work + "/stopped"): time.sleep(0.05)
keys(b"cat data/a.csv\r"); until(rb"\r\n"); open(work + "/start", "w").close(); until(rb"\na\.csv\r\n", 20); until(rb"> ")
# Ctrl-D means the end only where a line is being read. libedit takes the keys shortly after it has shown the prompt.
keys(b" cat secret\r"); until(rb"nfsrdma-cli: [^\r]*secret[^\r]*\r\n"); until(rb"> ")
while termios.tcgetattr(fd)[3] & termios.ICANON: time.sleep(0.01)
keys(b"\x04")
deadline = time.time() + 15
while True:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended: break
    if time.time() > deadline: sys.exit("the shell did not end: %r" % seen[-400:])
    time.sleep(0.05)
# The last command failed.
sys.exit(0 if os.waitstatus_to_exitcode(status) == 1 else "exit status %d" % os.waitstatus_to_exitcode(status))
END
timeout 60 python3 "$work/terminal.py" "$cli_binary" "$base" "$work" 2> "$work/terminal.err" &
terminal_pid=$!
if eventually 30 test -e "$work/stop"; then
  kill -TERM "$bridge_pid" && wait "$bridge_pid"
  touch "$work/stopped"
  check "shell: a command that waits for the server" eventually 20 test -e "$work/start"
  sleep 0.5
  "$bridge_binary" --listen "127.0.0.1:$port" --server "127.0.0.1:$server_port" > /dev/null 2>&1 &
  bridge_pid=$!
  children+=("$bridge_pid")
fi
wait "$terminal_pid"
status=$?
same "shell: on a terminal ($(cat "$work/terminal.err"))" 0 "$status"
if [ -e "$work/home/.local/state/nfsrdma/history" ]; then
  same "shell: the mode of the history" 600 "$(stat -c %a "$work/home/.local/state/nfsrdma/history")"
  check "shell: a line with a blank before it is not kept" on_server "! grep -q secret '$work/home/.local/state/nfsrdma/history'"
else
  echo "SKIPPED a part: the shell's history: built without libedit"
fi

# ---- bench ----

expect_exit 0 "bench" cli bench --write --time 0.1 --size 1M --svg "$work/home/b.svg" "$base/data"
for word in ping getattr write read randread randwrite create 'For a report: nfsrdma-cli'; do check "bench shows $word" grep -q "^$word" "$work/out"; done
check "bench: the picture" grep -q '^<svg' "$work/home/b.svg"
setpriv --reuid 65534 --regid 65534 --clear-groups "$cli_binary" bench --write --time 10 --size 1M --parts randwrite "$base/data" > /dev/null 2>&1 &
bench_pid=$!
check "bench: a scratch file" eventually 10 bash -c "ls -A '$daily/data' | grep -q nfsrdma-bench"
kill -INT "$bench_pid"
wait "$bench_pid"
same "bench: ends on SIGINT" 130 $?
same "bench: nothing is left" "a.csv deep" "$(find "$daily/data" -mindepth 1 -printf '%f\n' | sort | xargs)"
