#!/usr/bin/env bash
# Sparse files: nobody moves their holes, and every byte is right. Linux's server (6.1) reports no holes to READ_PLUS, so its
# holes are found by SEEK; a bridge in front of it that reports them shows READ_PLUS at work. NFSRDMA_LONG=1: 10 GiB.
# Besides lib.sh's: NFSRDMA_BRIDGE (nfsrdma-bridge), NFSRDMA_FUSE (nfsrdma-fuse).
# row: U6
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
# shellcheck source=capture_lib.sh
. "$(dirname "$0")/capture_lib.sh"
bridge_binary=${NFSRDMA_BRIDGE:-$root/build/tests/bridge/nfsrdma-bridge}
need_built NFSRDMA_BRIDGE "$bridge_binary"

# The guest's page cache fills with zeros here, and its network card stops for good if it then finds no free page.
on_server "echo 131072 > /proc/sys/vm/min_free_kbytes"
# Pieces of 100 KiB at even distances, none of them at the file's begin; a hole at its end.
if [ -n "${NFSRDMA_LONG:-}" ]; then size=$((10 << 30)) pieces=1000; else size=$((1 << 30)) pieces=100; fi
LAB_TIMEOUT=300 on_server "cd '$xfs_export' && truncate -s $size sparse && head -c 102400 /dev/urandom > piece &&
  for i in \$(seq 0 $((pieces - 1))); do
    dd if=piece of=sparse bs=4096 seek=\$((i * $((size / pieces / 4096)) + 37)) conv=notrunc status=none; done; sync; rm piece"
there=$(LAB_TIMEOUT=300 on_server "sha256sum < '$xfs_export/sparse'")
used=$(on_server "du -k '$xfs_export/sparse' | cut -f1")

received() { "$lab" ns sh -c "cat /sys/class/net/$1/statistics/rx_bytes"; }
# moved INTERFACE COMMAND …: the MiB that came over the interface meanwhile, in $mib.
moved() {
  local interface=$1 before status=0
  shift
  before=$(received "$interface")
  "$@" > "$work/out" 2> "$work/err" || status=$?
  mib=$((($(received "$interface") - before) >> 20))
  return $status
}
# arrived NAME: the local copy is the file, with its holes.
arrived() {
  same "$1: every byte" "$there" "$(sha256sum < "$work/copy/sparse")"
  local here
  here=$(du -k "$work/copy/sparse" | cut -f1)
  check "$1: its holes are kept ($here KiB are used, $used KiB on the server)" [ "$here" -le $((used + used / 2)) ]
  rm -f "$work/copy/sparse"
}
data=$((pieces * 102400 >> 20))
tap=$("$lab" ns sh -c 'ls /sys/class/net | grep -v -x lo | head -n 1')
mkdir -m 777 "$work/copy"

# ---- Linux's server ----
sparse=$server:$remote/sparse
sparse=${sparse/"$remote"//xfs/t-$test_name}
get_by_seek() { check "get, holes by SEEK" moved "$tap" cli get -q -p -o read_plus=no "$sparse" "$work/copy/sparse"; }
record by_seek get_by_seek
arrived "get, holes by SEEK"
judge by_seek --need read-with-write-chunk:$pieces
say "of $((size >> 20)) MiB with $data MiB of data $mib MiB came over the wire"
check "get, holes by SEEK: hardly more than the data is moved" [ "$mib" -le $((data + data / 4 + 4)) ]
check "get, as it is by default" moved "$tap" cli get -q -p "$sparse" "$work/copy/sparse"
arrived "get, as it is by default"
check "get, as it is by default: hardly more than the data is moved" [ "$mib" -le $((data + data / 4 + 4)) ]
check "get, READ_PLUS forced" moved "$tap" cli get -q -p -o read_plus=yes "$sparse" "$work/copy/sparse"
arrived "get, READ_PLUS forced"
expect_exit 0 "info of a sparse file" cli info "$sparse"
say "$(grep READ_PLUS "$work/out")"
check "info of a sparse file: no holes are reported" grep -q 'READ_PLUS: *reports no holes; READ is used' "$work/out"
expect_exit 0 "info with READ_PLUS forced" cli info -o read_plus=yes "$sparse"
say "$(grep READ_PLUS "$work/out")"
check "info with READ_PLUS forced: data in the reply" grep -q 'READ_PLUS: *reports no holes; data in the reply' "$work/out"

# ---- a server that reports holes ----
"$lab" ns "$bridge_binary" --report-holes --listen 127.0.0.1:20049 --server "$server:2049" > "$work/bridge.out" 2> "$work/bridge.err" &
children+=($!)
check "the bridge listens" eventually 10 grep -q listening "$work/bridge.out"
sparse="nfs://127.0.0.1/xfs/t-$test_name/sparse"
get_reported() { check "get, holes reported" moved lo cli get -q -p "$sparse" "$work/copy/sparse"; }
capture_on=lo record reported get_reported
arrived "get, holes reported"
# The bridge says of a hole only what lies within the bytes asked for, so the next data is found by SEEK.
judge reported --need read-plus-with-write-chunk:2 --need hole:1
# The bridge itself is served over the other interface.
say "of $((size >> 20)) MiB with $data MiB of data $mib MiB came over the wire"
check "get, holes reported: hardly more than the data is moved" [ "$mib" -le $((data + data / 4 + 4)) ]
check "get, read_plus=no" moved lo cli get -q -p -o read_plus=no "$sparse" "$work/copy/sparse"
arrived "get, read_plus=no"
summed() { cli cat "$sparse?read_plus=$1" | sha256sum; }
cat_reported() { check "cat, holes reported" moved lo summed auto; }
capture_on=lo record cat cat_reported
judge cat --need read-plus-with-write-chunk:$pieces --need hole:$pieces
same "cat, holes reported: every byte" "$there" "$(cat "$work/out")"
check "cat, holes reported: little more than the data is moved ($mib MiB)" [ "$mib" -le $((data + data / 4 + 8)) ]
expect_exit 0 "info, holes reported" cli info "$sparse"
check "info, holes reported: it says so" grep -q 'READ_PLUS: *reports holes; data by Write chunk' "$work/out"

# ---- a mount of it ----
mkdir "$work/m"
nsenter -t "$holder" -m -n -- "$fuse_binary" -f 127.0.0.1:/xfs/t-$test_name "$work/m" > "$work/m.log" 2>&1 &
daemon[m]=$!
children+=("${daemon[m]}")
check "it is mounted" eventually 20 mounted "$work/m"
check "the mount reads it" moved lo client sh -c "sha256sum < '$work/m/sparse'"
same "the mount reads it: every byte" "$there" "$(cat "$work/out")"
check "the mount reads it: little more than the data is moved ($mib MiB)" [ "$mib" -le $((data + data / 4 + 16)) ]
not_sent=$(client grep '^holes ' "$work/m/.nfsrdma-stats" | tr ' ' '\n' | grep -A1 bytes_not_sent | tail -n 1 | tr -dc 0-9)
check "the mount counts what was not sent ($not_sent bytes)" [ "${not_sent:-0}" -ge $((size - (data + data / 4 + 16) * 1048576)) ]
client umount "$work/m"
ended m "unmounted"
