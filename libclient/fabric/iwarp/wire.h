// Big-endian numbers in byte arrays: the only encoding that MPA, DDP and RDMAP need.
//
// The caller has checked the length: every function below accesses exactly sizeof(T) bytes from the pointer.
// No state, no failure.
//
// Own code because <arpa/inet.h> has no 64-bit form and none of its functions reads unaligned memory.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nfsrdma::fabric::iwarp {

template <std::unsigned_integral T>
[[nodiscard]] inline T load_be(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::little ? std::byteswap(value) : value;
}

template <std::unsigned_integral T>
inline void store_be(std::byte* to, T value) {
  if constexpr (std::endian::native == std::endian::little) value = std::byteswap(value);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace nfsrdma::fabric::iwarp
