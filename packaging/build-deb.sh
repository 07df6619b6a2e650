#!/usr/bin/env bash
# Builds the Debian packages: packaging/build-deb.sh [DIRECTORY]
#
# dpkg-buildpackage runs in a copy of the sources, with packaging/debian as its debian/. The copy has what git tracks,
# with the changes in the work tree; without git, it has everything but build directories. The packages are then in
# DIRECTORY (default: build-deb beside packaging/). Its subdirectory nfsrdma, the copy, stays for the next run.
#
# Needed: packaging/packages.sh install build deb (by root). Exit status: 0, 1 (it failed), 2 (usage).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -gt 1 ] || [[ ${1:-} == -* ]]; then
  sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0" >&2
  exit 2
fi
out=$(realpath -m "${1:-$root/build-deb}")
copy=$out/nfsrdma
die() { echo "build-deb.sh: $*" >&2; exit 1; }

command -v dpkg-buildpackage > /dev/null || die "no dpkg-buildpackage; run: packaging/packages.sh install build deb"
project=$(sed -n 's/^project(.* VERSION \([0-9.]*\) .*/\1/p' "$root/CMakeLists.txt")
packaged=$(sed -n '1s/^nfsrdma (\([^)]*\)).*/\1/p' "$root/packaging/debian/changelog")
[ "$project" = "$packaged" ] ||
  die "packaging/debian/changelog is about version $packaged, CMakeLists.txt about $project; add an entry to the changelog"

# Prints the paths of the sources, separated by zeros.
sources() {
  git -c safe.directory='*' ls-files -z 2> /dev/null || find . \( -path './build*' -o -name .git \) -prune -o -type f -print0
}
mkdir -p "$copy"
find "$out" -maxdepth 1 -type f \( -name '*nfsrdma*.deb' -o -name 'nfsrdma_*' \) -delete
find "$copy" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
( cd "$root" && sources | tar -c --null --files-from=- --ignore-failed-read ) | tar -x -C "$copy"
cp -r "$copy/packaging/debian" "$copy/debian"

# One build's compilations serve the next, which lies elsewhere.
export CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir 2> /dev/null || true)} CCACHE_BASEDIR=$copy CCACHE_NOHASHDIR=1
# pybuild must find Debian's Python, not one of pyenv or the like.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
cd "$copy"
dpkg-buildpackage -us -uc -b
echo "build-deb.sh: the packages are in $out:"
ls "$out"/*.deb
