// A distribution of latencies, in memory that does not grow with their number.
//
// Each latency is counted in a bucket. The buckets of a power of two divide it into 32 equal parts, so that a
// percentile is at most 3.2 % larger than the exact one. Minimum, maximum and mean are exact. Pure.
//
// The library counts its calls in buckets of a factor of two (async/latencies.h), which its statistics show as they are.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

namespace nfsrdma::cli {

class Latencies {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  void add(Nanoseconds latency);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Nanoseconds least() const { return Nanoseconds(count_ == 0 ? 0 : least_); }
  [[nodiscard]] Nanoseconds most() const { return Nanoseconds(most_); }
  [[nodiscard]] Nanoseconds mean() const { return Nanoseconds(count_ == 0 ? 0 : sum_ / count_); }
  /// Returns the latency that `percent` of all do not exceed; the nearest rank (percent of count, rounded up).
  [[nodiscard]] Nanoseconds percentile(double percent) const;

  /// Latencies up to `limit`, and above the limit of the row before.
  struct Row {
    Nanoseconds limit;
    std::uint64_t count;
  };
  /// Returns the distribution in rows whose limits grow by the square root of two, without empty rows at
  /// either end.
  [[nodiscard]] std::vector<Row> rows() const;

 private:
  static constexpr unsigned kParts = 32, kPartBits = 5, kPowers = 42;  // up to an hour
  static std::size_t bucket_of(std::uint64_t ns);
  static std::uint64_t limit_of(std::size_t bucket);

  std::array<std::uint64_t, std::size_t{kParts} * kPowers> buckets_{};
  std::uint64_t count_ = 0, sum_ = 0, least_ = ~std::uint64_t{0}, most_ = 0;
};

}  // namespace nfsrdma::cli
