# shellcheck shell=bash
# What the tests of the mount share, on top of lib.sh. A test sources this file instead of that one.
#
# Environment besides lib.sh's: NFSRDMA_FUSE (nfsrdma-fuse), NFSRDMA_MOUNT_EXERCISE (mount_exercise),
# NFSRDMA_VERS (of each mount; the highest that the server speaks where it is not set), NFSRDMA_SEC (sec= of each).
# Provides: a mount namespace with the client's network in it, $xfs_export (a directory of this test's own on /xfs,
# whose path for the client is $remote as well), and the functions below.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck disable=SC2034
MiB=1048576
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
exercise=${NFSRDMA_MOUNT_EXERCISE:-$root/build/tests/mount_exercise}
[ -c /dev/fuse ] || skip "no /dev/fuse"
need_tools fusermount3 nsenter
need_built 'NFSRDMA_FUSE, NFSRDMA_MOUNT_EXERCISE' "$fuse_binary" "$exercise"

hold_mounts "$lab" ns
client() { nsenter -t "$holder" -m -n -- "$@"; }
mounted() { client grep -q " $1 fuse.nfsrdma " /proc/self/mounts; }
not_mounted() { ! mounted "$1"; }
# Owners are names where there is Kerberos, in the realm's domain.
[ -z "${NFSRDMA_SEC:-}" ] || client mount --bind "$(dirname "$KRB5_CONFIG")/idmapd.conf" /etc/idmapd.conf

# start_mount NAME PATH [OPTIONS]: the export's PATH at $work/NAME, its daemon's id in ${daemon[NAME]}.
declare -A daemon
start_mount() {
  local options=${NFSRDMA_VERS:+vers=$NFSRDMA_VERS} path=$2
  options=$options${NFSRDMA_SEC:+${options:+,}sec=$NFSRDMA_SEC}
  # What NFSv4 calls / is /mnt/exp, which is how it is called by everybody else.
  case ${NFSRDMA_VERS:-} in 2 | 3) path=/mnt/exp${2%/} ;; esac
  options=$options${3:+${options:+,}$3}
  mkdir -p "$work/$1"
  nsenter -t "$holder" -m -n -- "$fuse_binary" -f "$server:$path" "$work/$1" ${options:+-o "$options"} > "$work/$1.log" 2>&1 &
  daemon[$1]=$!
  children+=("${daemon[$1]}")
  check "$1 is mounted" eventually 20 mounted "$work/$1"
}
# What the mounts' version has: what came with 4.2 (man: WHAT THE VERSIONS PROMISE); file systems below an export.
has_42() { [ -z "${NFSRDMA_VERS:-}" ] || [ "$NFSRDMA_VERS" = 4.2 ]; }
has_below() { [ -z "${NFSRDMA_VERS:-}" ] || [[ $NFSRDMA_VERS == 4* ]]; }
# ended NAME WHAT: its daemon ends by itself, with exit status 0, and nothing is mounted.
ended() {
  local status=0
  if ! eventually 20 gone "${daemon[$1]}"; then
    fail "$2: the daemon lives on"
    kill -KILL "${daemon[$1]}"
  fi
  wait "${daemon[$1]}" || status=$?
  same "$2: the daemon's exit status" 0 "$status"
  check "$2: nothing is mounted" not_mounted "$work/$1"
}
# program NAME [SECONDS]: standard input is Python, run in the client with $a, $b, $x and $work as a, b, x, s; no output is
# success. It has 120 s, or SECONDS.
program() {
  local status=0
  checks=$((checks + 1))
  { printf "import os, sys, time, errno\na, b, x, s = '%s', '%s', '%s', '%s'\n" "${a:-}" "${b:-}" "${x:-}" "$work"; cat; } > "$work/program.py"
  client timeout "${2:-120}" python3 "$work/program.py" > "$work/program.out" 2>&1 || status=$?
  if [ "$status" = 0 ] && [ ! -s "$work/program.out" ]; then say "ok: $1"; else fail "$1 (status $status): $(tail -c 1500 "$work/program.out")"; fi
}

# Debian's rpc.nfsd takes NFSv2 away, and would do so again: `lab restart-nfsd` is not for these runs.
if [ "${NFSRDMA_VERS:-}" = 2 ]; then
  nfsd_start="echo +2 > /proc/fs/nfsd/versions; echo rdma 20049 > /proc/fs/nfsd/portlist; echo tcp 2049 > /proc/fs/nfsd/portlist; echo 8 > /proc/fs/nfsd/threads"
  on_server "rpc.nfsd 0; $nfsd_start; echo Y > /proc/fs/lockd/nlm_end_grace; echo Y > /proc/fs/nfsd/v4_end_grace"
  other_nfsd=1
else
  # shellcheck disable=SC2034
  nfsd_start="rpc.nfsd --rdma=20049 8"
fi
xfs_export=/mnt/exp/xfs/t-$test_name
on_server "rm -rf '$xfs_export'; mkdir -m 1777 '$xfs_export'"
