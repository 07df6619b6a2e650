#!/usr/bin/env bash
# sync against rsync: the same changes to a source, and what each of them makes of a copy. rsync copies on this machine,
# nfsrdma-cli to a Ganesha and back through the bridge. The table that is printed has a row for each case: what rsync -i
# and sync -v said they did, and whether the trees are the same afterwards. Both run as an ordinary user. If rclone is
# installed, a last column has its exit status and whether its tree is that of rsync, but for the times of directories,
# which it does not keep; nothing depends on that.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
need_tools rsync

moment=1500000000
src=$work/src ref=$work/ref third=$work/third copy=$export/copy back=$work/back
start_bridge plain || exit 1
url=nfs://127.0.0.1:$bridge_port/export
cli() { as_user "$cli_binary" "$@"; }

# tree DIR: what a copy is compared by. rsync also keeps the times of symbolic links.
tree() {
  (cd "$1" && find . -name '.rsync-*' -prune -o -type d -printf '%P d %T@\n' -o -type l -printf '%P l %l\n' -o -printf '%P %y %s %T@\n' | LC_ALL=C sort)
}
# Directories that a change has touched get a time of long ago: rsync compares seconds, and leaves a copy that was made in
# the second of its source as it is.
made() {
  moment=$((moment + 1))
  as_user bash -c "cd '$src' && { $1; } && find . -type d -newermt 2020-01-01 -exec touch -d @$moment {} + 2> /dev/null; true"
}
short() { tr '\n' ',' | sed 's/,$//; s/,/, /g' | cut -c -70; }

timeless() { sed -E 's/ d [0-9.]+$/ d/'; }
# by_rclone [OPTION …]: has rclone copy the source, and prints what comes of it.
by_rclone() {
  command -v rclone > /dev/null || return 0
  local verb=copy options=(--links --create-empty-src-dirs) one status
  for one in "$@"; do
    if [ "$one" = --delete ]; then verb=sync; else options+=("$one"); fi
  done
  as_user env RCLONE_CONFIG=/dev/null HOME="$work" rclone "$verb" "${options[@]}" "$src" "$third" > "$work/rclone.out" 2>&1
  status=$?
  if diff <(tree "$ref" | timeless) <(tree "$third" | timeless) > /dev/null && diff -r --no-dereference "$ref" "$third" > /dev/null 2>&1; then
    printf '|same (%s)' "$status"
  else
    printf '|different (%s)' "$status"
  fi
}

# compare CASE CHANGE [OPTION …]: makes the change to the source, and has both copy it. Sets $rsync_status, $sync_status.
compare() {
  local name=$1 change=$2 same_trees=same
  shift 2
  made "$change" || fail "$name: the change"
  as_user rsync -rlt -i "$@" "$src/" "$ref" > "$work/rsync.out" 2> "$work/rsync.err"
  rsync_status=$?
  cli sync -vq "$@" "$src/" "$url/copy" > "$work/sync.out" 2> "$work/sync.err"
  sync_status=$?
  { diff <(tree "$ref") <(tree "$copy") && diff -r --no-dereference "$ref" "$copy"; } > "$work/diff" 2>&1 || same_trees=different
  printf '%s|%s (%s)|%s (%s)|%s%s\n' "$name" \
    "$(sed -E '/^(sending|$)/d; s/^[<>c.][fdLDS][^ ]* +//; s/^\*deleting +/-/' "$work/rsync.out" | LC_ALL=C sort | short)" "$rsync_status" \
    "$(sed -E 's/ \(.*//; s/^delete /-/; s/^[a-z]+ +//' "$work/sync.out" | LC_ALL=C sort | short)" "$sync_status" "$same_trees" "$(by_rclone "$@")" >> "$work/table"
  same "$name: the trees of rsync and sync" "$expected" "$same_trees"
  [ "$same_trees" = "$expected" ] || head -5 "$work/diff"
}
expected=same
# both STATUS-OF-RSYNC STATUS-OF-SYNC
both() { same "$1: exit status of rsync and of sync" "$2 $3" "$rsync_status $sync_status"; }

as_user mkdir -p "$work/src/d/deep" "$ref" "$back" && chmod 777 "$work"
as_user mkdir -p "$src/d/deep" "$ref" "$third"
made 'echo one > a; echo two > d/b; head -c 300000 /dev/urandom > d/deep/large; ln -s a link; echo odd > "$(printf "\377 x")"; truncate -s 2M sparse; mkdir hollow'

