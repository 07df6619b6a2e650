// The steps about what limits the throughput: sizes of READ and WRITE, and calls in flight.
#include <algorithm>
#include <cstdio>

#include "diagnosis/examination.h"

namespace nfsrdma::diagnosis {
namespace {

/// READs and WRITEs of at least this size use most of what a connection can carry.
constexpr std::uint32_t kGoodSize = 256U << 10;
constexpr std::uint32_t kMebibyte = 1U << 20;
/// This number of calls in flight hides the round trip from most programs.
constexpr std::uint32_t kGoodCalls = 16;

std::string kibibytes(std::uint32_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  return std::to_string(bytes / 1024) + " KiB";
}

/// Returns true if the server grants less than this client asked for, and less than is good.
bool is_low(std::uint32_t granted, std::uint32_t wanted) {
  return granted < std::min(wanted, kGoodSize);
}

std::string cost(std::uint32_t size) {
  return "1 MiB takes " + std::to_string((kMebibyte + size - 1) / size) + " calls";
}

/// Returns which limit of the session makes the sizes small.
std::string session_limits(const Info& info) {
  if (info.session_id.empty()) return "";
  return "; the session takes requests of " + std::to_string(info.max_request) +
         " bytes and gives replies of " + std::to_string(info.max_response) +
         " (ca_maxrequestsize, ca_maxresponsesize)";
}

/// Returns the most that READs can bring in a second, or the most calls where no network is that fast.
std::string bound(std::uint32_t calls, std::uint32_t size, std::chrono::nanoseconds round_trip) {
  constexpr double kFastest = 40'000;  // MiB/s, some 400 Gbit/s
  const double seconds = std::max(std::chrono::duration<double>(round_trip).count(), 1e-9);
  const double rate = static_cast<double>(calls) * size / kMebibyte / seconds;
  char text[48];
  if (rate < kFastest) {
    std::snprintf(text, sizeof text, "%.0f MiB/s", rate);
  } else {
    std::snprintf(text, sizeof text, "%.0f calls per second", static_cast<double>(calls) / seconds);
  }
  return text;
}

}  // namespace

async::Task<Finding> examine_sizes(Examination& at) {
  const Info& info = at.info;
  const std::string seen =
      "READ of up to " + kibibytes(info.rsize) + ", WRITE of up to " + kibibytes(info.wsize);
  const bool low = is_low(info.rsize, at.options().rsize) || is_low(info.wsize, at.options().wsize);
  Finding out = found(seen);
  if (low) {
    out = warning(seen + ", so " + cost(std::min(info.rsize, info.wsize)) + session_limits(info),
                  "raise the server's limits (Linux: /proc/fs/nfsd/max_block_size, before nfsd starts; "
                  "Ganesha: MaxRead and MaxWrite of the export)");
  }
  out.fact("rsize", info.rsize).fact("wsize", info.wsize);
  out.fact("max_request", info.max_request).fact("max_response", info.max_response);
  co_return out.fact("max_response_cached", info.max_response_cached);
}

async::Task<Finding> examine_credits(Examination& at) {
  at.info = at.server->info();  // the credits of the latest Reply
  const Info& info = at.info;
  const std::uint32_t calls =
      info.slots == 0 ? info.credits_granted : std::min(info.credits_granted, info.slots);
  const auto round_trip =
      at.round_trips.empty() ? std::chrono::nanoseconds(0) : at.round_trips[at.round_trips.size() / 2];
  std::string seen = std::to_string(info.credits_granted) + " credits";
  if (!info.session_id.empty()) seen += " and " + std::to_string(info.slots) + " slots";
  seen += ": " + std::to_string(calls) + " calls in flight";
  const bool is_few = calls < std::min(at.options().credits, kGoodCalls);
  const bool by_credits = info.credits_granted == calls;
  if (is_few && round_trip.count() != 0) {
    seen +=
        ", at most " + bound(calls, info.rsize, round_trip) + " at a round trip of " + text_of(round_trip);
  }
  Finding out = found(seen);
  if (is_few && by_credits) {
    out =
        warning("the server grants few credits: " + seen,
                "raise the server's RDMA credits (Linux: `sysctl sunrpc.svc_rdma.max_requests`, before nfsd "
                "starts), or use nconnect= for more connections");
  } else if (is_few) {
    out = warning("the session has few slots: " + seen,
                  "give the server more memory for sessions (Linux: more nfsd threads, fewer clients)");
  }
  out.fact("granted", info.credits_granted).fact("wanted", info.credits_wanted).fact("slots", info.slots);
  co_return out.fact("calls_in_flight", calls);
}

}  // namespace nfsrdma::diagnosis
