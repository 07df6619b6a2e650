#!/usr/bin/env bash
# What nfsrdma-cli shell and top do on a terminal under a shell with job control: Ctrl-Z and fg, a stop by SIGSTOP, bg,
# Ctrl-C while the server does not answer, programs of this machine, another size of the window. terminal.py is the user.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
need_tools python3 dash

start_bridge plain || exit 1
mkdir -p "$export/t" "$work/home"
echo text > "$export/t/file"
chown -R 65534:65534 "$export/t" "$work/home"

# scene NAME WORDS ...: terminal.py's part NAME, for the check WORDS.
scene() {
  local name=$1 status
  shift
  timeout 60 python3 "$here/terminal.py" "$name" "$cli_binary" "nfs://127.0.0.1:$bridge_port/export/t" "$work/home" 2> "$work/err"
  status=$?
  same "$* ($(tail -1 "$work/err"))" 0 "$status"
}

scene stop "shell: Ctrl-Z gives the terminal back as it was, fg returns to the line"
scene sigstop "shell: goes on after SIGSTOP although the terminal was changed"
scene background "shell: bg leaves the terminal alone, fg has it again"
scene local "shell: Ctrl-C is for the program of this machine alone"
scene top "top: Ctrl-Z gives the screen back, fg and another size of the window draw it again"
if [ -e "$work/home/without-libedit" ]; then skip_part "the shell's prompt: built without libedit"; fi

# The server does not answer: terminal.py asks for that by files, because the bridge is root's.
# shellcheck disable=SC2317
freeze() {
  eventually 30 test -e "$work/home/freeze" && kill -STOP "$bridge_pid" && touch "$work/home/frozen"
}
declare -A words=(
  [silent]="shell: Ctrl-C ends a command whose server is silent, and not the shell"
  [quick]="shell: a quick second Ctrl-C ends the cleaning up of a command, and not the shell"
  [second]="shell: a second Ctrl-C after a second ends the shell while a call blocks"
)
for name in silent quick second; do
  rm -f "$work/home/freeze" "$work/home/frozen"
  freeze &
  freezer=$!
  scene "$name" "${words[$name]}"
  wait "$freezer"
  kill -CONT "$bridge_pid"
done
