#!/usr/bin/env bash
# Traces of real work, of the CLI and of a mount: tshark finds nothing malformed in them, sees the operations, and finds the
# Call of each Reply; nfsrdma-cli trace says the same of them. Kept as headers only, and as a whole.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

command -v tshark > /dev/null || skip "no tshark"
start_bridge trace || exit 1
root_url=nfs://127.0.0.1:$bridge_port
url() { printf '%s/export/%s' "$root_url" "${1:-}"; }
cli() { "$cli_binary" "$@"; }
shark() { tshark -2 -n -r "$@" 2> /dev/null; }

# odd sizes: the fill bytes of an XDR item are not in its chunk
head -c 1000003 /dev/urandom > "$work/large"
head -c 701 /dev/urandom > "$work/small"
mkdir -p "$export/many" && (cd "$export/many" && seq -f 'a-rather-long-name-%05g' 1 400 | xargs touch)
chmod -R a+rwX "$export"

# work_with: with the options of $with, reads, writes, listings, names and a failure, each into a trace of its own under $work/NAME.
traced=()
traced() {
  local name=$1
  shift
  traced+=("$work/$name.pcapng")
  cli --trace "$work/$name.pcapng" ${with[@]+"${with[@]}"} "$@" > "$work/out" 2> "$work/err"
}
work_with() {
  traced=()
  check "put" traced put put -q "$work/large" "$(url large)"
  check "get" traced get get -q "$(url large)" "$work/back"
  check "the same" cmp "$work/large" "$work/back"
  check "put of a small file" traced put-small put -q "$work/small" "$(url small)"
  check "cat of a small file" traced cat cat "$(url small)"
  check "ls -l" traced ls ls -l "$(url many)"
  check "ln -s" traced ln ln -s "$(printf 'x%.0s' {1..200})" "$(url soft)"
  check "mv" traced mv mv "$(url soft)" "$(url softer)"
  check "rm" traced rm rm "$(url softer)"
  traced stat stat "$(url nothing)"
}
# judge VERSION OP …: of all traces of work_with. tshark takes a second for each file, so it is asked once.
judge() {
  local version=$1 file name op
  shift
  : > "$work/info"
  for file in "${traced[@]}"; do
    name=$(basename "$file")
    same "$name: mode" 600 "$(stat -c %a "$file")"
    shark "$file" -T fields -e _ws.malformed -e _ws.expert.severity -e rpc.msgtyp -e frame.protocols \
      -e _ws.col.Info > "$work/fields"
    # 8388608: an error
    same "$name: nothing is malformed" "" "$(awk -F'\t' '$1 != "" || $2 ~ /8388608/' "$work/fields" | head -3)"
    cli trace --json "$file" > "$work/json" 2> "$work/err"
    same "$name: each Reply is one of NFS for tshark" \
      "$(jq -s '[.[] | select(.event == "reply" and .backward == false and .procedure != "NULL")] | length' "$work/json")" \
      "$(awk -F'\t' '$3 ~ /1/ && $4 ~ /:nfs/' "$work/fields" | wc -l)"
    same "$name: each Call has its Reply" "0 0" "$(jq -r 'select(.event == "summary") | "\(.unanswered) \(.strange)"' "$work/json")"
    cut -f5 "$work/fields" >> "$work/info"
  done
  for op in "$@"; do check "tshark sees V$version … $op" grep -qE "^V$version .*(Call.*$op|$op.* Call)" "$work/info"; done
}

with=()
work_with
judge 4 EXCHANGE_ID CREATE_SESSION "READ StateID" "WRITE StateID" READDIR RENAME REMOVE OPEN
with=(-o trace_bytes=2M)
rm -f "$export/large" "$export/small"
work_with
judge 4 "READ StateID" "WRITE StateID" READDIR
traced=("$work/get.pcapng")
same "with trace_bytes=2M tshark has the data" 1000003 "$(shark "$work/get.pcapng" -T fields -e nfs.read.data_length | tr ',' '\n' | grep . | paste -sd+ | bc)"
check "and so have we" grep -qa "$(head -c 64 "$work/large" | tail -c 8 | sed 's/[^a-zA-Z0-9]/./g')" "$work/get.pcapng"
with=()

