# shellcheck shell=bash
# A Kerberos realm of a test's own, LAB.TEST, in a directory: configuration, database, principals. MIT's KDC serves it.
#
#   realm_configure DIR ADDRESS   krb5.conf and kdc.conf in DIR, and where they are in the environment; ADDRESS: the KDC's,
#                                 10.77.0.1:8888. Tickets are in DIR/caches/krb5cc_UID. idmapd.conf: who a principal is
#   realm_create DIR              an empty database
#   realm_add DIR PRINCIPAL KEYTAB
#                                 with its key in DIR/KEYTAB
realm_configure() {
  local k=$1
  mkdir -p "$k/caches"
  chmod 755 "$k"
  chmod 1777 "$k/caches"
  cat > "$k/krb5.conf" <<END
[libdefaults]
  default_realm = LAB.TEST
  dns_canonicalize_hostname = false
  rdns = false
  dns_lookup_kdc = false
  dns_lookup_realm = false
  default_ccache_name = FILE:$k/caches/krb5cc_%{uid}
[realms]
  LAB.TEST = {
    kdc = $2
  }
[domain_realm]
  .lab.test = LAB.TEST
END
  cat > "$k/kdc.conf" <<END
[kdcdefaults]
  kdc_listen = $2
  kdc_tcp_listen = $2
[realms]
  LAB.TEST = {
    database_name = $k/principal
    key_stash_file = $k/stash
    acl_file = $k/acl
    max_life = 10h
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
  }
[logging]
  kdc = FILE:$k/kdc.log
END
  cat > "$k/idmapd.conf" <<END
[General]
Domain = lab.test
Local-Realms = LAB.TEST
[Mapping]
Nobody-User = nobody
Nobody-Group = nogroup
[Translation]
Method = nsswitch
END
  export KRB5_CONFIG=$k/krb5.conf KRB5_KDC_PROFILE=$k/kdc.conf
}
realm_create() {
  kdb5_util create -s -r LAB.TEST -P master -W > "$1/kdb5.log" 2>&1 || { cat "$1/kdb5.log" >&2; return 1; }
}
realm_add() {
  kadmin.local -q "addprinc -randkey $2" >> "$1/kadmin.log" 2>&1
  kadmin.local -q "ktadd -k $1/$3 $2" >> "$1/kadmin.log" 2>&1
  [ -s "$1/$3" ] || { cat "$1/kadmin.log" >&2; return 1; }
}
