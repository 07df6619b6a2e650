#!/usr/bin/env bash
# Builds the Debian packages, runs lintian on them, and uses them in a fresh Debian: installs them by apt, mounts from
# /etc/fstab, runs the command line and the Python package against a server, removes and purges them. Then builds the
# archives of CPack. In the long mode only (NFSRDMA_LONG=1), as root: packages.sh
#
# The server is a Ganesha with a bridge in front of it (bridge/lib.sh), outside the new system, which has a mount namespace
# of its own. Environment:
#   NFSRDMA_BUILD_DIR   default: build; the packages are in its packages/, and the base system of Debian is kept in its
#                       bookworm.tar (remove that for a newer one)
#   NFSRDMA_BRIDGE      nfsrdma-bridge
#   NFSRDMA_MIRROR      where debootstrap and apt get Debian's packages
#   NFSRDMA_PACKAGES    a directory with packages that build-deb.sh has made already
#
# Exit status: 0, 1 (some check failed; the others ran), 77 (skipped: something is missing, said loudly).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath -m "${NFSRDMA_BUILD_DIR:-$here/../build}")
mirror=${NFSRDMA_MIRROR:-http://deb.debian.org/debian}
export LC_ALL=C.UTF-8 PATH=$PATH:/usr/sbin:/sbin
if [ -z "${NFSRDMA_LONG:-}" ]; then
  printf '\n*** SKIPPED packages: a Debian is made and packages are built, which takes long: NFSRDMA_LONG=1 ***\n\n' >&2
  exit 77
fi
for tool in debootstrap dpkg-buildpackage lintian; do
  if ! command -v $tool > /dev/null; then
    printf '\n*** SKIPPED packages: no %s (packaging/packages.sh install build deb) ***\n\n' $tool >&2
    exit 77
  fi
done
export NFSRDMA_BRIDGE=${NFSRDMA_BRIDGE:-$build/tests/bridge/nfsrdma-bridge}
without_cli=1
# shellcheck source=bridge/lib.sh
. "$here/bridge/lib.sh"
# shellcheck disable=SC2034
test_name=packages
[ -c /dev/fuse ] || skip "no /dev/fuse"

# ---- the packages ----

packages=${NFSRDMA_PACKAGES:-$build/packages}
if [ -n "${NFSRDMA_PACKAGES:-}" ]; then
  skip_part "the packages in $packages are used as they are"
else
  expect_exit 0 "build-deb.sh" "$root/packaging/build-deb.sh" "$packages"
  check "dpkg-gensymbols finds no difference to *.symbols" not grep -E "^dpkg-gensymbols: (warning|error)" "$work/out" "$work/err"
fi
if ! ls "$packages"/nfsrdma_*.changes > /dev/null 2>&1; then
  tail -n 50 "$work/out" "$work/err"
  exit 1
fi
same "packages" "libnfsrdma-dev libnfsrdma-ring0 libnfsrdma-ring0-dbgsym libnfsrdma1 libnfsrdma1-dbgsym nfsrdma-tools nfsrdma-tools-dbgsym python3-nfsrdma" \
  "$(find "$packages" -maxdepth 1 -name '*.deb' -printf '%f\n' | sed 's/_.*//' | sort | xargs)"
check "nfsrdma-tools depends on libedit, for the shell" grep -qw libedit2 <(dpkg-deb -f "$packages"/nfsrdma-tools_*.deb Depends)
expect_exit 0 "lintian" lintian --allow-root --fail-on error,warning "$packages"/nfsrdma_*.changes
cat "$work/out"

# Parsed only: the kernel of this machine may lack AppArmor.
if command -v apparmor_parser > /dev/null; then
  check "the AppArmor profile parses" apparmor_parser --skip-kernel-load --skip-cache "$root/packaging/apparmor/usr.bin.nfsrdma-fuse"
else
  skip_part "the AppArmor profile: no apparmor_parser (packaging/packages.sh install deb)"
fi

# ---- a fresh Debian ----

base=$build/bookworm.tar
system=$work/system
mkdir "$system"
if [ ! -e "$base" ]; then
  debootstrap --variant=minbase bookworm "$system" "$mirror" > "$work/out" 2>&1 ||
    { tail -n 5 "$work/out"; skip "debootstrap cannot get Debian from $mirror (NFSRDMA_MIRROR)"; }
  tar -C "$system" -cf "$base.new" . && mv "$base.new" "$base"
else
  tar -C "$system" -xf "$base"
fi
mkdir "$system/packages"
for file in "$packages"/*.deb; do [[ $file == *-dbgsym_* ]] || cp "$file" "$system/packages/"; done
cp "$root/packaging/debian/tests/smoke" "$root/tests/support/in_fresh_system.sh" "$system/packages/"
printf '#!/bin/sh\nexit 101\n' > "$system/usr/sbin/policy-rc.d"
chmod +x "$system/usr/sbin/policy-rc.d"
cp /etc/resolv.conf /etc/hosts "$system/etc/"
for proxy in /etc/apt/apt.conf.d/*proxy*; do [ ! -e "$proxy" ] || cp "$proxy" "$system/etc/apt/apt.conf.d/"; done

start_bridge packages || exit 1
# What the script in the new system says is printed as it comes. Its mounts end with its namespace.
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child bash -euc '
  mount --make-rprivate /
  mount -t proc proc "$1/proc"
  mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  mount -t tmpfs tmpfs "$1/run"
  exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 http_proxy="${http_proxy:-}" /packages/in_fresh_system.sh "$2"
  ' bash "$system" "$bridge_port" < /dev/null 2>&1 | tee "$work/transcript"
same "the steps in the fresh Debian" 0 "${PIPESTATUS[0]}"
same "the last step was reached" "== end" "$(tail -n 1 "$work/transcript")"
same "what was written on the mount, on the server" "from the mount" "$(cat "$export/mounted.txt")"
same "what nfsrdma-cli put there" "from the command line" "$(cat "$export/put.txt")"

# ---- CPack ----

if [ -n "${NFSRDMA_PACKAGES:-}" ]; then
  skip_part "cpack: nothing was built"
else
  generators=TGZ
  if command -v rpmbuild > /dev/null; then generators+=';RPM'; fi
  expect_exit 0 "cpack, $generators" env -C "$work" cpack --config "$packages/nfsrdma/obj-$(gcc -dumpmachine)/CPackConfig.cmake" -B "$work/cpack" -G "$generators"
fi
exit 0
