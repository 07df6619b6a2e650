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

# functional VERSION PING [OPTION]: every command, and what info and ping say.
functional() {
  with=(-o "vers=$1${3:+,$3}")
  start_bridge "v$1" || exit 1
  root_url=nfs://127.0.0.1:$bridge_port
  find "$export" -mindepth 1 -delete
  rm -rf "$work/cwd"
  for size in 0 1 1023 1024 4095 4096 4097 $((MiB - 1)) $((MiB + 1)) $((16 * MiB)); do check_content "$size"; done
  check_pipes
  check_listing 2000
  check_objects
  expect_exit 0 "info" cli info "$(url)"
  check "info says which version" grep -qE "NFS version: +$1\$" "$work/out"
  expect_exit 0 "info --json" cli info --json "$(url)"
  same "info --json says which version" "$1" "$(json .version)"
  expect_exit 0 "ping" cli ping -c 2 "$(url)"
  check "ping asks $2" grep -q "$2" "$work/out"
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
