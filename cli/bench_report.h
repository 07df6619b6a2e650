// The results of bench as text, JSON and SVG. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/latencies.h"
#include "nfsrdma/info.h"

namespace nfsrdma::cli {

/// The result of one part of a benchmark.
struct BenchResult {
  std::string part;       ///< "randread"
  std::size_t depth = 1;  ///< operations in flight
  std::size_t size = 0;   ///< bytes of an operation; 0: it moves no data
  double seconds = 0;     ///< until the last operation had ended, a COMMIT included
  Latencies latencies;
  std::string call = {};  ///< of ping: what the server was asked in this version of NFS

  /// "read", "ping (SEQUENCE)".
  [[nodiscard]] std::string label() const { return call.empty() ? part : part + " (" + call + ")"; }
  [[nodiscard]] double operations_per_second() const;
  [[nodiscard]] double bytes_per_second() const;
};

/// "12.3 us", "4.56 ms", "1.20 s".
std::string short_time(std::chrono::nanoseconds time);

std::string bench_heading();
std::string bench_row(const BenchResult& result);
std::string bench_json(const BenchResult& result);
/// A histogram of the latencies, with one bar in a line.
std::string bench_plot(const BenchResult& result);
/// The histograms of all results as one picture, on a common logarithmic axis of time.
std::string bench_svg(const std::vector<BenchResult>& results, const std::string& title);
/// Returns the line for a report of a problem: versions, fabric, sizes, credits and the main figures.
std::string bench_summary(const Info& info, const std::vector<BenchResult>& results);

}  // namespace nfsrdma::cli
