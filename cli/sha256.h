// SHA-256 (FIPS 180-4). Own code because none of the libraries that this program uses offers it, and OpenSSL
// would be a dependency for one function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nfsrdma::cli {

class Sha256 {
 public:
  void add(std::span<const std::byte> data);
  /// Returns the checksum in hexadecimal. Nothing may be added afterwards.
  std::string finish();

 private:
  void block(const std::byte* from);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};
  std::uint64_t length_ = 0;
};

}  // namespace nfsrdma::cli
