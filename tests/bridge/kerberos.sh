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
# shellcheck source=version_checks.sh
. "$here/version_checks.sh"

ticket() { as_user kinit -c "FILE:$realm/caches/krb5cc_65534" -k -t "$realm/nobody.keytab" "$@" nobody; }
chmod 644 "$realm/nobody.keytab"
check "a ticket" eventually 10 ticket
# shellcheck disable=SC2034
by_ticket=1

# functional SERVICE VERSION PING [OPTION]
functional() {
  say "sec=$1, NFSv$2"
  check_bridged "$1.$2" "$2" "$3" "sec=$1,gssport=$server_port${4:+,$4}"
  expect_exit 0 "info" cli info "$(url)"
  check "info says sec=$1" grep -q "sec=$1\$" "$work/out"
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
