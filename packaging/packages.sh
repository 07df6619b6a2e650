#!/usr/bin/env bash
# The Debian 12 packages that the project needs, by purpose, and their installation.
#
#   packages.sh list [GROUP ...]      print them
#   packages.sh missing [GROUP ...]   print those that are not installed; exit 1 if there are any
#   packages.sh install [GROUP ...]   install those (as root); does not touch apt if nothing is missing
#
# Groups: build (compile and install it), try (the server of try-it.sh), test (its tests, the lab), check (clang:
# format, tidy, fuzzing), bench (its rivals in tests/bench, and what unpacks fio's headers), deb (build-deb.sh and
# tests/packages.sh), kernel (build the lab's guest kernel). Default: build test check bench; `kernel` is installed by
# tests/lab/build-kernel.sh when no ready-made kernel is at hand.
set -euo pipefail

# Boost 1.81 beside Debian's default 1.74: Boost.PFR came with 1.75.
# shellcheck disable=SC2034  # all by name, in packages()
build=(g++ libfuse3-dev librdmacm-dev libibverbs-dev libtirpc-dev libkrb5-dev libedit-dev cmake ninja-build make pkg-config ccache libboost1.81-dev libboost-program-options1.81-dev doctest-dev)
test=(zsh fuse3 nfs-kernel-server rpcbind nfs-common iproute2 rdma-core ibverbs-providers busybox-static xfsprogs xz-utils
  util-linux nfs-ganesha nfs-ganesha-vfs tshark wireshark-common jq time python3 groff-base git procps fio rsync acl nfs4-acl-tools
  krb5-kdc krb5-admin-server krb5-user python3-fsspec python3-numpy)
# What packaging/try-it.sh starts.
try=(fuse3 nfs-ganesha nfs-ganesha-vfs rpcbind python3 util-linux)
check=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev)
bench=(libnfs-dev libnfs-utils strace valgrind dpkg-dev)
# What builds and checks the Debian packages, and installs them in a fresh system.
deb=(apparmor dpkg-dev debhelper dh-apparmor dh-python fakeroot pybuild-plugin-pyproject python3-all python3-setuptools lintian debootstrap)
kernel=(linux-source-6.1 build-essential flex bison bc xz-utils)

usage() { sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0" >&2; exit 2; }
packages() {
  local g
  for g in "$@"; do
    case $g in
      build | test | try | check | bench | deb | kernel) local -n group=$g; printf '%s\n' "${group[@]}" ;;
      *) echo "packages.sh: no group '$g'" >&2; return 2 ;;
    esac
  done | sort -u
}
missing() {
  local p
  packages "$@" | while read -r p; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
  done
}

install() {
  local want
  mapfile -t want < <(missing "$@")
  [ ${#want[@]} = 0 ] && return 0
  [ "$(id -u)" = 0 ] || { echo "packages.sh: not root, cannot install: ${want[*]}" >&2; return 1; }
  echo "packages.sh: installing ${want[*]}" >&2
  # The lab runs its servers in a guest: the packages' daemons must not start on the host.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
    # shellcheck disable=SC2064  # the path, now
    trap "rm -f '$policy'" EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update >&2
  apt-get -qq install -y --no-install-recommends "${want[@]}" > /dev/null
}

command=${1:-}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- build test check bench
case $command in
  list) packages "$@" ;;
  missing) m=$(missing "$@"); [ -z "$m" ] || { printf '%s\n' "$m"; exit 1; } ;;
  install) install "$@" ;;
  *) usage ;;
esac
