// The statistics of a mount, from the text of its file .nfsrdma-stats, which nfsrdma-fuse(8) describes, and what two
// of them say about the time between. Pure functions.
//
// The file is written by another process, which may be of another version: lines and keys that are not known are
// skipped, and a number that is malformed counts as 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::cli {

/// The counters of one kind of request or call.
struct KindCounters {
  std::uint64_t count = 0, errors = 0, total_us = 0;
};

/// The counters in the file at one moment.
struct MountSample {
  std::string source;
  double age = 0;                                    ///< seconds since the mount was made
  std::map<std::string, KindCounters> requests;      ///< of the kernel, by the kernel's names
  std::map<std::string, KindCounters> calls;         ///< to the server
  std::uint64_t bytes_read = 0, bytes_written = 0;   ///< by programs
  std::uint64_t bytes_received = 0, bytes_sent = 0;  ///< from and to the server
  std::uint64_t in_flight = 0;  ///< requests of the kernel, without the reading of this file
  std::uint64_t connections = 0, connections_up = 0, reconnects = 0;
};

/// Returns nothing if the text is of another format.
std::optional<MountSample> parse_mount_statistics(std::string_view text);

struct KindRate {
  bool is_call = false;  ///< to the server; otherwise a request of the kernel
  std::string name;
  double per_second = 0, errors_per_second = 0;
  double mean_ms = 0;  ///< 0 if there was none
  double busy = 0;     ///< seconds spent in such requests, per second: how many were under way on average
};

/// The rates in the time between two samples.
struct MountRates {
  double seconds = 0;
  KindRate reads, writes, metadata;  ///< requests of the kernel, together; names are empty
  double read_bytes = 0, written_bytes = 0, received_bytes = 0, sent_bytes = 0;  ///< per second
  std::uint64_t reconnects = 0;
  std::vector<KindRate> kinds;  ///< those that occurred
};

/// `before` may be empty: then the rates are averages since the mount was made. So are they if the counters have
/// become less, because another mount is at this place now.
MountRates rates_between(const MountSample& before, const MountSample& after);

/// The orders of the table; the largest first, or names from A.
enum class RateOrder : unsigned char { busy, rate, latency, name };
constexpr std::size_t rate_orders = 4;
std::string_view name_of(RateOrder order);
std::optional<RateOrder> rate_order(std::string_view name);
void sort_kinds(std::vector<KindRate>& kinds, RateOrder order, bool reversed);

}  // namespace nfsrdma::cli
