// Whether it pays to read a file by READ_PLUS (hole_reads.h). One for each file, in its record.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>

#include "nfsrdma/types.h"

namespace nfsrdma::nfs4 {

class HoleHint {
 public:
  /// Attributes of the file have come from the server: it is sparse if it takes much less space than its size.
  void know(const Attributes& attributes) {
    const std::uint64_t used = attributes.space_used;
    const std::uint64_t missing = attributes.size > used ? attributes.size - used : 0;
    sparse_ = missing >= kLeastMissing && missing >= attributes.size / 8;
  }
  /// Whether the next read is to be made by READ_PLUS. A sparse file may have long ranges without a hole; there every
  /// kDenseRun-th read is.
  [[nodiscard]] bool pays() const { return sparse_ && (dense_run_ < kDenseRun || reads_ % kDenseRun == 0); }
  /// A read has been made by READ.
  void passed_over() { ++reads_; }
  /// A READ_PLUS has been answered.
  void answered(bool with_hole) {
    ++reads_;
    dense_run_ = with_hole ? 0 : dense_run_ + 1;
  }

 private:
  static constexpr std::uint64_t kLeastMissing = 64U << 10;
  static constexpr unsigned kDenseRun = 16;

  bool sparse_ = false;
  unsigned dense_run_ = 0;  // answers in a row without a hole
  unsigned reads_ = 0;
};

}  // namespace nfsrdma::nfs4
