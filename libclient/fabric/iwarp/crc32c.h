// CRC32C (Castagnoli), the checksum of an FPDU (RFC 5044 4.4, by way of RFC 3720 B.4), computed
// incrementally.
//
// `crc = crc32c(crc, bytes)` starts with 0 and may be continued over any division of the bytes. The value is
// finished at every step, because the complement is taken inside. On the wire the value is stored with the
// least significant byte first (the bit order of RFC 3720 12.1): store_crc().
//
// crc32c() uses the processor's own instruction if there is one, and a table otherwise. Both are declared
// here for the tests. Pure functions; constant tables; any thread.
//
// Own code because zlib and libtirpc know CRC32 only, and a CRC library would be a new dependency for 100
// lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nfsrdma::fabric::iwarp {

[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

/// Computes the value from eight tables, eight bytes in each step; works on every processor.
[[nodiscard]] std::uint32_t crc32c_table(std::uint32_t crc, std::span<const std::byte> bytes);

/// Returns whether this processor has SSE4.2's CRC32 instruction.
[[nodiscard]] bool crc32c_hardware_available();

/// Computes the value with that instruction. Call it only if crc32c_hardware_available().
[[nodiscard]] std::uint32_t crc32c_hardware(std::uint32_t crc, std::span<const std::byte> bytes);

/// Stores the four bytes in the order in which they are sent.
void store_crc(std::byte* to, std::uint32_t crc);
[[nodiscard]] std::uint32_t load_crc(const std::byte* from);

}  // namespace nfsrdma::fabric::iwarp
