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

# functional VERSION PING
functional() {
  check_version "$1" "$2" 3000 "$root_url"
  expect_exit 0 "the second export" cli ls "$root_url/xfs"
  expect_exit 0 "several connections" cli ls -o nconnect=3,threads=2 "$root_url"
}

# In NFSv4 a path begins at the server's pseudo root, which is the first export here.
root_url=nfs://$server
with=(-o vers=4.1)
functional 4.1 SEQUENCE
with=(-o vers=4.0)
functional 4.0 RENEW

# In NFSv3 it is that of the server's own file system, as its mount service lists the exports.
root_url=nfs://$server/mnt/exp
with=(-o vers=3)
functional 3 NULL
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

with=()
expect_exit 0 "exports" cli exports "$server"
same "exports: paths and clients, and NFSv4's" "/ NFSv4 /mnt/exp 10.77.0.0/24 /mnt/exp/xfs 10.77.0.0/24 /xfs NFSv4" \
  "$(LC_ALL=C sort "$work/out" | xargs)"
expect_exit 0 "exports of NFSv3 alone" cli exports -o vers=3 "$server"
same "exports of NFSv3 alone" "/mnt/exp 10.77.0.0/24 /mnt/exp/xfs 10.77.0.0/24" "$(sort "$work/out" | xargs)"
expect_exit 0 "exports --json" cli exports --json "$server"
same "exports --json" "2 mount 2 nfs4" "$(jq -s -r 'group_by(.service) | map("\(length) \(.[0].service)") | join(" ")' "$work/out")"
expect_exit 0 "exports --mounts" cli exports --mounts "$server"
expect_exit 0 "exports --mounts --json" cli exports -m --json "$server"
on_server "pkill mountd"
expect_exit 1 "exports --mounts of a server without a mount service" cli exports -m "$server"
one_sentence "exports --mounts of a server without a mount service" "rpcbind" "mount"
expect_exit 0 "exports of a server without a mount service" cli exports "$server"
same "exports of a server without a mount service" "/ NFSv4 /xfs NFSv4" "$(sort "$work/out" | xargs)"
check "what is missing is said" grep -q "mount service" "$work/err"
expect_exit 1 "… and of that alone it is an error" cli exports -o vers=3 "$server"
on_server "rpc.mountd"

# NFSv2, which Debian's rpc.nfsd takes away.
on_server "rpc.nfsd 0; echo +2 > /proc/fs/nfsd/versions; echo rdma 20049 > /proc/fs/nfsd/portlist; echo 8 > /proc/fs/nfsd/threads"
root_url=nfs://$server/mnt/exp
with=(-o vers=2)
large_size=1G functional 2 NULL
on_server "truncate -s 2147483647 '$export/largest'"
same "the largest file" 2147483647 "$(cli stat --json "$(url largest)" | jq .size)"
expect_exit 1 "a file that is too large" cli truncate -s 2G "$(url largest)"
one_sentence "a file that is too large" "larger" "takes"
with=()

# The highest version that the server speaks, where none is asked for.
on_server "rpc.nfsd 0; echo -4 > /proc/fs/nfsd/versions; rpc.nfsd --rdma=20049 --lease-time 10 --grace-time 10 8 -N 4"
expect_exit 0 "a server without NFSv4" cli info "nfs://$server/mnt/exp"
check "a server without NFSv4: NFSv3" grep -qE "NFS version: +3\$" "$work/out"
expect_exit 1 "a server without NFSv4, and no other version" cli info -o vers=4 "nfs://$server/mnt/exp"
one_sentence "a server without NFSv4, and no other version" "versions 3 to 3|versions 2 to 3" "vers="
on_server "rpc.nfsd 0; echo +4 > /proc/fs/nfsd/versions; rpc.nfsd --rdma=20049 --lease-time 10 --grace-time 10 8; echo Y > /proc/fs/nfsd/v4_end_grace"
expect_exit 0 "NFSv4 is back" cli info "nfs://$server/"
check "NFSv4 is back: 4.2" grep -qE "NFS version: +4.2\$" "$work/out"

# As it was, for whoever comes next.
"$lab" restart-nfsd > /dev/null
