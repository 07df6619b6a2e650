#!/usr/bin/env bash
# Every command of nfsrdma-cli and a mount, over each version, with what RPCSEC_GSS makes of the Calls: what it does is
# compared with what the server itself sees.
#
#   sealed.sh [SERVICE …]     krb5 krb5i: those that the lab's kernel can serve
#   NFSRDMA_VERSIONS          3 4.0 4.1 4.2, each with every service; without it and without NFSRDMA_LONG=1 each with one
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
fuse_binary=${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}
exercise=${NFSRDMA_MOUNT_EXERCISE:-$root/build/tests/mount_exercise}
[ -c /dev/fuse ] || skip "no /dev/fuse"
need_tools fusermount3 nsenter
need_built 'NFSRDMA_FUSE, NFSRDMA_MOUNT_EXERCISE' "$fuse_binary" "$exercise"
within_reach fuse_binary exercise
realm_up
# shellcheck source=../support/file_checks.sh
. "$here/../support/file_checks.sh"

with=()
# shellcheck disable=SC2034
by_ticket=1
cli() { "$lab" "$side" ${cli_wrap[@]+"${cli_wrap[@]}"} "$cli_binary" "$1" ${with[@]+"${with[@]}"} "${@:2}"; }

# The mount is an unprivileged user's, in a namespace of his own where the lab is not: the guest has one kernel for all.
if [ "$side" = guest ]; then
  fabric=verbs
  point=/dev/shm/$test_name
  at_mount() { "$lab" guest "$@" < /dev/null; }
  # FUSE's device is everybody's, as udev has it.
  on_server "chmod 666 /dev/fuse"
  at_mount mkdir -p "$point"
else
  fabric=iwarp
  hold_mounts "$lab" ns
  point=$work/mounted
  mkdir "$point"
  chown nobody "$point"
  at_mount() { nsenter -t "$holder" -m -n -- setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
fi

# functional SERVICE VERSION PING
functional() {
  say "--- sec=$1, NFSv$2, $fabric, at $SECONDS s ---"
  root_url=nfs://$server
  [ "$2" != 3 ] || root_url=nfs://$server/mnt/exp
  with=(-o "sec=$1,vers=$2,fabric=$fabric")
  check_version "$2" "$3" 300 "$root_url"
  same "info --json says how" "$1" "$(cli info --json "$root_url" | jq -r .security)"
  expect_exit 0 "several connections" cli ls -o nconnect=3 "$root_url"

  exercise_mount "$1" "$root_url$remote" "$point" "vers=$2,fabric=$fabric"
}
[ $# -gt 0 ] || set -- krb5 krb5i
turn=-1
for service in "$@"; do
  for version in ${NFSRDMA_VERSIONS:-3 4.0 4.1 4.2}; do
    turn=$((turn + 1))
    if [ $# -gt 1 ] && [ -z "${NFSRDMA_VERSIONS:-}${NFSRDMA_LONG:-}" ] && [ $(((turn + turn / 4) % 2)) = 1 ]; then continue; fi
    case $version in 3) ping=NULL ;; 4.0) ping=RENEW ;; *) ping=SEQUENCE ;; esac
    functional "$service" "$version" "$ping"
  done
done
