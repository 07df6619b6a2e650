#!/usr/bin/env bash
# The verbs fabric on the device that the lab was started with (LAB_DEVICES): siw0 (iWARP, registration for each call) or
# rxe0 (RoCE, type 2 memory windows). What info says of it; what trace= records of it; servers that are not there; that
# nothing is left behind: not by ten connections in a row, not by a program that was killed; and the server restarted, the
# address lost, and SIGINT, in the middle of transfers.
export NFSRDMA_LAB_SIDE=guest
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
MiB=1048576
device=${LAB_DEVICES:?the device to test, siw0 or rxe0}
case $device in
  siw0) windows=false offered=false ;;
  rxe0) windows=true offered=true ;;
  *) echo "FAILED verbs: one device at a time, siw0 or rxe0, not $device"; exit 1 ;;
esac
export LAB_TIMEOUT=200

same "nothing held before" 0 "$(settled)"
expect_exit 0 "info --json" cli info --json "$server"
same "the fabric and its device" "verbs $device $windows $offered" \
  "$(json '"\(.fabric) \(.device) \(.memory_windows) \(.invalidation_offered)"')"
expect_exit 0 "info" cli info "$server"
check "info says why" grep -qE '^fabric: +verbs \(fabric=auto: an RDMA device leads to the server\)' "$work/out"

# Larger than any tmpfs page, not a multiple of anything; local files on the guest's own memory.
local=/dev/shm/$test_name
on_server "rm -rf $local; mkdir -m 777 $local; head -c $((64 * MiB + 13)) /dev/urandom > $local/src; chmod 644 $local/src"
expect_exit 0 "put of 64 MiB + 13" cli put -o fabric=verbs $local/src "$(url src)"
expect_exit 0 "get of 64 MiB + 13" cli get -o fabric=verbs "$(url src)" $local/got
check "the same" on_server "cmp $local/src '$export/src' && cmp $local/src $local/got && rm $local/got"
# A recording of what no capture can see, because the device's traffic passes no network interface of the client.
expect_exit 0 "get with trace=" cli get -o fabric=verbs,trace=$local/get.pcapng "$(url src)" $local/traced
expect_exit 0 "the trace, decoded" cli trace $local/get.pcapng
check "the trace names the device" grep -q "connected over verbs by $device" "$work/out"
check "the trace has the READs" grep -q "READ offset=0 count=" "$work/out"
on_server "cat $local/get.pcapng" > "$work/get.pcapng" && on_server "rm $local/get.pcapng $local/traced"
if command -v tshark > /dev/null; then
  # In one pass tshark has not put a Write chunk and its Reply together yet when it comes to the Reply.
  frames() { tshark -2 -n -r "$work/get.pcapng" -Y "$1" 2> /dev/null | wc -l; }
  same "tshark finds no malformed frame in the trace" 0 "$(frames _ws.malformed)"
  check "tshark finds the Calls and Replies in the trace" test "$(frames nfs)" -ge 100
fi
expect_exit 0 "get with busy polling" cli get -o busy_poll=50 "$(url src)" $local/got
check "get with busy polling: the same" on_server "cmp $local/src $local/got && rm $local/got $local/src '$export/src'"
expect_exit 0 "get over two connections" cli info --json -o nconnect=2 "$server"
same "two connections" 2 "$(json .connections)"
same "nothing held after transfers" 0 "$(settled)"

for _ in 1 2 3 4 5 6 7 8 9 10; do cli ls "$(url)" > /dev/null || fail "one of ten connections"; done
same "nothing held after ten connections" 0 "$(settled)"
cli_exec put /dev/zero "$(url endless)" > "$work/out" 2> "$work/err" &
put=$!
children=("$put")
# found DIRECTORY NAME: a file whose name has that in it, with something in it.
found() { on_server "find $1 -name '*$2*' -size +0 | grep -q ."; }
eventually 20 found "'$export'" endless || fail "the put that is to be killed did not begin"
on_server "pkill -KILL -f 'put /dev/zero'"
wait "$put"
same "killed" 137 $?
same "nothing held after SIGKILL in a put" 0 "$(settled)"
on_server "find '$export' -name '*endless*' -delete"

