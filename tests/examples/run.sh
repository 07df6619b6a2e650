#!/usr/bin/env bash
# Installs the build into a scratch prefix and builds the example against it, as users do: by the CMake package and by
# pkg-config. Runs it as far as it goes without a server. Usage: run.sh BUILD-DIRECTORY
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:?usage: run.sh BUILD-DIRECTORY}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" > "$work/log" || { cat "$work/log"; exit 1; }

cmake -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/log" && cmake --build "$work/cmake" > "$work/log" ||
  { cat "$work/log"; exit 1; }

lib=$(dirname "$(find "$work/prefix" -name nfsrdma.pc)")
for program in copy_head heads; do
  # shellcheck disable=SC2046
  g++ -std=c++20 -Wall -Wextra -Werror "$here/$program.cpp" $(PKG_CONFIG_PATH=$lib pkg-config --cflags --libs nfsrdma) \
    -o "$work/$program"
done
export LD_LIBRARY_PATH=${lib%/pkgconfig}
for program in "$work/cmake/copy_head" "$work/copy_head" "$work/cmake/heads" "$work/heads"; do
  status=0
  "$program" 2> "$work/err" || status=$?
  [ $status = 2 ] || { echo "$program without arguments: exit $status"; exit 1; }
  status=0
  "$program" 'nfs://127.0.0.1:1/x' 1 2> "$work/err" || status=$?
  [ $status = 1 ] && grep -q 'refused' "$work/err" || { echo "$program: exit $status"; cat "$work/err"; exit 1; }
done
# A ring: only files of a mount have one.
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$work/prefix/include" "$here/ring_cat.c" -L"$LD_LIBRARY_PATH" -lnfsrdma-ring -o "$work/ring_cat"
for program in "$work/cmake/ring_cat" "$work/ring_cat"; do
  status=0
  "$program" "$here/ring_cat.c" 2> "$work/err" || status=$?
  [ $status = 1 ] && grep -q 'no ring' "$work/err" || { echo "$program: exit $status"; cat "$work/err"; exit 1; }
done
# What the programs need beside them.
for file in bin/nfsrdma-cli share/man/man1/nfsrdma-cli.1 include/nfsrdma/client.h include/nfsrdma/ring.h; do
  [ -e "$work/prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
# An installed program finds the library that is installed with it.
[ -x "$work/prefix/bin/nfsrdma-cli" ] && env -u LD_LIBRARY_PATH "$work/prefix/bin/nfsrdma-cli" --version
