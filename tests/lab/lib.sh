# shellcheck shell=bash
# What the lab's tests share. A test sources this file first.
#
# Given: NFSRDMA_CLI (the program), LAB_DIR, and what the lab takes; NFSRDMA_SEC: krb5 or krb5i for each mount (mount_lib.sh),
# with a realm of the test's own, in which root and nobody have tickets. Provides: $lab, $work (a directory that the
# unprivileged user may write to, removed at the end), $server (10.77.0.2), $export and $remote (a directory of this
# test's own on the server: its path there, its path for the client), and the functions below. A test that was not started by ctest finds no lab up:
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

# Where the program runs, always as an unprivileged user: in the client's namespace with no RDMA device, or with
# NFSRDMA_LAB_SIDE=guest inside the guest, beside the server and with the guest's devices (LAB_DEVICES).
side=${NFSRDMA_LAB_SIDE:-user}
# The program. $cli_wrap, if set, goes in front of it.
cli_wrap=()
cli() { "$lab" "$side" ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$@"; }
# For the background, where the process id must be one that signals can be sent to: cli_exec … &
cli_exec() { exec env --default-signal=INT,QUIT "$lab" "$side" "$cli_binary" "$@"; }
on_server() { "$lab" run "$@"; }

url() { printf '%s%s/%s' "$root_url" "$remote" "${1:-}"; }
server_sum() { on_server "sha256sum < '$export/$1'" | cut -d' ' -f1; }
# The state that clients of NFSv4 have on the server, a line each: of the files of a name; how many delegations of all.
all_states() { on_server "cat /proc/fs/nfsd/clients/*/states 2> /dev/null"; }
states() { all_states | grep -F "$1\""; }
delegations_held() { all_states | grep -c 'type: deleg'; }
# What programs hold of $device, the guest's. The server's own is named by the kernel's modules, not by processes.
held() {
  on_server 'for kind in qp mr cm_id pd cq; do rdma -j res show $kind; echo; done' |
    jq -s --arg device "$device" 'add | map(select(.pid != null and .ifname == $device)) | length'
}
settled() { # nothing held, within 5 s
  local count='' end=$((SECONDS + 5))
  while [ $SECONDS -le $end ]; do
    count=$(held)
    [ "$count" = 0 ] && break
  done
  echo "$count"
}

started_lab=0
other_nfsd=0 # the server's is not as the lab starts it
children=()
finish() {
  local status=$?
  trap - EXIT INT TERM HUP
  local child
  for child in ${children[@]+"${children[@]}"}; do kill "$child" 2>/dev/null; done
  "$lab" mend 2>/dev/null
  "$lab" fast 2>/dev/null
  "$lab" run "rm -rf '$export'" > /dev/null 2>&1
  [ "$other_nfsd" = 1 ] && "$lab" restart-nfsd > /dev/null 2>&1
  [ "$started_lab" = 1 ] && "$lab" down
  if [ -n "${KEEP:-}" ]; then say "kept: $work"; else rm -rf "$work"; fi
  conclude "$status"
}

[ "$(id -u)" = 0 ] || skip "needs root for network namespaces and a tap device"
missing=$("$lab" check 2>&1) || skip "$missing"
need_tools jq sha256sum /usr/bin/time python3
need_built NFSRDMA_CLI "$cli_binary"
if ! "$lab" run true > /dev/null 2>&1; then
  "$lab" up || { echo "FAILED $test_name: the lab did not come up"; exit 1; }
  started_lab=1
fi
work=$(mktemp -d)
chmod 777 "$work"
trap finish EXIT
kdc() { "$here/kdc" "$@"; }
# A realm with a KDC and tickets, and a server that takes them.
realm_up() {
  need_tools krb5kdc kinit kadmin.local
  export KRB5_CONFIG=${LAB_DIR:-${TMPDIR:-/tmp}/nfsrdma-test-lab}/kdc/krb5.conf
  kdc up || { echo "FAILED $test_name: no KDC"; exit 1; }
  local user
  for user in root nobody; do kdc ticket $user; done
}
[ -z "${NFSRDMA_SEC:-}" ] || realm_up
trap 'exit 130' INT TERM HUP

"$lab" user test -x "$cli_binary" || copy_out_cli
on_server "rm -rf '$export'; mkdir -m 1777 -p '$export'" || { echo "FAILED $test_name: no directory on the server"; exit 1; }
"$lab" user sh -c '[ "$(id -u)" = 65534 ] && [ -z "$(ls -A /sys/class/infiniband /dev/infiniband 2>/dev/null)" ]' ||
  { echo "FAILED $test_name: not unprivileged, or an RDMA device is in sight"; exit 1; }
