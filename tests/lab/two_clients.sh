#!/usr/bin/env bash
# Two clients and the same few files: two mounts of ours, or one of ours beside Linux's own client. two_clients.py
# chooses what they do and knows what each must see.
#
#   two_clients.sh [SECONDS [CONFIGURATION ...]]     each pair of clients for so long; 30 s of defaults.ours
#                                                    by default, with NFSRDMA_LONG=1 1800 s in all configurations
#
# Configurations: defaults, v3, v40, noac, nconnect, small (rsize and wsize), writeback, restarts (nfsd every 20 s);
# with .ours or .linux behind it for one pair only.
# With writeback and v3 both mounts are ours: Linux's client would not keep apart by whole pages, and its locks over
# NFSv3 and those of the server beside it are one kernel's.
#
# row: F13 F23 F30 S16
#
# Environment: mount_lib.sh's; TWO_CLIENTS_SEED (the time).
#
# A server that hangs or panics (see soak.sh) is no fault of ours: the configuration is then left out, loudly.
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
# shellcheck disable=SC2154  # all of mount_lib.sh and lib.sh
seconds=${1:-${NFSRDMA_LONG:+1800}}
seconds=${seconds:-30}
shift || true
configurations=("$@")
if [ ${#configurations[@]} = 0 ]; then
  # Two mounts only: now and then Linux's client has old pages behind a lock, and that is no fault of ours.
  configurations=(defaults.ours)
  [ -z "${NFSRDMA_LONG:-}" ] || configurations=(defaults v3 v40 noac nconnect small writeback restarts)
fi
ring=${NFSRDMA_RING:-$root/build/libclient/libnfsrdma-ring.so}
[ -e "$ring" ] || { echo "FAILED $test_name: no $ring (build it, or set NFSRDMA_RING)"; exit 1; }
seed=${TWO_CLIENTS_SEED:-$(date +%s)}
program=$here/two_clients.py
port=7100

options_of() {
  case $1 in
    defaults | restarts | v3 | v40) ;;
    noac) echo noac ;;
    nconnect) echo nconnect=2 ;;
    small) echo rsize=4096,wsize=8192 ;;
    writeback) echo writeback_cache ;;
    *) echo "two_clients.sh: no configuration '$1'" >&2; exit 2 ;;
  esac
}
# Every 20 s, until the file $work/calm appears.
keep_restarting() {
  while [ ! -e "$work/calm" ]; do
    sleep 20
    "$lab" restart-nfsd > "$work/restart" 2>&1 || say "nfsd was not restarted: $(tail -n 2 "$work/restart")"
  done
}
server_died() { "$lab" panicked > "$work/panic" || ! "$lab" run true > /dev/null 2>&1; }

# linux_client DIRECTORY: Linux's client in the guest has the export there, and a process of two_clients.py works on it.
linux_client() {
  key=$RANDOM$RANDOM$RANDOM
  port=$((port + 1))
  on_server "mkdir -p '$1' && mount -t nfs -o vers=4.2,proto=tcp,port=2049 $server:/xfs '$1' &&
    { setsid python3 '/mnt/host$program' serve $port $key > '/mnt/host$work/linux.log' 2>&1 < /dev/null & }"
}
# pair CONFIGURATION ours|linux
pair() {
  local configuration=$1 other=$2 options directory arguments=() status=0 name restarting='' key=''
  options=$(options_of "$configuration") || exit 2
  local NFSRDMA_VERS=${NFSRDMA_VERS:-}
  case $configuration in
    v3) NFSRDMA_VERS=3 ;;
    v40) NFSRDMA_VERS=4.0 ;;
  esac
  directory=two/$configuration.$other
  on_server "rm -rf '$xfs_export/$directory'; mkdir -p '$xfs_export/$directory'; chmod -R 777 '$xfs_export/two'"
  name=$configuration.$other
  start_mount "$name.a" /xfs "$options"
  arguments=("A=$work/$name.a$remote/$directory")
  if [ "$other" = ours ]; then
    start_mount "$name.b" /xfs "$options"
    arguments+=("B=$work/$name.b$remote/$directory")
  else
    check "Linux's client in the guest ($configuration)" linux_client "/tmp/$name"
    arguments+=("L=$server:$port:/tmp/$name$remote/$directory" --kernel L --key "$key")
  fi
  # Files that are open for writing on a mount with a write-back cache cannot be attached to a ring.
  if [ "$configuration" = writeback ]; then arguments+=(--fixed); else arguments+=(--ring "$ring"); fi
  if [ "$configuration" = restarts ]; then
    rm -f "$work/calm"
    keep_restarting &
    restarting=$!
    children+=("$restarting")
  fi
  client timeout $((seconds + 300)) python3 "$program" run --seconds "$seconds" --seed "$seed" \
    "${arguments[@]}" > "$work/report" 2>&1 || status=$?
  if [ -n "$restarting" ]; then
    touch "$work/calm"
    wait "$restarting"
  fi
  if [ $status != 0 ] && server_died; then
    skip_part "the SERVER did not survive $name: $(head -n 1 "$work/panic" 2> /dev/null)"
    cat "$work/report"
    dead=1
    return
  fi
  checks=$((checks + 1))
  if [ $status = 0 ]; then say "ok: $name: $(cat "$work/report")"; else fail "$name (status $status): $(tail -n 70 "$work/report")"; fi
  if [ "$other" = linux ]; then
    on_server "umount '/tmp/$name' || umount -l '/tmp/$name'" > /dev/null 2>&1
  else
    leave "$name.b"
  fi
  leave "$name.a"
}
leave() {
  check "umount of $1" client timeout 60 umount "$work/$1"
  ended "$1" "umount of $1"
}

dead=0
for configuration in "${configurations[@]}"; do
  case $configuration in
    *.ours | *.linux) pair "${configuration%.*}" "${configuration#*.}" ;;
    writeback | v3) pair "$configuration" ours ;;
    *)
      pair "$configuration" ours
      [ $dead = 1 ] || pair "$configuration" linux
      ;;
  esac
  if [ $dead = 1 ]; then
    "$lab" down
    "$lab" up > /dev/null || { fail "the lab does not come up again"; break; }
    started_lab=1
    hold_mounts "$lab" ns
    dead=0
  fi
done
