#!/usr/bin/env bash
# What programs do to files, once with the kernel alone in a directory of this machine, once with libnfsrdma-preload.so
# in a directory of a mount, where every request that can goes through the ring: both must see and leave the same.
#
#   preload_work.sh MOUNT LIBRARY
#
# Exit status: 0, 1 (something differs, or failed).
# shellcheck disable=SC2016 # what is in single quotes is for the shell that runs it
place=${1:?} library=${2:?}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

# both NAME COMMAND …: in $work/plain and in the mount. What it prints has to be the same.
mkdir "$work/plain" "$place/work" || exit 1
both() {
  local name=$1
  shift
  (cd "$work/plain" && timeout 60 "$@") > "$work/$name.plain" 2>&1
  echo "exit $?" >> "$work/$name.plain"
  (cd "$place/work" && NFSRDMA_PRELOAD_LEAST=1 LD_PRELOAD=$library timeout 60 "$@") > "$work/$name.ring" 2>&1
  echo "exit $?" >> "$work/$name.ring"
  if cmp -s "$work/$name.plain" "$work/$name.ring"; then
    echo "ok: $name"
  else
    failures=$((failures + 1))
    echo "FAILED: $name"
    diff "$work/$name.plain" "$work/$name.ring" | head -20
  fi
}
have() { command -v "$1" > /dev/null || { echo "SKIPPED: no $1"; return 1; }; }

export HOME=$work TZ=UTC GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
seq 1 300000 > "$work/numbers"
export numbers=$work/numbers

both copy bash -c 'cp $numbers a && cat a > b && dd if=b of=c bs=7000 2> /dev/null && dd if=c of=d bs=1M oflag=append conv=notrunc 2> /dev/null
  cmp a $numbers && cmp d $numbers && tail -c 100000 a > e && head -c 50000 a >> e && wc -c a b c d e && md5sum a b c d e'
# Descriptors that are shared with children, and whose offsets they move.
both shell bash -c 'exec 3< a 4> out; { head -c 10 > /dev/null; dd bs=1000 count=3 2> /dev/null; cat | md5sum; } <&3
  for i in 1 2 3; do echo "line $i" >&4; (echo "child $i" >&4); dd if=a bs=5000 count=2 2> /dev/null >&4; done
  exec 5<> out; read -r first <&5; echo "$first"; echo over >&5; cat <&5 | md5sum; exec 3<&- 4>&- 5>&-; md5sum out'
# Many writers of one open file, with and without O_APPEND.
both log bash -c 'writer() { for j in $(seq 40); do head -c 20000 /dev/zero | tr "\0" "$1"; done | dd bs=20000 iflag=fullblock 2> /dev/null; }
  for i in a b c d; do writer $i & done > shared; wait; fold -b -w 20000 shared | sort | uniq -c | md5sum
  for i in a b c d; do writer $i >> appended & done; wait; fold -b -w 20000 appended | sort | uniq -c | md5sum'
have python3 && both python python3 "$here/preload_work.py"
both tar bash -c 'mkdir t && for i in $(seq 40); do head -c $((i * 5000)) a > t/$i; done; tar --sort=name --mtime=@0 --owner=0 --group=0 --mode=644 -cf t.tar t && mkdir u && tar xf t.tar -C u --no-same-permissions; chmod 755 u/t
  (cd t && md5sum *) > 1 && (cd u/t && md5sum *) > 2 && cmp 1 2 && md5sum 1 && tar df t.tar && gzip -nk t.tar && md5sum t.tar.gz && gunzip -c t.tar.gz | tar tf - | md5sum'
have git && both git bash -c 'git init -q -b main r && cd r && git config user.name n && git config user.email e@x && git config gc.auto 0 &&
  for i in $(seq 30); do head -c $((i * 3000)) ../a > f$i; git add f$i; git commit -q -m "c$i"; done; git repack -adq && git fsck --full && git rev-parse HEAD &&
  cd .. && git clone -q r s && git -C s log --format=%s | md5sum && git -C s diff HEAD~5 | md5sum && git -C s status --short'
have sqlite3 && both sqlite bash -c 'for mode in delete truncate wal; do rm -f db*; sqlite3 db "pragma journal_mode=$mode; create table t(a integer primary key, b text);
  begin; with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i, hex(i*7919) from n; commit;
  delete from t where a%3=0; update t set b=b||b where a%5=0; select count(*), sum(length(b)) from t; pragma integrity_check;" && sqlite3 db "vacuum; pragma integrity_check; select count(*) from t"; done'
exit $((failures != 0))
