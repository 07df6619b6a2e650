// Where a program listens, as the server's rpcbind says (RFC 1833): version 4, then 3, then the portmapper.
//
// NFS over RDMA is registered under the netids "rdma" and "rdma6" (RFC 8166 5, 9), which only versions 4 and 3 know;
// what goes over TCP and UDP, under "tcp", "udp" and their kin for IPv6. Versions 4 and 3 are asked for all that is
// registered: Linux's rpcbind answers GETADDR for the transport that it is asked over, whatever netid is asked for.
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

/// The port of the service at this address; none: it is not registered. An Error: rpcbind could not be asked.
async::Task<Result<std::optional<std::uint16_t>>> find_port(async::Loop& loop, rpc::Address address,
                                                            std::string server, Service service,
                                                            async::TimePoint deadline,
                                                            std::uint16_t rpcbind_port = kRpcbindPort);

/// "tcp", "udp6", "rdma" …: the netid of what goes over this wire between addresses of the family.
std::string netid(Wire wire, int family);
/// 10.77.0.2 with port 20049 → "10.77.0.2.78.81"; ::1 with the same → "::1.78.81" (RFC 5665 5.2.3.3, 5.2.3.4).
std::string universal_address(const rpc::Address& address);
/// "10.77.0.2.78.81" → 20049 (RFC 5665 5.2.3.3); none: it is no universal address.
std::optional<std::uint16_t> port_in(std::string_view universal_address);
/// The address with another port.
rpc::Address with_port(const rpc::Address& address, std::uint16_t port);

}  // namespace nfsrdma::aux
