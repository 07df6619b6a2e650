#!/usr/bin/env bash
# Files and directories on a real server, as an unprivileged user without an RDMA device: what every command of
# nfsrdma-cli does is compared with what the server itself sees.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
fabric=iwarp fabric_words=(iwarp MPA CRC)
# The guest sees no holes in the host's files (file_checks.sh).
if [ "$side" = guest ]; then fabric=verbs fabric_words=(verbs "$LAB_DEVICES" 'memory windows'); fi

# shellcheck source=../support/file_checks.sh
. "$here/../support/file_checks.sh"

for size in 0 1 1023 1024 1025 4095 4096 4097 $((MiB - 1)) $((MiB + 1)) $((64 * MiB)); do check_content "$size"; done
check_pipes
[ "$side" = guest ] || check_given_up "$lab" ns
check_listing $([ "$side" = guest ] && echo 2000 || echo 20000)
check_trees
# What follows is the same over every fabric: once in the guest, where a process takes long, is enough.
if [ "$side" = guest ] && [ "$LAB_DEVICES" != siw0 ] && [ -z "${NFSRDMA_LONG:-}" ]; then
  expect_exit 0 "info" cli info "nfs://$server/"
  for word in "${fabric_words[@]}"; do check "info says $word" grep -qiE "$word" "$work/out"; done
  exit
fi
check_objects

# --- targets, options, statuses ------------------------------------------------------------------------------------
on_server "echo hello > '$export/hello'"
same "host:/path" hello "$(cli cat "$server:$remote/hello")"
same "host:/path -o opt=val,opt=val" hello "$(cli cat -o port=20049,vers=4.2,fabric=$fabric,sec=sys "$server:$remote/hello")"
same "nfs://host:port/path?opt=val" hello "$(cli cat "nfs://$server:20049$remote/hello?vers=4.1&fabric=$fabric")"
same "rsize, wsize, timeo" hello "$(cli cat "$(url hello)?rsize=4096&wsize=4096&timeo=100")"
head -c 100000 /dev/urandom > "$work/small"
chmod 644 "$work/small"
expect_exit 0 "put with a small wsize" cli put -o wsize=8192 "$work/small" "$(url small)"
same "put with a small wsize: contents" "$(local_sum "$work/small")" "$(server_sum small)"
same "cat with a small rsize" "$(local_sum "$work/small")" "$(cli cat "$(url small)?rsize=4096" | sha256sum | cut -d' ' -f1)"
expect_exit 0 "touch with a uid and a gid" cli touch -o uid=1234,gid=4321 "$(url owned)"
same "uid and gid" "1234 4321" "$(on_server "stat -c '%u %g' '$export/owned'")"
# --- set-id bits: by root, and by a user who is not; conformance row F27 -------------------------------------------------
if [ "$side" != guest ]; then
  as_root() { "$lab" ns "$cli_binary" "$@"; }
  modes() { stat -c '%a %u %g' "$@" | paste -sd' '; }
  on_server "cd '$export' && mkdir -m 777 ids && cd ids && echo x > f && chown 51234:51235 f && chmod 6755 f &&
    echo old > kept && cp kept written && chown 51236:51236 kept written && chmod 6755 kept written"
  mkdir -m 777 "$work/ids"
  expect_exit 0 "get -p by root" as_root get -q -p "$(url ids/f)" "$work/ids/f"
  same "get -p by root: mode and owner" "6755 51234 51235" "$(modes "$work/ids/f")"
  expect_exit 0 "get -p by a user" cli get -q -p "$(url ids/f)" "$work/ids/user"
  same "get -p by a user: mode" 755 "$(stat -c %a "$work/ids/user")"
  expect_exit 0 "put -p by root" as_root put -q -p "$work/ids/f" "$(url ids/put)"
  expect_exit 0 "put by root onto another's file" as_root put -q "$work/ids/f" "$(url ids/kept)"
  expect_exit 0 "cp -p by root" as_root cp -q -p "$(url ids/f)" "$(url ids/cp)"
  expect_exit 0 "cp by root into another's file" as_root cp -q "$(url ids/f)" "$(url ids/written)"
  same "set-id bits on the server" "6755 51234 51235 755 0 0 6755 51234 51235 755 51236 51236" \
    "$(on_server "cd '$export/ids' && stat -c '%a %u %g' put kept cp written" | paste -sd' ')"
fi
expect_exit 0 "the second export" cli ls "nfs://$server/xfs"

expect_exit 0 "ping" cli ping -c 3 "nfs://$server/"
check "ping prints round trips" grep -qE '[0-9.]+ ?(ms|us|µs)' "$work/out"
expect_exit 0 "ping --json" cli ping --json -c 2 "nfs://$server/"
check "ping --json is JSON" jq -e . "$work/out"
expect_exit 0 "info" cli info "nfs://$server/"
for word in "${fabric_words[@]}" 'credits' 'lease' '4096|4 KiB'; do check "info says $word" grep -qiE "$word" "$work/out"; done
expect_exit 0 "info --json" cli info --json "nfs://$server/"
check "info --json is one JSON object" jq -e 'type == "object"' "$work/out"

expect_exit 1 "cat of what is not there" cli cat "$(url nothing)"
one_sentence "cat of what is not there" "no such file|not found|does not exist" nothing
same "cat of what is not there: nothing on stdout" 0 "$(wc -c < "$work/out")"
expect_exit 1 "cat of a directory" cli cat "$(url few)"
one_sentence "cat of a directory" directory
on_server "echo secret > '$export/secret'; chmod 600 '$export/secret'"
expect_exit 1 "cat of what is not ours" cli cat "$(url secret)"
one_sentence "cat of what is not ours" "denied|permission|permitted"
expect_exit 1 "get of what is not there" cli get "$(url nothing)" "$work/cwd/nothing"
same "get of what is not there leaves nothing" piped "$(ls -A "$work/cwd")"
expect_exit 2 "no command" cli
expect_exit 2 "no such command" cli frobnicate "$(url)"
expect_exit 2 "no target" cli ls
expect_exit 2 "no such option" cli ls --frobnicate "$(url)"
expect_exit 2 "no such mount option" cli ls -o frobnicate=1 "$(url)"
expect_exit 2 "a target that is none" cli ls not-a-target
expect_exit 0 "--help" cli --help
for command in ping info ls stat cat get put cp find du sum mkdir rm rmdir mv ln touch chmod chown acl truncate df; do
  check "--help names $command" grep -qw -- "$command" "$work/out"
done

if [ "$side" = user ]; then
  # Without a device it says why it is iwarp, with nothing on stderr.
  expect_exit 0 "without a device: info --json" cli info --json "$server"
  same "without a device: iwarp, and why" "iwarp fabric=auto: this machine has no RDMA device" "$(json '"\(.fabric) \(.fabric_reason)"')"
  same "without a device: nothing on stderr" 0 "$(wc -c < "$work/err")"
  expect_exit 1 "without a device: fabric=verbs" cli ls -o fabric=verbs "$server:/"
  one_sentence "without a device: fabric=verbs" "no RDMA device" "fabric=iwarp"
fi
