#!/usr/bin/env bash
# Everything that can be tested, on a fresh Debian 12: sudo tests/run.sh
#
#   tests/run.sh                  install packages (as root), build, and run all tests; about 35 minutes on 2 cores
#   tests/run.sh --quick          build and run unit, conformance and format checks only
#   tests/run.sh --stage NAME     one stage by itself: format, tidy, man, asan, tsan, fuzz
#
# Ends with ctest's summary: the stages are ctest tests too, so that they run beside each other where that is safe. As
# an unprivileged user it works with what is installed, and says loudly what it skips.
# Environment: NFSRDMA_BUILD_DIR (build; the other trees are its neighbours build-asan, build-tsan),
# NFSRDMA_LAB_KERNEL (see tests/lab/lab), NFSRDMA_FUZZ_SECONDS (for each target, 60).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${NFSRDMA_BUILD_DIR:-$root/build}")
jobs=$(nproc)
# One clone's compilations serve the next: paths below the root count as relative ones.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export PATH=$PATH:/usr/sbin:/sbin

skip() { printf '\n*** SKIPPED: %s ***\n\n' "$*" >&2; exit 77; }
have() { command -v "$1" > /dev/null; }
# timed WHAT COMMAND …
timed() {
  local what=$1 began=$SECONDS status=0
  shift
  printf '=== %s\n' "$what"
  "$@" || status=$?
  printf '=== %s: %s, %d s\n' "$what" "$([ $status = 0 ] && echo ok || echo "FAILED ($status)")" $((SECONDS - began))
  return $status
}
# configure DIRECTORY OPTION …
configure() {
  local dir=$1 generator=()
  shift
  mkdir -p "$dir"
  if have ninja && [ ! -e "$dir/CMakeCache.txt" ]; then generator=(-G Ninja); fi
  cmake -S "$root" -B "$dir" ${generator[@]+"${generator[@]}"} "$@" > "$dir/run.log" 2>&1 || { cat "$dir/run.log"; return 1; }
}
compile() {
  local dir=$1
  shift
  cmake --build "$dir" -j "$jobs" "$@" > "$dir/run.log" 2>&1 || { tail -60 "$dir/run.log"; return 1; }
}

