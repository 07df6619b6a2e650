#!/usr/bin/env bash
# Bulk reading: `nfsrdma-cli get` of a file to /dev/null against libnfs's nfs-cat, from the lab's server, in turn.
#
#   bulk.sh [--mib N] [--rounds N] [--vers V] [--peer-vers 3|4] [--load] [--check] [--min-rate R] [--max-cpu R]
#
# --mib        the file's size (1024)
# --rounds     pairs of runs (5)
# --vers       of NFS that nfsrdma speaks (the highest that the server has)
# --peer-vers  the NFS version that nfs-cat uses (4)
# --load       load_nfsrdma with 8 READs of 512 KiB in flight instead of nfsrdma-cli
# --check      exit status 1 where the median of the pairs' rate ratios is below --min-rate (1.0), or that of their
#              CPU ratios above --max-cpu (1.0)
# Exit status: 0, 1 (a check failed, or a run did), 2 (usage), 77 (skipped). README.md tells what is compared.
mib=1024 rounds=5 vers='' peer_vers=4 load='' check='' min_rate=1.0 max_cpu=1.0
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'mib rounds vers peer-vers min-rate max-cpu' 'load check' "$@"
# shellcheck source=bench.sh
. "$(dirname "$0")/bench.sh"
need_peer nfs-cat

make_file file "$mib"
bytes=$((mib << 20))
# NFSv4 has the export as its root; NFSv3 knows it by its path on the server. The path begins with a slash of its own.
case $peer_vers in
  4) peer_url="nfs://$server/$remote/file?version=4" ;;
  3) peer_url="nfs://$server$export/file?version=3" ;;
  *) usage 2 ;;
esac
peer=(nfs-cat "$peer_url")
case $vers in
  2 | 3) own_path=$export/file ;;
  *) own_path=$remote/file ;;
esac
if [ -z "$load" ]; then
  reader=nfsrdma-cli
  ours=("$cli_binary" get --quiet ${vers:+-o "vers=$vers"} "nfs://$server$own_path" /dev/null)
else
  reader=load_nfsrdma
  ours=("$bench_dir/load_nfsrdma" ${vers:+--vers "$vers"} --size 512K --depth 8 --count $((mib * 2)) "$server" "$own_path")
fi

# Both must read the right bytes before it matters how fast.
sum=$(LAB_TIMEOUT=300 server_sum file)
same "nfs-cat reads the file" "$sum" "$(in_ns "${peer[@]}" | sha256sum | cut -d' ' -f1)"
same "nfsrdma-cli reads the file" "$sum" "$(in_ns "$cli_binary" cat "$(url file)" | sha256sum | cut -d' ' -f1)"
[ "$failures" = 0 ] || exit 1

for _ in $(seq "$rounds"); do
  in_ns python3 "$bench_source/measure.py" nfsrdma "$bytes" "${ours[@]}" | tee -a "$work/runs.jsonl"
  [ "${PIPESTATUS[0]}" = 0 ] || { fail "${ours[*]}"; exit 1; }
  in_ns python3 "$bench_source/measure.py" nfs-cat "$bytes" "${peer[@]}" | tee -a "$work/runs.jsonl"
  [ "${PIPESTATUS[0]}" = 0 ] || { fail "${peer[*]}"; exit 1; }
done
# No `check` here: the table is the result.
python3 "$bench_source/compare.py" --ours nfsrdma --peer nfs-cat --min-rate "$min_rate" --max-cpu "$max_cpu" \
  ${check:+--check} --title "$mib MiB to /dev/null, $reader ${vers:+NFSv$vers }against nfs-cat (NFSv$peer_vers)" "$work/runs.jsonl" ||
  failures=$((failures + 1))
