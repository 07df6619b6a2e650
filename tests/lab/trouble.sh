#!/usr/bin/env bash
# The link cut for 5 s, and nfsd restarted, in the middle of a get and of a put: both finish, contents equal, and
# stderr told the user what happened. SIGINT: exit status 130 and nothing partial anywhere.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
MiB=1048576
size=$((120 * MiB))
crawl=30mbit # a transfer takes half a minute: longer than what happens in the middle of it, on a slow machine as well
rate=100mbit # 12 MB/s each way: ten seconds, and what is on its way when a signal comes is soon sent
limit=120    # seconds: longer than any transfer takes after what happens to it, short enough for a hang to be one

head -c "$size" /dev/urandom > "$work/put.src"
chmod 644 "$work/put.src"
on_server "head -c $size /dev/urandom > '$export/get.src'; chmod 644 '$export/get.src'"
put_sum=$(local_sum "$work/put.src")
get_sum=$(server_sum get.src)

slow_down() { "$lab" slow "$1" || fail "the link cannot be slowed down"; }
# Starts a get into $work/get/$1 and a put to $1 at once; their outputs are in $work/{get,put}.{out,err}. They crawl until
# finished() lets them go.
transfers() {
  slow_down $crawl
  mkdir -p "$work/get"
  chmod 777 "$work/get"
  timeout -s KILL "$limit" "$lab" user "$cli_binary" get "$(url get.src)" "$work/get/$1" > "$work/get.out" 2> "$work/get.err" &
  get_pid=$!
  timeout -s KILL "$limit" "$lab" user "$cli_binary" put "$work/put.src" "$(url "$1")" > "$work/put.out" 2> "$work/put.err" &
  put_pid=$!
  children=("$get_pid" "$put_pid")
}
finished() {
  local what=$1 name=$2 get_status=0 put_status=0
  "$lab" fast
  wait "$get_pid" || get_status=$?
  wait "$put_pid" || put_status=$?
  same "$what: get finishes" 0 "$get_status"
  same "$what: put finishes" 0 "$put_status"
  same "$what: what get fetched" "$get_sum" "$(local_sum "$work/get/$name")"
  same "$what: what put wrote" "$put_sum" "$(server_sum "$name")"
  local side
  for side in get put; do
    check "$what: stderr of $side tells of it" grep -qiE 'not responding|no answer|no response|connection|reconnect|lost|restarted' "$work/$side.err"
    say "stderr of $side: $(tr '\r' '\n' < "$work/$side.err" | head -c 600)"
  done
  rm -rf "$work/get"
  on_server "rm -f '$export/$name'"
}
under_way() {
  local what=$1
  check "$what: the transfers were under way" kill -0 "$get_pid" "$put_pid"
}

transfers cut
sleep 3
under_way "link cut"
"$lab" cut
sleep 5
"$lab" mend
under_way "link mended"
finished "link cut for 5 s" cut

transfers restart
sleep 3
under_way "nfsd restarted"
"$lab" restart-nfsd
under_way "after the restart"
finished "nfsd restarted" restart

# --- SIGINT ----------------------------------------------------------------------------------------------------------
slow_down $rate
listing() { ls -A "$work/get"; on_server "ls -A '$export'"; }
mkdir -p "$work/get"
chmod 777 "$work/get"
echo old > "$work/get/kept"
chmod 666 "$work/get/kept"
on_server "echo old > '$export/kept'; chmod 666 '$export/kept'"
before=$(listing)
interrupted() {
  local what=$1 status=0 began took
  shift
  "$@" > "$work/out" 2> "$work/err" &
  local pid=$!
  children=("$pid")
  sleep 2
  check "$what: it was under way" kill -0 "$pid"
  began=$(now_ms)
  kill -INT "$pid"
  wait "$pid" || status=$?
  took=$(($(now_ms) - began))
  same "$what: exit status" 130 "$status"
  check "$what: within 3 s (it took $took ms)" test "$took" -lt 3000
  same "$what: nothing partial" "$before" "$(listing)"
}
interrupted "SIGINT in get" cli_exec get "$(url get.src)" "$work/get/new"
interrupted "SIGINT in put" cli_exec put "$work/put.src" "$(url new)"
interrupted "SIGINT in get over a file" cli_exec get "$(url get.src)" "$work/get/kept"
interrupted "SIGINT in put over a file" cli_exec put "$work/put.src" "$(url kept)"
same "SIGINT: the files that were there are unharmed" "old old" "$(cat "$work/get/kept") $(on_server "cat '$export/kept'")"

# With the server out of reach, nothing can be removed there, but the program must still end.
cli_exec put "$work/put.src" "$(url unreachable)" > "$work/out" 2> "$work/err" &
pid=$!
children=("$pid")
sleep 2
"$lab" cut
sleep 1
began=$(now_ms)
kill -INT "$pid"
status=0
wait "$pid" || status=$?
took=$(($(now_ms) - began))
"$lab" mend
same "SIGINT without a server: exit status" 130 "$status"
check "SIGINT without a server: within 5 s (it took $took ms)" test "$took" -lt 5000
check "SIGINT without a server: nothing under the target's name" on_server "test ! -e '$export/unreachable'"
