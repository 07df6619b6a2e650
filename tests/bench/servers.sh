# shellcheck shell=bash
# The servers that a benchmark starts for itself: responder, fio_server; and the mounts.
#
# Given: $work (removed by whoever made it), and how long a server may take to start, in tenths of a second, in $start_looks
# (100). Provides: take_processors, start_server, await_mount, and stop_servers for the trap of whoever sources this file.
# shellcheck disable=SC2034,SC2154
# take_processors N: N processors for the client and N others for the server, of those that this script may use. Sets the
# arrays $our_cpus and $their_cpus, and $ours and $theirs, the same for taskset -c. With fewer than 2 N all are both the
# client's and the server's: $ours and $theirs are equal then.
take_processors() {
  local -a cpus
  mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
  if [ ${#cpus[@]} -ge $((2 * $1)) ]; then
    our_cpus=("${cpus[@]:0:$1}") their_cpus=("${cpus[@]:$1:$1}")
  else
    our_cpus=("${cpus[@]}") their_cpus=("${cpus[@]}")
  fi
  ours=$(IFS=,; echo "${our_cpus[*]}") theirs=$(IFS=,; echo "${their_cpus[*]}")
}
servers=()
stop_servers() {
  local one
  for one in ${servers[@]+"${servers[@]}"}; do kill "$one" 2> /dev/null; done
  wait
}
# start_server COMMAND …: sets $port, $tcp_port (of the responder) and $server, its process.
start_server() {
  local wait
  : > "$work/ports"
  "$@" > "$work/ports" 2> "$work/server.err" &
  server=$!
  servers+=("$server")
  for wait in $(seq "${start_looks:-100}"); do
    [ ! -s "$work/ports" ] || break
    kill -0 "$server" 2> /dev/null || break
    sleep 0.1
  done
  port=$(sed -n 's/^port=\([0-9]*\).*/\1/p' "$work/ports") tcp_port=$(sed -n 's/.*tcp_port=//p' "$work/ports")
  [ -n "$port" ] || { echo "FAILED: the server does not start ($*), after $wait looks: $(cat "$work/server.err")"; exit 1; }
}
# await_mount POINT PROCESS: waits until something is mounted there. Fails if the process ends before, or after 50 seconds.
await_mount() {
  local i
  for i in $(seq 1000); do
    ! mountpoint -q "$1" || return 0
    kill -0 "$2" 2> /dev/null || return 1
    sleep 0.05
  done
  return 1
}
