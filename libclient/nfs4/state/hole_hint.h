// Estimates whether it pays to read a file by READ_PLUS (hole_reads.h). There is one HoleHint for each
// file, in its record.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>

#include "nfsrdma/types.h"

namespace nfsrdma::nfs4 {

class HoleHint {
 public:
  /// Called with attributes of the file from the server. The file is sparse if it takes much less
  /// space than its size.
  void know(const Attributes& attributes) {
    const std::uint64_t used = attributes.space_used;
    const std::uint64_t missing = attributes.size > used ? attributes.size - used : 0;
    sparse_ = missing >= kLeastMissing && missing >= attributes.size / 8;
  }
  /// Whether the next read is to be made by READ_PLUS. A sparse file may have long ranges without a hole; in
  /// those only every kDenseRun-th read is.
  [[nodiscard]] bool pays() const { return sparse_ && (dense_run_ < kDenseRun || reads_ % kDenseRun == 0); }
  /// Called when a read was made by READ.
  void passed_over() { ++reads_; }
  /// Called when a READ_PLUS was answered.
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
