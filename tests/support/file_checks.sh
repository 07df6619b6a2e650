# shellcheck shell=bash
# Files and directories through nfsrdma-cli, compared with what the server itself sees: for the lab's server and for the
# bridge's alike.
#
# On top of checks.sh, given: cli … (the program, as uid and gid 65534, behind the words of the array cli_wrap), url NAME,
# $root_url, $export (the directory of url, on the server), on_server COMMAND, server_sum NAME; $by_ticket, where a ticket
# says who the program is.
MiB=1048576

# check_given_up [WRAPPER …]: READs of a File that is destroyed, with the slots of one session.
check_given_up() {
  local program=${NFSRDMA_GIVE_UP:-$here/../../build/tests/bridge/nfsrdma-give-up}
  on_server "head -c $((8 * MiB)) /dev/urandom > '$export/given-up' && chmod 644 '$export/given-up'"
  expect_exit 0 "READs that are given up cost nobody anything" "$@" "$program" "$(url given-up)"
}

# check_content SIZE: put, cat and get of a file of that size.
check_content() {
  local size=$1 name=f-$1 sum
  head -c "$size" /dev/urandom > "$work/$name"
  chmod 644 "$work/$name"
  sum=$(local_sum "$work/$name")
  expect_exit 0 "put $size bytes" cli put "$work/$name" "$(url "$name")"
  # A server may keep the verifier of the exclusive create in the times.
  on_server "cd '$export' && sha256sum < '$name' | cut -d' ' -f1; stat -c '%X %Y' '$name'; ls -A | grep -F -- '$name'; date +%s" > "$work/seen"
  same "put $size bytes: the server's sum" "$sum" "$(sed -n 1p "$work/seen")"
  check "put $size bytes: F24 the times are of now" awk '
    NR == 2 { a = $1; m = $2 } END { exit !(NR >= 4 && $1 - a < 600 && a - $1 < 600 && $1 - m < 600 && m - $1 < 600) }' "$work/seen"
  same "put $size bytes: nothing else left there" "$name" "$(sed '1,2d; $d' "$work/seen")"
  expect_exit 0 "cat $size bytes" cli cat "$(url "$name")"
  same "cat $size bytes: contents" "$sum" "$(local_sum "$work/out")"
  expect_exit 0 "get $size bytes" cli get "$(url "$name")" "$work/got-$name"
  check "get $size bytes: contents" cmp "$work/$name" "$work/got-$name"
  on_server "rm '$export/$name'"
  rm -f "$work/$name" "$work/got-$name"
}

# Standard input and output, names by default, -p: times and holes.
check_pipes() {
  local sum blocks
  head -c 300000 /dev/urandom > "$work/pipe"
  chmod 644 "$work/pipe"
  sum=$(local_sum "$work/pipe")
  cli put - "$(url piped)" < "$work/pipe" > "$work/out" 2> "$work/err"
  same "put - reads stdin" "0 $sum" "$? $(server_sum piped)"
  same "get - writes to stdout" "$sum" "$(cli get "$(url piped)" - | sha256sum | cut -d' ' -f1)"
  mkdir -m 777 "$work/cwd"
  ( cd "$work/cwd" && cli get "$(url piped)" > "$work/out" 2> "$work/err" )
  check "get without LOCAL uses the name" cmp "$work/pipe" "$work/cwd/piped"
  head -c 5000 /dev/urandom > "$work/shorter"
  chmod 644 "$work/shorter"
  expect_exit 0 "put over an existing, longer file" cli put "$work/shorter" "$(url piped)"
  same "put replaced it" "$(local_sum "$work/shorter")" "$(server_sum piped)"

  # -p: times and holes
  truncate -s $((32 * MiB)) "$work/holes"
  printf begin | dd of="$work/holes" conv=notrunc status=none
  printf end | dd of="$work/holes" conv=notrunc status=none bs=1 seek=$((20 * MiB))
  touch -d '2001-02-03 04:05:06 UTC' "$work/holes"
  chmod 644 "$work/holes"
  expect_exit 0 "put -p" cli put -p "$work/holes" "$(url holes)"
  same "put -p: contents" "$(local_sum "$work/holes")" "$(server_sum holes)"
  same "put -p: time" 981173106 "$(on_server "stat -c %Y '$export/holes'")"
  blocks=$(on_server "stat -c %b '$export/holes'")
  [ "${side:-}" = guest ] || check "put -p: holes stay holes ($blocks blocks)" test "$blocks" -lt $((8 * MiB / 512))
  expect_exit 0 "get -p" cli get -p "$(url holes)" "$work/holes2"
  check "get -p: contents" cmp "$work/holes" "$work/holes2"
  same "get -p: time" 981173106 "$(stat -c %Y "$work/holes2")"
  blocks=$(stat -c %b "$work/holes2")
  [ "${side:-}" = guest ] || check "get -p: holes stay holes ($blocks blocks)" test "$blocks" -lt $((8 * MiB / 512))
}

