// Messages for the bridge's tests, word by word.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "xdr/encoder.h"

namespace nfsrdma::testing {

using Octets = std::vector<std::byte>;

inline Octets words(std::initializer_list<std::uint32_t> list) {
  Octets out(list.size() * 4);
  std::size_t at = 0;
  for (const std::uint32_t word : list) {
    xdr::store_u32(&out[at], word);
    at += 4;
  }
  return out;
}
inline void append(Octets& to, const Octets& from) {
  to.insert(to.end(), from.begin(), from.end());
}
/// An opaque<>: count, bytes, padding.
inline Octets opaque(std::size_t length, std::byte fill) {
  Octets out = words({static_cast<std::uint32_t>(length)});
  out.resize(4 + length, fill);
  out.resize(4 + xdr::padded(length));
  return out;
}
/// With AUTH_NONE: 40 bytes, and the arguments.
inline Octets rpc_call(std::uint32_t xid, std::uint32_t program, std::uint32_t version,
                       std::uint32_t procedure, std::initializer_list<std::uint32_t> arguments) {
  Octets out = words({xid, 0, 2, program, version, procedure, 0, 0, 0, 0});
  append(out, words(arguments));
  return out;
}

}  // namespace nfsrdma::testing
