#include "fabric/iwarp/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace nfsrdma::fabric::iwarp {
namespace {

// The polynomial 0x1EDC6F41, bits reversed, because the first bit sent is the least significant one.
constexpr std::uint32_t polynomial = 0x82F63B78;

using ByteTable = std::array<std::uint32_t, 256>;

// tables[k][b] is the contribution of byte b when k more bytes follow it in the same step.
constexpr std::array<ByteTable, 8> make_slicing_tables() {
  std::array<ByteTable, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ polynomial : crc >> 1;
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t shorter = tables[k - 1][b];
      tables[k][b] = (shorter >> 8) ^ tables[0][shorter & 0xff];
    }
  }
  return tables;
}
constexpr auto slicing = make_slicing_tables();

std::uint64_t load_le64(const std::byte* from) {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::little ? value : std::byteswap(value);
}

std::uint32_t table_step(std::uint32_t state, std::byte b) {
  return (state >> 8) ^ slicing[0][(state ^ std::to_integer<std::uint32_t>(b)) & 0xff];
}

#if defined(__x86_64__)

// Three streams are computed at once, because the instruction takes three cycles but one may start in each
// cycle. The results are joined by running the earlier ones over as many zero bytes as the later streams
// have. This is a linear map of the 32 bits: four tables, one for each byte of the state.
constexpr std::size_t long_stream = 4096;
constexpr std::size_t short_stream = 256;

using Matrix = std::array<std::uint32_t, 32>;  // [i]: the image of bit i
using ShiftTables = std::array<ByteTable, 4>;

constexpr std::uint32_t multiply(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t image = 0;
  for (std::size_t i = 0; vector != 0; ++i, vector >>= 1) {
    if ((vector & 1) != 0) image ^= matrix[i];
  }
  return image;
}

constexpr ShiftTables make_shift_tables(std::size_t zero_bytes) {  // `zero_bytes` is a power of two
  Matrix matrix{};
  matrix[0] = polynomial;  // the map of one zero bit
  for (std::size_t i = 1; i < 32; ++i) matrix[i] = std::uint32_t{1} << (i - 1);
  for (std::size_t bits = 1; bits < zero_bytes * 8; bits *= 2) {
    Matrix squared{};
    for (std::size_t i = 0; i < 32; ++i) squared[i] = multiply(matrix, matrix[i]);
    matrix = squared;
  }
  ShiftTables tables{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::uint32_t value = 0; value < 256; ++value)
      tables[byte][value] = multiply(matrix, value << (8 * byte));
  }
  return tables;
}
constexpr ShiftTables long_shift = make_shift_tables(long_stream);
constexpr ShiftTables short_shift = make_shift_tables(short_stream);

std::uint64_t shift(const ShiftTables& tables, std::uint64_t state) {
  return tables[0][state & 0xff] ^ tables[1][(state >> 8) & 0xff] ^ tables[2][(state >> 16) & 0xff] ^
         tables[3][(state >> 24) & 0xff];
}

__attribute__((target("sse4.2"))) std::uint64_t three_streams(std::uint64_t state, const std::byte* from,
                                                              std::size_t stream, const ShiftTables& tables) {
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  for (std::size_t i = 0; i < stream; i += 8) {
    state = _mm_crc32_u64(state, load_le64(from + i));
    second = _mm_crc32_u64(second, load_le64(from + stream + i));
    third = _mm_crc32_u64(third, load_le64(from + 2 * stream + i));
  }
  return shift(tables, shift(tables, state) ^ second) ^ third;
}

__attribute__((target("sse4.2"))) std::uint32_t sse42(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint64_t state = static_cast<std::uint32_t>(~crc);
  const std::byte* from = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 3 * long_stream; left -= 3 * long_stream, from += 3 * long_stream) {
    state = three_streams(state, from, long_stream, long_shift);
  }
  for (; left >= 3 * short_stream; left -= 3 * short_stream, from += 3 * short_stream) {
    state = three_streams(state, from, short_stream, short_shift);
  }
  for (; left >= 8; left -= 8, from += 8) state = _mm_crc32_u64(state, load_le64(from));
  auto narrow = static_cast<std::uint32_t>(state);
  for (; left > 0; --left, ++from) narrow = _mm_crc32_u8(narrow, std::to_integer<unsigned char>(*from));
  return ~narrow;
}

#endif

}  // namespace

std::uint32_t crc32c_table(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint32_t state = ~crc;
  const std::byte* from = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, from += 8) {
    const std::uint64_t word = load_le64(from) ^ state;
    state = 0;
    for (std::size_t i = 0; i < 8; ++i) state ^= slicing[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; left > 0; --left, ++from) state = table_step(state, *from);
  return ~state;
}

#if defined(__x86_64__)
bool crc32c_hardware_available() {
  static const bool available = __builtin_cpu_supports("sse4.2") != 0;
  return available;
}
std::uint32_t crc32c_hardware(std::uint32_t crc, std::span<const std::byte> bytes) {
  return sse42(crc, bytes);
}
#else
bool crc32c_hardware_available() {
  return false;
}
std::uint32_t crc32c_hardware(std::uint32_t crc, std::span<const std::byte> bytes) {
  return crc32c_table(crc, bytes);
}
#endif

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  return crc32c_hardware_available() ? crc32c_hardware(crc, bytes) : crc32c_table(crc, bytes);
}

void store_crc(std::byte* to, std::uint32_t crc) {
  if constexpr (std::endian::native == std::endian::big) crc = std::byteswap(crc);
  std::memcpy(to, &crc, sizeof crc);
}

std::uint32_t load_crc(const std::byte* from) {
  std::uint32_t crc;
  std::memcpy(&crc, from, sizeof crc);
  return std::endian::native == std::endian::little ? crc : std::byteswap(crc);
}

}  // namespace nfsrdma::fabric::iwarp
