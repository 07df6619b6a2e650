# shellcheck shell=bash
# Every command of nfsrdma-cli through a bridge of its own, on top of lib.sh: for versions.sh and kerberos.sh.
# shellcheck source=../support/file_checks.sh
. "$here/../support/file_checks.sh"

# With the options that each command is given.
with=()
cli_wrap=()
cli() { as_user ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$1" "${with[@]}" "${@:2}"; }
url() { printf '%s/export/%s' "$root_url" "${1:-}"; }

# check_bridged NAME VERSION PING [OPTIONS]
check_bridged() {
  with=(-o "vers=$2${4:+,$4}")
  start_bridge "$1" || exit 1
  root_url=nfs://127.0.0.1:$bridge_port
  check_version "$2" "$3" 2000 "$(url)"
  check "no Call was answered with RDMA_ERROR" on_server "! grep -E 'RDMA_ERROR|ERR_|discarded' '$work/$1.log'"
}
