# shellcheck shell=bash
# What the lab's tests share. A test sources this file first.
#
# Given: NFSRDMA_CLI (the program), LAB_DIR. Provides: $lab, $work (a directory that the unprivileged user may write
# to, removed at the end), $server (10.77.0.2), $export and $remote (a directory of this test's own on the server: its
# path there, its path for the client), and the functions below. A test that was not started by ctest finds no lab up:
# it then starts one and stops it at its end.
#
# Exit status: 0, 1 (some check failed; the others ran), 77 (skipped: something is missing, said loudly).
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
lab=$here/lab
test_name=$(basename "$0" .sh)
cli_binary=${NFSRDMA_CLI:-$root/build/cli/nfsrdma-cli}
server=10.77.0.2
root_url=nfs://$server
# shellcheck disable=SC2034
client=10.77.0.1
export=/mnt/exp/t-$test_name
remote=/t-$test_name

# shellcheck source=../support/checks.sh
. "$here/../support/checks.sh"

# The program as the unprivileged user, in the client's namespace. $cli_wrap, if set, goes in front of it.
cli_wrap=()
# With NFSRDMA_LAB_SIDE=guest it runs inside the guest, where the RDMA devices are (NFSRDMA_LAB_DEVICE: which of siw0 and
# rxe0 to leave there): as the same user, with the host's tree
# as its root, so that paths mean what they mean here, and the guest's devices. Files that it makes here belong to root,
# hence the capability to change their modes.
cli() {
  if [ "${NFSRDMA_LAB_SIDE:-}" != guest ]; then
    "$lab" user ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$@"
    return
  fi
  local status=0 input=/dev/null run
  if [ -p /dev/stdin ] || [ -f /dev/stdin ]; then input=$work/guest.in; cat > "$input"; fi
  run=$(printf '%q ' ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$@")
  run="cd $(printf %q "$PWD"); umask $(umask); export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}; exec $run"
  "$lab" run "unshare -m sh -c 'for d in dev sys proc; do mount --rbind /\$d /mnt/host/\$d; done
    exec chroot /mnt/host setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,+fowner \
      --ambient-caps=+fowner bash -c \"\$0\"' $(printf %q "$run") < '/mnt/host$input' > '/mnt/host$work/guest.out' 2> '/mnt/host$work/guest.err'" || status=$?
  cat "$work/guest.out"
  cat "$work/guest.err" >&2
  return $status
}
# For the background, where the process id must be the program's own: cli_exec … &
cli_exec() { exec "$lab" user "$cli_binary" "$@"; }
on_server() { "$lab" run "$@"; }

# The guest's kernel chooses the device by the address alone, and of several takes the one that came first.
only_device() {
  local one
  for one in siw0 rxe0; do [ "$one" = "$1" ] || on_server "rdma link del $one 2> /dev/null"; done
  on_server "rdma link show $1/1 > /dev/null 2>&1 || rdma link add $1 type ${1%0} netdev vec0; sleep 1"
}
all_devices() {
  "$lab" run 'ip addr replace 10.77.0.2/24 dev vec0; rdma link del rxe0; rdma link add siw0 type siw netdev vec0
    rdma link add rxe0 type rxe netdev vec0' > /dev/null 2>&1
}
url() { printf '%s%s/%s' "$root_url" "$remote" "${1:-}"; }
server_sum() { on_server "sha256sum < '$export/$1'" | cut -d' ' -f1; }

started_lab=0
children=()
finish() {
  local status=$?
  trap - EXIT INT TERM HUP
  local child
  for child in ${children[@]+"${children[@]}"}; do kill "$child" 2>/dev/null; done
  "$lab" mend 2>/dev/null
  "$lab" fast 2>/dev/null
  [ -z "${NFSRDMA_LAB_DEVICE:-}" ] || all_devices
  "$lab" run "rm -rf '$export'" > /dev/null 2>&1
  [ "$started_lab" = 1 ] && "$lab" down
  if [ -n "${KEEP:-}" ]; then say "kept: $work"; else rm -rf "$work"; fi
  conclude "$status"
}

[ "$(id -u)" = 0 ] || skip "needs root for network namespaces and a tap device"
missing=$("$lab" check 2>&1) || skip "$missing"
for tool in jq sha256sum /usr/bin/time python3; do
  command -v "$tool" > /dev/null || skip "no $tool (packaging/packages.sh install test)"
done
[ -x "$cli_binary" ] || { echo "FAILED $test_name: no $cli_binary (build it, or set NFSRDMA_CLI)"; exit 1; }
if ! "$lab" run true > /dev/null 2>&1; then
  "$lab" up || { echo "FAILED $test_name: the lab did not come up"; exit 1; }
  started_lab=1
fi
work=$(mktemp -d)
chmod 777 "$work"
trap finish EXIT
trap 'exit 130' INT TERM HUP

"$lab" user test -x "$cli_binary" || copy_out_cli
on_server "rm -rf '$export'; mkdir -m 1777 -p '$export'" || { echo "FAILED $test_name: no directory on the server"; exit 1; }
"$lab" user sh -c '[ "$(id -u)" = 65534 ] && [ -z "$(ls -A /sys/class/infiniband /dev/infiniband 2>/dev/null)" ]' ||
  { echo "FAILED $test_name: not unprivileged, or an RDMA device is in sight"; exit 1; }
[ -z "${NFSRDMA_LAB_DEVICE:-}" ] || only_device "$NFSRDMA_LAB_DEVICE"
