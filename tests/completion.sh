#!/usr/bin/env bash
# Compares the completion of nfsrdma-cli for bash and zsh with --help: each command, each option of each command and each
# option that -o takes is a candidate, and there are no others. Usage: completion.sh NFSRDMA-CLI
#
# Exit status: 0, 1 (some check failed; the others ran). Without zsh, bash's part runs, and a line says so.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(realpath "$here/..")
test_name=completion
cli=$(realpath "${1:?usage: completion.sh NFSRDMA-CLI}")
completion=$root/packaging/completion
# shellcheck source=support/checks.sh
. "$here/support/checks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The completion runs the program by the name that the command line has.
mkdir "$work/bin"
ln -s "$cli" "$work/bin/nfsrdma-cli"
export PATH=$work/bin:$PATH
cd "$work" || exit 1

# ---- what --help lists, read in another way than the completion does ----

words() { tr -s ' ,' '\n' | grep . | LC_ALL=C sort -u | xargs; }
help_commands() { nfsrdma-cli --help | grep -oE '^  [a-z-]+  ' | words; }
# An option's names lie in the first 28 columns of its row.
help_options() {
  nfsrdma-cli "$@" --help | sed '/^A target/,$d' | grep -E '^  ( |-)' | cut -c -28 |
    grep -oE '(^| )--?[A-Za-z0-9][A-Za-z0-9-]*' | words
}
help_connection_options() {
  nfsrdma-cli "$1" --help | sed '1,/^options for the connection/d' | grep -oE '^  [a-z]\w+' | words
}

# ---- what the shells offer at the end of each command line: one line of output for each ----

# shellcheck disable=SC2317
bash_candidates() {
  local line
  for line in "$@"; do
    bash -c '. "$1"; COMP_LINE=$2 COMP_POINT=${#2}; _nfsrdma_cli; echo "${COMPREPLY[*]}"' bash "$completion/nfsrdma-cli.bash" "$line"
  done
}
# shellcheck disable=SC2317
zsh_candidates() { timeout 60 "$here/support/zsh_candidates.zsh" "$completion" "$@"; }

# expect COMMAND-LINE WHAT CANDIDATES: what check_shell asks for.
expect() {
  lines+=("$1")
  whats+=("$2")
  wanted+=("$(words <<< "$3")")
}
check_shell() {
  local shell=$1 i offered
  "${shell}_candidates" "${lines[@]}" > "$work/offered" 2> "$work/err"
  mapfile -t offered < "$work/offered"
  # For bash, a name that takes a value ends in "=", and the options before it in a list belong to the candidate.
  for i in "${!lines[@]}"; do
    same "$shell: ${whats[i]} (--help against packaging/completion)" "${wanted[i]}" "$(sed 's/=//g; s/[^ ]*,//g' <<< "${offered[i]}" | words)"
  done
  same "$shell: error messages" '' "$(head -c 500 "$work/err")"
}

lines=() whats=() wanted=()
commands=$(help_commands)
same "nfsrdma-cli --help lists commands" yes "$([ "$(wc -w <<< "$commands")" -ge 23 ] && echo yes)"
for option in --help --version; do check "nfsrdma-cli $option" nfsrdma-cli $option; done
expect 'nfsrdma-cli ' "the commands" "$commands"
expect 'nfsrdma-cli -' "the options before a command" "$(help_options) --help --version"
for command in $commands; do
  expect "nfsrdma-cli $command -" "the options of $command" "$(help_options "$command")"
  expect "nfsrdma-cli $command -o " "the options for the connection of $command" "$(help_connection_options "$command")"
done
expect 'nfsrdma-cli ls --num' "an option that begins so" --numeric
expect "nfsrdma-cli ls -o vers=4.1,rs" "a second option for the connection" rsize
expect "nfsrdma-cli ls $work/b" "local files where all operands are on the server" ''
check_shell bash
if command -v zsh > /dev/null; then check_shell zsh; else skip_part "the completion for zsh: no zsh"; fi
conclude 0
