// Tells a service manager how the mount proceeds, as sd_notify(3) does: by datagrams to the socket that the
// environment variable NOTIFY_SOCKET names. systemd sets it for services of Type=notify, and so do runtimes of
// containers. Own code, because libsystemd would be a dependency for one datagram.
//
// Without NOTIFY_SOCKET nothing is sent. Errors are ignored: the mount works without its manager.
#pragma once

#include <string>

namespace nfsrdma::fuse {

/// Sends assignments, separated by newlines: "READY=1", "STATUS=...", "STOPPING=1". The process is named by
/// MAINPID, because the one that the manager started may have ended.
void tell_service_manager(const std::string& assignments);

}  // namespace nfsrdma::fuse
