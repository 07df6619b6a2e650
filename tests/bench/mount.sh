#!/usr/bin/env bash
# The mount against another file system, in turn, each load on a mount of its own, so that nothing is cached: sequential
# writing and reading, random reads of 4 KiB with 16 in flight, and creating, looking up and removing files.
#
#   mount.sh [--peer kernel|passthrough] [--inside] [--mib N] [--files N] [--rounds N] [--loads LIST] [--options LIST]
#            [--sec SERVICE] [--check] [--min-sequential R] [--min-small R]
#   mount.sh --responder …   without the lab, against a server that costs nothing: mount_limits.sh has the options
#
# --peer       kernel: inside the lab's guest, over its device, against the kernel's NFS/RDMA client (the default)
#              passthrough: on this machine, over iwarp to the lab, against libfuse's example passthrough_hp on tmpfs,
#              which PASSTHROUGH_HP names: what FUSE can reach without any network
# --inside     the latter inside the guest as well (where tmpfs has no O_DIRECT, so without the load `random`)
# --mib        the file's size (256)
# --files      how many files, and random reads (10000)
# --rounds     pairs of runs (5)
# --loads      of: write read random create stat unlink (all). Each takes what those before it left
# --options    mount options of nfsrdma-fuse besides
# --sec        both with Kerberos: krb5, krb5i, or krb5p where the server's kernel can
# --check      exit status 1 where the median of the pairs' rate ratios is below --min-sequential (0.8) for write and
#              read, or below --min-small (0.5) for the others
# Exit status: 0, 1 (a check failed, or a run did), 2 (usage), 77 (skipped). README.md tells what is compared.
[ "${1:-}" != --responder ] || exec "$(dirname "$0")/mount_limits.sh" "${@:2}"
peer=kernel inside='' mib=256 files=10000 rounds=5 loads='write read random create stat unlink' options='' sec='' check=''
min_sequential=0.8 min_small=0.5
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'peer mib files rounds loads options sec min-sequential min-small' 'inside check' "$@"
[ -z "$sec" ] || export NFSRDMA_SEC=$sec
case $peer in kernel) inside=1 ;; passthrough) ;; *) usage 2 ;; esac
[ -z "$inside" ] || export NFSRDMA_LAB_SIDE=guest LAB_DEVICES="${LAB_DEVICES:-siw0}" LAB_TIMEOUT=600
# shellcheck source=bench.sh
. "$(dirname "$0")/bench.sh"
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
need_built 'NFSRDMA_FUSE, NFSRDMA_BENCH_DIR' "$fuse_binary" "$bench_dir/load_mount"

if [ "$peer" = kernel ]; then
  peer_name=kernel
  command -v mount.nfs > /dev/null || skip "no mount.nfs (packaging/packages.sh install test)"
else
  peer_name=passthrough
  [ -x "${PASSTHROUGH_HP:-}" ] || skip "PASSTHROUGH_HP names no program (example/passthrough_hp.cc of libfuse)"
fi
# Where it runs: there COMMAND, with what this machine calls / at $above, $point to mount on, and $memory, a tmpfs.
if [ -n "$inside" ]; then
  above=/mnt/host point=/run/mount-bench/mount memory=/run/mount-bench/tmpfs fabric=verbs where="inside the guest, over $LAB_DEVICES"
  there() { on_server "$1"; }
  trap 'there "umount -l $point; umount -l $memory; rm -rf /run/mount-bench" > /dev/null 2>&1; finish' EXIT
else
  [ -c /dev/fuse ] || skip "no /dev/fuse"
  above='' point=$work/mount memory=$work/tmpfs fabric=iwarp where='on this machine, over iwarp'
  hold_mounts "$lab" ns
  there() { timeout 600 nsenter -t "$holder" -m -n -- bash -c "$1"; }
fi
there "mkdir -p $point $memory && mount -t tmpfs -o size=80% tmpfs $memory" || { fail "no place for the mounts"; exit 1; }
on_server "mkdir -m 777 '$export'/{nfsrdma,kernel}" || { fail "no directories on the server"; exit 1; }