# The project's sources below the given directories, also where there is no git.
sources() {
  ( cd "$root"
    git -c safe.directory='*' ls-files -co --exclude-standard -- "$@" 2>/dev/null ||
      find "$@" -type f ) | grep -E '\.(h|cpp)$' | sort
}
stage_format() {
  have clang-format-19 || skip "format: no clang-format-19"
  ( cd "$root" && sources cli fuse libclient reply_sizing tests | xargs -r clang-format-19 --dry-run -Werror )
}
stage_tidy() {
  have run-clang-tidy-19 || skip "tidy: no run-clang-tidy-19"
  [ -e "$build/compile_commands.json" ] || skip "tidy: no compile_commands.json in $build"
  local status=0
  run-clang-tidy-19 -p "$build" -j "$jobs" -quiet -extra-arg=-Wno-unknown-warning-option \
    "^$root/(cli|fuse|libclient|reply_sizing)/.*\.cpp\$" > "$build/tidy.log" 2>&1 || status=$?
  # Without the progress lines and the counts of suppressed warnings.
  grep -vE '^(\[ *[0-9]+/[0-9]+\]|[0-9]+ warnings? generated|clang-tidy-19 |Running )' "$build/tidy.log" | head -200 || true
  return $status
}
# Every command explains itself, and the manual page knows every command and option that --help does.
stage_man() {
  local cli=$build/cli/nfsrdma-cli page=$root/man/nfsrdma-cli.1 failed=0 command word warnings
  [ -x "$cli" ] || { echo "no $cli"; return 1; }
  [ -e "$page" ] || { echo "no $page"; return 1; }
  # shellcheck disable=SC2016
  local plain
  plain=$(sed 's/\\-/-/g; s/\\f[BIRP]//g' "$page")
  for command in '' ping info ls stat cat get put mkdir rm rmdir mv ln touch chmod chown truncate df; do
    # shellcheck disable=SC2086
    "$cli" $command --help > "$build/help.txt" || { echo "nfsrdma-cli $command --help fails"; failed=1; }
    [ -s "$build/help.txt" ] || { echo "nfsrdma-cli $command --help says nothing"; failed=1; }
    [ -z "$command" ] || grep -qw -- "$command" <<< "$plain" || { echo "the manual page lacks $command"; failed=1; }
    for word in $(grep -oE -- '(^|[ ,[])--[a-z][a-z-]+' "$build/help.txt" | grep -oE -- '--[a-z-]+' | sort -u); do
      grep -qF -- "$word" <<< "$plain" || { echo "the manual page lacks $word (nfsrdma-cli $command)"; failed=1; }
    done
  done
  local fuse=$build/fuse/nfsrdma-fuse
  plain=$(sed 's/\\-/-/g; s/\\f[BIRP]//g' "$root/man/nfsrdma-fuse.8")
  "$fuse" --help > "$build/help.txt" || { echo "nfsrdma-fuse --help fails"; failed=1; }
  [ "$(wc -l < "$build/help.txt")" -gt 40 ] || { echo "nfsrdma-fuse --help says too little"; failed=1; }
  for word in $(grep -oE '^  [a-z_]+(=| )' "$build/help.txt" | tr -d ' =' | sort -u); do
    grep -qE -- "(^|[^a-z_])$word($|[^a-z_])" <<< "$plain" || { echo "nfsrdma-fuse.8 lacks $word"; failed=1; }
  done
  if have groff; then
    for page in "$root"/man/*.[1-9]; do
      warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1) || failed=1
      [ -z "$warnings" ] || { echo "$warnings"; failed=1; }
    done
  fi
  return $failed
}
# -O1 and assertions: the sanitizers' builds are for finding things.
sanitized() { configure "$1" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DNFSRDMA_SANITIZE="$2" "${@:3}"; }
# Clang's build has the fuzz targets and the unit tests, so that one tree serves two stages. Without clang, g++'s.
asan_tree() {
  if have clang++-19; then
    timed "configure clang, asan, ubsan" sanitized "$build-asan" fuzzer-no-link,address,undefined \
      -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DNFSRDMA_FUZZ=ON
  else
    timed "configure asan, ubsan" sanitized "$build-asan" address,undefined
  fi
}
stage_asan() {
  asan_tree
  timed "build asan" compile "$build-asan" --target nfsrdma_tests nfsrdma-bridge nfsrdma-exercise
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  timed "unit and conformance under asan and ubsan" "$build-asan/tests/nfsrdma_tests"
  local status=0
  NFSRDMA_BRIDGE=$build-asan/tests/bridge/nfsrdma-bridge NFSRDMA_FAULT_OPERATIONS=100 \
    timed "faults under asan and ubsan" "$root/tests/bridge/faults.sh" || status=$?
  # Without a Ganesha the rest of the stage has run all the same, and faults.sh has said so loudly.
  [ $status = 77 ] || return $status
}
stage_tsan() {
  timed "configure tsan" sanitized "$build-tsan" thread
  timed "build tsan" compile "$build-tsan" --target nfsrdma_tests
  local tests=$build-tsan/tests/nfsrdma_tests
  # g++ 12's TSan does not know the address space layouts of newer kernels.
  local fixed=()
  if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
  if ! ${fixed[@]+"${fixed[@]}"} "$tests" --test-suite=threads --count --no-version | grep -qE 'filters: [1-9]'; then
    skip "tsan: no test case is in the test suite 'threads'"
  fi
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
    timed "test suite threads under tsan" ${fixed[@]+"${fixed[@]}"} "$tests" --test-suite=threads
}
fuzz_one() {
  local target=$1 name corpus found
  name=$(basename "$target")
  found=$build-asan/found/$name
  corpus=$root/tests/fuzz/corpus/${name#fuzz_}
  mkdir -p "$found"
  local seeds=()
  if [ -d "$corpus" ]; then seeds=("$corpus"); fi
  if "$target" -max_total_time="${NFSRDMA_FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found" ${seeds[@]+"${seeds[@]}"} > "$found.log" 2>&1; then
    printf '%s: %s\n' "$name" "$(grep -E '^(Done|stat::(number_of_executed_units|peak_rss_mb))' "$found.log" | xargs)"
  else
    printf 'FAILED %s (input and log below %s)\n' "$name" "$build-asan/found"
    tail -40 "$found.log"
    return 1
  fi
}
stage_fuzz() {
  have clang++-19 || skip "fuzz: no clang++-19"
  [ -e "$root/tests/fuzz/CMakeLists.txt" ] || skip "fuzz: no tests/fuzz"
  asan_tree
  timed "build fuzz" compile "$build-asan" --target nfsrdma_fuzz
  local targets
  targets=$(find "$build-asan/tests/fuzz" -maxdepth 1 -type f -executable -name 'fuzz_*' | sort)
  [ -n "$targets" ] || { echo "no fuzz_* in $build-asan/tests/fuzz"; return 1; }
  export -f fuzz_one
  export build root
  # One core each.
  timed "fuzz, ${NFSRDMA_FUZZ_SECONDS:-60} s each" xargs -r -n 1 -P "$jobs" bash -c 'fuzz_one "$1"' fuzz <<< "$targets"
}

if [ "${1:-}" = --stage ]; then
  case ${2:-} in
    format | tidy | man | asan | tsan | fuzz) "stage_$2"; exit ;;
    *) echo "run.sh: no stage '${2:-}'" >&2; exit 2 ;;
  esac
fi
quick=0
case ${1:-} in
  '') ;;
  --quick) quick=1 ;;
  *) sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0"; exit 2 ;;
esac

groups=(build try test check bench)
if [ $quick = 1 ]; then groups=(build); fi
if [ "$(id -u)" = 0 ]; then
  timed packages "$root/packaging/packages.sh" install "${groups[@]}"
else
  printf '\n*** not root: nothing is installed, and the tests against a real server (lab.*) are skipped ***\n\n' >&2
  if ! missing=$("$root/packaging/packages.sh" missing build); then
    echo "run.sh: cannot build without: $(xargs <<< "$missing")" >&2
    exit 1
  fi
  if ! missing=$("$root/packaging/packages.sh" missing "${groups[@]}"); then
    printf '*** not installed, what needs them is skipped: %s ***\n' "$(xargs <<< "$missing")" >&2
  fi
fi

stages=ON
if [ $quick = 1 ]; then stages=OFF; fi
timed configure configure "$build" -DNFSRDMA_TEST_STAGES=$stages -DNFSRDMA_BENCH=$stages
timed build compile "$build"
if [ $quick = 1 ]; then
  if have clang-format-19; then timed format stage_format; fi
  exec ctest --test-dir "$build" --output-on-failure --no-tests=error -LE lab -j "$jobs"
fi
if [ "$(id -u)" = 0 ] && "$root/tests/lab/lab" check; then timed "lab kernel" "$root/tests/lab/lab" kernel; fi
# One more than cores: the lab's tests mostly wait, for a link that is slowed down or a server that is not there.
exec ctest --test-dir "$build" --output-on-failure --no-tests=error -j $((jobs + 1))
