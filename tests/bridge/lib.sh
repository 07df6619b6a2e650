# shellcheck shell=bash
# What the bridge's tests share: a Ganesha of their own with bridges in front of it. A test sources this file first.
#
# Given: NFSRDMA_CLI, NFSRDMA_BRIDGE (the programs); with $without_cli set the first is not asked for. Provides: $work (removed at the end; KEEP=1 keeps it), $export (the
# exported directory of this test, as the server sees it), start_bridge, and what ../support/checks.sh has.
#
# Exit status: 0, 1 (some check failed; the others ran), 77 (skipped: something is missing, said loudly).
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
ganesha=$here/ganesha
test_name=bridge-$(basename "$0" .sh)
cli_binary=${NFSRDMA_CLI:-$root/build/cli/nfsrdma-cli}
bridge_binary=${NFSRDMA_BRIDGE:-$root/build/tests/bridge/nfsrdma-bridge}

# shellcheck source=../support/checks.sh
. "$here/../support/checks.sh"

on_server() { bash -c "$*"; }
server_sum() { sha256sum < "$export/$1" | cut -d' ' -f1; }
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

# start_bridge NAME OPTION …: sets $bridge_port and $bridge_pid. What it says at its end is in $work/NAME.summary.
start_bridge() {
  local name=$1 line wait
  shift
  "$bridge_binary" --listen 127.0.0.1:0 --server "127.0.0.1:$server_port" --log "$work/$name.log" "$@" \
    > "$work/$name.summary" 2> "$work/$name.err" &
  bridge_pid=$!
  children+=("$bridge_pid")
  for wait in $(seq 100); do
    line=$(head -1 "$work/$name.summary" 2> /dev/null)
    bridge_port=${line##*:}
    [ -n "$bridge_port" ] && return 0
    kill -0 "$bridge_pid" 2> /dev/null || break
    sleep 0.05
  done
  fail "the bridge $name did not start: $(cat "$work/$name.err")"
  return 1
}
# stop_bridge PID: it must end by itself, with status 0.
stop_bridge() {
  kill -TERM "$1" && wait "$1"
}

children=()
finish() {
  local status=$? child
  trap - EXIT INT TERM HUP
  for child in ${children[@]+"${children[@]}"}; do kill "$child" 2> /dev/null; done
  "$ganesha" down "$work"
  if [ -n "${KEEP:-}" ]; then say "kept: $work"; else rm -rf "$work"; fi
  conclude "$status"
}

missing=$("$ganesha" check 2>&1) || skip "$missing"
need_tools jq sha256sum /usr/bin/time setpriv
programs=("$bridge_binary")
[ -n "${without_cli:-}" ] || programs+=("$cli_binary")
need_built 'NFSRDMA_CLI, NFSRDMA_BRIDGE' "${programs[@]}"
work=$(mktemp -d)
chmod 777 "$work"
trap finish EXIT
trap 'exit 130' INT TERM HUP
"$ganesha" up "$work" || { status=$?; [ $status = 77 ] && skip "Ganesha cannot run here"; exit 1; }
server_port=$("$ganesha" port "$work")
export=$work/export
chmod 1777 "$export"
[ -n "${without_cli:-}" ] || as_user test -x "$cli_binary" || copy_out_cli
