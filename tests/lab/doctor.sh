#!/usr/bin/env bash
# nfsrdma-cli doctor against Linux's server: the verdict on a good server, and on what its administrators get wrong. The
# faults of a network are in tests/doctor.sh, those of a server's protocol in tests/bridge/doctor.sh.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# doctor PATH OPTIONS ...: in JSON, as the unprivileged user.
doctor() {
  local path=$1 options=$2
  shift 2
  cli doctor --json -o "$options" "$@" "nfs://$server$path"
}
states_of() { json "[.steps[] | select(.state == \"$1\" and .step != \"jitter\") | .step] | join(\" \")"; }
# cause STEP TEXT: that step alone failed, and the verdict has the text.
cause() {
  same "the step that failed" "$1" "$(states_of failed)"
  check "the verdict names the cause: $2" grep -qF -- "$2" <<< "$(json '.verdict.seen + ". " + .verdict.advice')"
}
share() { on_server "exportfs -o $1,no_subtree_check,fsid=0,insecure 10.77.0.0/24:/mnt/exp"; }

on_server "mkdir -p '$export/closed' && chmod 700 '$export/closed' && chmod 755 '$export'"

for version in 4.2 4.0; do
  expect_exit 0 "NFSv$version" doctor / "vers=$version"
  same "NFSv$version: what is not well" "" "$(states_of warning)$(states_of failed)"
done
expect_exit 0 "NFSv3" doctor "$export" vers=3
same "NFSv3: what is not well" "" "$(states_of warning)$(states_of failed)"
expect_exit 1 "an export that does not exist" doctor /none/x vers=4
cause export "/none/x does not exist on the server; / exists and has"
expect_exit 1 "a version that is switched off" doctor / vers=2
cause versions "vers=2 was asked for"
expect_exit 1 "the port of NFS over TCP" doctor / port=2049
cause connection "serves NFS over TCP without RDMA"
expect_exit 1 "a port on which nothing listens" doctor / port=20050
cause port "nothing listens on TCP port 20050"
expect_exit 1 "a directory of somebody else" doctor "$remote" vers=4 --write
cause write "this user may not make a file there"

share rw,root_squash
expect_exit 1 "root_squash" doctor "$remote" uid=0,gid=0 --write
cause write "the server maps root to nobody (root_squash)"
share ro,no_root_squash
expect_exit 1 "a read-only export" doctor "$remote" uid=0,gid=0 --write
cause write "the export or its file system is read-only"
share rw,no_root_squash,sec=krb5
expect_exit 1 "an export for Kerberos" doctor / sec=sys
cause session "the server requires sec=krb5 here"
on_server "exportfs -u 10.77.0.0/24:/mnt/exp"
expect_exit 1 "no export for this machine" doctor / vers=4
cause session "the server has no export for this machine"
expect_exit 1 "no export for this machine, NFSv3" doctor "$export" vers=3
cause export "does not let this machine mount"
share rw,no_root_squash

other_nfsd=1
on_server "echo 4 > /proc/sys/sunrpc/svc_rdma/max_requests"
"$lab" restart-nfsd
expect_exit 0 "few credits" doctor / vers=4
check "few credits: the step that warns" grep -qw credits <<< "$(states_of warning)"
on_server "echo 64 > /proc/sys/sunrpc/svc_rdma/max_requests"
"$lab" stop-nfsd
expect_exit 1 "a server whose service is stopped" doctor / vers=4
cause port "nothing listens on TCP port 20049"
"$lab" start-nfsd
# The doctor's own connections do not harm the server: siw lost its listener when they were closed too early.
for attempt in $(seq 8); do
  expect_exit 0 "a good server, examined again ($attempt)" doctor "$export" vers=3
done
