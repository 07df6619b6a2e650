#include "trace/reading/summary.h"

#include <algorithm>
#include <numeric>

namespace nfsrdma::trace {
namespace {

/// Returns the smallest time that `percent` of the times are not above. `sorted` must not be empty.
std::chrono::nanoseconds percentile(const std::vector<std::uint64_t>& sorted, std::size_t percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;
  return std::chrono::nanoseconds(sorted[std::max<std::size_t>(rank, 1) - 1]);
}

}  // namespace

void Summary::add(const Event& event, const std::string& kind) {
  connections_ += event.kind == EventKind::connecting ? 1 : 0;
  strange_ += event.kind == EventKind::strange ? 1 : 0;
  if (event.kind == EventKind::call) {
    ++calls_;
    retransmissions_ += event.sends > 1 ? 1 : 0;
  }
  if (event.kind != EventKind::reply && event.kind != EventKind::error) return;
  ++replies_;
  const bool is_new = kinds_.size() >= kMostKinds && !kinds_.contains(kind);
  Sum& sum = kinds_[is_new ? "others" : kind];
  ++sum.count;
  sum.failed += event.failed ? 1 : 0;
  sum.bytes += event.data_bytes;
  if (event.round_trip) sum.times.push_back(static_cast<std::uint64_t>(event.round_trip->count()));
}

std::vector<Summary::Row> Summary::rows() const {
  std::vector<Row> out;
  for (const auto& [kind, sum] : kinds_) {
    Row& row = out.emplace_back(Row{kind, sum.count, sum.failed, sum.bytes});
    if (sum.times.empty()) continue;
    std::vector<std::uint64_t> sorted = sum.times;
    std::ranges::sort(sorted);
    const long double all = std::accumulate(sorted.begin(), sorted.end(), 0.0L);
    row.mean =
        std::chrono::nanoseconds(static_cast<std::int64_t>(all / static_cast<long double>(sorted.size())));
    row.p50 = percentile(sorted, 50);
    row.p99 = percentile(sorted, 99);
    row.most = std::chrono::nanoseconds(sorted.back());
  }
  std::ranges::stable_sort(out, std::greater<>(), &Row::count);
  return out;
}

}  // namespace nfsrdma::trace
