#!/usr/bin/env bash
# Try nfsrdma on a fresh Debian 12, without any RDMA hardware: packaging/try-it.sh
#
#   try-it.sh              run the tour; the server then stays up until you press Enter or Ctrl-C
#   try-it.sh --once       run the tour only, for scripts: exit status 0 if every step worked
#
# The script installs packages, builds (in build/, or in the directory NFSRDMA_BUILD_DIR), and starts a separate instance
# of a real NFS server (NFS-Ganesha). nfsrdma-bridge in front of it makes it reachable over RDMA (iWARP in software) on
# 127.0.0.1. The tour then shows nfsrdma-cli at work, and mounts the export with nfsrdma-fuse. At the end the script stops
# everything that it started, and removes its files. If you are not root, sudo asks for your password, because packages
# are installed and Ganesha opens files by handle; the build directory stays yours.
# Exit status: 0, 1 (a step failed), 2 (usage), 77 (not root, and no sudo).
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${NFSRDMA_BUILD_DIR:-$root/build}")
ganesha=$root/tests/bridge/ganesha
once=0
case ${1:-} in
  '') ;;
  --once) once=1 ;;
  *) sed -n '2,/^set /{/^#/s/^#\( \|$\)//p}' "$0"; exit 2 ;;
esac
bold= plain=
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
die() { echo "try-it.sh: $*" >&2; exit 1; }
step() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
# shellcheck source=root.sh
. "$root/packaging/root.sh"
if ! become_root "$0" "$@"; then
  echo "try-it.sh: not root, and sudo is not available: Ganesha opens files by handle, which requires root" >&2
  if ! missing=$("$root/packaging/packages.sh" missing build try); then
    echo "try-it.sh: these packages are missing, too: $(xargs <<< "$missing")" >&2
  fi
  exit 77
fi
trap 'give_back "$build"' EXIT

# ---- what is needed ----
step "packages"
"$root/packaging/packages.sh" install build try || die "packages could not be installed; see above"
step "build (a few minutes the first time)"
mkdir -p "$build"
log=$build/try-it.log
generator=()
if [ ! -e "$build/CMakeCache.txt" ]; then generator=(-G Ninja); fi
# The bridge is one of the tests' programs; whoever has built without them has a build directory that says so.
{ cmake -S "$root" -B "$build" "${generator[@]}" -DNFSRDMA_TESTS=ON && cmake --build "$build" -j --target nfsrdma-cli nfsrdma-fuse nfsrdma-bridge; } \
  > "$log" 2>&1 || { tail -30 "$log" >&2; die "the build failed; its whole output is in $log"; }
cli=$build/cli/nfsrdma-cli fuse=$build/fuse/nfsrdma-fuse bridge=$build/tests/bridge/nfsrdma-bridge

