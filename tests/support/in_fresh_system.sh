#!/usr/bin/env bash
# The steps of tests/packages.sh in a fresh Debian, as root: in_fresh_system.sh PORT
#
# Given: the packages in /packages, and a server that exports /export over RDMA at this port of 127.0.0.1. Each command is
# printed before it runs. The first that fails ends the script; the last line of a complete run is "== end".
set -euo pipefail
port=$1
url=nfs://127.0.0.1:$port/export
export DEBIAN_FRONTEND=noninteractive
step() { printf '\n== %s\n' "$*"; }
# run COMMAND …: prints it and runs it.
run() {
  printf '# %s\n' "$*"
  "$@"
}
quietly() {
  printf '# %s\n' "$*"
  "$@" > /tmp/log 2>&1 || { tail -30 /tmp/log; exit 1; }
}
# Prints the files that do not belong to apt, to dpkg or to a cache.
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /packages -o -path /tmp -o -path /var/cache \
    -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o ! -name __pycache__ ! -name '*.pyc' -print | sort
  find /run /var/log -name '*nfsrdma*'
}

step "apt install"
quietly apt-get update
# What the packages depend on and recommend comes first, and stays, so that a difference at the end is of the packages
# themselves.
mapfile -t others < <(apt-get install -s --no-install-recommends /packages/*.deb fuse3 libibverbs1 librdmacm1 gcc libc6-dev pkg-config | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -v nfsrdma)
quietly apt-get install -y --no-install-recommends "${others[@]}"
files > /tmp/before
quietly apt-get install -y /packages/*.deb
run dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version} ${Installed-Size} KiB\n' '*nfsrdma*'
run ls -l /sbin/mount.nfsrdma /sbin/mount.fuse.nfsrdma
run ls /usr/share/bash-completion/completions/nfsrdma-cli /usr/share/zsh/vendor-completions/_nfsrdma-cli
run ls /usr/share/man/man1/nfsrdma-cli.1.gz /usr/share/man/man5/nfsrdma.conf.5.gz /usr/share/man/man8/{nfsrdma-fuse,mount.nfsrdma}.8.gz
run ls /usr/share/doc/nfsrdma-tools/examples
run sh /packages/smoke

step "mount from /etc/fstab"
mkdir /mnt/data
echo "127.0.0.1:/export /mnt/data nfsrdma _netdev,port=$port,metrics=/tmp/data.prom 0 0" >> /etc/fstab
run tail -n 1 /etc/fstab
run mount /mnt/data
run findmnt /mnt/data
echo "from the mount" > /mnt/data/mounted.txt
run cat /mnt/data/mounted.txt
run grep -m 1 '^nfsrdma_mount_info' /tmp/data.prom
run nfsrdma-cli top --once -d 0.2 /mnt/data
run umount /mnt/data
if findmnt /mnt/data; then exit 1; fi
run mount -a
run stat -f -c %T /mnt/data
run ls -l /mnt/data
run umount -a -t fuse.nfsrdma
if findmnt /mnt/data; then exit 1; fi
sed -i '$d' /etc/fstab
rmdir /mnt/data

step "nfsrdma-cli"
run nfsrdma-cli ping -c 1 "$url"
echo "from the command line" > /tmp/put.txt
run nfsrdma-cli put /tmp/put.txt "$url/put.txt"
run nfsrdma-cli ls -l "$url"
run nfsrdma-cli cat "$url/mounted.txt"
run nfsrdma-cli shell -c 'pwd; cat put.txt' "$url"
run nfsrdma-cli sync --trace /tmp/sync.pcapng "$url/" /tmp/copy
run diff /tmp/put.txt /tmp/copy/put.txt
run nfsrdma-cli trace -s /tmp/sync.pcapng
run nfsrdma-cli bench --time 0.1 --parts ping,getattr "$url"
run nfsrdma-cli doctor "$url"
printf '[server "127.0.0.1"]\nport = %s\n' "$port" > /etc/nfsrdma.conf
run nfsrdma-cli config -c 127.0.0.1:/export
run nfsrdma-cli stat 127.0.0.1:/export/put.txt
rm /etc/nfsrdma.conf

step "completion"
# The commands that bash offers after these letters.
offered() { bash -c '. /usr/share/bash-completion/completions/nfsrdma-cli; COMP_LINE="nfsrdma-cli $1" COMP_POINT=$((12 + ${#1})); _nfsrdma_cli; echo "${COMPREPLY[*]}"' bash "$1"; }
for letters in s t do be con; do run offered $letters; done
[ "$(offered s)" = "stat sync sum shell" ]

step "python3-nfsrdma"
run python3 -c "import nfsrdma; print(nfsrdma.__version__, nfsrdma.Client('$url').listdir('.'))"

step "apt remove, then purge"
mapfile -t ours < <(dpkg-query -W -f '${Package}\n' '*nfsrdma*')
run ls -d /run/nfsrdma /etc/apparmor.d/usr.bin.nfsrdma-fuse
quietly apt-get remove -y "${ours[@]}"
run dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' '*nfsrdma*'
mapfile -t ours < <(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' '*nfsrdma*' | sed -n 's/^rc *//p')
quietly apt-get purge -y "${ours[@]}"
if dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' '*nfsrdma*' | grep -v '^un'; then exit 1; fi
files > /tmp/after
run diff /tmp/before /tmp/after
echo "nothing is left behind"
echo "== end"
