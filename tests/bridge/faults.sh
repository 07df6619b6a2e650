#!/usr/bin/env bash
# Every fault of the bridge by itself, and mixes of them: a thousand mixed operations each, by nfsrdma-exercise, which
# says what counts as right. Several at a time.
#
#   faults.sh [NAME ...]     only those runs
#
# Environment: NFSRDMA_EXERCISE (the program), NFSRDMA_FAULT_OPERATIONS (1000; with fewer, a fault by itself is that much
# more frequent), NFSRDMA_FAULT_SEED (1).
without_cli=yes
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
exercise=${NFSRDMA_EXERCISE:-$(dirname "$bridge_binary")/nfsrdma-exercise}
operations=${NFSRDMA_FAULT_OPERATIONS:-1000}
seed=${NFSRDMA_FAULT_SEED:-1}
at_once=4
# A Reply that is lost costs half the time-out: then the client asks again on a fresh connection.
options='timeo=3s&connect_timeout=5s&rsize=32768&wsize=32768&uid=0&gid=0'
only=("$@")

start_bridge clean || exit 1
clean_port=$bridge_port
clean_bridge=$bridge_pid

# run NAME OPTION …: in the background; its output goes to $work/NAME.out.
running=()
names=()
run() {
  local name=$1
  shift
  [ ${#only[@]} = 0 ] || [[ " ${only[*]} " == *" $name "* ]] || return 0
  while [ ${#running[@]} -ge $at_once ]; do collect; done
  mkdir -m 777 "$export/$name"
  start_bridge "$name" --seed "$seed" "$@" || return
  timeout --kill-after=5 120 "$exercise" --target "nfs://127.0.0.1:$bridge_port/export/$name?$options" \
    --clean "nfs://127.0.0.1:$clean_port/export/$name" --local "$export/$name" --operations "$operations" \
    --seed "$seed" > "$work/$name.out" 2>&1 &
  running+=("$!:$name:$bridge_pid")
}
# A sanitizer's findings are complaints; leaks show at the end.
ended() {
  check "$1: the bridge is still there, and ends by itself" stop_bridge "$2"
  same "$1: the bridge does not complain" "" "$(head -c 3000 "$work/$1.err")"
}
# Waits for the one that was started first.
collect() {
  local pid name bridge status=0 struck
  IFS=: read -r pid name bridge <<< "${running[0]}"
  running=("${running[@]:1}")
  wait "$pid" || status=$?
  ended "$name" "$bridge"
  struck=$(sed -n 's/.*faults: //p' "$work/$name.summary")
  checks=$((checks + 1))
  if [ $status = 0 ]; then
    say "ok: $name: $(grep ' operations, ' "$work/$name.out") [$struck]"
  else
    fail "$name: status $status [$struck]: $(head -c 3000 "$work/$name.out")"
  fi
  # A fault that never struck was not tested; in a mix the rare ones may not.
  [[ $name = mix-* ]] || check "$name: it struck" grep -qvE ' 0(,|$)' <<< "$struck"
  names+=("$name")
  rm -rf "${export:?}/$name"
}

fault() {
  local name=$1 one args=()
  shift
  for one in "$@"; do args+=(--fault "$(scaled "$name" "$one")"); done
  run "$name" "${args[@]}"
}
# scaled NAME FAULT: the rates below are for 1000 operations. With fewer it is to strike about as often, but not in more
# than every third Reply: then nothing works any more. A mix is many already.
scaled() {
  awk -F= -v name="$1" -v operations="$operations" 'BEGIN { OFS = "=" } {
    factor = operations < 1000 ? 1000 / operations : 1
    if (name ~ /^mix-/ && factor > 3) factor = 3
    if ($1 == "disconnect-at") $2 = int($2 / factor)
    else if ($2 < 0.3) $2 = $2 * factor < 0.3 ? $2 * factor : 0.3
    print }' <<< "$2"
}

# Those that end in a time-out are rare, since each costs a second; those that break the connection as well, since the
# client waits longer and longer before it connects again.
fault drop-reply drop-reply=0.002
fault wrong-xid wrong-xid=0.002
fault truncated-header truncated-header=0.002
fault disconnect-at disconnect-at=500
fault disconnect-in-write disconnect-in-write=0.01
fault duplicate-reply duplicate-reply=0.02
fault oversized-message oversized-message=0.002
fault late-write late-write=0.03
fault delay-reply delay-reply=0.02
fault reorder-reply reorder-reply=0.02
fault lower-grant lower-grant=0.2
fault zero-grant zero-grant=0.2
fault err-vers err-vers=0.01
fault err-chunk err-chunk=0.01
fault fewer-chunks fewer-chunks=0.1
fault more-chunks more-chunks=0.02
fault other-handle other-handle=0.1
fault overlong-chunk overlong-chunk=0.1
fault oversized-count oversized-count=0.01
fault msgp msgp=0.1
fault done done=0.1
fault backward-call backward-call=0.05
fault private-data private-data=0.7 disconnect-at=400
fault left-inline left-inline=0.05
# Faults that leave the connection in place, all that the client gets over, and everything.
fault mix-odd msgp=0.02 done=0.02 backward-call=0.02 lower-grant=0.1 zero-grant=0.1 reorder-reply=0.02 delay-reply=0.01
fault mix-chunks fewer-chunks=0.01 more-chunks=0.01 other-handle=0.01 overlong-chunk=0.01 left-inline=0.01 err-chunk=0.005
fault mix-lost drop-reply=0.001 wrong-xid=0.001 disconnect-in-write=0.003 late-write=0.003 duplicate-reply=0.01 \
  disconnect-at=700 private-data=0.5
fault mix-all drop-reply=0.0005 delay-reply=0.005 duplicate-reply=0.005 reorder-reply=0.005 disconnect-in-write=0.003 \
  lower-grant=0.1 zero-grant=0.05 wrong-xid=0.0005 err-vers=0.002 err-chunk=0.002 fewer-chunks=0.003 more-chunks=0.003 \
  other-handle=0.003 overlong-chunk=0.003 oversized-count=0.003 msgp=0.01 done=0.01 backward-call=0.01 left-inline=0.003 \
  late-write=0.003
while [ ${#running[@]} -gt 0 ]; do collect; done
ended clean "$clean_bridge"
check "there was something to run" test ${#names[@]} -gt 0
