#!/usr/bin/env bash
# nfsrdma-cli doctor against Ganesha behind a bridge: the verdict on a good server in each version, and on faults that a
# bridge or Ganesha can have.
#
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
start_bridge good || exit 1
good=127.0.0.1:$bridge_port
echo "some data" > "$export/file"

# doctor PORT PATH OPTIONS ...: in JSON.
doctor() {
  local where=$1 path=$2 options=$3
  shift 3
  "$cli_binary" doctor --json -o "sec=sys,uid=0,gid=0,connect_timeout=3s,$options" "$@" "nfs://$where$path"
}
states_of() { json "[.steps[] | select(.state == \"$1\") | .step] | join(\" \")"; }
# cause STEP TEXT: that step alone failed, and the verdict has the text.
cause() {
  same "the step that failed" "$1" "$(states_of failed)"
  check "the verdict names the cause" grep -qF -- "$2" <<< "$(json '.verdict.seen + ". " + .verdict.advice')"
}

for version in 4.2 4.1 4.0; do
  expect_exit 0 "NFSv$version" doctor "$good" /export "vers=$version" --read file --write
  # A busy machine may have jitter, and nothing else.
  same "NFSv$version: what is not well" "" "$(json '[.steps[] | select(.state != "ok" and .step != "jitter") | .step] | join(" ")')"
  same "NFSv$version: all steps were made" 21 "$(json '.steps | length')"
  check "NFSv$version: the verdict" grep -q "^NFS $version over iwarp works" <<< "$(json .verdict.seen)"
done
same "nothing is left of the file that was written" file "$(ls -A "$export")"

expect_exit 1 "an export that does not exist" doctor "$good" /exprt vers=4
cause export "/exprt does not exist on the server; / exists and has export"
expect_exit 1 "a version that the server does not speak" doctor "$good" /export vers=2
cause versions "vers=2 was asked for"
expect_exit 1 "NFS over TCP, without RDMA" doctor "127.0.0.1:$server_port" /export vers=4
cause connection "serves NFS over TCP without RDMA"

start_bridge few --credits 2 --no-private-data || exit 1
expect_exit 0 "a server with few credits" doctor "127.0.0.1:$bridge_port" /export vers=4
check "few credits: the step that warns" grep -qw credits <<< "$(states_of warning)"
check "few credits: the verdict says so" grep -qF "grants few credits: 2 credits" <<< "$(json .verdict.seen)"
