#!/usr/bin/env bash
# Kerberos against the kernel's server, with a KDC of the lab's own: every version and service by the program; a mount of
# two users with tickets and one without; tickets that end, and are had anew; contexts that the server forgets; a KDC that
# is away; and what of all that is on the wire.
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
need_tools tshark
realm_up
keytab=$(dirname "$KRB5_CONFIG")/client.keytab
kdc destroy root
for user in daemon bin; do kdc ticket $user; done

# as USER ARGUMENTS: the program, on behalf of a user with tickets of his own.
as() { local user=$1; shift; kdc as "$user" timeout 60 "$cli_binary" "$@"; }
fails_with() { # TEXT WHAT USER ARGUMENTS
  local text=$1 what=$2 status=0
  shift 2
  as "$@" > "$work/out" 2>&1 || status=$?
  if [ $status != 0 ] && grep -q "$text" "$work/out"; then check "$what" true; else fail "$what (status $status): $(cat "$work/out")"; fi
}

head -c 3000001 /dev/urandom > "$work/data"
chmod 644 "$work/data"
# Linux 6.1.192 and its kin in Debian 12 decode nothing that came with privacy: each Call is GARBAGE_ARGS, the kernel's own
# client's, too. Where the server is such a one there is nothing to test.
services="krb5 krb5i"
if as daemon ls -o sec=krb5p "nfs://$server/" > "$work/out" 2>&1; then
  services="$services krb5p"
elif grep -q "krb5p" "$work/out"; then
  skip_part "krb5p: the server's kernel ($(on_server 'uname -r')) cannot decode it: $(cat "$work/out")"
else
  fail "krb5p fails for a reason of its own: $(cat "$work/out")"
fi
for service in $services; do
  for version in 3 4.0 4.1 4.2; do
    at=nfs://$server$remote
    [ $version != 3 ] || at=nfs://$server$export
    o=(-o "sec=$service,vers=$version")
    name=$service.$version
    check "$name: info says it" grep -q "sec=$service" <(as daemon info "${o[@]}" "$at")
    check "$name: put" as daemon put "${o[@]}" "$work/data" "$at/$name"
    same "$name: it is on the server" "$(sha256sum < "$work/data" | cut -d' ' -f1)" "$(server_sum "$name")"
    same "$name: get" "$(sha256sum < "$work/data" | cut -d' ' -f1)" "$(as daemon cat "${o[@]}" "$at/$name" | sha256sum | cut -d' ' -f1)"
    same "$name: whose it is" daemon "$(on_server "stat -c %U '$export/$name'")"
    check "$name: mkdir" as daemon mkdir "${o[@]}" "$at/d.$name"
    check "$name: a listing of many names" test "$(as daemon ls "${o[@]}" "$at" | wc -l)" -ge 2
    check "$name: mv" as daemon mv "${o[@]}" "$at/$name" "$at/d.$name/moved"
    check "$name: rm" as daemon rm -r "${o[@]}" "$at/d.$name"
  done
done

# ---- what is on the wire ----
"$lab" capture start "$work/wire.pcap"
as daemon put -o sec=krb5i "$work/data" "nfs://$server$remote/wire"
as daemon cat -o sec=krb5i "nfs://$server$remote/wire" > /dev/null
"$lab" capture stop
python3 "$here/split_fpdus.py" "$work/wire.pcap" "$work/fpdus.pcap"
fields() { tshark -2 -r "$work/fpdus.pcap" -Y "$1" -T fields "${@:2}" 2> /dev/null; }
same "no context is made over RDMA" "" "$(fields 'rpc.authgss.procedure == 1 || rpc.authgss.procedure == 2' -e frame.number)"
check "each Call has a context's credential" test -z "$(fields 'rpc.msgtyp == 0 && rpc.auth.flavor != 6' -e frame.number)"
check "contexts are given up at the end" test -n "$(fields 'rpc.authgss.procedure == 3' -e frame.number)"
check "nothing is reduced under integrity" test -z "$(fields 'rpcordma.writes_count > 0' -e frame.number)"
check "a long Call stands in a Position Zero Read chunk" test -n "$(fields 'rpcordma.msg_type == 1 && rpcordma.position == 0' -e frame.number)"
check "a long Reply goes to a Reply chunk" test -n "$(fields 'rpc.msgtyp == 0 && rpcordma.reply_count > 0' -e frame.number)"
check "nothing is malformed" test -z "$(fields '_ws.malformed' -e frame.number)"

