#!/usr/bin/env bash
# A mount for several users: what the server says of each counts, whatever others have looked up, and neither mode bits
# nor the kernel's cache stand in for it.
#
# Environment: mount_lib.sh's.
# row: F28
# shellcheck source=mount_lib.sh
. "$(dirname "$0")/mount_lib.sh"
need_tools setpriv setfacl

as() { client setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; }
refused() { expect_exit 1 "$1" "${@:2}"; check "$1: EACCES is said" grep -q "Permission denied" "$work/err"; }

on_server "cd '$xfs_export' && mkdir -m 755 closed private granted open && mkdir -m 755 closed/sub private/below &&
  echo text | tee closed/f closed/sub/f private/f granted/f open/f > private/below/f &&
  chown 1111:1111 private private/f granted granted/f && chmod 700 private granted && chmod 600 granted/f &&
  setfacl -m u:2222:- closed && setfacl -m u:2222:rwx granted && setfacl -m u:2222:r granted/f &&
  cp /bin/true open/run && chmod 711 open/run && cp /bin/true open/read && chmod 744 open/read"
squashed=${xfs_export}-squashed
on_server "mkdir -p '$squashed' && mount -t tmpfs -o size=1m,mode=700,uid=3333,gid=3333 tmpfs '$squashed' &&
  echo text > '$squashed/f' && chmod 600 '$squashed/f' && chown 3333:3333 '$squashed/f' &&
  exportfs -o rw,all_squash,anonuid=3333,anongid=3333,insecure,fsid=78,no_subtree_check '10.77.0.0/24:$squashed'"

for vers in ${NFSRDMA_VERS:-4.2 3}; do
  NFSRDMA_VERS=$vers start_mount "m$vers" "/xfs/t-$test_name" allow_other
  m=$work/m$vers
  say "NFSv$vers"

  # Root walks everywhere first.
  check "root reads everything ($vers)" client sh -c "ls -lR '$m' && find '$m' -type f -exec cat {} +" > /dev/null
  for i in 1 2; do
    refused "a list closes a directory: its file ($vers, $i)" as 2222 cat "$m/closed/f"
    refused "a list closes a directory: stat ($vers, $i)" as 2222 stat "$m/closed/f"
    refused "a list closes a directory: below ($vers, $i)" as 2222 stat "$m/closed/sub/f"
    expect_exit 2 "a list closes a directory: listing ($vers, $i)" as 2222 ls "$m/closed"
    refused "mode 0700: its file ($vers, $i)" as 2222 cat "$m/private/f"
    refused "mode 0700: below ($vers, $i)" as 2222 cat "$m/private/below/f"
    check "whom it is open to reads it ($vers, $i)" as 1111 cat "$m/closed/f" "$m/private/f" "$m/private/below/f"
    check "a list grants what mode bits do not ($vers, $i)" as 2222 sh -c "ls '$m/granted' && cat '$m/granted/f'"
    refused "and nobody else ($vers, $i)" as 4444 cat "$m/granted/f"
  done
  check "a list grants making and removing ($vers)" as 2222 sh -c "echo x > '$m/granted/new.$vers' && mv '$m/granted/new.$vers' '$m/granted/newer' && rm '$m/granted/newer'"
  check "what may only be run is run ($vers)" as 2222 "$m/open/run"
  refused "what may only be run is not read ($vers)" as 2222 cat "$m/open/run"
  check "what may only be read is read ($vers)" as 2222 cmp "$m/open/read" /bin/true
  expect_exit 126 "what may only be read is not run ($vers)" as 2222 sh -c "'$m/open/read'"

  # What is changed here counts at once.
  check "the owner opens it ($vers)" as 1111 chmod 755 "$m/private"
  check "and then it is open ($vers)" as 2222 cat "$m/private/f"
  check "the owner closes it ($vers)" as 1111 chmod 700 "$m/private"
  refused "and then it is closed ($vers)" as 2222 stat "$m/private/f"

  # Who may not walk there does not unmount what others have there.
  client mkdir -p "$m/private/below/mnt"
  client mount -t tmpfs none "$m/private/below/mnt"
  for path in private/below/mnt private/below private/below/mnt/x; do as 2222 stat "$m/$path" > /dev/null 2>&1; done
  check "a mount in a directory that is closed to somebody stays ($vers)" client mountpoint -q "$m/private/below/mnt"
  client umount "$m/private/below/mnt"
  client umount "$m"
  ended "m$vers" "unmounted"

  NFSRDMA_VERS=$vers start_mount "s$vers" "/xfs/t-$test_name-squashed" allow_other
  s=$work/s$vers
  for user in 0 2222; do
    check "an export that squashes all grants what the mode does not (user $user, $vers)" \
      as $user sh -c "cat '$s/f' && ls '$s' && echo more >> '$s/f' && mkdir '$s/d.$vers' && rmdir '$s/d.$vers'"
  done
  client umount "$s"
  ended "s$vers" "unmounted"
done
on_server "exportfs -u '10.77.0.0/24:$squashed'; umount -l '$squashed'; rmdir '$squashed'"
