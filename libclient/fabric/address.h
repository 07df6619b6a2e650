// Socket addresses as the fabrics and their messages need them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace nfsrdma::fabric {

[[nodiscard]] socklen_t address_size(const sockaddr_storage& address);
[[nodiscard]] std::uint16_t port_of(const sockaddr_storage& address);
/// Returns the address in numeric form, without the port.
[[nodiscard]] std::string host_text(const sockaddr_storage& address);
/// Returns "host:port". If `host` is empty, the address in numeric form stands for it. IPv6 addresses are in
/// brackets.
[[nodiscard]] std::string peer_text(const sockaddr_storage& address, const std::string& host);

}  // namespace nfsrdma::fabric