# --- who is not there ------------------------------------------------------------------------------------------------
expect_exit 1 "nothing listens there" cli ls -o fabric=verbs,port=20051 "$server:/"
one_sentence "nothing listens there" "$server" "$device" "refused|reject|no answer"
expect_exit 1 "an address that nobody has" cli ls -o fabric=verbs,connect_timeout=3s 10.77.0.99:/
one_sentence "an address that nobody has" 10.77.0.99 "unreachable|no route|timed? ?out|no answer|resolve"
expect_exit 1 "neither this way nor that" cli ls -o port=20051 "$server:/"
one_sentence "neither this way nor that" "$server" iwarp "verbs \($device\)"

# --- in the middle of transfers --------------------------------------------------------------------------------------
big=$((384 * MiB))
on_server "head -c $big /dev/urandom > $local/big; cp $local/big '$export/big'; chmod 644 $local/big '$export/big'"
# attempt WHAT COMMAND: a get and a put that have moved a part of their $big bytes go on, and COMMAND runs on the server;
# both must end well. True if at least one of them was not over before.
part=$((32 * MiB))
attempt() {
  local what=$1 command=$2 get put pass="touch \$1; until [ -e $local/go ]; do sleep 0.05; done"
  "$lab" guest bash -c "on() { $pass; }; { head -c $part; on $local/put; cat; } < $local/big | '$cli_binary' put - '$(url big2)'" \
    < /dev/null > "$work/put.out" 2> "$work/put.err" &
  put=$!
  "$lab" guest bash -c "set -o pipefail; on() { $pass; }
    '$cli_binary' get '$(url big)' - | { dd of=$local/got bs=$MiB count=$((part / MiB)) iflag=fullblock status=none; on $local/get; cat >> $local/got; }" \
    < /dev/null > "$work/get.out" 2> "$work/get.err" &
  get=$!
  children=("$get" "$put")
  on_server "until [ -e $local/put ] && [ -e $local/get ]; do sleep 0.05; done; touch $local/go; { $command; } > /dev/null 2>&1" ||
    fail "$what: they did not begin"
  wait "$get"
  same "$what: get" 0 $?
  wait "$put"
  same "$what: put" 0 $?
  check "$what: the same" on_server "'$here/differ.py' $local/big $local/got && '$here/differ.py' $local/big '$export/big2'; s=\$?; rm -f $local/{got,go,get,put} '$export/big2'; exit \$s"
  same "$what: nothing held" 0 "$(settled)"
  say "$(tr '\r\n' '  ' < "$work/get.err") $(tr '\r\n' '  ' < "$work/put.err")"
  grep -qE 'connection lost|not responding' "$work/get.err" "$work/put.err"
}
amid() {
  local try
  for try in 1 2 3 4 5 6; do
    if attempt "$1 (attempt $try)" "$2"; then return; fi
  done
  fail "$1: never in the middle of a transfer"
}
amid "the server restarted" 'rpc.nfsd 0; rpc.nfsd --rdma=20049 --lease-time 10 --grace-time 10 8; echo Y > /proc/fs/nfsd/v4_end_grace'
amid "the address lost for 3 s" 'ip addr del 10.77.0.2/24 dev vec0; sleep 3; ip addr replace 10.77.0.2/24 dev vec0'

# interrupted WHAT DIRECTORY NAME ARGUMENT …: SIGINT once a file of that name has begun there.
listing() { on_server "ls -A $local '$export'"; }
interrupted() {
  local what=$1 directory=$2 name=$3 pid before
  shift 3
  before=$(listing)
  cli_exec "$@" > "$work/out" 2> "$work/err" &
  pid=$!
  children=("$pid")
  eventually 20 found "$directory" "$name" || fail "$what: it did not begin"
  kill -INT "$pid"
  wait "$pid"
  same "$what: exit status" 130 $?
  same "$what: nothing partial" "$before" "$(listing)"
}
# Without an end, or so large that it does not come in time.
on_server "truncate -s 1T '$export/huge'; chmod 644 '$export/huge'"
interrupted "SIGINT in put" "'$export'" unending put /dev/zero "$(url unending)"
interrupted "SIGINT in get" "$local" unending get "$(url huge)" $local/unending
same "nothing held after SIGINT" 0 "$(settled)"
on_server "rm -rf $local"