# ---- errors, with the next step ----
fails_with "run kinit" "without a ticket: kinit" games ls -o sec=krb5 "nfs://$server/"
kdc ticket games 1s
sleep 2
fails_with "has expired: run kinit" "an expired ticket: kinit" games ls -o sec=krb5 "nfs://$server/"
fails_with "cannot be read" "a keytab that is not there" games ls -o sec=krb5,keytab=/nonexistent "nfs://$server/"
kdc ticket games
kdc stop
fails_with "no KDC answers" "no KDC" games ls -o sec=krb5,timeo=30 "nfs://$server/"
kdc start
check "with one again" as games ls -o sec=krb5 "nfs://$server/"
on_server 'pkill rpc.svcgssd; sleep 0.2'
fails_with "svcgssd" "a server without rpc.svcgssd" bin ls -o sec=krb5,timeo=50 "nfs://$server/"
kdc serve
kdc destroy games

# ---- names: the server takes no numbers for owners, nor says them ----
client mount --bind "$(dirname "$KRB5_CONFIG")/idmapd.conf" /etc/idmapd.conf
kdc ticket root
for version in 4.0 4.2; do
  on_server "echo x > '$export/named'; chown root:root '$export/named'"
  check "chown by number, v$version" client "$cli_binary" chown -o "sec=krb5,vers=$version" 1:2 "nfs://$server$remote/named"
  same "it is daemon's and bin's on the server" daemon:bin "$(on_server "stat -c %U:%G '$export/named'")"
  same "and here" "1 2" "$(client "$cli_binary" ls --json -o "sec=krb5,vers=$version" "nfs://$server$remote/named" | jq -r '"\(.uid) \(.gid)"')"
done
client "$cli_binary" chown -o sec=krb5 12345:12345 "nfs://$server$remote/named" > "$work/out" 2>&1
check "an id without a name here" grep -q NFS4ERR_BADOWNER "$work/out"

# ---- what the server takes where: without sec=, and with a list ----
uses() { as "$1" info "${@:3}" "nfs://$server$2" | sed -n 's/^security: *sec=//p'; }
on_server 'chmod 777 /mnt/exp/xfs'
for version in 4.0 4.1 4.2; do
  v=(-o "vers=$version")
  kdc export sys:krb5:krb5i krb5i
  same "v$version: the strongest at the target" krb5i "$(uses daemon "$remote" "${v[@]}")"
  same "v$version: the list's first" krb5 "$(uses daemon "$remote" -o sec=krb5:krb5i "${v[@]}")"
  same "v$version: without a ticket, sys" sys "$(uses games "$remote" "${v[@]}")"
  same "v$version: an export that wants another one" krb5i "$(uses daemon /xfs -o sec=krb5:krb5i "${v[@]}")"
  check "v$version: put, crossing on the way" as daemon put "${v[@]}" "$work/data" "nfs://$server/xfs/$version"
  same "v$version: it is there" "$(sha256sum < "$work/data")" "$(as daemon cat "${v[@]}" "nfs://$server/xfs/$version" | sha256sum)"
  same "v$version: a listing of what is above tells of it" directory "$(as daemon ls --json -o sec=sys:krb5i "${v[@]}" "nfs://$server/" | jq -r 'select(.name == "xfs").type')"
  fails_with "run kinit" "v$version: crossing without a ticket: kinit" games ls "${v[@]}" "nfs://$server/xfs"
  fails_with "requires sec=krb5i here" "v$version: crossing, and it is not in the list" daemon ls -o sec=krb5:sys "${v[@]}" "nfs://$server/xfs"
  kdc export krb5:krb5i krb5i
  check "v$version: the root takes no sys" as daemon ls "${v[@]}" "nfs://$server/xfs"
  kdc export sys:krb5p
  check "v$version: krb5p, if the server can do what it offers" as daemon ls "${v[@]}" "nfs://$server/"
done
kdc export sys:krb5:krb5i
same "v3: the strongest of the mount service's" krb5i "$(uses daemon "$export" -o vers=3)"
same "v3: without a ticket, sys" sys "$(uses games "$export" -o vers=3)"
kdc export krb5
same "v3: the only one" krb5 "$(uses daemon "$export" -o vers=3)"
fails_with "requires sec=krb5 here" "v3: it is not the one that was given" daemon ls -o vers=3,sec=sys "nfs://$server$export"
kdc export sys:krb5p
check "v3: krb5p, if the server can do what it offers" as daemon ls -o vers=3 "nfs://$server$export"

