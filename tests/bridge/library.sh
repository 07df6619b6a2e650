#!/usr/bin/env bash
# The library against NFS-Ganesha, through the bridge: the tests of the Python package, and each of the examples in C and
# C++ on real files.
#
# Environment besides lib.sh's: NFSRDMA_LIBRARY (libnfsrdma.so.1, for Python), NFSRDMA_EXAMPLES (the directory of the
# programs example_c_NAME and example_cpp_NAME), NFSRDMA_FUSE (nfsrdma-fuse: example_c_ring_cat needs a mount).
# shellcheck disable=SC2034
without_cli=1
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
MiB=1048576
library=${NFSRDMA_LIBRARY:-$root/build/libclient/libnfsrdma.so.1}
examples=${NFSRDMA_EXAMPLES:-$root/build/libclient/examples}
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
programs=()
for source in "$root"/libclient/examples/c/*.c "$root"/libclient/examples/cpp/*.cpp; do
  name=${source##*/}
  programs+=("$examples/example_${source##*.}_${name%.*}")
done
need_built 'NFSRDMA_LIBRARY, NFSRDMA_EXAMPLES' "$library" "${programs[@]}"
# A background process of a shell ignores SIGINT otherwise, and so do the programs that it starts.
with_interrupt=(env --default-signal=INT)
tested=()
# run_example STATUS WHAT LANGUAGE_NAME ARGUMENT …: like expect_exit.
run_example() {
  tested+=("$examples/example_$3")
  expect_exit "$1" "$3: $2" timeout 60 "$examples/example_$3" "${@:4}"
}
lines() { wc -l < "$work/out"; }

start_bridge plain || exit 1
url=nfs://127.0.0.1:$bridge_port/export

# ---- Python ----

status=0
NFSRDMA_URL=$url NFSRDMA_LIBRARY=$library "${with_interrupt[@]}" "$root/tests/python/run.sh" > "$work/python.log" 2>&1 || status=$?
checks=$((checks + 1))
case $status in
  0) say "ok: the tests of the Python package: $(grep -a '^Ran ' "$work/python.log")" ;;
  77) skip_part "the tests of the Python package" ;;
  *) fail "the tests of the Python package: $(tail -n 60 "$work/python.log")" ;;
esac
grep -aE "['\"* ]SKIPPED" "$work/python.log" | while read -r line; do skip_part "Python: $line"; done

# ---- what the examples work on ----

