#!/usr/bin/env bash
# Run all tests on a fresh Debian 12: tests/run.sh
#
#   tests/run.sh                  install packages, build, and run all tests; half an hour on 2 idle cores
#   tests/run.sh --quick          build and run unit, conformance and format checks only
#   tests/run.sh --stage NAME     run one stage by itself: format, tidy, man, single, asan, tsan, fuzz, mutants
#
# The output ends with ctest's summary and one line that counts the skipped tests (tests/skipped.sh). The stages are ctest
# tests, too, so they run in parallel where that is safe. If you are not root, sudo asks for your password; the build
# directories stay yours. Without sudo, the script uses the packages that are installed, and says what it skips.
# Environment: NFSRDMA_BUILD_DIR (default: build; the other trees are build-asan, build-tsan and build-tidy next to it),
# NFSRDMA_LAB_KERNEL (see tests/lab/lab), NFSRDMA_FUZZ_SECONDS (for each target; default: 40), NFSRDMA_LONG
# (1: the tests at their full size, and tests/mutants; takes hours), NFSRDMA_TESTS_UNTIL (seconds since 1970: after that
# time, fuzzing is skipped, and so are tests that repeat what other tests cover).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=../packaging/root.sh
. "$root/packaging/root.sh"
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
  have python3 || skip "layers: no python3"
  "$root/tests/layers.py" || return 1
  # After a command substitution on the same line, $? is the status of that, so the check could not fail.
  # shellcheck disable=SC2016
  if grep -rnE --include='*.sh' '^ *(same|check) .*\$\(.*\$\?' "$root/tests"; then
    echo "take the status into a variable before the line"
    return 1
  fi
  have clang-format-19 || skip "format: no clang-format-19"
  ( cd "$root" && sources cli fuse libclient reply_sizing tests | xargs -r clang-format-19 --dry-run -Werror )
}
# A layer at a time: most of the time goes into the headers, which are looked through once for all its sources so. Clang's
# analyzer takes what a source includes for its own only where that source's path has "UnifiedSource" in it; that it
# still does so is seen by a fault of our own.
stage_tidy() {
  have run-clang-tidy-19 || skip "tidy: no run-clang-tidy-19"
  have clang++-19 || skip "tidy: no clang++-19"
  local status=0 tree=$build-tidy/UnifiedSource options
  options=(-quiet -checks=-bugprone-suspicious-include -config-file="$root/.clang-tidy")
  # How far the analyzer follows a function: a tenth of what it would takes a quarter of the time.
  [ -n "${NFSRDMA_LONG:-}" ] || options+=(-extra-arg={-Xclang,-analyzer-config,-Xclang,max-nodes=20000})
  timed "configure tidy" configure "$tree" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang-19 \
    -DCMAKE_CXX_COMPILER=clang++-19 -DNFSRDMA_UNITY=ON -DNFSRDMA_TESTS=OFF
  # The sources of the project, by the relative paths that united sources include them by.
  local filter='/(cli|fuse|libclient|reply_sizing)/.*\.(h|cpp)$'
  mkdir -p "$tree/probe/cli"
  echo 'int probe(int n) { int* p = nullptr; return n > 5 ? *p : 0; }' > "$tree/probe/cli/probe.cpp"
  echo '#include "../probe/cli/probe.cpp"' > "$tree/probe/main.cxx"
  # It fails where it finds something.
  local found
  found=$(clang-tidy-19 "${options[@]/#-/--}" --header-filter="$filter" "$tree/probe/main.cxx" -- -std=c++23 2>&1) || true
  if ! grep -q 'clang-analyzer-core.NullDereference' <<< "$found"; then
    echo "clang's analyzer does not check included sources, so this stage would find nothing"
    return 1
  fi
  run-clang-tidy-19 -p "$tree" -j "$jobs" "${options[@]}" \
    -header-filter="$filter" > "$build/tidy.log" 2>&1 || status=$?
  # Without the progress lines and the counts of suppressed warnings.
  grep -vE '^(\[ *[0-9]+/[0-9]+\]|[0-9]+ warnings? generated|clang-tidy-19 |Running )' "$build/tidy.log" | head -200 || true
  return $status
}
# Every command explains itself, and the manual page knows every command and option that --help does. The manual pages of
# the library agree with its header.
stage_man() {
  local cli=$build/cli/nfsrdma-cli page=$root/man/nfsrdma-cli.1 failed=0 command word warnings
  [ -x "$cli" ] || { echo "$cli is missing; build it first"; return 1; }
  [ -e "$page" ] || { echo "$page is missing"; return 1; }
  # shellcheck disable=SC2016
  local plain
  plain=$(sed 's/\\-/-/g; s/\\f[BIRP]//g' "$page")
  local commands
  commands=$("$cli" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
  [ "$(wc -w <<< "$commands")" -ge 23 ] || { echo "nfsrdma-cli --help lists too few commands: $commands"; failed=1; }
  for command in '' $commands; do
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
  if have python3; then
    "$root/tests/man_api.py" || failed=1
  else
    echo "SKIPPED a part: the manual pages of the library: no python3"
  fi
  if have groff; then
    for page in "$root"/man/*.[1-9]; do
      warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1) || failed=1
      [ -z "$warnings" ] || { echo "$warnings"; failed=1; }
    done
  else
    echo "SKIPPED a part: the format of the manual pages: no groff"
  fi
  return $failed
}
# -O1 and assertions: the sanitizers' builds are for finding things.
sanitized() {
  configure "$1" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DNFSRDMA_SANITIZE="$2" -DNFSRDMA_TESTS=ON \
    -DNFSRDMA_UNITY=ON "${@:3}"
}
# compile_unity DIRECTORY OPTION …: where two sources of a layer do not go together, each by itself, which takes thrice as
# long and is worth a line.
compile_unity() {
  compile "$@" && return 0
  printf '\n*** %s does not compile with NFSRDMA_UNITY: rename the names that collide (above). Building without it. ***\n\n' "$1"
  cmake "$1" -DNFSRDMA_UNITY=OFF > "$1/run.log" 2>&1 && compile "$@"
}
# Clang's build has the fuzz targets and the unit tests, so that one tree serves two stages. Without clang, g++'s.
asan_tree() {
  if have clang++-19; then
    timed "configure clang, asan, ubsan" sanitized "$build-asan" fuzzer-no-link,address,undefined \
      -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DNFSRDMA_FUZZ=ON
  else
    timed "configure asan, ubsan" sanitized "$build-asan" address,undefined
  fi
}
# unit_and_conformance BINARY: side by side, each a core.
unit_and_conformance() {
  local other status=0
  "$1" --source-file='*/conformance/*' &
  other=$!
  "$1" --source-file-exclude='*/conformance/*' || status=$?
  wait $other || status=$?
  return $status
}
stage_asan() {
  asan_tree
  timed "build asan" compile_unity "$build-asan" --target nfsrdma_tests nfsrdma-bridge nfsrdma-exercise
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  timed "unit and conformance under asan and ubsan" unit_and_conformance "$build-asan/tests/nfsrdma_tests"
  local status=0
  NFSRDMA_BRIDGE=$build-asan/tests/bridge/nfsrdma-bridge NFSRDMA_FAULT_OPERATIONS=100 \
    timed "faults under asan and ubsan" "$root/tests/bridge/faults.sh" || status=$?
  # Without a Ganesha the rest of the stage has run all the same, and faults.sh has said so loudly.
  [ $status = 77 ] || return $status
}
stage_tsan() {
  timed "configure tsan" sanitized "$build-tsan" thread
  timed "build tsan" compile_unity "$build-tsan" --target nfsrdma_thread_tests
  local tests=$build-tsan/tests/nfsrdma_thread_tests
  # g++ 12's TSan does not know the address space layouts of newer kernels.
  local fixed=()
  if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
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
  if "$target" -max_total_time="${NFSRDMA_FUZZ_SECONDS:-40}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found" ${seeds[@]+"${seeds[@]}"} > "$found.log" 2>&1; then
    printf '%s: %s\n' "$name" "$(grep -E '^(Done|stat::(number_of_executed_units|peak_rss_mb))' "$found.log" | xargs)"
  else
    printf 'FAILED %s (input and log below %s)\n' "$name" "$build-asan/found"
    tail -40 "$found.log"
    return 1
  fi
}
stage_fuzz() {
  [ "$(date +%s)" -lt "${NFSRDMA_TESTS_UNTIL:-9999999999}" ] || skip "fuzz: no time is left on this slow machine (NFSRDMA_TESTS_UNTIL)"
  have clang++-19 || skip "fuzz: no clang++-19"
  [ -e "$root/tests/fuzz/CMakeLists.txt" ] || skip "fuzz: no tests/fuzz"
  asan_tree
  timed "build fuzz" compile_unity "$build-asan" --target nfsrdma_fuzz
  local targets
  targets=$(find "$build-asan/tests/fuzz" -maxdepth 1 -type f -executable -name 'fuzz_*' | sort)
  [ -n "$targets" ] || { echo "no fuzz_* in $build-asan/tests/fuzz"; return 1; }
  export -f fuzz_one
  export build root
  # One core each.
  timed "fuzz, ${NFSRDMA_FUZZ_SECONDS:-40} s each" xargs -r -n 1 -P "$jobs" bash -c 'fuzz_one "$1"' fuzz <<< "$targets"
}

# Whether the faults of tests/mutants still fit the sources; in the long mode, whether the tests find them.
stage_mutants() {
  "$root/tests/mutants/run.sh" --check
  [ -z "${NFSRDMA_LONG:-}" ] || timed "mutants" "$root/tests/mutants/run.sh" --jobs "$jobs"
}

# Each source by itself, as the other builds do not compile them (NFSRDMA_UNITY): whether it includes what it uses, and the
# warnings that only make sense there.
stage_single() {
  [ -n "${NFSRDMA_LONG:-}" ] || skip "single: every source by itself, which takes long: NFSRDMA_LONG=1"
  timed "configure single" configure "$build-single" -DNFSRDMA_TESTS=ON -DNFSRDMA_UNITY=OFF
  timed "build single" compile "$build-single"
}

# run_tests OPTION …: ctest with its summary, and a last line that counts what was skipped.
run_tests() {
  local status=0
  ctest --test-dir "$build" --output-on-failure --no-tests=error --output-junit "$build/tests.xml" "$@" || status=$?
  "$root/tests/skipped.sh" "$build" "$build/tests.xml" || status=1
  return $status
}

if [ "${1:-}" = --stage ]; then
  # What only computes stands back behind what has to be in time.
  renice -n 10 -p $$ > /dev/null || echo "run.sh: the priority cannot be lowered; the stage runs at the normal one" >&2
  case ${2:-} in
    format | tidy | man | single | asan | tsan | fuzz | mutants) "stage_$2"; exit ;;
    *) echo "run.sh: there is no stage '${2:-}'; see tests/run.sh --help" >&2; exit 2 ;;
  esac
fi
quick=0
case ${1:-} in
  '') ;;
  --quick) quick=1 ;;
  *) sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0"; exit 2 ;;
esac

groups=(build try test check bench)
if [ -n "${NFSRDMA_LONG:-}" ]; then groups+=(deb); fi
if [ $quick = 1 ]; then groups=(build); fi
# --quick asks for nobody's password where everything is there.
if ! missing=$("$root/packaging/packages.sh" missing "${groups[@]}") || [ $quick = 0 ]; then
  become_root "$0" "$@" || echo "run.sh: not root, and sudo is not available" >&2
fi
trap 'give_back "$root" "$build" "$build"-*' EXIT
if [ "$(id -u)" = 0 ]; then
  timed packages "$root/packaging/packages.sh" install "${groups[@]}"
else
  [ $quick = 1 ] || printf '\n*** not root: nothing is installed, and the tests against a real server (lab.*) are skipped ***\n\n' >&2
  if ! lacking=$("$root/packaging/packages.sh" missing build); then
    echo "run.sh: cannot build without: $(xargs <<< "$lacking")" >&2
    exit 1
  fi
  [ -z "$missing" ] || printf '*** not installed, so the tests that need them are skipped: %s ***\n' "$(xargs <<< "$missing")" >&2
fi

# cmake finds them where they are kept. Without them there is no engine for fio, and its test says so.
if [ $quick = 0 ]; then
  timed "fio's headers" "$root/tests/bench/fio/source.sh" || printf '\n*** the headers of fio are missing: bench.fio is skipped ***\n\n' >&2
fi
stages=ON
if [ $quick = 1 ]; then stages=OFF; fi
timed configure configure "$build" -DNFSRDMA_TESTS=ON -DNFSRDMA_TEST_STAGES=$stages -DNFSRDMA_BENCH=$stages
timed build compile "$build"
if [ $quick = 1 ]; then
  if have clang-format-19; then timed format stage_format; else echo "SKIPPED a part: format: no clang-format-19"; fi
  run_tests -LE lab -j "$jobs"
  exit
fi
if [ "$(id -u)" = 0 ] && "$root/tests/lab/lab" check; then timed "lab kernel" "$root/tests/lab/lab" kernel; fi
# Twice the cores: the lab's tests mostly wait, for a link that is slowed down or a server that is not there, and the
# stages take two places each (tests/CMakeLists.txt).
run_tests -j $((jobs * 2))
