#include "aux/local_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "aux/rpcbind.h"
#include "fabric/address.h"
#include "fabric/iwarp/socket.h"

namespace nfsrdma::aux {

Result<rpc::Address> local_address_towards(const rpc::Address& server) {
  const auto failed = [&server] {
    return Error(ErrorKind::local, errno, "getsockname", fabric::peer_text(server.storage, ""),
                 std::string("this machine's address on the path to the server cannot be determined: ") +
                     std::strerror(errno) + "; give it with clientaddr=");
  };
  // Connecting a datagram socket chooses its route, and sends nothing.
  const fabric::iwarp::Socket socket(::socket(server.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return failed();
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&server.storage), server.length) != 0)
    return failed();
  rpc::Address out;
  out.length = sizeof out.storage;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&out.storage), &out.length) != 0)
    return failed();
  return with_port(out, 0);
}

std::optional<rpc::Address> address_in(std::string_view text) {
  const std::string terminated(text);
  rpc::Address out;
  sockaddr_in in{};
  sockaddr_in6 in6{};
  if (::inet_pton(AF_INET, terminated.c_str(), &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    std::memcpy(&out.storage, &in, out.length = sizeof in);
  } else if (::inet_pton(AF_INET6, terminated.c_str(), &in6.sin6_addr) == 1) {
    in6.sin6_family = AF_INET6;
    std::memcpy(&out.storage, &in6, out.length = sizeof in6);
  } else {
    return std::nullopt;
  }
  return out;
}

}  // namespace nfsrdma::aux
