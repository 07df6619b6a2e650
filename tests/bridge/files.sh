#!/usr/bin/env bash
# Files and directories through the bridge, on a Ganesha: the checks that the lab's server gets, with several bridges.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=../support/file_checks.sh
. "$here/../support/file_checks.sh"

cli_wrap=()
cli() { as_user ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$@"; }
url() { printf '%s/export/%s' "$root_url" "${1:-}"; }
# use NAME OPTION …: a bridge for the checks that follow.
use() {
  start_bridge "$@" || exit 1
  root_url=nfs://127.0.0.1:$bridge_port
}

# What trees meet with: what is there already, links that lead back, names and objects that are unusual, an interruption.
check_tree_edges() {
  local name=$'a\nb\\c' edge=$export/edge turn pid again
  mkdir -p "$edge/in/empty" && echo one > "$edge/in/one" && ln -s one "$edge/in/link" && ln -s in "$edge/cur"
  chown -hR 65534:65534 "$edge"
  expect_exit 1 "cp -r of an empty directory onto a file" cli cp -rpq "$(url edge/in/empty)" "$(url edge/in/one)"
  one_sentence "cp -r of an empty directory onto a file" exist
  same "cp -r of an empty directory onto a file: its mode" 644 "$(stat -c %a "$edge/in/one")"
  cli_wrap=(timeout 60)
  expect_exit 1 "cp -r into itself by a link" cli cp -rq "$(url edge/in)" "$(url edge/cur)"
  one_sentence "cp -r into itself by a link" itself
  check "cp -r into itself by a link: all but the copy" on_server "cd '$edge/in/in' && test -f one && test -d empty && test ! -e in"
  expect_exit 1 "cp -rT onto itself by a link" cli cp -rqT "$(url edge/in)" "$(url edge/cur)"
  one_sentence "cp -rT onto itself by a link" "is the same directory"
  cli_wrap=()
  rm -rf "$edge/in/in"
  for turn in first again; do expect_exit 0 "cp -rT, $turn" cli cp -rqT "$(url edge/in)" "$(url edge/copy)"; done
  check "cp -rT: the same" diff -r --no-dereference "$edge/in" "$edge/copy"

  mkfifo "$edge/in/fifo" && printf x > "$edge/in/$name"
  expect_exit 1 "sum of a FIFO" cli sum "$(url edge/in/fifo)"
  one_sentence "sum of a FIFO" FIFO
  expect_exit 1 "sum -r with a FIFO" cli sum -r -o "port=$bridge_port" 127.0.0.1:/export/edge/in
  one_sentence "sum -r with a FIFO" FIFO "skipped"
  same "sum -r: lines as sha256sum's" "$(cd "$export" && find edge/in -type f -exec sha256sum {} + | sed 's|  |  127.0.0.1:/export/|' | sort)" "$(sort "$work/out")"
  expect_exit 1 "get -r to no name" cli get -rq "$(url edge/in)" ""
  one_sentence "get -r to no name" "no such file"

  mkdir -p "$work/locked/in" && head -c $((64 * MiB)) /dev/zero > "$work/locked/in/big" && chmod 555 "$work/locked/in"
  setpriv --reuid 65534 --regid 65534 --clear-groups "$cli_binary" put -rq "$work/locked" "$(url edge/locked)" 2> "$work/err" &
  pid=$!
  check "put -r is under way" eventually 20 test -s "$edge/locked/in/big"
  kill -INT "$pid" 2> /dev/null
  wait "$pid"
  same "put -r that was interrupted: a directory's mode" 555 "$(stat -c %a "$edge/locked/in")"
  again=$(sed -n 's/.*run: nfsrdma-cli //p' "$work/err")
  expect_exit 0 "put -r that was interrupted: the command that it prints" eval "cli ${again:-nothing}"
  check "put -r that was interrupted: in the same place" diff -r "$work/locked" "$edge/locked"
  rm -rf "$edge" "$work/locked"
}

# Descriptors that are closed when the program starts, and a full device.
check_descriptors() {
  local dir=$export/words
  mkdir -p "$dir" && echo one > "$dir/a" && chown -R 65534:65534 "$dir"
  cli ls "$(url words)" >&- 2> "$work/err"
  same "ls with standard output closed" 1 $?
  one_sentence "ls with standard output closed" "standard output" "bad file descriptor"
  cli cat "$(url words/a)" >&- 2> "$work/err"
  same "cat with standard output closed" 1 $?
  one_sentence "cat with standard output closed" "standard output" "bad file descriptor"
  cli cat "$(url words/a)" > /dev/full 2> "$work/err"
  same "cat to a full device" 1 $?
  one_sentence "cat to a full device" "no space left"
  cli put - "$(url words/in)" <&- 2> "$work/err"
  same "put with standard input closed" 1 $?
  one_sentence "put with standard input closed" "standard input" "bad file descriptor"
  cli rm "$(url words/none)" 2>&-
  same "rm with standard error closed" 1 $?
  check "put with standard input closed: nothing is left" test ! -e "$dir/in"
  rm -rf "$dir"
}

# Command lines as users of cp, find and ssh write them.
check_command_lines() {
  local dir=$export/words
  mkdir -p "$dir/d/sub" && echo one > "$dir/a" && echo two > "$dir/d/sub/b" && chown -R 65534:65534 "$dir"
  expect_exit 2 "rm of a file and of no target" cli rm "$(url words/a)" nonsense
  one_sentence "rm of a file and of no target" "'nonsense'"
  check "rm of a file and of no target: nothing is removed" test -e "$dir/a"
  expect_exit 0 "-o before the command" cli -o vers=4.1 info "$root_url"
  check "-o before the command: it counts" grep -qE 'NFS version: +4\.1' "$work/out"
  expect_exit 2 "an option before the command" cli -l ls "$(url words)"
  one_sentence "an option before the command" "'-l'" "COMMAND -l"
  expect_exit 0 "help COMMAND" cli help find
  check "help COMMAND: as COMMAND --help" grep -q -- --maxdepth "$work/out"
  expect_exit 0 "find -name" cli find "$(url words)" -name 'b' -type f -print0
  same "find -name: a target that other commands take" two "$(xargs -0 "$cli_binary" cat < "$work/out")"
  rm -rf "$dir"
}

# A source that another client truncates or extends while it is read: its reader waits for that in the middle.
check_changes() {
  local pid
  rm -f "$work/reads" "$work/changed"
  mkfifo -m 666 "$work/slow" && head -c $((64 * MiB)) /dev/zero > "$export/changing" && chmod 666 "$export/changing"
  cli get "$(url changing)" "$work/slow" 2> "$work/get.err" &
  pid=$!
  # shellcheck disable=SC2016
  timeout 60 bash -c 'head -c 100000 && touch "$1/reads" && until [ -e "$1/changed" ]; do sleep 0.05; done; cat' - "$work" < "$work/slow" > /dev/null &
  check "get into a FIFO is under way" eventually 20 test -e "$work/reads"
  expect_exit 0 "truncate -s $1" cli truncate -s "$1" "$(url changing)"
  touch "$work/changed"
  wait "$pid"
  same "get of a file that is set to $1 meanwhile" 1 $?
  check "get of a file that is set to $1 meanwhile says so" grep -q 'changing: get: changed while it was read' "$work/get.err"
  rm -f "$work/slow" "$export/changing"
}

use plain
check_descriptors
check_command_lines
check_changes 1M
check_changes +1
for size in 0 1 1023 1024 1025 4095 4096 4097 $((MiB - 1)) $((MiB + 1)) $((64 * MiB)); do check_content "$size"; done
check_pipes
check_given_up
if command -v valgrind > /dev/null; then
  check_given_up valgrind -q --error-exitcode=99
else
  echo "SKIPPED a part: a program that reads, under valgrind: no valgrind"
fi
check_listing 2000
check_objects
check_trees
check_tree_edges
expect_exit 0 "info" cli info "$root_url/export"
for word in iwarp 'MPA revision 2' '64 granted' '4096 bytes' 'RFC 8797'; do check "info says $word" grep -qi -- "$word" "$work/out"; done
check "no Call was answered with RDMA_ERROR" on_server "! grep -E 'RDMA_ERROR|ERR_|discarded' '$work/plain.log'"
expect_exit 0 "the bridge ends on SIGTERM" stop_bridge "$bridge_pid"
check "and says what it did" grep -q ' calls$' "$work/plain.summary"

# What the two sides agree on, and files over it.
others() {
  local name=$1 expected=$2 size
  shift 2
  use "$name" "$@"
  for size in 0 5000 $((3 * MiB + 1)); do check_content "$size"; done
  expect_exit 0 "$name: ls -l of 2,000 entries" cli ls -l "$(url many)"
  same "$name: all of them" "$(find "$export/many" -mindepth 1 | wc -l)" "$(grep -cv '^total' "$work/out")"
  expect_exit 0 "$name: info" cli info "$(url)"
  check "$name: info says $expected" grep -qiE -- "$expected" "$work/out"
}
others no-private-data 'to the server 1024 bytes, from it 1024' --no-private-data
others small 'to the server 1024 bytes, from it 1024' --inline-send 1024 --inline-receive 1024
others one-credit ' 1 granted' --credits 1
others crc 'CRC: +on' --crc on
others invalidation 'iwarp' --remote-invalidation

# A server that is not there, and one that goes.
server_port=1 use nobody
expect_exit 1 "no server behind the bridge" cli ls "$(url)?timeo=1s&connect_timeout=1s"
one_sentence "no server behind the bridge"
expect_exit 2 "no such fault" "$bridge_binary" --listen 127.0.0.1:0 --fault nonsense
one_sentence "no such fault" "nonsense"
expect_exit 2 "nowhere to listen" "$bridge_binary"
expect_exit 1 "a port that is taken" "$bridge_binary" --listen "127.0.0.1:$server_port"
expect_exit 2 "no such fabric" "$bridge_binary" --listen 127.0.0.1:0 --fabric nonsense
one_sentence "no such fabric" "nonsense" "iwarp or verbs"
if [ -z "$(ls -A /sys/class/infiniband 2> /dev/null)" ]; then
  expect_exit 1 "verbs without a device" "$bridge_binary" --listen 127.0.0.1:0 --fabric verbs
  one_sentence "verbs without a device" "no RDMA device" "--fabric iwarp"
fi
expect_exit 0 "--help" "$bridge_binary" --help
check "--help lists the faults" grep -q late-write "$work/out"
