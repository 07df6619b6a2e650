#!/usr/bin/env bash
# What goes over the wire, as tshark sees it: MPA, RPC-over-RDMA and NFS on every exchange, nothing malformed or left
# in pieces, Write chunks on READ, Read chunks on WRITE, a Reply chunk exactly where the Reply may need one.
# judge_wire.py holds the rules, split_fpdus.py says why the capture is rewritten for tshark first.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=capture_lib.sh
. "$(dirname "$0")/capture_lib.sh"

on_server "mkdir '$export/many' '$export/tree' && chown 65534:65534 '$export/tree' && cd '$export/many' && seq -f 'a-rather-long-name-%05g' 1 1500 | xargs touch"
head -c $((5 * 1048576 + 4321)) /dev/urandom > "$work/large"
for size in 1 100 1021 4000 5001; do head -c "$size" /dev/urandom > "$work/s$size"; done
chmod 644 "$work"/*

# With the options that each command is given.
with=()
cli() { "$lab" "$side" ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$1" ${with[@]+"${with[@]}"} "${@:2}"; }

bulk() {
  expect_exit 0 "put" cli put "$work/large" "$(url large)"
  expect_exit 0 "get" cli get "$(url large)" "$work/large2"
  check "the same" cmp "$work/large" "$work/large2"
}
small() {
  local size
  for size in 1 100 1021 4000 5001; do
    expect_exit 0 "put of $size bytes" cli put "$work/s$size" "$(url "s$size")"
    expect_exit 0 "cat of $size bytes" cli cat "$(url "s$size")"
    check "the same" cmp "$work/out" "$work/s$size"
  done
}
names() {
  expect_exit 0 "ls -l of 1500 entries" cli ls -l "$(url many)"
  expect_exit 0 "stat" cli stat "$(url large)"
  expect_exit 0 "mkdir" cli mkdir "$(url tree/dir)"
  expect_exit 0 "touch" cli touch "$(url tree/dir/file)"
  expect_exit 0 "ln" cli ln "$(url tree/dir/file)" "$(url tree/dir/hard)"
  expect_exit 0 "ln -s" cli ln -s "$(printf 'x%.0s' {1..200})" "$(url tree/dir/soft)"
  expect_exit 0 "ls -lR" cli ls -l -R "$(url tree)"
  expect_exit 0 "mv" cli mv "$(url tree/dir/hard)" "$(url tree/moved)"
  expect_exit 0 "chmod" cli chmod 600 "$(url tree/moved)"
  expect_exit 0 "truncate" cli truncate -s 100 "$(url tree/moved)"
  expect_exit 0 "df" cli df "$(url)"
  expect_exit 0 "info" cli info "$(url)"
  expect_exit 0 "ping" cli ping -c 2 "$(url)"
  expect_exit 1 "cat of what is not there" cli cat "$(url nothing)"
  expect_exit 0 "rm -r" cli rm -r "$(url tree)"
}

record bulk bulk
judge bulk --need connection:2 --need read-with-write-chunk:5 --need write-with-read-chunk:5 --need no-reply-chunk:10
record small small
judge small --need connection:10 --need read-with-write-chunk:1 --need write-with-read-chunk:1 --need no-reply-chunk:50
record names names
judge names --need connection:14 --need reply-chunk:3 --need no-reply-chunk:50

# The versions before. What is said of MOUNT, and of locks, goes over TCP.
with=(-o vers=4.0)
record bulk40 bulk
judge bulk40 --need connection:2 --need read-with-write-chunk:5 --need write-with-read-chunk:5
on_server "mkdir '$export/tree' && chown 65534:65534 '$export/tree'"
record names40 names
judge names40 --need connection:14 --need reply-chunk:3

# judge_by_procedure NAME NEED …
judge_by_procedure() {
  local name=$1
  shift
  check "$name: tshark's judgement" "$here/judge_procedures.py" "$work/$name.split.pcap" "${@/#/--need=}"
  tail -1 "$work/check.out"
}
acls() {
  expect_exit 0 "acl set" cli acl set u::rw,u:1234:r,g::r,m::r,o::- "$(url large)"
  expect_exit 0 "acl get" cli acl get "$(url large)"
  check "the list" grep -q 'user:1234:r' "$work/out"
}
long_link() {
  expect_exit 0 "ln -s" cli ln -s "$(printf 'y%.0s' {1..900})" "$(url long)"
  expect_exit 0 "ls -l" cli ls -l "$(url long)"
}
root_url=nfs://$server/mnt/exp
with=(-o vers=3)
record bulk3 bulk
judge_by_procedure bulk3 v3:20 read-with-write-chunk:5 write-with-read-chunk:5
record small3 small
judge_by_procedure small3 v3:50 read-with-write-chunk:1 write-with-read-chunk:1
on_server "mkdir '$export/tree' && chown 65534:65534 '$export/tree'"
record names3 names
judge_by_procedure names3 v3:50 reply-chunk:3 symlink:1 readlink:1
record long3 long_link
judge_by_procedure long3 symlink:1 readlink:1
on_server "rm -rf /mnt/exp/xfs/t-wire; mkdir /mnt/exp/xfs/t-wire; chmod 777 /mnt/exp/xfs/t-wire"
remote=/xfs/t-wire
expect_exit 0 "put" cli put "$work/s100" "$(url large)"
record acls3 acls
judge_by_procedure acls3 nfsacl:2
on_server "rm -rf /mnt/exp/xfs/t-wire"
