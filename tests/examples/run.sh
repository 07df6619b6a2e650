#!/usr/bin/env bash
# Installs the build into a scratch prefix and builds all examples in C and C++ against it, as users do: by the CMake
# package, by pkg-config, and one of them with the library linked statically. Runs each as far as it goes without a
# server. Checks what the installed library exports. Usage: run.sh BUILD-DIRECTORY
#
# tests/bridge/library.sh runs the examples against a server.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export examples=$root/libclient/examples
build=${1:?usage: run.sh BUILD-DIRECTORY}
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT
jobs=$(nproc)

die() { echo "$*"; exit 1; }
# quietly COMMAND …: shows the command's output only if the command fails.
quietly() { "$@" > "$work/log" 2>&1 || { cat "$work/log"; die "failed: $*"; }; }

quietly cmake --install "$build" --prefix "$work/prefix"
grep -qF "mount.nfsrdma is in $work/prefix/sbin, but mount(8) looks for it in /sbin" "$work/log" ||
  die "the installation does not say that mount(8) will not find mount.nfsrdma"
pkgconfig=$(dirname "$(find "$work/prefix" -name nfsrdma.pc)")
library=${pkgconfig%/pkgconfig}
export PKG_CONFIG_PATH=$pkgconfig

# ---- what is installed ----

for file in bin/nfsrdma-cli share/man/man1/nfsrdma-cli.1 share/man/man3/nfsrdma_file.3 share/man/man3/nfsrdma_pread.3 \
  share/man/man3/nfsrdma_cpp.3 share/bash-completion/completions/nfsrdma-cli share/zsh/site-functions/_nfsrdma-cli \
  include/nfsrdma/client.h include/nfsrdma/await.h include/nfsrdma/nfsrdma.h include/nfsrdma/ring.h; do
  [ -e "$work/prefix/$file" ] || die "not installed: $file"
done
# An installed program finds the library that is installed with it.
env -u LD_LIBRARY_PATH "$work/prefix/bin/nfsrdma-cli" --version
# The library exports the functions of its version script, with their versions, and nothing else. nm prints the versions
# themselves as well, as absolute symbols.
awk '/^NFSRDMA_[0-9]+ [{]/ { version = $1 } /^ *nfsrdma_[a-z0-9_]*;$/ { print substr($1, 1, length($1) - 1) "@@" version }' \
  "$root/libclient/libnfsrdma.map" | sort > "$work/wanted"
nm -D --defined-only "$library/libnfsrdma.so.1" | awk '$2 != "A" || $3 !~ /^NFSRDMA_[0-9]+$/ { print $3 }' | sort > "$work/exported"
diff "$work/wanted" "$work/exported" || die "libnfsrdma.so.1 exports (>) something else than libnfsrdma.map lists (<)"
# dpkg-gensymbols compares as well, where packages are built.
sed -n 's/^ \(nfsrdma_[a-z0-9_]*@\)\(NFSRDMA_[0-9]*\) [0-9.]*$/\1@\2/p' "$root/packaging/debian/libnfsrdma1.symbols" | sort > "$work/packaged"
diff "$work/wanted" "$work/packaged" || die "packaging/debian/libnfsrdma1.symbols lists (>) something else than libnfsrdma.map (<)"
[ -s "$work/exported" ] || die "libnfsrdma.so.1 exports nothing"
# Debian's list of them agrees.
sed -n 's/^ \(nfsrdma_[^@]*\)@\([^ ]*\) .*/\1@@\2/p' "$root/packaging/debian/libnfsrdma1.symbols" | sort > "$work/listed"
diff "$work/wanted" "$work/listed" || die "packaging/debian/libnfsrdma1.symbols lists (>) something else than libnfsrdma.map (<)"

# ---- the programs ----

# Most of the time goes into compiling. Paths below $work count as relative ones, so that the next run finds them.
export launcher='' CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
if command -v ccache > /dev/null; then launcher=ccache; fi
mkdir "$work/plain"
quietly cmake -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"
quietly cmake --build "$work/cmake" -j "$jobs"

# build_plain LANGUAGE/NAME: with the options that the comment in the example names.
build_plain() {
  local language=${1%/*} name=${1#*/} library=nfsrdma compiler=(gcc -std=c99 -D_GNU_SOURCE)
  local program=$work/plain/${language}_$name
  [ "$language" = c ] || compiler=(g++ -std=c++20)
  [ "$name" != ring_cat ] || library=nfsrdma-ring
  # shellcheck disable=SC2046
  $launcher "${compiler[@]}" -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags "$library") \
    -c "$examples/$1.$language" -o "$program.o" &&
    "${compiler[@]}" "$program.o" $(pkg-config --libs "$library") -o "$program" && rm "$program.o"
}
export -f build_plain
names=$(cd "$examples" && printf '%s\n' c/*.c cpp/*.cpp | sed 's/\.[a-z]*$//')
cd "$work"
# shellcheck disable=SC2016
xargs -n 1 -P "$jobs" bash -c 'build_plain "$1"' build <<< "$names" || die "the examples do not compile by pkg-config"

# -l: names the archive, because the linker prefers a shared library of the same name.
static=$(pkg-config --static --libs nfsrdma)
# shellcheck disable=SC2046,SC2086
gcc -std=c99 -static-libgcc $(pkg-config --cflags nfsrdma) "$examples/c/hello.c" ${static/-lnfsrdma/-l:libnfsrdma.a} \
  -o "$work/plain/c_hello_static"
! ldd "$work/plain/c_hello_static" | grep libnfsrdma || die "c_hello_static needs the shared library"

# expect STATUS TEXT PROGRAM ARGUMENT …: the program ends with this status, and its errors contain the text.
expect() {
  local wanted=$1 text=$2 status=0
  shift 2
  "$@" > /dev/null 2> "$work/err" || status=$?
  if [ $status != "$wanted" ] || ! grep -q -- "$text" "$work/err"; then
    cat "$work/err"
    die "$*: exit $status"
  fi
}
count=0
for program in "$work"/cmake/c_* "$work"/cmake/cpp_* "$work"/plain/*; do
  if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
  arguments=()
  case ${program##*/} in
    *_copy_tree) arguments=("$work/copy") ;;
    *_heads | *_coroutine) arguments=(name) ;;
    c_lock) arguments=(1 1) ;;
  esac
  search=(env LD_LIBRARY_PATH="$library")
  [ "${program##*/}" != c_hello_static ] || search=(env -u LD_LIBRARY_PATH)
  expect 2 'usage: ' "${search[@]}" "$program"
  if [ "${program##*/}" = c_ring_cat ]; then
    # Only files of a mount have a ring.
    expect 1 'no ring' "${search[@]}" "$program" "$examples/c/ring_cat.c"
  else
    expect 1 'refused' "${search[@]}" "$program" 'nfs://127.0.0.1:1/x' ${arguments[@]+"${arguments[@]}"}
  fi
  count=$((count + 1))
done
wanted=$((2 * $(wc -w <<< "$names") + 1))
[ $count = $wanted ] || die "$count programs were built; there should be $wanted"
echo "$count programs"
