#!/usr/bin/env bash
# Every version of NFS that the server speaks, through every command of nfsrdma-cli: what it does is compared with what
# the server itself sees. files.sh does the same with the version that is chosen by itself, and with more of it.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=../support/file_checks.sh
. "$here/../support/file_checks.sh"

# With the options that each command is given.
with=()
cli() { "$lab" "$side" ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$1" ${with[@]+"${with[@]}"} "${@:2}"; }

# In NFSv3 a path is that of the server's own file system, as its mount service lists the exports.
for version in 3; do
  root_url=nfs://$server/mnt/exp
  with=(-o "vers=$version")
  for size in 0 1 1023 1024 4095 4096 4097 $((MiB - 1)) $((MiB + 1)) $((16 * MiB)); do check_content "$size"; done
  check_pipes
  check_listing 3000
  check_objects

  expect_exit 0 "info" cli info "nfs://$server/mnt/exp"
  check "info says which version" grep -qE "NFS version: +$version\$" "$work/out"
  expect_exit 0 "info --json" cli info --json "nfs://$server/mnt/exp"
  same "info --json says which version" "$version" "$(json .version)"
  expect_exit 0 "ping" cli ping -c 2 "nfs://$server/mnt/exp"
  check "ping asks NULL" grep -q NULL "$work/out"
  expect_exit 0 "the second export" cli ls "nfs://$server/mnt/exp/xfs"
  expect_exit 0 "several connections" cli ls -o nconnect=3 "nfs://$server/mnt/exp"
  expect_exit 0 "mountproto=udp" cli ls -o mountproto=udp "nfs://$server/mnt/exp"

  # Above the exports: as NFSv4 shows it.
  same "the way to the exports" "mnt" "$(cli ls "nfs://$server/")"
  same "the exports" "exp" "$(cli ls "nfs://$server/mnt")"
  expect_exit 1 "nothing can be made above the exports" cli mkdir "nfs://$server/mnt/new"
  expect_exit 1 "what is not exported" cli ls "nfs://$server/etc"
  one_sentence "what is not exported" "does not export" exports
  on_server "ln -s /mnt/exp/t-versions/hello '$export/absolute'; ln -s ../t-versions/hello '$export/relative'; echo hello > '$export/hello'"
  same "an absolute link" hello "$(cli cat "$(url absolute)")"
  same "a relative link" hello "$(cli cat "$(url relative)")"
  expect_exit 1 "a port where no mount service is" cli ls -o mountport=1 "nfs://$server/mnt/exp"
  one_sentence "a port where no mount service is" "refused" "running"
done

with=()
expect_exit 0 "exports" cli exports "$server"
same "exports: paths and clients" "/mnt/exp 10.77.0.0/24 /mnt/exp/xfs 10.77.0.0/24" "$(sort "$work/out" | xargs)"
expect_exit 0 "exports --json" cli exports --json "$server"
same "exports --json" "2 10.77.0.2" "$(jq -s -r '"\(length) \(.[0].server)"' "$work/out")"

# The highest version that the server speaks, where none is asked for.
on_server "rpc.nfsd 0; echo -4 > /proc/fs/nfsd/versions; rpc.nfsd --rdma=20049 --lease-time 10 --grace-time 10 8 -N 4"
expect_exit 0 "a server without NFSv4" cli info "nfs://$server/mnt/exp"
check "a server without NFSv4: NFSv3" grep -qE "NFS version: +3\$" "$work/out"
expect_exit 1 "a server without NFSv4, and no other version" cli info -o vers=4 "nfs://$server/mnt/exp"
one_sentence "a server without NFSv4, and no other version" "versions 3 to 3|versions 2 to 3" "vers="
on_server "rpc.nfsd 0; echo +4 > /proc/fs/nfsd/versions; rpc.nfsd --rdma=20049 --lease-time 10 --grace-time 10 8; echo Y > /proc/fs/nfsd/v4_end_grace"
expect_exit 0 "NFSv4 is back" cli info "nfs://$server/"
check "NFSv4 is back: 4.2" grep -qE "NFS version: +4.2\$" "$work/out"
