#!/usr/bin/env bash
# The bridge over verbs, in the lab's guest, on siw0 and on rxe0, with the guest's own server behind it. Clients:
# nfsrdma-cli, and the guest's kernel with NFS 3, 4.1 and 4.2, which is the strongest judge of a responder that there is.
# Each device gets a lab of its own where it is alone, since the kernel chooses by the address.
#
# Environment: NFSRDMA_BRIDGE, NFSRDMA_CLI (programs of one build directory), LAB_DIR.
LAB_DEVICES=siw0
export LAB_DEVICES LAB_TIMEOUT=200
# shellcheck source=../lab/lib.sh
. "$(dirname "$0")/../lab/lib.sh"

test_name=bridge-guest
bridge_binary=${NFSRDMA_BRIDGE:-$root/build/tests/bridge/nfsrdma-bridge}
need_built NFSRDMA_BRIDGE "$bridge_binary"
programs=/mnt/host$(realpath "$(dirname "$bridge_binary")/../..")
functions="programs='$programs'; . '/mnt/host$root/tests/bridge/kernel_client.sh'"

in_guest() { on_server "$functions; $*"; }
guest_cli() { in_guest "timeout -s KILL 60 '$programs/cli/nfsrdma-cli'" "$@"; }

# Two bridges: one that offers what there is, and one that is as small as RFC 8166 allows.
offering=20050 small=20051

cli_checks() {
  local device=$1 port=$2 expected=$3 size
  expect_exit 0 "$device, $port: info" guest_cli info --json -o "fabric=verbs,port=$port" "$server"
  same "$device, $port: windows, invalidation, inline" "$device $expected" \
    "$(json '"\(.device) \(.memory_windows) \(.remote_invalidation) \(.call_threshold) \(.reply_threshold)"')"
  for size in 1021 $((4 * 1048576 + 13)); do
    check "$device, $port: put and get $size bytes" in_guest "head -c $size /dev/urandom > /tmp/src && rm -f /tmp/got &&
      \$programs/cli/nfsrdma-cli put -o fabric=verbs,port=$port /tmp/src '$(url "f-$size")' &&
      \$programs/cli/nfsrdma-cli get -o fabric=verbs,port=$port '$(url "f-$size")' /tmp/got &&
      cmp /tmp/src /tmp/got && cmp /tmp/src '$export/f-$size'"
  done
}

count() { sed -n "s/.*\<$1=\([0-9]*\).*/\1/p" <<< "$counters"; }
more_than() { [ "$1" -gt "$2" ] || { echo "$1, not more than $2"; return 1; }; }
# kernel_checks DEVICE NAME PORT VERSION: leaves the number of handles that the kernel invalidated itself in
# $invalidated_locally.
kernel_checks() {
  local what="$1, NFS $4, $2 bridge" version=$4 one
  check "$what: mount" in_guest kernel_mount "$version" "$3" || return
  for one in files symlinks listing; do check "$what: $one" in_guest "$one"; done
  if [ "$version" = 3 ]; then
    check "$what: ACLs" in_guest acls
  else
    check "$what: a delegation is recalled" in_guest recall
  fi
  counters=$(in_guest counters)
  same "$what: nothing was wrong with a Reply" "0 0" "$(count bad_xids) $(count bad_replies)"
  for one in read_chunks write_chunks reply_chunks; do check "$what: $one" more_than "$(count $one)" 0; done
  [ "$2 $version" != "small 3" ] || check "$what: long_calls" more_than "$(count long_calls)" 0
  invalidated_locally=$(count invalidated_locally)
  check "$what: unmount" in_guest kernel_umount
}

