#!/usr/bin/env bash
# Builds the lab's User-Mode Linux kernel from Debian's linux-source-6.1 and kernel.fragment.
# Usage: build-kernel.sh OUTPUT-FILE [VERSION]    (4 to 6 minutes on 2 cores; needs about 2 GB below ${TMPDIR:-/tmp})
# VERSION: another than 6.1. 6.12 was tried: its server grants write delegations (delegations.sh).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${1:?usage: build-kernel.sh OUTPUT-FILE [VERSION]}")
version=${2:-6.1}
"$here/../../packaging/packages.sh" install kernel >&2
source=/usr/src/linux-source-$version.tar.xz
[ -r "$source" ] || { echo "build-kernel: no $source (apt-get install linux-source-$version)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
echo "build-kernel: unpacking the source" >&2
tar xf "$source" -C "$work" --strip-components=1
cd "$work"
# 6.1 saves guest FP state in a 2696-byte buffer; hosts with AMX need 11008 bytes, and every
# user process in the guest dies at its first instruction without this.
sed -i 's/DEFINE_LONGS(HOST_FP_SIZE, 2696)/DEFINE_LONGS(HOST_FP_SIZE, 11264)/' arch/x86/um/user-offsets.c
grep -q 'HOST_FP_SIZE, 11264' arch/x86/um/user-offsets.c || { echo "build-kernel: arch/x86/um/user-offsets.c is not what this script patches" >&2; exit 1; }
make -s ARCH=um allnoconfig KCONFIG_ALLCONFIG="$here/kernel.fragment" >&2
echo "build-kernel: compiling with $(nproc) jobs" >&2
make -s ARCH=um -j"$(nproc)" linux >&2
mkdir -p "$(dirname "$out")"
# Into place in one step: whoever sees the file may run it.
strip -o "$out.$$" linux
chmod 755 "$out.$$"
mv "$out.$$" "$out"
ls -l "$out" >&2
