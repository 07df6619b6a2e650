#!/usr/bin/env bash
# Access control lists, through the CLI and through mounts, over NFSv3 (or NFSRDMA_VERS=2) and NFSv4.2, beside what the
# server's own getfacl says of the same files.
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
vers=${NFSRDMA_VERS:-3}
unset NFSRDMA_VERS
need_tools getfacl setfacl nfs4_getfacl nfs4_setfacl rsync

on_server "cd '$xfs_export' && mkdir one && echo text > one/file && chmod 640 one/file && chmod 755 one && chown -R 0:0 ."
there() { on_server "getfacl -n --absolute-names '$xfs_export/$1'" | grep -v '^#' | grep -v '^$' | sed 's/\t.*//'; }

# ---- the CLI ----
# Its user is nobody, whose files these have to be.
on_server "chown -R 65534:65534 '$xfs_export'"
url3() { printf '%s' "nfs://$server/mnt/exp/xfs/t-acl/$1"; }
url4() { printf '%s' "nfs://$server/xfs/t-acl/$1"; }

expect_exit 0 "acl get over NFSv$vers" cli acl get -n -c -o "vers=$vers" "$(url3 one/file)"
same "acl get over NFSv$vers: what the mode says" "$(there one/file)" "$(grep -v '^$' "$work/out")"
expect_exit 0 "acl set over NFSv$vers" cli acl set -o "vers=$vers" u::rw,u:1234:rw,g::r,o::-,u:4321:r "$(url3 one/file)"
same "acl set over NFSv$vers: on the server" \
  "user::rw- user:1234:rw- user:4321:r-- group::r-- mask::rw- other::---" "$(there one/file | xargs)"
expect_exit 0 "acl get over NFSv$vers, with named users" cli acl get -n -c -o "vers=$vers" "$(url3 one/file)"
same "acl get over NFSv$vers: as the server has it" "$(there one/file)" "$(sed 's/\t.*//; /^$/d' "$work/out")"
expect_exit 0 "acl set of a default list" cli acl set -o "vers=$vers" d:u:1234:rwx "$(url3 one)"
same "acl set of a default list: on the server" "$(there one)" "$(cli acl get -n -c -o "vers=$vers" "$(url3 one)" | sed 's/\t.*//; /^$/d')"
check "acl set of a default list: it is there" grep -q '^default:user:1234:rwx' <(there one)
cli acl get -n -o "vers=$vers" "$(url3 one/file)" > "$work/list"
on_server "touch '$xfs_export/one/other'; chown 65534 '$xfs_export/one/other'"
expect_exit 0 "acl set from standard input" cli acl set -o "vers=$vers" --file - "$(url3 one/other)" < "$work/list"
same "acl set from standard input: the same list" "$(there one/file)" "$(there one/other)"
expect_exit 0 "acl set -k" cli acl set -o "vers=$vers" -k "$(url3 one)"
check "acl set -k: no default list" test -z "$(there one | grep default)"
expect_exit 1 "acl set of an NFSv4 list over NFSv$vers" cli acl set -o "vers=$vers" A::OWNER@:rwa "$(url3 one/file)"
expect_exit 2 "acl set of what is no list" cli acl set -o "vers=$vers" frobnicate "$(url3 one/file)"

expect_exit 0 "acl get over NFSv4.2" cli acl get -c "$(url4 one/file)"
check "acl get over NFSv4.2: its form" grep -qE '^A::OWNER@:rw' "$work/out"
expect_exit 0 "acl set over NFSv4.2" cli acl set 'A::OWNER@:RW,A::2345:R,A:g:GROUP@:R,A::EVERYONE@:tcy' "$(url4 one/file)"
check "acl set over NFSv4.2: on the server" grep -q '^user:2345:r--' <(there one/file)
cli acl get "$(url4 one/file)" > "$work/list"
expect_exit 0 "acl set over NFSv4.2 from a file" cli acl set -f "$work/list" "$(url4 one/other)"
same "acl set over NFSv4.2 from a file: the same list" "$(there one/file)" "$(there one/other)"
expect_exit 1 "acl set of a POSIX list over NFSv4.2" cli acl set u::rw,g::r,o::r "$(url4 one/file)"

# ---- the mounts ----
start_mount three "/mnt/exp/xfs/t-acl" "vers=$vers"
start_mount four "/xfs/t-acl" vers=4.2
m3=$work/three m4=$work/four
posix() { client getfacl -n --absolute-names "$1" | grep -v '^#' | grep -v '^$' | sed 's/\t.*//'; }

