#include "aux/record_reader.h"

#include <algorithm>
#include <cstring>

namespace nfsrdma::aux {

/// Returns false if the fragment makes the record too large.
bool RecordReader::take_mark(xdr::ConstBytes& bytes) {
  const std::size_t count = std::min(mark_.size() - mark_size_, bytes.size());
  std::memcpy(mark_.data() + mark_size_, bytes.data(), count);
  mark_size_ += count;
  bytes = bytes.subspan(count);
  if (mark_size_ < mark_.size()) return true;
  const std::uint32_t mark = xdr::load_u32(mark_.data());
  last_ = (mark & kLastFragment) != 0;
  left_ = mark & ~kLastFragment;
  return left_ <= largest_ - record_.size();
}

void RecordReader::take_data(xdr::ConstBytes& bytes) {
  const xdr::ConstBytes part = bytes.first(std::min(left_, bytes.size()));
  record_.insert(record_.end(), part.begin(), part.end());
  left_ -= part.size();
  bytes = bytes.subspan(part.size());
}

RecordReader::Found RecordReader::take(xdr::ConstBytes& bytes) {
  while (!bytes.empty()) {
    begun_ = true;
    if (mark_size_ < mark_.size()) {
      if (!take_mark(bytes)) return Found::too_large;
      if (mark_size_ < mark_.size()) return Found::nothing;
    }
    take_data(bytes);
    if (left_ != 0) return Found::nothing;
    mark_size_ = 0;
    if (last_) {
      begun_ = false;
      return Found::record;
    }
  }
  return Found::nothing;
}

void RecordReader::next() {
  record_ = {};
}

}  // namespace nfsrdma::aux
