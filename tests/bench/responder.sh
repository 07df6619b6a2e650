#!/usr/bin/env bash
# That the responder answers rightly, over each version and both ways, and that limits.sh comes to an end on it. Says
# nothing about speed. Exit status: 0, 1 (a check failed), 77 (skipped).
here=$(cd "$(dirname "$0")" && pwd)
bin=${NFSRDMA_BENCH_DIR:-$here/../../build/tests/bench}
cli=${NFSRDMA_CLI:-$here/../../build/cli/nfsrdma-cli}
[ -x "$bin/responder" ] || { echo "SKIPPED: no $bin/responder (cmake -DNFSRDMA_BENCH=ON)"; exit 77; }
work=$(mktemp -d) || exit 1
# shellcheck source=servers.sh
. "$here/servers.sh"
trap 'stop_servers; rm -rf "$work"' EXIT
checks=0 failures=0
check() {
  local what=$1
  shift
  checks=$((checks + 1))
  if "$@" > "$work/out" 2> "$work/err"; then
    echo "ok: $what"
  else
    failures=$((failures + 1))
    echo "FAILED: $what: $(tail -2 "$work/err" | tr '\n' ' ')"
  fi
}

# The last READ is short, and larger than what goes inline.
head -c 5000001 /dev/urandom > "$work/copy"
start_server "$bin/responder" --file "file=@$work/copy" --file dir/deep/small=10 --many many=1000x4K

url=nfs://127.0.0.1:$port
there_and_back() { "$cli" put --quiet -o "$1" "$2" "$url/new" && "$cli" get --quiet -o "$1" "$url/new" - | cmp - "$2"; }
got_right() { "$cli" get --quiet -o "$1" "$url/file" - | cmp - "$work/copy"; }
names() { [ "$("$cli" ls -o "$1" "$url/many" | sort | md5sum)" = "$(for i in $(seq 0 999); do echo "file-$i"; done | sort | md5sum)" ]; }
gone() { "$cli" rm -o "$1" "$url/new" && ! "$cli" stat -o "$1" "$url/new"; }
made() { "$cli" mkdir -o "$1" "$url/made" && "$cli" mv -o "$1" "$url/made" "$url/dir/made" && "$cli" rmdir -o "$1" "$url/dir/made"; }
head -c 3000 "$work/copy" > "$work/small"
for vers in 4.2 4.1 4.0 3; do
  o=vers=$vers
  [ $vers != 3 ] || o+=",mountport=$tcp_port"
  check "v$vers: get" got_right "$o"
  check "v$vers: put and get" there_and_back "$o" "$work/copy"
  check "v$vers: a small one over it" there_and_back "$o" "$work/small"
  check "v$vers: rm" gone "$o"
  check "v$vers: mkdir, mv, rmdir" made "$o"
  check "v$vers: names" names "$o"
done
check "load_nfsrdma reads right bytes" "$bin/load_nfsrdma" --port "$port" --size 64K --depth 4 --count 200 --verify "$work/copy" 127.0.0.1 /file
check "load_many reads" "$bin/load_many" --port "$port" --directory /many --seconds 0 127.0.0.1
check "load_many writes" "$bin/load_many" --port "$port" --directory /written --seconds 0 --write --count 100 --size 9000 127.0.0.1
trees() {
  local o=$1
  "$cli" put -rq -o "$o" "$work/tree" "$url/tree" && "$cli" get -rq -o "$o" "$url/tree" "$work/back" && diff -r "$work/tree" "$work/back" && "$cli" rm -r -o "$o" "$url/tree" && rm -r "$work/back"
}
mkdir -p "$work/tree/sub"
for i in $(seq 100); do head -c $((i * 211)) "$work/copy" > "$work/tree/$i"; done
: > "$work/tree/50"
cp "$work/copy" "$work/tree/sub/large"
for vers in 4.2 4.0; do check "v$vers: put -r and get -r" trees "vers=$vers"; done
check "many.sh comes to an end" "$here/many.sh" --rounds 1 --seconds 0.1 --count 50
check "load_nfsrdma writes" "$bin/load_nfsrdma" --port "$port" --size 64K --depth 4 --count 200 --write 127.0.0.1 /many/file-1
if [ -x "$bin/load_libnfs" ]; then
  for vers in 3 4; do
    libnfs=("$bin/load_libnfs" --port "$tcp_port" --vers "$vers")
    check "libnfs, v$vers: right bytes" "${libnfs[@]}" --size 64K --depth 4 --count 200 --verify "$work/copy" 127.0.0.1 /file
    # libnfs 4.0 cannot encode a WRITE of NFSv4.
    [ $vers = 4 ] || check "libnfs, v$vers: writes" "${libnfs[@]}" --size 64K --depth 4 --count 50 --write 127.0.0.1 /many/file-1
  done
