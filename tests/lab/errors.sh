#!/usr/bin/env bash
# Servers that are not there, refuse, or are something else: one clear sentence each, exit status 1, in time.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
deadline=10000 # ms to connect, the default
grace=2500     # for starting the program on a busy machine

# failing WHAT LIMIT-MS HOST:PORT [WORD …]: the program fails with one sentence that names the peer.
failing() {
  local what=$1 limit=$2 peer=$3 began took
  shift 3
  began=$(now_ms)
  expect_exit 1 "$what" timeout -s KILL 60 "$lab" user "$cli_binary" ls "nfs://$peer/"
  took=$(($(now_ms) - began))
  one_sentence "$what" "${peer%:*}" "$@"
  same "$what: nothing on stdout" 0 "$(wc -c < "$work/out")"
  checks=$((checks + 1))
  if [ "$took" -le "$limit" ]; then say "ok: $what: after $took ms"; else fail "$what: took $took ms, at most $limit allowed"; fi
}

# --- nobody there ----------------------------------------------------------------------------------------------------
failing "an address that nobody has" $((deadline + grace)) 10.77.0.99:20049 "unreachable|no route|timed? ?out|no answer|not respond|connect"
# A neighbour that never answers: the SYN goes out and nothing comes back.
"$lab" ns ip neigh replace 10.77.0.98 lladdr 02:00:00:00:00:98 dev labtap0
failing "an address that never answers" $((deadline + grace)) 10.77.0.98:20049 "timed? ?out|no answer|not respond|within"
"$lab" ns ip neigh del 10.77.0.98 dev labtap0
failing "a port that refuses" 3000 "$server:20050" "refused"
failing "the right host's TCP port for NFS" $((deadline + grace)) "$server:2049" "iwarp|mpa|rdma"
failing "a name that does not resolve" $((deadline + grace)) no-such-host.invalid:20049 "resolve|unknown|not known|name"

# --- somebody else there ---------------------------------------------------------------------------------------------
port=30000
listener() {
  port=$((port + 1))
  "$lab" ns python3 "$here/listener.py" "$1" "$client" "$port" > "$work/listener" 2>&1 &
  listener_pid=$!
  children=("$listener_pid")
  for _ in $(seq 100); do
    grep -q ready "$work/listener" && return
    sleep 0.05
  done
  fail "listener $1 did not start: $(cat "$work/listener")"
}
against() {
  local mode=$1 limit=$2
  shift 2
  listener "$mode"
  failing "listener: $mode" "$limit" "$client:$port" "$@"
  kill "$listener_pid" 2>/dev/null
  wait "$listener_pid" 2>/dev/null
}
slow=$((deadline + grace))
against silent "$slow" "mpa|iwarp|no answer|answer|timed? ?out"
against close "$slow" "closed|mpa|iwarp|connection"
against reject "$slow" "reject|refus"
against markers "$slow" "marker"
against badkey "$slow" "mpa|iwarp"
against short "$slow" "mpa|iwarp|answer|timed? ?out"
against longdata "$slow" "mpa|iwarp|private"
against garbage "$slow" "mpa|iwarp"
against http "$slow" "mpa|iwarp"
against accept-garbage "$slow"
against accept-close "$slow"
against accept-silent "$slow"

# --- and the server is fine after all that ---------------------------------------------------------------------------
expect_exit 0 "the real server" cli ls "nfs://$server/"
same "the real server: nothing on stderr" 0 "$(wc -c < "$work/err")"
