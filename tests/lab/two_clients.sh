#!/usr/bin/env bash
# Two clients and the same few files: two mounts of ours, or one of ours beside Linux's own client. two_clients.py
# chooses what they do and knows what each must see.
#
#   two_clients.sh [SECONDS [CONFIGURATION ...]]     each pair of clients for so long; 30 s of both pairs of defaults
#                                                    by default, with NFSRDMA_LONG=1 1800 s in all configurations
#
# Configurations: defaults, v3, v40, noac, nconnect, small (rsize and wsize), writeback, restarts (nfsd every 20 s);
# with .ours or .linux behind it for one pair only. The pair .linuxes has Linux's client twice: what it shows as well is no
# fault of ours.
# With writeback and v3 both mounts are ours: Linux's client would not keep apart by whole pages, and its locks over
# NFSv3 and those of the server beside it are one kernel's.
#
# row: F13 F23 F30 S16
#
# Environment: mount_lib.sh's; TWO_CLIENTS_SEED (the time); TWO_CLIENTS_LINUX_VERS (4.2), by which Linux's client mounts.
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
  configurations=(defaults)
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

# linux_client DIRECTORY NAME ADDRESS: Linux's client in the guest mounts the export there, and a process of
# two_clients.py works on it. By its host's name, which is the mount's alone, and the server's address it is a client of its
# own for the server, which grants it delegations and recalls them.
linux_client() {
  port=$((port + 1))
  local options=vers=${TWO_CLIENTS_LINUX_VERS:-4.2},proto=tcp,port=2049,nosharecache
  on_server "mkdir -p '$1' && ip addr replace $3/24 dev vec0 &&
    unshare --uts sh -c \"hostname '$2' && mount -t nfs -o $options $3:/xfs '$1'\" &&
    { setsid python3 '/mnt/host$program' serve $port $key > '/mnt/host$work/linux.log' 2>&1 < /dev/null & }"
}
# pair CONFIGURATION ours|linux|linuxes
pair() {
  local configuration=$1 other=$2 options directory clients=() arguments=() status=0 name restarting='' mount
  key=$RANDOM$RANDOM$RANDOM
  options=$(options_of "$configuration") || exit 2
  local NFSRDMA_VERS=${NFSRDMA_VERS:-}
  case $configuration in
    v3) NFSRDMA_VERS=3 ;;
    v40) NFSRDMA_VERS=4.0 ;;
  esac
  directory=two/$configuration.$other
  on_server "rm -rf '$xfs_export/$directory'; mkdir -p '$xfs_export/$directory'; chmod -R 777 '$xfs_export/two'"
  name=$configuration.$other
  local ours=(a b) linux=()
  case $other in
    linux) ours=(a) linux=(l) ;;
    linuxes) ours=() linux=(l m) ;;
  esac
  for mount in "${ours[@]}"; do
    start_mount "$name.$mount" /xfs "$options"
    clients+=("${mount^}=$work/$name.$mount$remote/$directory")
  done
  local address=$server
  for mount in "${linux[@]}"; do
    check "Linux's client in the guest ($configuration)" linux_client "/tmp/$name.$mount" "$mount" "$address"
    address=10.77.0.3
    clients+=("${mount^}=$server:$port:/tmp/$name.$mount$remote/$directory")
    arguments+=(--kernel "${mount^}" --key "$key")
  done
  # Files that are open for writing on a mount with a write-back cache cannot be attached to a ring.
  if [ "$configuration" = writeback ]; then arguments+=(--fixed); else arguments+=(--ring "$ring"); fi
  if [ "$configuration" = v3 ]; then arguments+=(--tick 0.03); fi
  if [ "$configuration" = restarts ]; then
    rm -f "$work/calm"
    keep_restarting &
    restarting=$!
    children+=("$restarting")
  fi
  client timeout $((seconds + 300)) python3 "$program" run --seconds "$seconds" --seed "$seed" \
    "${clients[@]}" "${arguments[@]}" > "$work/report" 2>&1 || status=$?
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
  for mount in "${linux[@]}"; do on_server "umount '/tmp/$name.$mount' || umount -l '/tmp/$name.$mount'" > /dev/null 2>&1; done
  for mount in "${ours[@]}"; do leave "$name.$mount"; done
}
leave() {
  check "umount of $1" client timeout 60 umount "$work/$1"
  ended "$1" "umount of $1"
}

dead=0
for configuration in "${configurations[@]}"; do
  case $configuration in
    *.ours | *.linux | *.linuxes) pair "${configuration%.*}" "${configuration#*.}" ;;
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
