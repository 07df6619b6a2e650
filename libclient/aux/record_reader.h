// Extracts whole records from the bytes of a TCP connection, by RPC's record marking (RFC 5531 11).
//
//     RecordReader reader(65536);
//     while (!bytes.empty()) {
//       const auto found = reader.take(bytes);             // moves the front of `bytes` forward
//       if (found == RecordReader::Found::record) ...use reader.record(), then reader.next()
//       if (found == RecordReader::Found::too_large) ...close the connection
//     }
//
// A record is one or more fragments. Each fragment begins with a word: its highest bit marks the last
// fragment, the other bits are the fragment's length.
//
// A record takes only as much memory as has arrived of it, whatever length its marks announce.
//
// Pure: no I/O. Confined to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "xdr/encoder.h"

namespace nfsrdma::aux {

inline constexpr std::size_t kRecordMark = 4;
inline constexpr std::uint32_t kLastFragment = 1U << 31U;

class RecordReader {
 public:
  explicit RecordReader(std::size_t largest) : largest_(largest) {}

  enum class Found : std::uint8_t {
    nothing,   ///< all bytes are used up, and the record is not complete
    record,    ///< the record is complete: no more bytes may be taken until next()
    too_large  ///< the marks announce a record of more than `largest` bytes: nothing more can be read
  };
  /// Takes bytes from the front of `bytes`, at most up to the end of the record.
  [[nodiscard]] Found take(xdr::ConstBytes& bytes);

  /// The complete record.
  [[nodiscard]] xdr::ConstBytes record() const { return record_; }
  /// Begins the next record and frees the memory of the last one.
  void next();
  /// Returns true if a record has begun and is not complete.
  [[nodiscard]] bool in_the_middle() const { return begun_; }

 private:
  [[nodiscard]] bool take_mark(xdr::ConstBytes& bytes);
  void take_data(xdr::ConstBytes& bytes);

  const std::size_t largest_;
  std::array<std::byte, kRecordMark> mark_{};
  std::size_t mark_size_ = 0;  // bytes of the mark that have come
  std::size_t left_ = 0;       // bytes of the fragment that have not come
  bool last_ = false;          // the fragment is the record's last one
  bool begun_ = false;
  std::vector<std::byte> record_;
};

}  // namespace nfsrdma::aux
