#!/usr/bin/env bash
# The verbs fabric, inside the guest, where the devices are: siw0 (iWARP, registration for each call) and rxe0 (RoCE,
# type 2 memory windows). Contents, info, and that nothing is left behind: not by ten connections in a row, not by a
# program that was killed. Then the server restarted, and the link lost, in the middle of transfers.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
MiB=1048576

trap 'all_devices; finish' EXIT

# What programs hold of a device. The server's own is named by the kernel's modules, not by processes.
held() {
  on_server 'for kind in qp mr cm_id pd cq; do rdma -j res show $kind; echo; done' |
    jq -s --arg device "$1" 'add | map(select(.pid != null and .ifname == $device)) | length'
}
settled() { # nothing held, within 5 s
  local count=
  for _ in $(seq 50); do
    count=$(held "$1")
    [ "$count" = 0 ] && break
    sleep 0.1
  done
  echo "$count"
}
guest() { on_server "LD_LIBRARY_PATH='$guest_libraries' timeout -s KILL 100 '$guest_cli' $*"; }
guest_cli=/mnt/host$(realpath "$cli_binary")
guest_libraries=$(dirname "$guest_cli")/../libclient:$(dirname "$guest_cli")

over() {
  local device=$1 windows=$2 offered=$3 size
  same "$device: nothing held before" 0 "$(settled "$device")"
  expect_exit 0 "$device: info --json" guest info --json "$server"
  same "$device: the fabric and its device" "verbs $device $windows $offered" \
    "$(json '"\(.fabric) \(.device) \(.memory_windows) \(.invalidation_offered)"')"
  expect_exit 0 "$device: info" guest info "$server"
  check "$device: info says why" grep -qE '^fabric: +verbs \(fabric=auto: an RDMA device leads to the server\)' "$work/out"
  for size in 0 1 1021 4096 4097 $((MiB + 1)) $((64 * MiB + 13)); do
    on_server "head -c $size /dev/urandom > /tmp/src; rm -f /tmp/got"
    expect_exit 0 "$device: put $size bytes" guest put -o fabric=verbs /tmp/src "$(url "f-$size")"
    expect_exit 0 "$device: get $size bytes" guest get -o fabric=verbs "$(url "f-$size")" /tmp/got
    same "$device: $size bytes: one sum" 1 \
      "$(on_server "sha256sum < /tmp/src; sha256sum < /tmp/got; sha256sum < '$export/f-$size'" | sort -u | wc -l)"
  done
  expect_exit 0 "$device: cat" guest cat "$(url f-4097)"
  same "$device: cat's contents" "$(server_sum f-4097)" "$(local_sum "$work/out")"
  expect_exit 0 "$device: ls" guest ls "$(url)"
  same "$device: ls's names" "$(on_server "ls '$export'" | sort)" "$(sort "$work/out")"
  expect_exit 0 "$device: with busy polling" guest get -o busy_poll=50 "$(url "f-$((MiB + 1))")" /tmp/got
  same "$device: with busy polling: contents" "$(server_sum "f-$((MiB + 1))")" "$(on_server 'sha256sum < /tmp/got' | cut -d' ' -f1)"
  same "$device: nothing held after transfers" 0 "$(settled "$device")"

  for _ in 1 2 3 4 5 6 7 8 9 10; do guest ls "$(url)" > /dev/null || fail "$device: one of ten connections"; done
  same "$device: nothing held after ten connections" 0 "$(settled "$device")"
  on_server "LD_LIBRARY_PATH='$guest_libraries' '$guest_cli' put /dev/zero '$(url endless)' > /dev/null 2>&1 & pid=\$!
    sleep 1; kill -KILL \$pid; wait \$pid"
  same "$device: nothing held after SIGKILL in a put" 0 "$(settled "$device")"
  on_server "find '$export' -name '*endless*' -delete"
  expect_exit 0 "$device: nothing listens there" on_server "! LD_LIBRARY_PATH='$guest_libraries' '$guest_cli' ls -o fabric=verbs,port=20051 $server:/"
  one_sentence_of_guest "$device: nothing listens there" "refused|reject|no answer"
}
one_sentence_of_guest() { cp "$work/out" "$work/err"; one_sentence "$@"; }

# A get and a put of $big bytes with WHAT done to them after a second; both must end well.
big=$((256 * MiB))
amid() {
  local device=$1 what=$2 command=$3
  expect_exit 0 "$device: $what amid get and put" on_server "export LD_LIBRARY_PATH='$guest_libraries'
    '$guest_cli' get '$(url big)' /tmp/got 2> /tmp/get.err & get=\$!
    '$guest_cli' put /tmp/big '$(url big2)' 2> /tmp/put.err & put=\$!
    for i in \$(seq 100); do
      sleep 0.1; find /tmp -name '*got*' -size +0 | grep -q . && find '$export' -name '*big2*' -size +0 | grep -q . && break
    done
    kill -0 \$get \$put || echo 'not under way any more'
    { $command; } > /dev/null 2>&1
    wait \$get || { echo get \$?; cat /tmp/get.err; exit 1; }; wait \$put || { echo put \$?; cat /tmp/put.err; exit 1; }
    cmp /tmp/big /tmp/got && cmp /tmp/big '$export/big2'; status=\$?
    head -c 300 /tmp/get.err /tmp/put.err; rm -f /tmp/got '$export/big2'; exit \$status"
  say "$(tr '\r\n' '  ' < "$work/out")"
  same "$device: nothing held after $what" 0 "$(settled "$device")"
}
trouble() {
  amid "$1" "the server restarted" 'rpc.nfsd 0; rpc.nfsd --rdma=20049 --lease-time 10 --grace-time 10 8; echo Y > /proc/fs/nfsd/v4_end_grace'
  amid "$1" "the address lost for 3 s" 'ip addr del 10.77.0.2/24 dev vec0; sleep 3; ip addr replace 10.77.0.2/24 dev vec0'
}

export LAB_TIMEOUT=200
on_server "head -c $big /dev/urandom > /tmp/big; cp /tmp/big '$export/big'"
only_device siw0
over siw0 false false
trouble siw0
only_device rxe0
over rxe0 true true
trouble rxe0
all_devices

# Without a device the same program says why it is iwarp, with nothing on stderr.
expect_exit 0 "without a device: info --json" cli info --json "$server"
same "without a device: iwarp, and why" "iwarp fabric=auto: this machine has no RDMA device" "$(json '"\(.fabric) \(.fabric_reason)"')"
same "without a device: nothing on stderr" 0 "$(wc -c < "$work/err")"
expect_exit 1 "without a device: fabric=verbs" cli ls -o fabric=verbs "$server:/"
one_sentence "without a device: fabric=verbs" "no RDMA device" "fabric=iwarp"
