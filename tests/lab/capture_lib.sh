# shellcheck shell=bash
# For tests that record what goes over the wire and have tshark judge it. Sourced behind lib.sh or mount_lib.sh.
# Environment: capture_on (an interface of the client's network other than the one that leads to the server).
need_tools tshark python3

# record NAME COMMAND …: what COMMAND sends and receives, in $work/NAME.split.pcap.
record() {
  local name=$1
  shift
  "$lab" capture start "$work/$name.pcap" ${capture_on:+"$capture_on"} || { fail "$name: no capture"; return; }
  "$@"
  check "$name: the capture dropped nothing" "$lab" capture stop
  check "$name: every byte belongs to a complete FPDU" "$here/split_fpdus.py" "$work/$name.pcap" "$work/$name.split.pcap"
}
# judge NAME [--need WHAT:COUNT …]: the capture of NFSv4 that record() made under NAME.
judge() {
  local name=$1
  shift
  check "$name: tshark's judgement" "$here/judge_wire.py" "$work/$name.split.pcap" "$@"
  tail -1 "$work/check.out"
}
