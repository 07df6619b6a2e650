#!/usr/bin/env bash
# Each version of NFS through the bridge, on a Ganesha: what ../lab/versions.sh does on the kernel's server.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=../support/file_checks.sh
. "$here/../support/file_checks.sh"

# With the options that each command is given.
with=()
cli_wrap=()
cli() { as_user ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$1" "${with[@]}" "${@:2}"; }
url() { printf '%s/export/%s' "$root_url" "${1:-}"; }

# functional VERSION PING [OPTION]
functional() {
  with=(-o "vers=$1${3:+,$3}")
  start_bridge "v$1" || exit 1
  root_url=nfs://127.0.0.1:$bridge_port
  check_version "$1" "$2" 2000 "$(url)"
  check "no Call was answered with RDMA_ERROR" on_server "! grep -E 'RDMA_ERROR|ERR_|discarded' '$work/v$1.log'"
}

functional 4.2 SEQUENCE
functional 4.1 SEQUENCE
functional 4.0 RENEW
if [ -e "$work/ganesha.d/rpcbind.pid" ]; then
  functional 3 NULL "mountport=$("$ganesha" port "$work" mnt)"
  with=()
  expect_exit 0 "exports" cli exports -o "vers=3,mountport=$("$ganesha" port "$work" mnt)" 127.0.0.1
  check "exports: Ganesha's" grep -q '^/export ' "$work/out"
else
  say "Ganesha has no NFSv3 here: no mount namespace for an rpcbind"
fi
