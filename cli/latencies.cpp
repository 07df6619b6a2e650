// See latencies.h.
#include "cli/latencies.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nfsrdma::cli {

/// Values below kParts have a bucket each. A larger one is known by its highest bits.
std::size_t Latencies::bucket_of(std::uint64_t ns) {
  if (ns < kParts) return static_cast<std::size_t>(ns);
  const auto power = static_cast<unsigned>(std::bit_width(ns)) - 1 - kPartBits;
  const std::size_t bucket =
      std::size_t{power + 1} * kParts + static_cast<std::size_t>((ns >> power) - kParts);
  return std::min(bucket, std::size_t{kParts} * kPowers - 1);
}

/// Returns the largest value of the bucket.
std::uint64_t Latencies::limit_of(std::size_t bucket) {
  if (bucket < kParts) return bucket;
  const auto power = static_cast<unsigned>(bucket / kParts) - 1;
  return ((std::uint64_t{kParts} + bucket % kParts + 1) << power) - 1;
}

void Latencies::add(Nanoseconds latency) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0));
  ++buckets_.at(bucket_of(ns));
  ++count_;
  sum_ += ns;
  least_ = std::min(least_, ns);
  most_ = std::max(most_, ns);
}

Latencies::Nanoseconds Latencies::percentile(double percent) const {
  const double share = std::ceil(percent / 100 * static_cast<double>(count_));
  const std::uint64_t rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_.at(i);
    if (i + 1 == buckets_.size()) break;  // it also has what is larger than its limit
    if (seen >= rank) return Nanoseconds(std::clamp(limit_of(i), least_, most_));
  }
  return most();
}

std::vector<Latencies::Row> Latencies::rows() const {
  constexpr double step = 1.4142135623730951;
  std::vector<Row> out;
  double limit = 1000;  // ns
  std::uint64_t in_row = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    while (static_cast<double>(limit_of(i)) > limit) {
      if (in_row != 0 || !out.empty()) out.push_back({Nanoseconds(static_cast<std::int64_t>(limit)), in_row});
      in_row = 0;
      limit *= step;
    }
    in_row += buckets_.at(i);
  }
  out.push_back({Nanoseconds(static_cast<std::int64_t>(limit)), in_row});
  while (!out.empty() && out.back().count == 0) out.pop_back();
  return out;
}

}  // namespace nfsrdma::cli