# ---- the server ----
step "server: Ganesha on TCP, with nfsrdma-bridge in front of it"
work='' bridge_pid='' mounted=''
finish() {
  local status=$?
  trap - EXIT INT TERM HUP
  [ -z "$mounted" ] || fusermount3 -uz "$mounted" 2> /dev/null
  [ -z "$bridge_pid" ] || { kill "$bridge_pid" 2> /dev/null; wait "$bridge_pid" 2> /dev/null; }
  # Never what is behind a mount that has not gone.
  if [ -n "$work" ]; then "$ganesha" down "$work"; rm -rf --one-file-system "$work"; fi
  give_back "$build"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# Ganesha needs a file system with handles, which not every /tmp is (overlayfs is not).
started=0
for place in "${TMPDIR:-/tmp}" /var/tmp /dev/shm; do
  work=$(mktemp -d -p "$place" nfsrdma-try.XXXXXX) || continue
  chmod 755 "$work"
  if why=$("$ganesha" up "$work" 2>&1); then started=1; break; fi
  rm -rf "$work"
  work=''
done
[ $started = 1 ] || die "Ganesha does not start: $why"
export_dir=$work/export
chmod 1777 "$export_dir"
mkdir "$export_dir/poems" "$export_dir/bin"
printf 'The fog comes\non little cat feet.\n' > "$export_dir/poems/fog.txt"
printf 'O Rose, thou art sick!\n' > "$export_dir/poems/rose.txt"
ln -s fog.txt "$export_dir/poems/latest"
head -c $((64 * 1024 * 1024)) /dev/urandom > "$export_dir/bin/random.64M"
chmod -R a+rwX "$export_dir/poems" "$export_dir/bin"

# The usual port if it is free, so that targets are short.
for port in 20049 0; do
  : > "$work/bridge.out"
  "$bridge" --listen "127.0.0.1:$port" --server "127.0.0.1:$("$ganesha" port "$work")" --log "$work/bridge.log" \
    > "$work/bridge.out" 2> "$work/bridge.err" &
  bridge_pid=$!
  for _ in $(seq 100); do
    line=$(head -1 "$work/bridge.out")
    [ -z "$line" ] && kill -0 "$bridge_pid" 2> /dev/null || break
    sleep 0.05
  done
  [ -z "$line" ] || break
  bridge_pid=''
done
[ -n "$bridge_pid" ] || die "the bridge does not start: $(cat "$work/bridge.err")"
port=${line##*:}
server=127.0.0.1
[ "$port" = 20049 ] || server=127.0.0.1:$port
url=nfs://$server/export
echo "The server exports $export_dir as /export, over RDMA on 127.0.0.1:$port."

# ---- the tour ----
failed=0
# tour WHAT ARGUMENT …: shows the command, runs it, notes how it ended. Its output stays in $work/out.
tour() {
  local what=$1 status=0
  shift
  printf '\n# %s\n%s$ nfsrdma-cli %s%s\n' "$what" "$bold" "$*" "$plain"
  "$cli" "$@" > "$work/out" 2>&1 || status=$?
  head -40 "$work/out"
  [ $status = 0 ] || { failed=$((failed + 1)); echo "try-it.sh: FAILED (exit status $status)" >&2; }
}
# expect WHAT COMMAND …: what the tour claims must be so.
expect() {
  local what=$1
  shift
  if "$@" > /dev/null 2>&1; then
    echo "  ✓ $what"
  else
    failed=$((failed + 1))
    echo "try-it.sh: FAILED: $what" >&2
  fi
}
step "tour"
tour "whether the server answers, and how fast" ping -c 3 "$url"
tour "what was negotiated" info "$url"
tour "a listing" ls -lR "$url"
tour "a file" cat "$url/poems/latest"
expect "the output is the file on the server" cmp "$work/out" "$export_dir/poems/fog.txt"
tour "64 MiB from the server, many READs in flight, placed straight into the client's memory" \
  get "$url/bin/random.64M" "$work/copy"
expect "the copy is the server's file" cmp "$work/copy" "$export_dir/bin/random.64M"
tour "the copy back to the server under another name: temporary name, COMMIT, then rename" put "$work/copy" "$url/bin/again.64M"
expect "the server has the same bytes" cmp "$work/copy" "$export_dir/bin/again.64M"
tour "the same over four connections" get -o nconnect=4 "$url/bin/again.64M" "$work/copy"
expect "the copy is the server's file" cmp "$work/copy" "$export_dir/bin/again.64M"
tour "attributes as JSON, for scripts" stat --json "$url/poems/fog.txt"
tour "renaming a file" mv "$url/poems/rose.txt" "$url/poems/sick-rose.txt"
expect "the server has the new name" test -e "$export_dir/poems/sick-rose.txt"
tour "free and used space" df "$url"
printf '\n# an error says what to do\n%s$ nfsrdma-cli cat %s/poems/tiger.txt%s\n' "$bold" "$url" "$plain"
expect "the command fails, as it should" bash -c "! '$cli' cat '$url/poems/tiger.txt'"
"$cli" cat "$url/poems/tiger.txt" 2>&1

# ---- the mount ----
# on_mount WHAT COMMAND: the same for a shell command.
on_mount() {
  local what=$1 status=0
  shift
  printf '\n# %s\n%s$ %s%s\n' "$what" "$bold" "$*" "$plain"
  bash -c "$*" > "$work/out" 2>&1 || status=$?
  head -40 "$work/out"
  [ $status = 0 ] || { failed=$((failed + 1)); echo "try-it.sh: FAILED (exit status $status)" >&2; }
}
step "mount"
if [ -c /dev/fuse ]; then
  mkdir "$work/mnt"
  on_mount "mounting the export" "$fuse 127.0.0.1:/export $work/mnt -o port=$port"
  mounted=$work/mnt
  on_mount "a listing" "ls -l $mounted/poems"
  on_mount "a copy" "cp $mounted/poems/fog.txt $mounted/poems/mist.txt && echo 'It sits looking' >> $mounted/poems/mist.txt"
  on_mount "the difference between the two files" "diff $mounted/poems/fog.txt $mounted/poems/mist.txt; test \$? = 1"
  expect "the server has the copy" grep -q 'It sits looking' "$export_dir/poems/mist.txt"
  on_mount "reading 64 MiB" "dd if=$mounted/bin/random.64M of=/dev/null bs=1M 2>&1 | tail -1"
  on_mount "writing 64 MiB to the server's disk" "dd if=$work/copy of=$mounted/bin/third.64M bs=1M conv=fsync 2>&1 | tail -1"
  expect "the server has the same bytes" cmp "$work/copy" "$export_dir/bin/third.64M"
  on_mount "unmounting" "fusermount3 -u $mounted"
  mountpoint -q "$mounted" || mounted=
else
  echo "SKIPPED a part: there is no /dev/fuse here, so no mount is shown."
fi
tour "removing a directory with its contents" rm -r "$url/bin"
expect "the directory is gone from the server" test ! -e "$export_dir/bin"

if [ $failed != 0 ]; then
  echo "try-it.sh: $failed steps failed; the bridge's log:" >&2
  tail -20 "$work/bridge.log" >&2
  exit 1
fi
step "every step worked"
[ $once = 0 ] || exit 0
printf '%s\n' "The server is up. In another terminal:" "  $cli ls -l $url" "  $fuse 127.0.0.1:/export SOMEWHERE -o port=$port" "  man $root/man/nfsrdma-cli.1" \
  "Press Enter or Ctrl-C to stop it."
# Without a standard input nobody can press Enter.
read -r _ || wait "$bridge_pid"
