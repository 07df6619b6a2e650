// Record marking on TCP (RFC 5531 11), the receiving side: bytes in, whole records out. Pure: no I/O.
//
// A record may come in several fragments; its size is bounded, and checked before anything is allocated.
#pragma once

#include <cstring>
#include <functional>
#include <optional>

#include "bridge/call.h"

namespace nfsrdma::bridge {

class RecordReader {
 public:
  explicit RecordReader(std::size_t largest) : largest_(largest) {}

  /// Hands every record that is complete to `take`. False, for good: the stream announces too large a record.
  template <class Take>
  bool feed(ConstBytes bytes, const Take& take) {
    while (!bytes.empty()) {
      if (mark_bytes_ < kRecordMark) {
        if (!take_mark(bytes)) return false;
      } else {
        const std::size_t count = std::min<std::size_t>(bytes.size(), left_);
        std::memcpy(record_.extend(count), bytes.data(), count);
        left_ -= count;
        bytes = bytes.subspan(count);
      }
      if (mark_bytes_ < kRecordMark || left_ != 0) continue;
      mark_bytes_ = 0;
      if (!last_) continue;
      xdr::Buffer whole = std::move(record_);
      record_ = xdr::Buffer();
      take(std::move(whole));
    }
    return true;
  }

 private:
  bool take_mark(ConstBytes& bytes) {
    for (; mark_bytes_ < kRecordMark && !bytes.empty(); ++mark_bytes_) {
      mark_[mark_bytes_] = bytes.front();
      bytes = bytes.subspan(1);
    }
    if (mark_bytes_ < kRecordMark) return true;
    const std::uint32_t mark = xdr::load_u32(mark_.data());
    last_ = (mark & kLastFragment) != 0;
    left_ = mark & ~kLastFragment;
    return left_ <= largest_ - record_.size();
  }

  const std::size_t largest_;
  std::array<std::byte, kRecordMark> mark_{};
  std::size_t mark_bytes_ = 0;
  std::size_t left_ = 0;  // of this fragment
  bool last_ = false;
  xdr::Buffer record_;
};

}  // namespace nfsrdma::bridge
