#!/usr/bin/env bash
# What Kerberos costs: nfsrdma-cli get and put, and 4 KiB READs at random, under each service against the same with
# sec=sys, on the lab's server, in turn.
#
#   kerberos.sh [--services "krb5 krb5i"] [--mib N] [--rounds N] [--seconds S] [--vers V]
#
# --services of: krb5 krb5i krb5p, the last only where the server's kernel can, see README.md (krb5 krb5i)
# --mib      the file's size (256)
# --rounds   pairs of runs for each service and load (5)
# --seconds  of one run of small READs (3)
# --vers     of NFS (the highest that the server has)
# Exit status: 0, 1 (a run failed), 2 (usage), 77 (skipped).
services='krb5 krb5i' mib=256 rounds=5 seconds=3 vers=''
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'services mib rounds seconds vers' '' "$@"
# shellcheck source=bench.sh
. "$(dirname "$0")/bench.sh"
need_peer krb5kdc
kdc=$here/kdc
"$kdc" up || { echo "FAILED $test_name: no KDC"; exit 1; }
"$kdc" ticket root
export KRB5_CONFIG=${LAB_DIR:-${TMPDIR:-/tmp}/nfsrdma-test-lab}/kdc/krb5.conf

make_file file "$mib"
head -c $((mib << 20)) /dev/urandom > "$work/local"
path=$remote
case $vers in 2 | 3) path=$export ;; esac
bytes=$((mib << 20))

# Each: with SERVICE, one line of JSON whose tool is the service.
run_get() { told "$1" "$cli_binary" get --quiet -o "sec=$1${vers:+,vers=$vers}" "nfs://$server$path/file" /dev/null; }
run_put() { told "$1" "$cli_binary" put --quiet -o "sec=$1${vers:+,vers=$vers}" "$work/local" "nfs://$server$path/put"; }
told() { in_ns python3 "$bench_source/measure.py" "$1" "$bytes" "${@:2}"; }
run_small() {
  in_ns "$bench_dir/load_nfsrdma" --random --size 4K --depth "$depth" --seconds "$seconds" ${vers:+--vers "$vers"} \
    --options "sec=$1" "$server" "$path/file" > "$work/run" && jq -c --arg service "$1" '.tool = $service' "$work/run"
}
# compare TITLE RUN OPTION …: pairs of RUN with $service and with sys; OPTION for compare.py.
compare() {
  local round one
  : > "$work/runs.jsonl"
  for round in $(seq "$rounds"); do
    for one in sys "$service"; do
      "$2" "$one" >> "$work/runs.jsonl" || { fail "$1, sec=$one, round $round"; exit 1; }
    done
  done
  python3 "$bench_source/compare.py" --ours "$service" --peer sys --title "$1, sec=$service against sec=sys" "${@:3}" \
    "$work/runs.jsonl" || failures=$((failures + 1))
}
for service in $services; do
  compare "get of $mib MiB" run_get
  compare "put of $mib MiB" run_put
  for depth in 32 1; do
    compare "4 KiB READs, $depth in flight" run_small --rate ops_per_second --cpu cpu_us_per_op
  done
done
