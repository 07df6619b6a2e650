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

fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
exercise=${NFSRDMA_MOUNT_EXERCISE:-$root/build/tests/mount_exercise}
mounts=
if [ -c /dev/fuse ] && [ "$(id -u)" = 0 ] && [ -x "$fuse_binary" ] && [ -x "$exercise" ]; then
  mounts=1
  within_reach fuse_binary exercise
  hold_mounts unshare -m
  as_user mkdir "$work/mounted"
  at_mount() { nsenter -t "$holder" -m -- setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
else
  skip_part "the mounts: no /dev/fuse, not root, or nothing built (NFSRDMA_FUSE, NFSRDMA_MOUNT_EXERCISE)"
fi

# functional SERVICE VERSION PING [OPTION [OPTION]]: the last for the mount alone
functional() {
  say "sec=$1, NFSv$2"
  check_bridged "$1.$2" "$2" "$3" "sec=$1,gssport=$server_port${4:+,$4}"
  expect_exit 0 "info" cli info "$(url)"
  check "info says sec=$1" grep -q "sec=$1\$" "$work/out"
  [ "$1" != krb5p ] || [ -z "$mounts" ] ||
    exercise_mount "$1" "nfs://127.0.0.1:$bridge_port/export" "$work/mounted" "vers=$2,gssport=$server_port${4:+,$4}${5:+,$5}"
}
functional krb5p 4.2 SEQUENCE
functional krb5i 4.2 SEQUENCE
functional krb5 4.2 SEQUENCE
functional krb5p 4.1 SEQUENCE
functional krb5p 4.0 RENEW
if [ -e "$work/ganesha.d/rpcbind.pid" ]; then
  functional krb5p 3 NULL "mountport=$("$ganesha" port "$work" mnt)" nolock
  functional krb5i 3 NULL "mountport=$("$ganesha" port "$work" mnt)"
else
  skip_part "NFSv3: no mount namespace for an rpcbind"
fi

# doctor says whose ticket it is, or that there is none.
start_bridge doctor || exit 1
doctor() { # CACHE
  as_user "$cli_binary" doctor --json -o "sec=krb5i,gssport=$server_port,ccache=FILE:$realm/caches/$1" \
    "nfs://127.0.0.1:$bridge_port/export"
}
expect_exit 0 "doctor with a ticket" doctor krb5cc_65534
same "doctor: whose ticket" nobody@LAB.TEST "$(json '.steps[] | select(.step == "security") | .facts.principal')"
expect_exit 1 "doctor without a ticket" doctor none
check "doctor: the cause" grep -qF "security: user 65534 has no ticket" <<< "$(json .verdict.seen)"

# What was sealed, on the server's side of a bridge, which passes it on as it came: with the server's key another program
# reads it as we meant it; without, nothing of it is legible.
wire() { # VERSION [OPTION]
  local name=wire.$1 captured=$work/wire.$1.pcap pid own
  start_bridge "$name" || return
  : > "$work/dumpcap.log"
  dumpcap -q -P -i lo -B 64 -f "tcp port $server_port" -w "$captured" 2> "$work/dumpcap.log" &
  pid=$!
  eventually 10 grep -q "^File: " "$work/dumpcap.log" || { fail "$name: no capture: $(cat "$work/dumpcap.log")"; return; }
  with=(-o "vers=$1,sec=krb5p,gssport=$server_port${2:+,$2}")
  root_url=nfs://127.0.0.1:$bridge_port
  check "$name: put" cli put "$work/legible" "$(url very-secret-name)"
  check "$name: cat" cli cat "$(url very-secret-name)"
  check "$name: ls" cli ls -l "$(url)"
  sleep 0.5
  kill "$pid"
  wait "$pid"
  own=(tshark -2 -r "$captured" -d "tcp.port==$server_port,rpc" -o kerberos.decrypt:TRUE -o "kerberos.file:$realm/server.keytab")
  dissected() { "${own[@]}" -Y "$1" -T fields "${@:2}" 2> /dev/null; }
  check "$name: nothing is legible" not grep -aq -e very-secret -e "what nobody is to read" "$captured"
  check "$name: each name is, with the key" grep -q very-secret-name <(dissected "nfs.name || nfs.pathname.component" -e nfs.name -e nfs.pathname.component)
  check "$name: what was written" test -n "$(dissected "nfs.count3 == $(stat -c %s "$work/legible") || nfs.write.data_length == $(stat -c %s "$work/legible")" -e frame.number)"
  same "$name: nothing is malformed" "" "$(dissected _ws.malformed -e frame.number)"
  same "$name: every Call is of a context, sealed" "" "$(dissected 'rpc.msgtyp == 0 && nfs && !(rpc.authgss.service == 3) && !(rpc.authgss.procedure != 0)' -e frame.number)"
}
if command -v dumpcap > /dev/null && command -v tshark > /dev/null && [ "$(id -u)" = 0 ]; then
  for i in $(seq 1000); do echo "$i: what nobody is to read"; done > "$work/legible"
  chmod 644 "$work/legible"
  wire 4.2
  [ ! -e "$work/ganesha.d/rpcbind.pid" ] || wire 3 "mountport=$("$ganesha" port "$work" mnt)"
else
  skip_part "the wire: no dumpcap, tshark, or not root (packaging/packages.sh install test)"
fi