else
  echo "SKIPPED a part: libnfs: no load_libnfs (packaging/packages.sh install bench)"
fi
check "memory.sh comes to an end" "$here/memory.sh" --files 500 --calls 64 --inodes 500 --open 200
check "memory.sh measures the library" [ "$(grep -cE '^(open file|call in flight|client with its first connection|further connection) +[0-9].* [0-9]+$' "$work/out")" = 4 ]
kill "$server"
wait "$server"
same=$?
check "it ends when it is told to" [ $same = 0 ]

# The same by several threads, each of which has some of the connections.
refused() { "$bin/responder" --threads "$1"; [ $? = 2 ] && grep -q -- '--threads takes a number' "$work/err"; }
for count in 0 -1 3x ''; do check "--threads '$count' is refused" refused "$count"; done
start_server "$bin/responder" --threads 3 --file "file=@$work/copy" --many many=1000x4K
url=nfs://127.0.0.1:$port
# at_once FUNCTION COUNT: COUNT processes, each with its number.
at_once() {
  local i failed=0 pids=()
  for i in $(seq "$2"); do
    "$1" "$i" &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || failed=1; done
  [ $failed = 0 ]
}
# The even ones speak NFSv3. Each has a directory of its own, in which it renames what it has written.
one_of_many() {
  local o=nconnect=4,vers=4.2 mine=$url/of-$1 i
  [ $(($1 % 2)) = 1 ] || o=nconnect=4,vers=3,mountport=$tcp_port
  got_right "$o" && names "$o" && "$cli" mkdir -o "$o" "$mine" || return 1
  for i in 1 2; do
    "$cli" put --quiet -o "$o" "$work/copy" "$mine/new-$i" && "$cli" get --quiet -o "$o" "$mine/new-$i" - | cmp - "$work/copy" || return 1
    "$cli" mv -o "$o" "$mine/new-$i" "$mine/moved" && "$cli" get --quiet -o "$o" "$mine/moved" - | cmp - "$work/copy" || return 1
  done
  "$cli" rm -r -o "$o" "$mine" && ! "$cli" stat -o "$o" "$mine"
}
check "three threads: four processes put, get, list and rename" at_once one_of_many 4
verified() { "$bin/load_nfsrdma" --port "$port" --size 64K --depth 4 --count 300 --verify "$work/copy" --seed "$1" "${verified_more[@]}" 127.0.0.1 /file; }
verified_more=(--options nconnect=4)
check "three threads: right bytes by four connections of each process" at_once verified 2
verified_more=(--random --size 4K --threads --depth 6 --options shards=3)
check "three threads: right bytes by shards" at_once verified 2
if [ -x "$bin/load_libnfs" ]; then
  verified_by_libnfs() { "$bin/load_libnfs" --port "$tcp_port" --vers $((3 + $1 % 2)) --size 64K --depth 4 --count 200 --verify "$work/copy" 127.0.0.1 /file; }
  check "three threads: right bytes by libnfs, v3 and v4" at_once verified_by_libnfs 4
fi
kill -INT "$server"
wait "$server"
same=$?
check "three threads end when they are told to" [ $same = 0 ]
check "three threads say how many calls they answered" grep -q 'calls answered' "$work/server.err"
check "limits.sh" "$here/limits.sh" --seconds 0.1 --rounds 1 --no-counts
check "limits.sh compares" [ "$(grep -c 'median of the ratios' "$work/out")" -ge 6 ]
check "limits.sh with two cores" "$here/limits.sh" --cores 2 --loads "write small" --seconds 0.1 --rounds 1 --no-counts
check "limits.sh with two cores compares" [ "$(grep -c 'median of the ratios' "$work/out")" -ge 8 ]
check "threads.sh" "$here/threads.sh" --threads 2 --seconds 0.1 --rounds 1
check "threads.sh compares" [ "$(grep -c 'median of the ratios' "$work/out")" = 1 ]
if [ "$(id -u)" = 0 ] && [ -c /dev/fuse ] && [ -x "${NFSRDMA_FUSE:=$here/../../build/fuse/nfsrdma-fuse}" ]; then
  export NFSRDMA_FUSE
  check "mount_limits.sh" "$here/mount_limits.sh" --peers bare --mib 4 --files 20 --rounds 1 --no-counts
  check "mount_limits.sh compares" [ "$(grep -c 'median of the ratios' "$work/out")" = 7 ]
  check "mount_threads.sh" "$here/mount_threads.sh" --shards 2 --blocks 4096 --count 500 --rounds 1
  check "mount_threads.sh has a line for each" [ "$(grep -c 'the loop' "$work/out")" = 2 ]
else
  echo "SKIPPED a part: mount_limits.sh: no root, no /dev/fuse or no nfsrdma-fuse"
fi
echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
