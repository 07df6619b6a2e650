// Addresses of this machine for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>

namespace nfsrdma::testing {

/// 127.0.0.1; port 0: the system chooses.
inline sockaddr_storage loopback(std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_storage out{};
  std::memcpy(&out, &in, sizeof in);
  return out;
}

}  // namespace nfsrdma::testing
