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
check "limits.sh" "$here/limits.sh" --seconds 0.1 --rounds 1 --no-counts
check "limits.sh compares" [ "$(grep -c 'median of the ratios' "$work/out")" -ge 6 ]
check "threads.sh" "$here/threads.sh" --threads 2 --seconds 0.1 --rounds 1
check "threads.sh compares" [ "$(grep -c 'median of the ratios' "$work/out")" = 1 ]
if [ "$(id -u)" = 0 ] && [ -c /dev/fuse ] && [ -x "${NFSRDMA_FUSE:=$here/../../build/fuse/nfsrdma-fuse}" ]; then
  export NFSRDMA_FUSE
  check "mount_limits.sh" "$here/mount_limits.sh" --peers bare --mib 4 --files 20 --rounds 1 --no-counts
  check "mount_limits.sh compares" [ "$(grep -c 'median of the ratios' "$work/out")" = 7 ]
else
  echo "SKIPPED a part: mount_limits.sh: no root, no /dev/fuse or no nfsrdma-fuse"
fi
echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
