#!/usr/bin/env bash
# fio's own headers, for the engine: the source of exactly the fio that is installed, from Debian's archive, unpacked and
# configured. Debian has no package of them.
#
#   source.sh            prints the directory; gets it first if need be (16 MB from the archive, some seconds)
#   source.sh --cached   prints it if it is there already; exit 1 if not
#
# Nothing of the system's apt is changed, and nobody need be root. Kept in NFSRDMA_CACHE_DIR
# (${XDG_CACHE_HOME:-/var/cache}/nfsrdma, or below $HOME/.cache where that cannot be written).
# Exit status: 0; 1 it failed; 2 usage; 77 no fio, or no tools to unpack it (packaging/packages.sh install test bench).
set -euo pipefail
usage() { sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0" >&2; exit 2; }
say() { echo "fio/source.sh: $*" >&2; }
[ $# -le 1 ] || usage
case ${1:-} in '' | --cached) ;; *) usage ;; esac

command -v fio > /dev/null || { say "no fio (packaging/packages.sh install test)"; exit 77; }
command -v dpkg-query > /dev/null || { say "no dpkg: give cmake -DFIO_SOURCE= a configured source of $(fio --version)"; exit 77; }
binary=$(dpkg-query -W -f '${Version}' fio 2> /dev/null) || { say "this fio is of no package: give cmake -DFIO_SOURCE="; exit 77; }
version=$(dpkg-query -W -f '${source:Version}' fio)

name=fio-${version//:/_}
cache=${NFSRDMA_CACHE_DIR:-${XDG_CACHE_HOME:-/var/cache}/nfsrdma}
own=${HOME:-/tmp}/.cache/nfsrdma
is_whole() { [ -e "$1/config-host.h" ] && [ -e "$1/FIO-VERSION-FILE" ]; }
for out in "$cache/$name" "$own/$name"; do
  ! is_whole "$out" || { echo "$out"; exit 0; }
done
[ "${1:-}" != --cached ] || exit 1
for tool in apt-get apt-cache dpkg-source gcc; do
  command -v "$tool" > /dev/null || { say "no $tool (packaging/packages.sh install build bench)"; exit 77; }
done

{ mkdir -p "$cache" 2> /dev/null && [ -w "$cache" ]; } || cache=$own
mkdir -p "$cache"
out=$cache/$name
work=$(mktemp -d "$cache/fio.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$work/lists/partial" "$work/archives/partial"
# Where the package came from, as "http://deb.debian.org/debian bookworm main"; of an archive that apt does not know (any
# more) Debian's own.
from=$(apt-cache madison fio | awk -F ' *[|] *' -v v="$binary" '$2 == v { split($3, at, "[ /]+"); n = split($3, w, " ");
  sub("/.*", "", w[2]); c = $3; sub("^[^ ]* [^/]*/", "", c); sub(" .*", "", c); print w[1], w[2], c; exit }')
if [ -z "$from" ]; then
  # shellcheck source=/dev/null
  from="http://deb.debian.org/debian $(. /etc/os-release && echo "${VERSION_CODENAME:?}") main"
fi
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
signed=
[ ! -e "$keyring" ] || case $from in *debian*) signed="[signed-by=$keyring] " ;; esac
echo "deb-src $signed$from" > "$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/lists"
  -o "Dir::Cache=$work" -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=3)
say "getting the source of fio $version from $from"
( cd "$work"
  "${apt[@]}" update && "${apt[@]}" source --download-only "fio=$version" > /dev/null
  # apt has checked all of it against the archive's signature.
  dpkg-source --no-check -x fio_*.dsc source > /dev/null
  cd source
  # What it finds of other engines' libraries does not matter: nothing of that is in what engines see.
  ./configure --disable-native > configure.log 2>&1 || { tail -5 configure.log >&2; exit 1; }
  # fio's name of its version, which the engine compares.
  ./FIO-VERSION-GEN 2> /dev/null || true
  is_whole .
) >&2 || { say "FAILED: no source of fio $version"; exit 1; }
# Into place in one step; whoever was faster has the same.
mv -T "$work/source" "$out" 2> /dev/null || is_whole "$out" || { say "FAILED: cannot write $out"; exit 1; }
echo "$out"