size=$((20 * MiB + 5))
head -c "$size" /dev/urandom > "$export/big"
: > "$export/empty"
mkdir -p "$export/small" "$export/text" "$export/tree/a/b/empty" "$work/copies"
for i in $(seq 300); do head -c $((i * 40)) /dev/urandom > "$export/small/file$i"; done
seq 10 > "$export/text/short"
seq 1000 > "$export/text/long"
cp "$export"/small/* "$export/tree/a/b/"
cp "$export/big" "$export/empty" "$export/tree/a/"
ln -s a/b/file1 "$export/tree/link"
printf x > "$export/tree/a/"$'two\nlines'

# ---- one file ----

for name in c_hello cpp_copy_head; do
  run_example 0 "the beginning of a file" "$name" "$url/big"
  count=$(stat -c %s "$work/out")
  check "$name: the same bytes" cmp -n "$count" "$work/out" "$export/big"
  check "$name: and not none" [ "$count" -ge 1024 ]
  run_example 1 "no such file" "$name" "$url/nothing"
  one_sentence "$name: no such file" 'nothing' 'no such file'
done
for name in c_cat cpp_reader; do
  for file in big empty; do
    run_example 0 "$file" "$name" "$url/$file"
    check "$name: the same bytes" cmp "$work/out" "$export/$file"
  done
done
run_example 0 "options" cpp_reader "$url/big" rsize=65536,timeo=30s
check "cpp_reader: the same bytes" cmp "$work/out" "$export/big"
run_example 1 "a wrong option" cpp_reader "$url/big" rsize=much
one_sentence "cpp_reader: a wrong option" 'rsize'
for name in c_epoll cpp_epoll; do
  run_example 0 "a file" "$name" "$url/big"
  same "$name: its size" "$size bytes" "$(tail -n 1 "$work/out")"
  run_example 0 "an empty file" "$name" "$url/empty"
  same "$name: its size" "0 bytes" "$(tail -n 1 "$work/out")"
done

# ---- many files ----

run_example 0 "a directory" c_many "$url/small"
same "c_many: one line for each file" 300 "$(lines)"
awk '{ print $3, $2, $1 }' "$work/out" | sort > "$work/sums"
mapfile -t names < <(ls "$export/small")
run_example 0 "each file" cpp_coroutine "$url/small" "${names[@]}"
same "cpp_coroutine: the sums of c_many" "$(cat "$work/sums")" "$(awk '{ print $3, $2, $1 }' "$work/out" | sort)"
run_example 1 "one is missing" cpp_coroutine "$url/small" file1 nothing file2
same "cpp_coroutine: the others" 2 "$(lines)"
one_sentence "cpp_coroutine: one is missing" 'nothing'
run_example 1 "one is missing" cpp_heads "$url/text" short nothing long
one_sentence "cpp_heads: one is missing" 'nothing'
same "cpp_heads: the others" "$(echo '==> short <=='; cat "$export/text/short"; echo '==> long <=='; head -c 512 "$export/text/long"; echo ...)" \
  "$(cat "$work/out")"

# ---- trees ----

for name in c_copy_tree cpp_copy_tree; do
  rm -f "$export/tree/fifo"
  run_example 0 "a tree" "$name" "$url/tree" "$work/copies/$name"
  same "$name: what it says" "303 files with $((size + 40 * 300 * 301 / 2 + 1)) bytes, 4 directories, 1 links, 0 failures" \
    "$(cat "$work/out")"
  check "$name: the same tree" diff -r --no-dereference "$export/tree" "$work/copies/$name"
  mkfifo "$export/tree/fifo"
  run_example 1 "a FIFO, and a link that is there already" "$name" "$url/tree" "$work/copies/$name"
  check "$name: goes on" grep -q '^303 files .* 4 directories, 0 links, 2 failures$' "$work/out"
done

# ---- a lock ----

"${with_interrupt[@]}" "$examples/example_c_lock" "$url/locked" 0 30 > "$work/holder" 2>&1 &
holder=$!
children+=("$holder")
check "c_lock: a lock" eventually 10 grep -qx locked "$work/holder"
run_example 1 "a lock that is held" c_lock "$url/locked" 0 0
check "c_lock: says who" grep -q 'another client holds an exclusive lock' "$work/err"
"${with_interrupt[@]}" "$examples/example_c_lock" "$url/locked" 30 0 > "$work/waiter" 2>&1 &
waiter=$!
children+=("$waiter")
check "c_lock: waits" eventually 10 grep -q 'waiting' "$work/waiter"
kill -INT "$holder" && wait "$holder"
same "c_lock: Ctrl-C while it has the lock" unlocked "$(tail -n 1 "$work/holder")"
check "c_lock: the next one has it" wait "$waiter"
same "c_lock: and gives it back" unlocked "$(tail -n 1 "$work/waiter")"

# ---- a ring, which only files of a mount have ----

tested+=("$examples/example_c_ring_cat")
if [ -c /dev/fuse ] && [ -x "$fuse_binary" ] && unshare -m true 2> /dev/null; then
  hold_mounts unshare -m
  within() { nsenter -t "$holder" -m -- "$@"; }
  mkdir "$work/mount"
  within "$fuse_binary" -f 127.0.0.1:/export "$work/mount" -o "port=$bridge_port" > "$work/mount.log" 2>&1 &
  daemon=$!
  children+=("$daemon")
  check "a mount" eventually 20 within test -e "$work/mount/big"
  expect_exit 0 "c_ring_cat: a file of a mount" within "$examples/example_c_ring_cat" "$work/mount/big"
  check "c_ring_cat: the same bytes" cmp "$work/out" "$export/big"
  within umount "$work/mount"
else
  skip_part "example_c_ring_cat: no mounts here (/dev/fuse, nfsrdma-fuse, unshare)"
fi

# ---- the end ----

same "each example was tested" "$(printf '%s\n' "${programs[@]}" | sort)" "$(printf '%s\n' "${tested[@]}" | sort -u)"