compare "new" 'true'
both "new" 0 0
compare "unchanged" 'true'
same "unchanged: what sync did" "" "$(cat "$work/sync.out")"
compare "changed size" 'echo longer >> a'
compare "changed mtime only" 'touch -d 2001-02-03 a'
compare "mtime older than the copy" 'touch -d 1999-01-01 d/b'
compare "same size and mtime, other contents" 'touch -r d/b ../stamp 2> /dev/null; t=$(stat -c %y d/b); echo TWO > d/b; touch -d "$t" d/b'
same "same size and mtime: the copy of sync" two "$(cat "$copy/d/b")"
compare "the same with --checksum" 'true' --checksum
same "the same with --checksum: the copy of sync" TWO "$(cat "$copy/d/b")"
compare "symbolic link changed" 'ln -sfn d/b link'
compare "directory times" 'touch -d 2002-02-02 d/deep; touch -d 2003-03-03 d'
compare "deleted, without --delete" 'mkdir gone; echo x > gone/x; echo y > y'
compare "deleted, without --delete (2)" 'rm -r gone y'
check "deleted, without --delete: the copy has it" test -e "$copy/gone/x"
compare "deleted, dry run" 'true' --delete --dry-run
check "deleted, dry run: the copy has it" test -e "$copy/gone/x"
compare "deleted" 'true' --delete
check "deleted: the copy does not have it" test ! -e "$copy/gone"
compare "file becomes a directory" 'rm a; mkdir a; echo in > a/in'
compare "directory becomes a file, without --delete" 'rm -r a; echo file > a'
both "directory becomes a file, without --delete" 23 1
compare "directory becomes a file" 'true' --delete
compare "link becomes a file" 'rm link; echo file > link'
compare "file becomes a link" 'rm link; ln -s a link'
compare "excluded, and --delete" 'echo o > d/x.o; echo n > n' --delete --exclude '*.o'
as_user bash -c "echo old > '$ref/old.o'; echo old > '$copy/old.o'; mkdir '$ref/half' '$copy/half'; for t in '$ref' '$copy'; do echo o > \$t/half/k.o; touch -d @1 \$t/half/k.o \$t/half; done"
compare "excluded in the copy, and --delete" 'true' --delete --exclude '*.o'
check "excluded in the copy: it is kept" test -e "$copy/old.o" -a -e "$copy/half/k.o"
compare "include before exclude" 'echo 1 > keep.o' --delete --include keep.o --exclude '*.o'
compare "anchored, directories only, **" 'mkdir -p tmp d/tmp/e; echo 1 > tmp/1; echo 2 > d/tmp/e/2; echo 3 > d/deep/skip' --exclude /tmp/ --exclude 'd/**/skip'
check "anchored: below it is copied" test -e "$copy/d/tmp/e/2" -a ! -e "$copy/tmp"
# rsync has deleted what it came to before the directory that it cannot read, and makes an empty directory.
expected=different
compare "unreadable directory, and --delete" 'mkdir locked; echo s > locked/s; chmod 000 locked; rm keep.o' --delete
both "unreadable directory, and --delete" 23 1
check "unreadable directory, and --delete: nothing is deleted" test -e "$copy/keep.o"
check "unreadable directory: sync says why nothing is deleted" grep -q "nothing was deleted" "$work/sync.err"
expected=same
compare "readable again, and --delete" 'chmod 755 locked' --delete
compare "unreadable file" 'echo no > d/no; chmod 000 d/no'
both "unreadable file" 23 1
made 'rm -f d/no'


# A source that is missing removes nothing.
as_user rsync -rlt --delete "$work/none/" "$ref" 2> /dev/null
rsync_status=$?
cli sync -q --delete "$work/none/" "$url/copy" 2> "$work/sync.err"
sync_status=$?
both "missing source" 23 1
same "missing source, and --delete: the trees" "$(tree "$ref")" "$(tree "$copy")"

# Interrupted in a large file: neither leaves it under its name, and the same command goes on.
made 'head -c 20000000 /dev/urandom > zlarge'
as_user timeout --foreground -s INT 0.7 rsync -rlt --bwlimit=4m "$src/" "$ref" > /dev/null 2>&1
rsync_status=$?
as_user timeout --foreground -s INT 0.7 "$cli_binary" sync -q --bwlimit 4M "$src/" "$url/copy" 2> "$work/err"
sync_status=$?
check "interrupted: no file under its name" test ! -e "$ref/zlarge" -a ! -e "$copy/zlarge"
one_sentence "interrupted" interrupted "to go on, run"
same "interrupted: no temporary file is left" "" "$(find "$copy" -name '.*nfsrdma*')"
left_over() { find "$1" -name '*zlarge*' -printf '%f ' | grep . || printf 'nothing of zlarge'; }
printf '%s|%s (%s)|%s (%s)|%s\n' "interrupted in a large file" "$(left_over "$ref")" "$rsync_status" "$(left_over "$copy")" "$sync_status" - >> "$work/table"
compare "interrupted, and run again" 'true'

# Back, and with everything kept.
expect_exit 0 "sync back" cli sync -q -p --verify "$url/copy/" "$back/copy"
same "sync back: the tree" "$(tree "$copy")" "$(tree "$back/copy")"
expect_exit 0 "sync back, again" cli sync -v -p "$url/copy/" "$back/copy"
check "sync back, again: nothing is copied" grep -q ": 0 copied (0 B), .* unchanged, 0 with new" "$work/out"
expect_exit 0 "sync on the server" cli sync -q --verify "$url/copy/" "$url/copy2"
same "sync on the server: the tree" "$(tree "$copy")" "$(tree "$export/copy2")"
check "sync keeps holes" test "$(stat -c %b "$back/copy/sparse")" -lt 1024

say "case | rsync -rlt (exit status) | sync (exit status) | trees | rclone"
column -t -s '|' < "$work/table"