# Two flavours on one mount, by what each directory wants.
kdc export sys:krb5:krb5i krb5i
# user USER CMD …: in the mount's namespaces.
user() { local who=$1; shift; nsenter -t "$holder" -m -n -- setpriv --reuid="$(id -u "$who")" --regid="$(id -g "$who")" --clear-groups "$@"; }
kdc destroy root
start_mount places / "allow_other,keytab=$keytab,sec=sys:krb5i"
check "a mount: sys above" user games sh -c "echo x > '$work/places/by-numbers'"
check "a mount: nobody crosses without a ticket" not user games ls "$work/places/xfs"
check "a mount: with one" user daemon sh -c "echo x > '$work/places/xfs/by-ticket'"
same "a mount: whose it is" daemon "$(on_server "stat -c %U /mnt/exp/xfs/by-ticket")"
check "a mount: without one nothing is read below" not user games cat "$work/places/xfs/by-ticket"
check "a mount: nothing is moved between them" not user daemon ln "$work/places/by-numbers" "$work/places/xfs/linked"
same "a mount: its statistics say both" "krb5i sys" "$(client sed -n 's/^security \([a-z0-9]*\) calls.*/\1/p' "$work/places/.nfsrdma-stats" | sort | xargs)"
check "a mount: it ends" client fusermount3 -u "$work/places"
ended places "places"
kdc ticket root
kdc export sys:krb5:krb5i:krb5p

# ---- a mount, and its users ----
start_mount one "$remote" "sec=krb5i,keytab=$keytab,allow_other,timeo=100"
for who in daemon bin; do
  check "$who writes" user $who sh -c "echo $who > '$work/one/of-$who'"
  same "$who owns it" $who "$(on_server "stat -c %U '$export/of-$who'")"
done
on_server "chmod 600 '$export/of-daemon'"
check "a user reads what is his" user daemon cat "$work/one/of-daemon"
check "and not what is another's" not user bin cat "$work/one/of-daemon"
check "without a ticket nothing is written" not user games sh -c "echo x > '$work/one/of-games'"
check "the log says what he can do" grep -q "user 5 has no ticket: .*kinit" "$work/one.log"
for i in 1 2 3 4 5; do user games ls "$work/one/of-bin" > /dev/null 2>&1; done
same "and says it once" 1 "$(grep -c "user 5 " "$work/one.log")"
check "the others go on" user bin sh -c "echo more >> '$work/one/of-bin'"
kdc ticket games
check "a ticket is found without a remount" user games sh -c "echo x > '$work/one/of-games'"

# Contexts forgotten while calls are under way; each call is made again and done once.
cat > "$work/load.py" << 'EOF'
import os, sys, time
where, end = sys.argv[1], time.time() + float(sys.argv[2])
n = 0
while time.time() < end:
    name = "%s/l%d" % (where, n % 20)
    with open(name, "wb") as f: f.write(b"%d" % n * 1000)
    with open(name, "rb") as f: assert f.read() == b"%d" % n * 1000
    os.mkdir(name + "d"); os.rename(name + "d", name + "e"); os.rmdir(name + "e")
    n += 1
assert n > 2
print(n, "rounds")
EOF
user daemon mkdir "$work/one/load"
user daemon /usr/bin/python3 "$work/load.py" "$work/one/load" 12 > "$work/load.out" 2>&1 &
load=$!
for i in 1 2 3 4; do sleep 2; kdc forget > /dev/null; done
check "contexts forgotten under load: nothing is lost ($(tail -1 "$work/load.out"))" wait $load
user daemon /usr/bin/python3 "$work/load.py" "$work/one/load" 14 > "$work/load.out" 2>&1 &
load=$!
sleep 2
"$lab" restart-nfsd > /dev/null
check "nfsd restarted under load ($(tail -1 "$work/load.out"))" wait $load

