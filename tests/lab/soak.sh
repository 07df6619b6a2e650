#!/usr/bin/env bash
# Storms on a hard mount: 16 processes create, write, rename, unlink and mkdir while the server stalls (fsfreeze), the
# connection is reset in the middle of the stalls, nfsd restarts and the server drops connections by itself
# (fail_sunrpc). Nobody may see an error that a calm server would not give, nothing may be lost, nothing done twice:
# soak_work.py holds the models.
#
#   soak.sh [MINUTES]     a fraction will do; 1 by default, and nfsd restarts once in half a minute
#
# row: S1 S2 S3 S11
#
# Linux 5.10 to at least 6.1 can panic when a client's connection drops twice while a slot is being sent again, and its
# threads can hang for ever. Its console, or a second client that gets no answer either, tells that from a fault of
# ours: such a round is said loudly and done again, three times at the most. If the server survived none of them and no
# fault of ours was seen, the test is skipped.
#
# Environment: mount_lib.sh's; SOAK_SEED (the time), SOAK_PROCESSES (16), SOAK_OPTIONS (of the mount).
minutes=${1:-1}
# More threads than processes: those that wait for the file system must not be all that there are, or nobody would
# answer the requests that are sent again.
export LAB_TIMEOUT=${LAB_TIMEOUT:-90} LAB_NFSD_THREADS=32
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
# shellcheck disable=SC2154  # all of mount_lib.sh and lib.sh
command -v ss > /dev/null || skip "no ss (packaging/packages.sh install test)"
worker=$here/soak_work.py
processes=${SOAK_PROCESSES:-16}
seed=${SOAK_SEED:-$(date +%s)}
seconds=$(awk -v m="$minutes" 'BEGIN { print int(m * 60) }')
[ "$seconds" -gt 0 ] || { echo "usage: soak.sh [MINUTES]" >&2; exit 2; }
RANDOM=$seed
say "seed $seed, $processes processes, $seconds s"

nap() { sleep "$((RANDOM % $1)).$((RANDOM % 10))"; }
# order COMMAND ...: of the lab; says what it said, if it fails.
order() {
  local status=0
  "$lab" "$@" > "$work/order" 2>&1 || status=$?
  [ $status = 0 ] || say "'lab $*' has failed (status $status): $(tail -n 3 "$work/order")"
  return $status
}
# One stall with what happens in it. False once the server is gone.
stall() {
  order freeze || return 1
  sleep "0.$((RANDOM % 10))"
  "$lab" reset
  # Some go on for longer than it takes to come back: then what was sent again is lost with its connection, too.
  if [ $((RANDOM % 3)) = 0 ]; then
    nap 2
    "$lab" reset
  fi
  nap 2
  order thaw
}
storm() {
  local end=$((SECONDS + seconds)) restart=$((SECONDS + 20))
  order threads $LAB_NFSD_THREADS || return 1
  "$lab" drops 1000 || fail "fail_sunrpc cannot be switched on"
  while [ $SECONDS -lt $end ]; do
    stall || return 1
    if [ $SECONDS -ge $restart ]; then
      order restart-nfsd || return 1
      restart=$((SECONDS + 30))
    fi
    nap 3
  done
  "$lab" drops off
}
at_work() { cat "$state"/progress.* 2> /dev/null | grep -vE '^[0-9]+ ended|^$'; }
# A client of its own, with a name of its own, through a connection of its own. Grace lasts ten seconds.
server_answers() { timeout 30 "$lab" user timeout 25 "$cli_binary" mkdir "$root_url/xfs$remote/answers.$RANDOM" > "$work/answers" 2>&1; }
server_died() { "$lab" panicked > "$work/panic" || ! "$lab" run true > /dev/null 2>&1; }
# What the kernel's console says of who waits for what.
server_stacks() {
  "$lab" run 'echo w > /proc/sysrq-trigger' > /dev/null 2>&1
  sleep 1
  "$lab" console
}

