#!/usr/bin/env bash
# Small random READs: load_nfsrdma against load_libnfs, the same load on each, from the lab's server, in turn; and the
# instructions per operation of both, in user space, by callgrind.
#
#   small.sh [--size BYTES] [--depths "1 32"] [--rounds N] [--seconds S] [--vers V] [--peer-vers 3|4] [--no-callgrind]
#            [--counts FEW,MANY] [--check] [--min-rate R]
#
# --size      of a READ (4K)
# --depths    READs in flight, one comparison each (1 32)
# --rounds    pairs of runs for each depth (5)
# --seconds   of one run (3)
# --vers      of NFS that load_nfsrdma speaks (the highest that the server has)
# --counts    operations of the two runs under callgrind whose difference is taken (1000,5000)
# --check     exit status 1 where the median of the pairs' ops/s ratios is below --min-rate (1.0) at any depth
# Exit status: 0, 1 (a check failed, or a run did), 2 (usage), 77 (skipped). README.md tells what is compared.
size=4K depths='1 32' rounds=5 seconds=3 vers='' peer_vers=4 no_callgrind='' counts=1000,5000 check='' min_rate=1.0
# shellcheck source=options.sh
. "$(dirname "$0")/options.sh"
take_options 'size depths rounds seconds vers peer-vers counts min-rate' 'no-callgrind check' "$@"
# shellcheck source=bench.sh
. "$(dirname "$0")/bench.sh"
need_peer "$bench_dir/load_libnfs"

make_file file 64
in_ns "$cli_binary" get --quiet "$(url file)" "$work/copy" || { fail "no copy of the file"; exit 1; }

# run TOOL DEPTH OPTION …: one line of JSON.
run() {
  local tool=$1 depth=$2
  local file=$remote/file
  shift 2
  if [ "$tool" = load_nfsrdma ]; then
    [ -z "$vers" ] || set -- --vers "$vers" "$@"
    # What NFSv4 calls / is the export's path in NFSv3.
    case $vers in 2 | 3) file=$export/file ;; esac
  else
    set -- --vers "$peer_vers" "$@"
  fi
  "${wrap[@]}" "$bench_dir/$tool" --random --size "$size" --depth "$depth" "$@" "$server" "$file"
}

for depth in $depths; do
  # Both must read the right bytes before it matters how fast. Warms up the server, too.
  wrap=(in_ns)
  for tool in load_nfsrdma load_libnfs; do
    check "$tool reads right bytes, $depth in flight" run "$tool" "$depth" --count 500 --verify "$work/copy"
  done
  [ "$failures" = 0 ] || exit 1
  for _ in $(seq "$rounds"); do
    for tool in load_nfsrdma load_libnfs; do
      run "$tool" "$depth" --seconds "$seconds" | tee -a "$work/runs.$depth"
      [ "${PIPESTATUS[0]}" = 0 ] || { fail "$tool, $depth in flight"; exit 1; }
    done
  done
done

# Instructions per operation: start-up and the end are in both counts, so they are not in the difference.
instructions() {
  local tool=$1 depth=$2 count
  local -a total=()
  for count in ${counts/,/ }; do
    wrap=(in_ns valgrind --tool=callgrind --quiet --callgrind-out-file="$work/callgrind")
    run "$tool" "$depth" --count "$count" > "$work/out" 2> "$work/err" || { cat "$work/err" >&2; return 1; }
    total+=("$(awk '/^(summary|totals):/ { print $2; exit }' "$work/callgrind")")
  done
  echo $(((total[1] - total[0]) / (${counts#*,} - ${counts%,*})))
}

echo
for depth in $depths; do
  python3 "$bench_source/compare.py" --ours load_nfsrdma --peer load_libnfs --rate ops_per_second --cpu cpu_us_per_op \
    --min-rate "$min_rate" ${check:+--check} \
    --title "random READs of $size, $depth in flight, against libnfs's NFSv$peer_vers" "$work/runs.$depth" ||
    failures=$((failures + 1))
done

if [ -z "$no_callgrind" ] && ! command -v valgrind > /dev/null; then
  say "no valgrind: instructions are not counted (packaging/packages.sh install bench)"
elif [ -z "$no_callgrind" ]; then
  echo "user-space instructions per READ of $size (callgrind, difference of $counts operations)"
  printf '  %9s %14s %14s %7s\n' 'in flight' load_nfsrdma load_libnfs ratio
  for depth in $depths; do
    if ! ours=$(instructions load_nfsrdma "$depth") || ! peer=$(instructions load_libnfs "$depth"); then
      fail "callgrind, $depth in flight"
      continue
    fi
    printf '  %9s %14s %14s %7.3f\n' "$depth" "$ours" "$peer" "$(jq -n "$ours / $peer")"
  done
fi