# Tickets of seconds: renewed in time, nobody notices; not renewed, and their user is told. On a slow machine a renewal takes
# longer, and tickets must live longer for it.
before=$SECONDS
kdc ticket bin
life=$((4 + 4 * (SECONDS - before)))
kdc ticket bin $((2 * life))s
user bin mkdir "$work/one/short"
user bin /usr/bin/python3 "$work/load.py" "$work/one/short" 16 > "$work/load.out" 2>&1 &
load=$!
for _ in 1 2 3; do sleep 4; kdc ticket bin $((2 * life))s; done
check "tickets renewed during work: $(tail -1 "$work/load.out")" wait $load
sleep $((2 * life + 1))
check "a ticket that has run out" not user bin sh -c "echo x > '$work/one/short/late'"
check "is said in the log" grep -q "ticket of user 2 has expired" "$work/one.log"
check "others do not notice" user daemon cat "$work/one/of-daemon"
kdc ticket bin
check "and a new one serves" user bin sh -c "echo x > '$work/one/short/late'"

# A gibibyte on tickets of seconds: renewed, it is written as a whole; not renewed, the writer is told, and what he was told
# is safe is there. (Whoever has a context of a ticket for hours keeps it as long: hence one who has come here for the first
# time.)
cat > "$work/long.py" << 'EOF'
import hashlib, os, sys, time
where, until_told, count, end = sys.argv[1], len(sys.argv) > 2, 0, time.time() + 60
block, sum = os.urandom(1 << 20), hashlib.sha256()
f = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
try:
    while count < 1024 or (until_told and time.time() < end):
        data = b"%08d" % count + block[8:]
        os.pwrite(f, data, count % 1024 << 20)
        if until_told and count % 16 == 15: os.fsync(f)
        if not until_told: sum.update(data)
        count += 1
    os.fsync(f)
    os.close(f)
    print("all", sum.hexdigest())
except OSError as e:
    print("until", min(1024, count // 16 * 16), e.strerror)
EOF
kdc ticket nobody ${life}s
user nobody mkdir "$work/one/second"
user nobody /usr/bin/python3 "$work/long.py" "$work/one/second/long" > "$work/long.out" 2>&1 &
load=$!
renewals=0
while ! gone "$load"; do sleep 2; kdc ticket nobody ${life}s; renewals=$((renewals + 1)); done
same "1 GiB on tickets that are renewed ($renewals times)" "all $(server_sum second/long)" "$(cat "$work/long.out")"
on_server "rm '$export/second/long'"
kdc ticket nobody 6s
user nobody timeout 100 /usr/bin/python3 "$work/long.py" "$work/one/second/broken" told > "$work/long.out" 2>&1
check "on one that is not, the writer is told: $(cat "$work/long.out")" grep -q "until [1-9].* Permission denied" "$work/long.out"
check "what he knew to be written is there" test "$(on_server "stat -c %s '$export/second/broken'")" -ge $(($(cut -d' ' -f2 "$work/long.out") * MiB))
kdc ticket nobody
check "with a new one he goes on" user nobody sh -c "echo x >> '$work/one/second/broken'"

# A KDC that is away: whoever has a ticket for the server does not notice, another one is told and asks again.
kdc ticket root
kdc stop
check "the KDC is away, the work goes on" user daemon sh -c "echo x > '$work/one/while'"
kdc destroy games
kdc start
check "the mount ends" client fusermount3 -u "$work/one"
ended one "kerberos"

# Away for longer than the machine's own ticket, and the server's lease, last.
KRB5_KDC_PROFILE=$(dirname "$KRB5_CONFIG")/kdc.conf kadmin.local -q 'modprinc -maxlife 15seconds nfs/client.lab.test' > "$work/out" 2>&1
start_mount away "$remote" "sec=krb5i,keytab=$keytab,allow_other"
user daemon /usr/bin/python3 "$work/load.py" "$work/away/load" 70 > "$work/load.out" 2>&1 &
load=$!
user daemon /usr/bin/python3 - "$work/away/held" > "$work/held.out" 2>&1 << 'EOF' &
import fcntl, os, sys, time
f = open(sys.argv[1], "w+b")
fcntl.lockf(f, fcntl.LOCK_EX)
f.write(b"before")
f.flush()
time.sleep(66)
f.write(b", after")
f.flush()
os.fsync(f.fileno())
f.seek(0)
assert f.read() == b"before, after"
EOF
idle=$!
sleep 2
kdc stop
sleep 60
kdc start
check "the KDC is away for a minute: who worked has not noticed ($(tail -1 "$work/load.out"))" wait $load
check "nor has who held a lock ($(tail -1 "$work/held.out"))" wait $idle
check "and another one begins" user nobody ls "$work/away"
check "the mount ends" client fusermount3 -u "$work/away"
ended away "after that"
kdc down
