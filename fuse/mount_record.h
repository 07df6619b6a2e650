// Records a mount of root in /run/mount/utab, where mount(8), umount(8) and systemd find what the kernel does not
// keep of its options: above all _netdev, which makes systemd unmount before it stops the network.
//
// The file belongs to libmount, so mount(8) writes it (mount --fake), as libfuse has mount(8) write /etc/mtab. That
// keeps libmount out of this program, and its format and its locks out of this code. mount(8) itself records the
// options that it was given after its helper has succeeded, unless there is a record; it adds no _netdev, and it
// records nothing of a mount that nfsrdma-fuse has made under its own name. Without mount(8), and for other users
// than root, nothing is recorded.
#pragma once

#include "fuse/mount_options.h"

namespace nfsrdma::fuse {

/// Records the mount, with _netdev, unless mount(8) will do so. Waits for mount(8), so the daemon must not call this
/// on the thread that serves the mount.
void record_mount(const MountOptions& options);
/// Returns true if mount(8) records _netdev itself, with those of its options that a helper does not see (x-...).
bool is_recorded_by_mount8(const MountOptions& options);
/// Removes the record, unless something is mounted there again. Does nothing after umount(8), which has removed
/// the record.
void forget_mount(const MountOptions& options);

/// Returns those of the options that libmount records, with _netdev, as a list for mount(8).
std::string recorded_options(const std::vector<std::string>& words);

}  // namespace nfsrdma::fuse