# ---- what our decoder says ----
cli trace "$work/get.pcapng" > "$work/lines"
check "a line of READ" grep -q ' > 0x.* NFSv4.2 SEQUENCE slot=.* READ offset=0 count=.*write chunk' "$work/lines"
check "a line of its reply" grep -qE ' < 0x.* NFSv4.2 OK [0-9.]+ ms SEQUENCE; .*READ count=.*credits granted' "$work/lines"
check "the sums" grep -qE '^READ .* 1000003$' "$work/lines"
check "the connection" grep -q -- '- connecting to 127.0.0.1 (127.0.0.1:' "$work/lines"
check "its end" grep -q -- '- connection ended: shut down by its user' "$work/lines"
cli trace --errors "$work/stat.pcapng" > "$work/lines"
check "--errors shows the failure" grep -q 'NFS4ERR_NOENT' "$work/lines"
xid=$(cli trace "$work/get.pcapng" | sed -n 's/.* > \(0x[0-9a-f]*\) .*OPEN.*/\1/p' | head -1)
same "--xid shows a call and its reply" 2 "$(cli trace --xid "$xid" "$work/get.pcapng" | grep -c "$xid")"
same "--slow 1h shows nothing but the sums" 0 "$(cli trace --slow 3600s "$work/get.pcapng" | grep -c ' [<>] 0x')"

# ---- failures ----
head -c 3000 "$work/get.pcapng" > "$work/short.pcapng"
expect_exit 0 "a file that is cut" cli trace "$work/short.pcapng"
one_sentence "a file that is cut" "no complete block"
expect_exit 1 "a file that is no trace" cli trace "$work/large"
one_sentence "a file that is no trace" "not a pcapng"
expect_exit 1 "no file" cli trace "$work/none"
one_sentence "no file" "no such file"
expect_exit 2 "a wrong time" cli trace --slow soon "$work/get.pcapng"
echo notes > "$work/notes"
expect_exit 0 "a file that must not be replaced" cli --trace "$work/notes" ls "$(url)"
one_sentence "a file that must not be replaced" "is not a trace"
same "it is as it was" notes "$(cat "$work/notes")"
expect_exit 2 "a URL does not name a trace" cli ls "$(url)?trace=$work/x"
one_sentence "a URL does not name a trace" "-o trace=FILE"
check "no file was made" test ! -e "$work/x"
cli trace "$work/get.pcapng" >&- 2> "$work/err"
same "with standard output closed" 1 $?
if [ -w /dev/full ]; then
  cli trace "$work/get.pcapng" > /dev/full 2> "$work/err"
  same "to a full device" 1 $?
fi
if mkdir "$work/tiny" && mount -t tmpfs -o size=32k none "$work/tiny" 2> /dev/null; then
  expect_exit 0 "a full disk" cli --trace "$work/tiny/t" -o trace_bytes=1M get -q "$(url large)" "$work/back"
  one_sentence "a full disk" "the trace ends here" "the work goes on"
  check "the work went on" cmp "$work/large" "$work/back"
  expect_exit 0 "what the full disk has is a trace" cli trace "$work/tiny/t"
  umount "$work/tiny"
else
  skip_part "a full disk: no tmpfs can be mounted"
fi
expect_exit 0 "rotation" cli --trace "$work/rotated" -o trace_size=64K,trace_bytes=16K get -q "$(url large)" "$work/back"
for _ in 1 2 3 4 5 6; do cli --trace "$work/rotated" -o trace_size=64K,trace_bytes=16K,rsize=8192 get -q "$(url large)" "$work/back"; done
check "the file is bounded" test "$(stat -c %s "$work/rotated")" -le 65536
check "the one before is there" test -s "$work/rotated.1"
same "nothing is malformed behind the rotation" "" "$(shark "$work/rotated" -Y _ws.malformed | head -3)"
expect_exit 0 "two connections in one file" cli --trace "$work/two" -o nconnect=2 get -q "$(url large)" "$work/back"
same "two connections are told apart" 2 "$(cli trace --json "$work/two" | jq -s '[.[] | select(.event == "connected")] | length')"
same "nothing is malformed" "" "$(shark "$work/two" -Y _ws.malformed | head -3)"

# ---- the older versions ----
for vers in 4.0 3; do
  with=(-o "vers=$vers")
  [ "$vers" != 3 ] || with+=(-o "mountport=$("$ganesha" port "$work" mnt)")
  cli info "${with[@]}" "$(url)" > /dev/null 2>&1 || { skip_part "version $vers is not served here"; continue; }
  rm -f "$export/large" "$export/small"
  work_with
  judge "${vers%.*}" READ WRITE
done
