// The choices that a user has about the fabrics (`fabric=`, `crc=`).
//
// Thread-safety: plain values.
#pragma once

namespace nfsrdma {

enum class Fabric : unsigned char {
  automatic,  ///< verbs where the route to the server has an RDMA device, else iwarp
  iwarp,      ///< iWARP over an ordinary TCP socket; needs no device
  verbs,      ///< an RDMA device, by rdma-core's libraries
};

/// CRC on the iWARP fabric (RFC 5044 7.1).
enum class Crc : unsigned char {
  automatic,  ///< not requested, accepted if the peer wants it; if refused, the other setting is tried once
  on,
  off,
};

}  // namespace nfsrdma
