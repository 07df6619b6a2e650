// Asks a server's rpcbind where a program listens (RFC 1833): with version 4, then 3, then the portmapper.
//
// NFS over RDMA is registered under the netids "rdma" and "rdma6" (RFC 8166 5, 9), which only versions 4 and
// 3 know. Services over TCP and UDP are registered under "tcp", "udp", "tcp6" and "udp6". Versions 4 and 3
// are asked for the list of all registrations, because Linux's rpcbind answers GETADDR for the transport over
// which it is asked, whatever netid the request names.
//
// Confined to the loop's thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "aux/programs.h"
#include "aux/remote.h"

namespace nfsrdma::aux {

enum class Wire : std::uint8_t { tcp, udp, rdma };

struct Service {
  std::uint32_t program = 0, version = 0;
  Wire wire = Wire::tcp;
};

/// Returns the port of the service at this address, or nothing if it is not registered. An Error means that
/// rpcbind could not be asked.
async::Task<Result<std::optional<std::uint16_t>>> find_port(async::Loop& loop, rpc::Address address,
                                                            std::string server, Service service,
                                                            async::TimePoint deadline,
                                                            std::uint16_t rpcbind_port = kRpcbindPort);

/// Returns the netid for this wire between addresses of the family: "tcp", "udp6", "rdma", ...
std::string netid(Wire wire, int family);
/// Returns the universal address (RFC 5665 5.2.3.3, 5.2.3.4): 10.77.0.2 with port 20049 is "10.77.0.2.78.81",
/// ::1 with the same port is "::1.78.81".
std::string universal_address(const rpc::Address& address);
/// Returns the port in a universal address (RFC 5665 5.2.3.3): 20049 for "10.77.0.2.78.81". Returns nothing
/// if it is malformed.
std::optional<std::uint16_t> port_in(std::string_view universal_address);
rpc::Address with_port(const rpc::Address& address, std::uint16_t port);

}  // namespace nfsrdma::aux
