# shellcheck shell=bash
# What test scripts share: checks that are counted, and a test that goes on after one that failed.
#
# Given: $test_name and, before the first check, $work (a directory of the test's own). Provides $checks and $failures,
# which conclude() turns into the exit status.
failures=0
checks=0
# What the user of this machine has configured must not change what the programs do.
export NFSRDMA_CONFIG=none
unset NFSRDMA_OPTIONS

skip() {
  printf '\n*** SKIPPED %s: %s ***\n\n' "$test_name" "$*" >&2
  exit 77
}
say() { printf '%s: %s\n' "$test_name" "$*"; }
# skip_part WHAT: a part of the test is left out, and the test goes on. tests/skipped.sh counts these lines.
skip_part() { say "SKIPPED a part: $*"; }
fail() {
  failures=$((failures + 1))
  printf 'FAILED %s: %s\n' "$test_name" "$*"
}

# check WHAT COMMAND …: the command must succeed.
check() {
  local what=$1
  shift
  checks=$((checks + 1))
  if "$@" > "$work/check.out" 2>&1; then
    say "ok: $what"
  else
    fail "$what (status $?: $(head -c 1500 "$work/check.out"))"
  fi
}
# same WHAT EXPECTED ACTUAL
same() {
  checks=$((checks + 1))
  if [ "$2" = "$3" ]; then say "ok: $1"; else fail "$1: expected '$(head -c 300 <<< "$2")', got '$(head -c 300 <<< "$3")'"; fi
}
# expect_exit STATUS WHAT COMMAND …: its output is in $work/out and $work/err afterwards.
expect_exit() {
  local want=$1 what=$2 got=0
  shift 2
  checks=$((checks + 1))
  "$@" > "$work/out" 2> "$work/err" || got=$?
  if [ "$got" = "$want" ]; then
    say "ok: $what"
  else
    fail "$what: exit status $got, expected $want; stderr: $(head -c 800 "$work/err")"
  fi
}
# one_sentence WHAT [WORD …]: $work/err is one line, long enough to say something, and contains each WORD (a regular
# expression, in any case).
one_sentence() {
  local what=$1 word lines
  shift
  checks=$((checks + 1))
  lines=$(wc -l < "$work/err")
  if [ "$lines" != 1 ] || [ "$(wc -c < "$work/err")" -lt 30 ]; then
    fail "$what: stderr is not one sentence but $lines lines: $(head -c 800 "$work/err")"
    return
  fi
  for word in "$@"; do
    if ! grep -qiE -- "$word" "$work/err"; then
      fail "$what: stderr does not say '$word': $(cat "$work/err")"
      return
    fi
  done
  say "ok: $what: $(cat "$work/err")"
}

# eventually SECONDS COMMAND …
eventually() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}
gone() { ! kill -0 "$1" 2> /dev/null; }

# need_tools TOOL …: skips the test where one is missing.
need_tools() {
  local tool
  for tool in "$@"; do
    command -v "$tool" > /dev/null || skip "no $tool (packaging/packages.sh install test)"
  done
}
# need_built VARIABLES PROGRAM …: the test fails where one is missing. The variables name others.
need_built() {
  local variables=$1 program
  shift
  for program in "$@"; do
    [ -x "$program" ] || { echo "FAILED $test_name: no $program (build it, or set $variables)"; exit 1; }
  done
}
# shellcheck disable=SC2317
not() { ! "$@"; }
# hold_mounts COMMAND …: a mount namespace for all mounts, as COMMAND makes one, that of the process $holder. It goes, and
# they with it, when that ends.
hold_mounts() {
  "$@" sleep infinity &
  holder=$!
  children+=("$holder")
  eventually 10 apart || { fail "no namespace for the mounts"; exit 1; }
}
# shellcheck disable=SC2317
apart() { [ "$(readlink "/proc/$holder/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ] && [ "$(cat "/proc/$holder/comm")" = sleep ]; }