on_server "chown -R 0:0 '$xfs_export'; setfacl -b '$xfs_export/one/file' '$xfs_export/one/other'; echo text > '$xfs_export/one/file'"
check "setfacl over NFSv$vers" client setfacl -m u:1111:rwx,g:2222:r "$m3/one/file"
same "setfacl over NFSv$vers: on the server" "$(there one/file)" "$(posix "$m3/one/file")"
check "setfacl over NFSv$vers: the user" grep -q '^user:1111:rwx' <(there one/file)
same "setfacl over NFSv$vers: the mode is the mask's" 670 "$(client stat -c %a "$m3/one/file")"
check "setfacl -d over NFSv$vers" client setfacl -d -m u:1111:rwx "$m3/one"
same "setfacl -d over NFSv$vers: on the server" "$(there one)" "$(posix "$m3/one")"
same "the names of the lists over NFSv$vers" "system.posix_acl_access system.posix_acl_default" \
  "$(client python3 -c "import os; print(*sorted(set(os.listxattr('$m3/one') + os.listxattr('$m3/one/file'))))")"
check "cp -a over NFSv$vers" client cp -a "$m3/one" "$m3/copy"
same "cp -a over NFSv$vers: the file's list" "$(there one/file)" "$(there copy/file)"
same "cp -a over NFSv$vers: the directory's lists" "$(there one)" "$(there copy)"
check "rsync -A over NFSv$vers" client rsync -aA "$m3/one/" "$m3/synced/"
same "rsync -A over NFSv$vers: the file's list" "$(there one/file)" "$(there synced/file)"
same "rsync -A over NFSv$vers: the directory's lists" "$(there one)" "$(there synced)"
check "rsync -A from a local directory over NFSv$vers" client sh -c "mkdir -p '$work/local' && echo x > '$work/local/f' && rsync -aA '$m3/copy/' '$work/local/'"
check "setfacl -b over NFSv$vers" client setfacl -b "$m3/one/file"
same "setfacl -b over NFSv$vers: on the server" "user::rw- group::r-- other::---" "$(there one/file | xargs)"
check "setfacl -k over NFSv$vers" client setfacl -k "$m3/one"
check "setfacl -k over NFSv$vers: on the server" test -z "$(there one | grep default)"

check "nfs4_getfacl" client sh -c "nfs4_getfacl '$m4/one/file' > '$work/nfs4'"
check "nfs4_getfacl: its form" grep -qE '^A::OWNER@:rw' "$work/nfs4"
same "nfs4_getfacl: as the CLI has it" "$(cli acl get -c "$(url4 one/file)" | sed '/^$/d')" "$(sed '/^$/d; /^#/d' "$work/nfs4")"
check "nfs4_setfacl -a" client nfs4_setfacl -a A::3333:RX "$m4/one/file"
check "nfs4_setfacl -a: on the server" grep -q '^user:3333:r-x' <(there one/file)
check "nfs4_setfacl -S" client sh -c "nfs4_getfacl '$m4/one/file' | nfs4_setfacl -S - '$m4/one/other'"
same "nfs4_setfacl -S: the same list" "$(there one/file)" "$(there one/other)"
check "the name of the list over NFSv4.2" grep -qw system.nfs4_acl \
  <(client python3 -c "import os; print(*os.listxattr('$m4/one/file'))")
check "cp -a over NFSv4.2" client cp -a "$m4/one" "$m4/copy4"
check "rsync -A over NFSv4.2" client rsync -aA "$m4/one/" "$m4/synced4/"
check "getfacl over NFSv4.2 says what the mode says" client getfacl "$m4/one/file"

# row: F16
# Where a directory has a default list, that decides over the umask, else the umask counts.
on_server "cd '$xfs_export' && mkdir with without && chmod 777 with without && setfacl -d -m u::rwx,g::rwx,o::r with"
for m in "$m3" "$m4"; do
  name=${m##*/}
  client sh -c "umask 077; cd '$m'; for d in with without; do echo x > \$d/$name.f; mkdir \$d/$name.d; mkfifo \$d/$name.p; done"
  same "over the mount '$name': a default list decides over the umask" "664 774 664" \
    "$(on_server "cd '$xfs_export/with' && stat -c %a $name.f $name.d $name.p" | xargs)"
  same "over the mount '$name': without one the umask counts" "600 700 600" \
    "$(on_server "cd '$xfs_export/without' && stat -c %a $name.f $name.d $name.p" | xargs)"
  client rm -r "$m/without/$name.d"
  client sh -c "umask 027; mkdir '$m/without/$name.d'; touch '$m/without/$name.d/f'"
  same "over the mount '$name': what has just been made has no list" "750 640" \
    "$(on_server "cd '$xfs_export/without' && stat -c %a $name.d $name.d/f" | xargs)"
done
check "a default list that is set here counts at once" client sh -c "setfacl -d -m g::rwx,o::- '$m3/without' && umask 077 && touch '$m3/without/late'"
same "a default list that is set here counts at once: the mode" 660 "$(client stat -c %a "$m3/without/late")"

client umount "$m3"
ended three "unmounted"
client umount "$m4"
ended four "unmounted"
