#!/usr/bin/env bash
# Faults of a network, as `nfsrdma-cli doctor` names them. Runs in network and user namespaces of its own, and needs no
# server.
#
#   NFSRDMA_CLI=build/cli/nfsrdma-cli tests/doctor.sh
#
# Exits with 77 if this machine allows no such namespaces.
set -euo pipefail
cli=${NFSRDMA_CLI:?names no nfsrdma-cli}

skip() { printf '\n*** SKIPPED: doctor: %s ***\n\n' "$*" >&2; exit 77; }
fail() { printf 'doctor.sh: %s\n' "$*" >&2; exit 1; }

if [ "${1:-}" != inside ]; then
  command -v ip > /dev/null || skip "there is no ip(8)"
  command -v python3 > /dev/null || skip "there is no python3"
  unshare -rn true 2> /dev/null || skip "no network namespaces can be made here"
  exec unshare -rn "$0" inside
fi

ip link set lo up

# A listener whose queue is full discards every further SYN, as a firewall does that drops packets.
exec 3< <(exec python3 -c '
import signal, socket
listener = socket.create_server(("127.0.0.1", 20049), backlog=0)
waiting = [socket.socket() for _ in range(4)]
for one in waiting:
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", 20049))
print("ready", flush=True)
signal.pause()')
holder=$!
trap 'kill "$holder"' EXIT
read -r _ <&3

# cause TEXT TARGET OPTIONS: doctor fails within five seconds, and its verdict has the text.
cause() {
  local status=0 begin=$SECONDS
  out=$("$cli" doctor -o "sec=sys,fabric=iwarp,$3" "$2") || status=$?
  printf '%s\n' "$out"
  [ "$status" = 1 ] || fail "exit status $status instead of 1"
  grep -q "^Verdict: .*$1" <<< "$out" || fail "the verdict lacks: $1"
  [ $((SECONDS - begin)) -le 5 ] || fail "it took $((SECONDS - begin)) s"
}

cause 'a firewall drops the packets' 127.0.0.1:/export connect_timeout=1s
cause 'nothing listens on TCP port 20049 of 127.0.0.2' 127.0.0.2:/export connect_timeout=1s
cause 'there is no route to 198.51.100.1' 198.51.100.1:/export connect_timeout=1s
echo "doctor.sh: all causes were named"
