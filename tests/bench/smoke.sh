#!/usr/bin/env bash
# That the benchmarks work, with few operations: right bytes, reports that are JSON, comparisons that come to an end.
# Says nothing about speed. Exit status as lab/lib.sh says.
# shellcheck source=bench.sh
. "$(dirname "$0")/bench.sh"

# report WHAT FILTER: $work/out is one JSON object and FILTER holds for it.
report() {
  checks=$((checks + 1))
  if [ "$(wc -l < "$work/out")" = 1 ] && jq -e "$2" "$work/out" > /dev/null 2>&1; then
    say "ok: $1: $(jq -c '[.tool, .protocol, .ops, .mb_per_second]' "$work/out")"
  else
    fail "$1: not a report for which $2 holds: $(head -c 600 "$work/out")"
  fi
}

# Not a multiple of the READs' sizes: the last one is short.
dd if=/dev/urandom of="$work/copy" bs=1000 count=5001 2> /dev/null
chmod 644 "$work/copy"
# The guest sees this machine's files below /mnt/host.
on_server "cp '/mnt/host$work/copy' '$export/file' && chmod 644 '$export/file'" || { fail "no file on the server"; exit 1; }

tools=(load_nfsrdma)
if [ -x "$bench_dir/load_libnfs" ]; then
  tools+=("load_libnfs --vers 4" "load_libnfs --vers 3" "load_libnfs --copy")
else
  skip_part "no load_libnfs (packaging/packages.sh install bench)"
fi
sane='.verified and .seconds > 0 and .ops_per_second > 0 and .cpu_seconds > 0 and .latency_us.p50 > 0 and
  .latency_us.p50 <= .latency_us.p99 and .latency_us.p99 <= .latency_us.max * 1.04'
for tool in "${tools[@]}"; do
  read -r -a words <<< "$tool"
  command=(in_ns "$bench_dir/${words[0]}" "${words[@]:1}" --verify "$work/copy")
  # NFSv3 knows the directory as the server does; the tool mounts the export, so the path is the same for all.
  expect_exit 0 "$tool: sequential" "${command[@]}" --size 64K --depth 4 --count 200 "$server" "$remote/file"
  report "$tool: sequential" "$sane and .ops == 200"
  expect_exit 0 "$tool: random" "${command[@]}" --random --depth 32 --count 400 "$server" "$remote/file"
  report "$tool: random" "$sane and .ops == 400 and .bytes == 400 * 4096"
  expect_exit 0 "$tool: for some time" "${command[@]}" --random --seconds 0.3 "$server" "$remote/file"
  report "$tool: for some time" "$sane and .ops > 0"
  expect_exit 1 "$tool: no such file" "${command[@]}" --count 1 "$server" "$remote/none"
  on_server "cp '$export/file' '$export/other' && printf X | dd of='$export/other' bs=1 seek=300000 conv=notrunc" > /dev/null 2>&1
  expect_exit 1 "$tool: wrong bytes are seen" "${command[@]}" --size 64K --count 100 "$server" "$remote/other"
done

if [ ${#tools[@]} -gt 1 ] && command -v nfs-cat > /dev/null; then
  expect_exit 0 "bulk.sh" "$bench_source/bulk.sh" --mib 8 --rounds 2 --min-rate 0.001 --max-cpu 1000 --check
  same "bulk.sh: compares" 1 "$(grep -c 'median of the ratios' "$work/out")"
  expect_exit 1 "bulk.sh: a check that must fail" "$bench_source/bulk.sh" --mib 8 --rounds 1 --min-rate 1000 --check --load
  expect_exit 0 "small.sh" "$bench_source/small.sh" --rounds 1 --seconds 0.2 --depths '1 8' --counts 100,300 --check --min-rate 0.001
  same "small.sh: compares" 2 "$(grep -c 'median of the ratios' "$work/out")"
else
  skip_part "bulk.sh and small.sh: no load_libnfs, or no nfs-cat"
fi

# Inside the guest, as root.
if [ -x "${NFSRDMA_FUSE:-$root/build/fuse/nfsrdma-fuse}" ] && command -v mount.nfs > /dev/null; then
  expect_exit 0 "mount.sh" "$bench_source/mount.sh" --mib 4 --files 20 --rounds 1 --check --min-sequential 0.0001 --min-small 0.0001
  same "mount.sh: compares" 6 "$(grep -c 'median of the ratios' "$work/out")"
  same "mount.sh: the daemon's CPU time" 1 "$(grep -c 'CPU time.*create [0-9.]* µs each.*write [0-9.]* s/GiB' "$work/out")"
  expect_exit 1 "mount.sh: a check that must fail" "$bench_source/mount.sh" --files 20 --rounds 1 --loads create --check --min-small 1000
else
  skip_part "mount.sh: no nfsrdma-fuse, or no mount.nfs"
fi

if command -v krb5kdc > /dev/null; then
  expect_exit 0 "kerberos.sh" "$bench_source/kerberos.sh" --mib 8 --rounds 1 --seconds 0.2 --services krb5i
  same "kerberos.sh: compares" 4 "$(grep -c 'median of the ratios' "$work/out")"
else
  skip_part "kerberos.sh: no krb5-kdc (packaging/packages.sh install test)"
fi