faultless() { # WHEN LINES
  checks=$((checks + 1))
  if [ -z "$2" ]; then say "ok: no fault $1"; else fail "$(wc -l <<< "$2") faults $1:"; head -n 40 <<< "$2"; fi
}

# One round: 0 it went to its end (with faults or without), 1 the server did not survive it.
round() {
  local name=soak$1 workers status=0
  state=$work/state.$1
  mkdir -p "$state"
  on_server "rm -rf '$xfs_export'; mkdir -m 1777 '$xfs_export'" || return 1
  start_mount "$name" /xfs "${SOAK_OPTIONS:-allow_other}"
  client python3 "$worker" work "$work/$name$remote" "$state" "$processes" $((seed + $1)) > "$work/faults.$1" 2>&1 &
  workers=$!
  children+=("$workers")
  storm || status=1
  touch "$state/stop"
  # Grace, the longest pause between two attempts, and a lease.
  if [ $status = 0 ] && ! eventually 90 gone "$workers"; then
    if server_died; then
      status=1
    elif server_answers; then
      fail "these do not come to an end, and the server answers others: $(at_work)"
    else
      say "the server answers nobody:"
      server_stacks
      status=1
    fi
  fi
  if [ $status = 1 ]; then
    if gone "${daemon[$name]}"; then fail "the mount's daemon has died"; fi
    kill -KILL "${daemon[$name]}" "$workers" 2> /dev/null
  else
    kill -TERM "$workers" 2> /dev/null
  fi
  wait "$workers" 2> /dev/null
  say "operations: $(cat "$state"/progress.* 2> /dev/null | awk '{ n += $1 } END { print n + 0 }'), of which the slowest: $(
    sed -n 's/.*slowest //p' "$state"/progress.* | sort -rn | head -1)"
  # Without a server the daemon has been killed, and those who worked on the mount say so.
  [ $status = 0 ] || sed -i '/: \(ENOTCONN\|ECONNABORTED\), not /d' "$work/faults.$1"
  # Such a server may have corrupted its memory: one sent the header of an RPC reply, at the start of a page, as a file's
  # data. A fault of the client would show in a round that the server survives, too.
  if [ $status = 1 ] && [ -s "$work/faults.$1" ]; then
    say "not counted, since the server did not survive: $(wc -l < "$work/faults.$1") faults while it went on:"
    sort -k 4 "$work/faults.$1" | head -n 40
  fi
  [ $status = 0 ] || return 1
  faultless "while it went on" "$(sort -k 4 "$work/faults.$1")"
  check "it had something to do" [ "$(cat "$state"/progress.* | awk '{ n += $1 } END { print n + 0 }')" -gt $((seconds * 10)) ]
  judge "$name" "$1"
}
# What the server has, and what a mount that knows nothing sees.
judge() {
  local name=$1 one
  faultless "on the server at the end" "$(on_server "python3 '/mnt/host$worker' verify '$xfs_export' '/mnt/host$state' 2>&1")"
  start_mount "fresh$2" /xfs
  faultless "on a fresh mount" "$(client timeout 60 python3 "$worker" verify "$work/fresh$2$remote" "$state" 2>&1)"
  for one in "$name" "fresh$2"; do
    check "umount of $one" client timeout 30 umount "$work/$one"
    ended "$one" "umount of $one"
  done
}

survived=0
for attempt in 1 2 3; do
  if round "$attempt"; then
    survived=1
    break
  fi
  printf '\n*** %s: the SERVER did not survive round %s (%s) ***\n' "$test_name" "$attempt" "$(head -n 1 "$work/panic" 2> /dev/null)" >&2
  cat "$work/panic" 2> /dev/null
  "$lab" console
  [ $failures = 0 ] || break
  # Everything that lived with it goes with it, and comes again.
  "$lab" down
  "$lab" up > /dev/null || { fail "the lab does not come up again"; break; }
  started_lab=1
  hold_mounts "$lab" ns
done
if [ $survived = 0 ] && [ $failures = 0 ]; then
  skip "the server (Linux $("$lab" run 'uname -r' 2> /dev/null)) survived none of three rounds; nothing was seen of us that is wrong"
fi