# over DEVICE WINDOWS VERSION write|read: the last two are what the bridge is killed amid.
over() {
  local device=$1 windows=$2 before one count
  check "$device: a bridge" in_guest bridge_up offering $offering --remote-invalidation
  check "$device: a small bridge" in_guest bridge_up small $small --no-private-data --credits 4
  # The client offers invalidation where it has memory windows.
  cli_checks "$device" $offering "$windows $windows 4096 4096"
  before=$(in_guest held offering)
  say "$device: held by a bridge without a client: $before"
  cli_checks "$device" $small "$windows false 1024 1024"

  kernel_checks "$device" small $small 3
  count=$invalidated_locally
  kernel_checks "$device" offering $offering 3
  check "$device: what the bridge invalidates the kernel need not" more_than "$count" "$invalidated_locally"
  kernel_checks "$device" offering $offering 4.1
  kernel_checks "$device" small $small 4.2
  check "$device: a delegation of nfsrdma-cli's is recalled" in_guest "cli_recall '$export/recalled' \
    timeout -s KILL 60 \$programs/cli/nfsrdma-cli cat -o fabric=verbs,port=$offering '$(url recalled)'"
  check "$device: the server called back through the bridge" more_than "$(in_guest backward_calls offering)" 1
  check "$device: Sends with Invalidate" more_than "$(in_guest invalidations offering)" 50
  same "$device: none where none was offered" 0 "$(in_guest invalidations small)"
  same "$device: nothing is left of the connections" "$before" "$(in_guest held offering)"
  for one in offering small; do
    check "$device: $one: no Call was refused" on_server "! grep -E 'RDMA_ERROR|ERR_|discarded|refuses' /tmp/$one.log"
  done

  check "$device: mount" in_guest kernel_mount "$3" $offering
  check "$device, NFS $3: the bridge killed amid a $4" \
    in_guest killed_amid "$4" offering $offering --remote-invalidation
  check "$device: unmount" in_guest kernel_umount

  expect_exit 1 "$device: a port that is taken" in_guest "\$programs/tests/bridge/nfsrdma-bridge --fabric verbs --listen $server:$small 2>&1"
  one_sentence_of_guest "$device: a port that is taken" "already listens on this port"
  expect_exit 1 "$device: an address of nobody's" in_guest "\$programs/tests/bridge/nfsrdma-bridge --fabric verbs --listen 10.77.0.9:$small 2>&1"
  one_sentence_of_guest "$device: an address of nobody's" "no RDMA device"
  for one in offering small; do check "$device: the bridge $one ends on SIGTERM" in_guest bridge_down $one; done
}
one_sentence_of_guest() { cp "$work/out" "$work/err"; one_sentence "$@"; }

# The same Calls of the server's over the program's own iWARP, from outside: a bridge in the client's namespace.
backwards_over_iwarp() {
  local line='' reader
  "$lab" ns "$bridge_binary" --listen 127.0.0.1:0 --server "$server:2049" --log "$work/iwarp.log" > "$work/iwarp.out" 2>&1 &
  children+=($!)
  for _ in $(seq 100); do
    line=$(head -1 "$work/iwarp.out")
    [ -n "$line" ] && break
    sleep 0.05
  done
  on_server "head -c 8000000 /dev/urandom > '$export/outside'; chmod 644 '$export/outside'; cp '$export/outside' '/mnt/host$work/before'"
  mkfifo "$work/fifo"
  "$lab" user "$cli_binary" cat "nfs://127.0.0.1:${line##*:}$remote/outside" > "$work/fifo" 2> "$work/cat.err" &
  reader=$!
  exec 7< "$work/fifo"
  head -c 4096 <&7 > "$work/read"
  check "iwarp: the open file is delegated" in_guest "for i in \$(seq 50); do delegated outside && exit 0; sleep 0.1; done; exit 1"
  check "iwarp: the server's own write does not wait long" in_guest "timeout 5 bash -c \"echo second >> '$export/outside'\""
  cat <&7 >> "$work/read"
  exec 7<&-
  check "iwarp: the reader ends well" wait "$reader"
  check "iwarp: it has read what is there" cmp -n 8000000 "$work/before" "$work/read"
  check "iwarp: the server called back through the bridge" grep -qE ' ended: .* [1-9][0-9]* backward calls' "$work/iwarp.log"
}

expect_exit 1 "no device" "$lab" user "$bridge_binary" --fabric verbs --listen "$client:$small"
one_sentence "no device" "no RDMA device" "--fabric iwarp"
over siw0 false 3 write
backwards_over_iwarp
"$lab" down
LAB_DEVICES=rxe0 "$lab" up || { fail "no second lab"; exit 1; }
on_server "mkdir -m 1777 -p '$export'"
over rxe0 true 4.1 read