# within_reach VARIABLE …: files that the unprivileged user must read are copied where he cannot.
within_reach() {
  local variable file
  for variable in "$@"; do
    file=${!variable}
    setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$file" && continue
    mkdir -p "$work/bin" && cp -L "$file" "$work/bin/" && chmod -R a+rX "$work/bin" && printf -v "$variable" %s "$work/bin/${file##*/}"
  done
}
# exercise_mount SECURITY URL POINT OPTIONS: a mount there by `at_mount COMMAND …`, and mount_exercise on it. Given:
# $fuse_binary, $exercise.
exercise_mount() {
  local pid status=0
  at_mount "$fuse_binary" -f "$2" "$3" -o "sec=$1,$4" > "$work/mount.log" 2>&1 &
  pid=$!
  children+=("$pid")
  if eventually 20 at_mount test -e "$3/.nfsrdma-stats"; then
    check "mount_exercise" at_mount "$exercise" --directory "$3" --seed 7 --ops 2000 --size 262144
    check "its statistics say how" at_mount grep -Eq "[ ,]sec=$1([ ,]|\$)" "$3/.nfsrdma-stats"
    check "fusermount3 -u" at_mount fusermount3 -u "$3"
    eventually 20 gone "$pid" || fail "the daemon lives on"
    wait "$pid" || status=$?
    same "the daemon's exit status" 0 "$status"
  else
    fail "a mount: $(cat "$work/mount.log")"
  fi
}
mount_checks=$root/tests/support/mount_checks.py
# look_at_mounts COMMAND …: mount_checks.py, whose lines are checks.
look_at_mounts() {
  local line status=0
  "$@" > "$work/looked" 2>&1 < /dev/null || status=$?
  while read -r line; do
    case $line in
      "ok: "*) checks=$((checks + 1)); say "$line" ;;
      "FAILED "*) checks=$((checks + 1)); fail "${line#FAILED }" ;;
      end) ;;
      *) fail "mount_checks.py says: $line" ;;
    esac
  done < "$work/looked"
  same "mount_checks.py came to its end" end "$(tail -n 1 "$work/looked")"
  [ "$status" -lt 2 ] || fail "mount_checks.py: exit status $status"
}

local_sum() { sha256sum < "$1" | cut -d' ' -f1; }
now_ms() { date +%s%3N; }
# json FILTER: applies jq's FILTER to $work/out; each line must be JSON.
json() { jq -r "$1" "$work/out"; }

# The unprivileged user must reach $cli_binary: from a checkout below a closed home directory it is copied out.
copy_out_cli() {
  mkdir -p "$work/bin" && cp -L "$cli_binary" "$work/bin/nfsrdma-cli"
  cp -P "$(dirname "$cli_binary")"/../libclient/libnfsrdma.so* "$work/bin/" 2>/dev/null
  cli_binary=$work/bin/nfsrdma-cli
  chmod -R a+rX "$work/bin"
  export LD_LIBRARY_PATH=$work/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# conclude STATUS: for an EXIT trap, last. Says what was checked, and exits with 1 where a check failed.
conclude() {
  local status=$1
  if [ "$status" = 0 ]; then
    say "$checks checks, $failures failed, $SECONDS s"
    [ "$failures" = 0 ] || status=1
  fi
  exit "$status"
}

# Tests that look at what others look at too, by another version or another device, are left out once their run has taken so
# long that it might be killed with nothing to show: NFSRDMA_TESTS_UNTIL, in seconds since 1970 (.ci/run sets it).
# Once it has begun, a test and the scripts that it starts run to their end.
if [ -n "${NFSRDMA_SPARE:-}" ] && [ "$(date +%s)" -ge "${NFSRDMA_TESTS_UNTIL:-9999999999}" ]; then
  skip "a slow machine: the tests have taken their time already (NFSRDMA_TESTS_UNTIL)"
fi
unset NFSRDMA_SPARE