load_program=$above$(realpath "$bench_dir/load_mount")
# A FUSE daemon in the foreground; its process id in $daemon, so that its CPU time counts.
# shellcheck disable=SC2016
fuse_on() {
  printf '%s > /dev/null & daemon=$!
    for i in $(seq 200); do grep -q " %s fuse" /proc/self/mounts && break; kill -0 $daemon || exit; sleep 0.05; done; ' "$1" "$point"
}
fuse_off="wait \$daemon || status=\$?;"
peer_sec=sys
if [ -n "${NFSRDMA_SEC:-}" ]; then
  peer_sec=$NFSRDMA_SEC realm=$above$(dirname "$KRB5_CONFIG")
  options+=${options:+,}sec=$NFSRDMA_SEC,ccache=FILE:$realm/caches/krb5cc_0
  # What the kernel's client asks for contexts.
  [ "$peer" != kernel ] || on_server "mkdir -p /run/rpc_pipefs && mount -t rpc_pipefs sunrpc /run/rpc_pipefs
    KRB5_CONFIG=$realm/krb5.conf rpc.gssd -n -p /run/rpc_pipefs -d '$realm/caches'" || { fail "no rpc.gssd"; exit 1; }
fi
ours_on=$(fuse_on "${realm:+KRB5_CONFIG=$realm/krb5.conf }'$above$(realpath "$fuse_binary")' -f '$server:$remote/nfsrdma' $point -o 'fabric=$fabric,allow_other${options:+,$options}'")
ours_off=$fuse_off
if [ "$peer" = kernel ]; then
  peer_on="mount -t nfs -o sec=$peer_sec,vers=4.2,proto=rdma,port=20049,rsize=1048576,wsize=1048576 $server:$remote/kernel $point || exit; daemon=;"
  peer_off=''
else
  peer_on=$(fuse_on "'$above$(realpath "$PASSTHROUGH_HP")' --foreground $memory $point")
  peer_off=$fuse_off
fi
# run TOOL LOAD SIZE: one load on a fresh mount.
run() {
  local on=$ours_on off=$ours_off
  [ "$1" = nfsrdma ] || { on=$peer_on off=$peer_off; }
  there "$on $load_program $1 $2 $point $3 \$daemon; status=\$?; umount $point; $off exit \$status" > "$work/run" 2>&1 ||
    { fail "$1, $2: $(cat "$work/run")"; return 1; }
  cat "$work/run"
}

: > "$work/all.jsonl"
for _ in $(seq "$rounds"); do
  for load in $loads; do
    case $load in write | read) size=$mib ;; *) size=$files ;; esac
    for tool in nfsrdma "$peer_name"; do
      if [ "$load" != write ]; then :; elif [ "$tool" = passthrough ]; then there "rm -f $memory/data"; else on_server "rm -f '$export/$tool/data'"; fi
      run "$tool" "$load" "$size" | tee -a "$work/all.jsonl"
      [ "${PIPESTATUS[0]}" = 0 ] || exit 1
    done
  done
done

for load in $loads; do
  case $load in
    write | read) rate=mb_per_second min=$min_sequential what="$load of $mib MiB" ;;
    *) rate=ops_per_second min=$min_small what="$load, $files of them" ;;
  esac
  jq -c --arg load "$load" 'select(.load == $load)' "$work/all.jsonl" > "$work/runs.jsonl"
  python3 "$bench_source/compare.py" --ours nfsrdma --peer "$peer_name" --rate $rate --min-rate "$min" \
    ${check:+--check} --title "$what $where, nfsrdma-fuse against $peer_name" "$work/runs.jsonl" ||
    failures=$((failures + 1))
done
say "the daemon's CPU time, medians: $(jq -rs 'map(select(.tool == "nfsrdma")) | group_by(.load)[] | .[0].load as $load |
  (map(if .bytes > 0 and $load != "random" then .daemon_seconds * 1073741824 / .bytes else .daemon_seconds * 1e6 / .ops end) | sort | .[length / 2 | floor]) |
  $load + " " + if $load == "read" or $load == "write" then "\(. * 100 | round / 100) s/GiB" else "\(. * 10 | round / 10) µs each" end' "$work/all.jsonl" | paste -sd, - | sed 's/,/, /g')"
