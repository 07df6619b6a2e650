// CRC32C (Castagnoli), the checksum of an FPDU (RFC 5044 4.4, by way of RFC 3720 B.4), incrementally.
//
// `crc = crc32c(crc, bytes)` starts with 0 and may be continued over any cuts of the same bytes; the value is
// the finished one at every step, the complement being inside. On the wire it is stored least significant
// byte first (the bit order of RFC 3720 12.1): store_crc().
//
// crc32c() takes the processor's own instruction where there is one, and a table otherwise. Both are here for
// the tests. Pure functions; constant tables; any thread.
//
// Own code because zlib and libtirpc know CRC32 only, and a CRC library would be a new dependency for 100
// lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nfsrdma::fabric::iwarp {

[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

/// Eight bytes a step from eight tables; works everywhere.
[[nodiscard]] std::uint32_t crc32c_table(std::uint32_t crc, std::span<const std::byte> bytes);

/// Whether this processor has SSE4.2's CRC32 instruction.
[[nodiscard]] bool crc32c_hardware_available();

/// With the instruction; only where crc32c_hardware_available().
[[nodiscard]] std::uint32_t crc32c_hardware(std::uint32_t crc, std::span<const std::byte> bytes);

/// The four bytes as they go over the wire.
void store_crc(std::byte* to, std::uint32_t crc);
[[nodiscard]] std::uint32_t load_crc(const std::byte* from);

}  // namespace nfsrdma::fabric::iwarp
