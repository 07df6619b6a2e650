#!/usr/bin/env bash
# Kerberos against Ganesha, a server with GSSAPI of its own: each service and version, and what is on the wire of it. Of
# krb5p this is the proof, since the lab's kernel cannot serve it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../support/realm.sh
. "$here/../support/realm.sh"
realm=
end_realm() { [ -z "$realm" ] || { [ ! -s "$realm/kdc.pid" ] || kill "$(cat "$realm/kdc.pid")" 2> /dev/null; rm -rf "$realm"; }; }
PATH=$PATH:/usr/sbin:/sbin
if command -v krb5kdc > /dev/null; then
  realm=$(mktemp -d)
  realm_configure "$realm" "127.0.0.1:$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
  realm_create "$realm" && realm_add "$realm" nfs/127.0.0.1 server.keytab && realm_add "$realm" nobody nobody.keytab
  krb5kdc -n -P "$realm/kdc.pid" > "$realm/kdc.out" 2>&1 < /dev/null &
fi
trap end_realm EXIT
[ -z "$realm" ] || export GANESHA_REALM=$realm
# shellcheck source=lib.sh
. "$here/lib.sh"
need_tools krb5kdc kinit kadmin.local
trap 'end_realm; finish' EXIT
# shellcheck source=../support/file_checks.sh
. "$here/../support/file_checks.sh"

ticket() { as_user kinit -c "FILE:$realm/caches/krb5cc_65534" -k -t "$realm/nobody.keytab" "$@" nobody; }
chmod 644 "$realm/nobody.keytab"
check "a ticket" eventually 10 ticket
gssport=$server_port

# shellcheck disable=SC2034
by_ticket=1
with=()
cli_wrap=()
cli() { as_user ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$1" "${with[@]}" "${@:2}"; }
url() { printf '%s/export/%s' "$root_url" "${1:-}"; }

# functional SERVICE VERSION PING [OPTION]
functional() {
  with=(-o "sec=$1,gssport=$gssport,vers=$2${4:+,$4}")
  start_bridge "$1.$2" || exit 1
  root_url=nfs://127.0.0.1:$bridge_port
  say "sec=$1, NFSv$2"
  check_version "$2" "$3" 2000 "$(url)"
  expect_exit 0 "info" cli info "$(url)"
  check "info says sec=$1" grep -q "sec=$1\$" "$work/out"
  check "no Call was answered with RDMA_ERROR" on_server "! grep -E 'RDMA_ERROR|ERR_|discarded' '$work/$1.$2.log'"
}
functional krb5p 4.2 SEQUENCE
functional krb5i 4.2 SEQUENCE
functional krb5 4.2 SEQUENCE
functional krb5p 4.1 SEQUENCE
functional krb5p 4.0 RENEW
if [ -e "$work/ganesha.d/rpcbind.pid" ]; then
  functional krb5p 3 NULL "mountport=$("$ganesha" port "$work" mnt)"
  functional krb5i 3 NULL "mountport=$("$ganesha" port "$work" mnt)"
fi