# check_listing COUNT: ls of a directory with that many entries, and of one with 200.
check_listing() {
  local count=$1 many few name
  on_server "mkdir -m 755 '$export/few' '$export/many' && cd '$export/many' && seq -f 'file-%05g' 1 $((count - 10)) | xargs touch &&
    for i in 1 2 3 4 5; do truncate -s \${i}234 file-0000\$i; chmod 64\$i file-0000\$i; done; truncate -s ${large_size:-6G} file-00009
    mkdir -m 2751 d1 d2 d3; ln -s target s1; ln -s ../few s2; mkfifo p1; chmod 4711 file-00008
    touch 'a name' ./-dash '\$dollar' \"q'uote\"; cd ../few && seq -f 'file-%05g' 1 200 | xargs touch"
  on_server "cd '$export/many' && find . -mindepth 1 -printf '%f|%s|%m|%y\n'" | LC_ALL=C sort > "$work/expected"
  same "the server has $count entries" "$count" "$(wc -l < "$work/expected")"

  rm -f "$work/rss-many" "$work/rss-few"
  cli_wrap=(/usr/bin/time -f %M -o "$work/rss-many")
  expect_exit 0 "ls --json of $count entries" cli ls --json "$(url many)"
  cp "$work/out" "$work/many.json"
  # Directories and links have sizes of the server's file system: compared like any other.
  jq -r '[.name, .size, (.mode | .[-4:] | sub("^0+"; "")),
    ({"file":"f","reg":"f","regular":"f","f":"f","dir":"d","directory":"d","d":"d","link":"l","symlink":"l","l":"l",
      "fifo":"p","p":"p"}[.type] // .type)] | map(tostring) | join("|")' "$work/many.json" | LC_ALL=C sort > "$work/actual"
  check "ls --json: names, sizes, modes and types are the server's" diff "$work/expected" "$work/actual"
  cli_wrap=(/usr/bin/time -f %M -o "$work/rss-few")
  expect_exit 0 "ls --json of 200 entries" cli ls --json "$(url few)"
  cli_wrap=()
  many=$(tail -1 "$work/rss-many")
  few=$(tail -1 "$work/rss-few")
  check "ls in constant memory: $few KiB for 200, $many KiB for $count entries" test $((many - few)) -lt 4096

  on_server "cd '$export/many' && find . -mindepth 1 ! -type l -printf '%M|%n|%s|%f\n'" | LC_ALL=C sort > "$work/expected"
  expect_exit 0 "ls -l of $count entries" cli ls -l "$(url many)"
  sed -E '/^total /d; /^l/d; s/^([^ ]+) +([0-9]+) +[^ ]+ +[^ ]+ +([0-9]+) +[A-Z][a-z]+ +[0-9]+ +[0-9:]+ (.*)$/\1|\2|\3|\4/' "$work/out" |
    LC_ALL=C sort > "$work/actual"
  check "ls -l: modes, link counts, sizes and names are the server's" diff "$work/expected" "$work/actual"
  same "ls -l shows symbolic links" 2 "$(grep -c '^l' "$work/out")"

  expect_exit 0 "ls" cli ls "$(url few)"
  same "ls: names only" "$(seq -f 'file-%05g' 1 200)" "$(LC_ALL=C sort "$work/out")"
  on_server "mkdir '$export/few/.hidden'"
  expect_exit 0 "ls without -a" cli ls "$(url few)"
  same "ls leaves out hidden names" 0 "$(grep -c hidden "$work/out")"
  expect_exit 0 "ls -a" cli ls -a "$(url few)"
  same "ls -a shows hidden names" 1 "$(grep -c hidden "$work/out")"
  expect_exit 0 "ls of a file" cli ls -l "$(url many/file-00001)"
  check "ls of a file shows its size" grep -qw 1234 "$work/out"
  on_server "mkdir -p '$export/tree/a/b/c' '$export/tree/d' && touch '$export/tree/a/b/c/leaf' '$export/tree/d/other' && chown -R 65534:65534 '$export/tree'"
  expect_exit 0 "ls -R" cli ls -R "$(url tree)"
  for name in a b c d leaf other; do check "ls -R reaches $name" grep -qE "(^|[/ ])$name(:|/|\$)" "$work/out"; done
}

# One object at a time. After check_listing, whose directories it uses.
check_objects() {
  expect_exit 0 "stat --json" cli stat --json "$(url many/file-00003)"
  same "stat: size, links, type" "3234 1" "$(json '"\(.size) \(.nlink)"')"
  same "stat: fileid" "$(on_server "stat -c %i '$export/many/file-00003'")" "$(json .fileid)"
  expect_exit 0 "stat of the export's root" cli stat "$root_url/"
  expect_exit 0 "df" cli df "$(url)"
  expect_exit 0 "df --json" cli df --json "$(url)"
  check "df --json is one JSON object" jq -e 'type == "object"' "$work/out"

  expect_exit 0 "mkdir" cli mkdir "$(url dir)"
  check "mkdir: it is there" on_server "test -d '$export/dir'"
  expect_exit 1 "mkdir of what exists" cli mkdir "$(url dir)"
  one_sentence "mkdir of what exists" exist
  expect_exit 0 "touch" cli touch "$(url dir/new)"
  same "touch: empty, the caller's" "0 65534 65534" "$(on_server "stat -c '%s %u %g' '$export/dir/new'")"
  on_server "touch -d @1000000000 '$export/dir/new'"
  expect_exit 0 "touch again" cli touch "$(url dir/new)"
  check "touch: the time is now" test "$(on_server "stat -c %Y '$export/dir/new'")" -gt 1000000000
  expect_exit 0 "chmod" cli chmod 640 "$(url dir/new)"
  same "chmod: mode" 640 "$(on_server "stat -c %a '$export/dir/new'")"
  local as_root=(-o uid=0,gid=0)
  [ -z "${by_ticket:-}" ] || as_root=()
  if [ -z "${by_ticket:-}" ]; then
    expect_exit 0 "chown" cli chown "${as_root[@]}" 12:34 "$(url dir/new)"
    same "chown: owner and group" "12 34" "$(on_server "stat -c '%u %g' '$export/dir/new'")"
    expect_exit 0 "chown of the owner alone, options in the URL" cli chown 56 "$(url dir/new)?uid=0&gid=0"
    same "chown: owner" "56 34" "$(on_server "stat -c '%u %g' '$export/dir/new'")"
  else
    expect_exit 1 "uid= with Kerberos" cli chown 56 "$(url dir/new)?uid=0&gid=0"
    one_sentence "uid= with Kerberos" "ticket" "sec=sys"
  fi
  expect_exit 1 "chown as nobody" cli chown 0 "$(url dir/new)"
  # A server that has names for owners may know no such one before it asks whose the file is.
  one_sentence "chown as nobody" "to the owner or to root only${by_ticket:+|id mapping domain}"
  expect_exit 0 "truncate" cli truncate -s 12345 "${as_root[@]}" "$(url dir/new)"
  same "truncate: size" 12345 "$(on_server "stat -c %s '$export/dir/new'")"
  expect_exit 0 "ln" cli ln "${as_root[@]}" "$(url dir/new)" "$(url dir/hard)"
  same "ln: two links, one file" "2 1" "$(on_server "cd '$export/dir'; stat -c %h hard; stat -c %i new hard | sort -u | wc -l" | xargs)"
  expect_exit 0 "ln -s" cli ln -s some/where "$(url dir/soft)"
  same "ln -s: its target" some/where "$(on_server "readlink '$export/dir/soft'")"
  expect_exit 0 "ls -l of a link" cli ls -l "$(url dir)"
  check "ls -l shows a link's target" grep -q 'soft.*some/where' "$work/out"
  expect_exit 0 "mv" cli mv "$(url dir/hard)" "$(url dir/moved)"
  check "mv: it moved" on_server "cd '$export/dir' && test ! -e hard && test -e moved"
  expect_exit 0 "mv across directories" cli mv "$(url dir/moved)" "$(url tree/d/moved)"
  check "mv across directories: it moved" on_server "cd '$export' && test ! -e dir/moved && test -e tree/d/moved"
  expect_exit 0 "rm" cli rm "$(url dir/new)"
  check "rm: it is gone" on_server "test ! -e '$export/dir/new'"
  expect_exit 1 "rmdir of what is not empty" cli rmdir "$(url dir)"
  one_sentence "rmdir of what is not empty" "not empty"
  expect_exit 0 "rm of a link" cli rm "$(url dir/soft)"
  expect_exit 0 "rmdir" cli rmdir "$(url dir)"
  check "rmdir: it is gone" on_server "test ! -e '$export/dir'"
  expect_exit 1 "rm of a directory without -r" cli rm "$(url tree)"
  on_server "ln -s ../few '$export/tree/link'; chown -h 65534:65534 '$export/tree/link'"
  expect_exit 0 "rm -r" cli rm -r "$(url tree)"
  check "rm -r: it is gone, and what its links named is not" on_server "test ! -e '$export/tree' && test -e '$export/few/file-00001'"
}

# traits DIRECTORY: of what is in it, modes and times; these in microseconds, as NFSv2 has them.
traits() { (cd "$1" && find . ! -type l -printf '%p %m %T@\n' | sed 's/\(\.[0-9]\{6\}\)[0-9]*$/\1/' | sort); }
check_trees_got() {
  expect_exit 0 "get -r" cli get -rq "$(url trees)" "$work/cwd/back"
  check "put -r and get -r: the same" diff -r --no-dereference "$work/src" "$work/cwd/back"
  expect_exit 0 "get -rp" cli get -rpq "$(url exact)" "$work/cwd/exact"
  same "put -rp and get -rp: modes and times" "$(traits "$work/src")" "$(traits "$work/cwd/exact")"
  check "put -rp and get -rp: the same" diff -r --no-dereference "$work/src" "$work/cwd/exact"
  blocks=$(stat -c %b "$work/cwd/exact/a/holes")
  check "get -rp: holes stay holes ($blocks blocks)" test "$blocks" -lt $((2 * MiB / 512))
  expect_exit 0 "get -r over what is there" cli get -rq "$(url trees)/a" "$work/cwd/back"
}
# Trees: there and back, copied there, and what find, du and sum say of them. The sizes are those of small files, of which
# many go into one request, and of some that go by themselves.
check_trees() {
  local i
  rm -rf "$work/src" "$work/back" "$work/exact"
  mkdir -p "$work/src/a/b/c" "$work/src/empty"
  for i in $(seq 150); do head -c $((i * i * 3)) /dev/urandom > "$work/src/a/f$i"; done
  for i in 4 4096 65536 65537 3000000; do head -c "$i" /dev/urandom > "$work/src/a/b/$i"; done
  truncate -s $((8 * MiB)) "$work/src/a/holes"
  printf data | dd of="$work/src/a/holes" conv=notrunc status=none bs=1 seek=$((5 * MiB))
  : > "$work/src/a/f75"
  printf x > "$work/src/a/f76"
  ln -s ../f1 "$work/src/a/b/link"
  ln -s nowhere "$work/src/dangling"
  chmod 640 "$work/src/a/f7"
  touch -d '2001-02-03 04:05:06' "$work/src/a/f9" "$work/src/a/b"
  chmod -R a+rX "$work/src"
  expect_exit 0 "put -r" cli put -rq "$work/src" "$(url trees)"
  expect_exit 0 "put -rp" cli put -rpq "$work/src" "$(url exact)"
  blocks=$(on_server "stat -c %b '$export/exact/a/holes'")
  [ "${side:-}" = guest ] || check "put -rp: holes stay holes ($blocks blocks)" test "$blocks" -lt $((2 * MiB / 512))
  # Inside the guest a directory that a program makes on this machine's file system belongs to another user.
  if [ "${NFSRDMA_LAB_SIDE:-}" != guest ]; then check_trees_got; fi
  expect_exit 0 "cp -r" cli cp -rq "$(url trees)" "$(url copied)"
  check "cp -r: the same" on_server "diff -r --no-dereference '$export/trees' '$export/copied'"
  expect_exit 0 "cp into a directory" cli cp -q "$(url trees/a/f9)" "$(url trees/a/b/3000000)" "$(url copied/empty)"
  check "cp: the same" on_server "cmp '$export/trees/a/f9' '$export/copied/empty/f9' && cmp '$export/trees/a/b/3000000' '$export/copied/empty/3000000'"
  expect_exit 0 "sum -r" cli sum -r "$(url trees)"
  same "sum -r: as sha256sum" "$(cd "$work/src" && find . -type f -exec sha256sum {} + | cut -d' ' -f1 | sort)" "$(cut -d' ' -f1 "$work/out" | sort)"
  expect_exit 0 "find" cli find "$(url trees)"
  same "find: as find" "$(cd "$work/src" && find . | wc -l)" "$(wc -l < "$work/out")"
  expect_exit 0 "find by name and type" cli find -t f -n 'f1?' "$(url trees)"
  same "find by name and type: as find" 10 "$(wc -l < "$work/out")"
  expect_exit 0 "du -sb --json" cli du -sb --json "$(url trees/a/b/65537)"
  same "du: the size" 65537 "$(json .bytes)"
  expect_exit 0 "rm -r of trees" cli rm -r "$(url trees)" "$(url exact)" "$(url copied)"
  check "rm -r of trees: they are gone" on_server "test ! -e '$export/trees' && test ! -e '$export/exact'"
  rm -rf "$work/cwd/back" "$work/cwd/exact" "$work/src"
}

# check_version VERSION PING COUNT URL: every command by a version of NFS, a listing of COUNT, and what info and ping say.
check_version() {
  on_server "find '$export' -mindepth 1 -delete"
  rm -rf "$work/cwd"
  for size in 0 1 1023 1024 4095 4096 4097 $((MiB - 1)) $((MiB + 1)) $((16 * MiB)); do check_content "$size"; done
  check_pipes
  check_listing "$3"
  check_objects
  check_trees
  expect_exit 0 "info" cli info "$4"
  check "info says which version" grep -qE "NFS version: +$1\$" "$work/out"
  expect_exit 0 "info --json" cli info --json "$4"
  same "info --json says which version" "$1" "$(json .version)"
  expect_exit 0 "ping" cli ping -c 2 "$4"
  check "ping asks $2" grep -q "$2" "$work/out"
}
