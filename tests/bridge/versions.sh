#!/usr/bin/env bash
# Each version of NFS through the bridge, on a Ganesha: what ../lab/versions.sh does on the kernel's server.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=version_checks.sh
. "$here/version_checks.sh"

check_bridged v4.2 4.2 SEQUENCE
check_bridged v4.1 4.1 SEQUENCE
check_bridged v4.0 4.0 RENEW
if [ -e "$work/ganesha.d/rpcbind.pid" ]; then
  check_bridged v3 3 NULL "mountport=$("$ganesha" port "$work" mnt)"
  with=()
  expect_exit 0 "exports" cli exports -o "vers=3,mountport=$("$ganesha" port "$work" mnt)" 127.0.0.1
  check "exports: Ganesha's" grep -q '^/export ' "$work/out"
else
  skip_part "NFSv3: no mount namespace for an rpcbind"
fi
