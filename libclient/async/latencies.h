// A histogram of durations: how many fell in each power of two of microseconds, their sum and the longest.
//
// Plain integers. Adding a duration allocates nothing and takes about ten instructions; the caller reads the
// clock. Confined to the thread that adds.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nfsrdma::async {

class Latencies {
 public:
  /// The first bucket counts durations of less than 1 us, and each further one covers twice as much as the
  /// one before. The last one (from 67 s on) counts all longer ones.
  static constexpr std::size_t kBuckets = 28;
  /// Returns the upper bound of a bucket in microseconds. The last bucket has no upper bound.
  static constexpr std::uint64_t end_of(std::size_t bucket) { return std::uint64_t{1} << bucket; }

  void add(std::chrono::steady_clock::duration took) {
    const auto count = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
    ++buckets_[std::min(static_cast<std::size_t>(std::bit_width(us)), kBuckets - 1)];
    total_us_ += us;
    longest_us_ = std::max(longest_us_, us);
  }
  Latencies& operator+=(const Latencies& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    total_us_ += other.total_us_;
    longest_us_ = std::max(longest_us_, other.longest_us_);
    return *this;
  }

  [[nodiscard]] std::uint64_t operator[](std::size_t bucket) const { return buckets_[bucket]; }
  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t out = 0;
    for (const std::uint64_t one : buckets_) out += one;
    return out;
  }
  [[nodiscard]] std::uint64_t total_us() const { return total_us_; }
  [[nodiscard]] std::uint64_t longest_us() const { return longest_us_; }
  /// Returns a number of microseconds that `percent` of the durations do not exceed: the end of a bucket, or
  /// the longest duration. 0 if there are none.
  [[nodiscard]] std::uint64_t percentile_us(unsigned percent) const {
    const std::uint64_t all = count();
    const std::uint64_t wanted = (all * percent + 99) / 100;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i + 1 < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen >= wanted) return std::min(end_of(i), longest_us_);
    }
    return longest_us_;
  }

 private:
  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t total_us_ = 0, longest_us_ = 0;
};

}  // namespace nfsrdma::async
