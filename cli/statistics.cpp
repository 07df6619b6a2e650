// See statistics.h.
#include "cli/statistics.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "cli/format.h"
#include "cli/json.h"

namespace nfsrdma::cli {
namespace {

using std::chrono::microseconds;

std::string in_ms(microseconds time) {
  return fixed(std::chrono::duration<double, std::milli>(time).count(), 3);
}

microseconds mean_of(microseconds total, std::uint64_t count) {
  return count == 0 ? microseconds(0) : total / static_cast<microseconds::rep>(count);
}

/// Returns the kinds of calls that were made, those that took the most time first.
std::vector<CallStatistics> by_time(std::vector<CallStatistics> calls) {
  std::erase_if(calls, [](const CallStatistics& one) { return one.count == 0 && one.failed == 0; });
  std::ranges::stable_sort(calls, std::greater(), &CallStatistics::total);
  return calls;
}

microseconds waited(const Statistics& of) {
  microseconds out{0};
  for (const CallStatistics& one : of.calls) out += one.waited;
  return out;
}

std::string size_text(std::uint64_t bytes) {
  return std::to_string(bytes) + (bytes < 1024 ? "" : " (" + binary_size(static_cast<double>(bytes)) + ")");
}

std::string totals_text(const Statistics& of) {
  const auto count = [](std::uint64_t value) { return std::to_string(value); };
  std::string out = "  connections: " + count(of.connects) + " made, " + count(of.reconnects) +
                    " after a loss; " + count(of.retransmissions) + " calls sent again, " +
                    count(of.recoveries) + " recoveries\n";
  out += "  round trips: " + count(of.replies) + " of " + count(of.sent) + " calls\n";
  out += "  bytes: " + size_text(of.bytes_sent) + " sent, " + size_text(of.bytes_received) + " received";
  if (of.hole_bytes != 0) out += ", " + size_text(of.hole_bytes) + " in holes not sent";
  out += "\n  waits: " + count(of.slot_waits) + " for a slot (" + in_ms(of.slot_waited) + " ms), " +
         count(of.credit_waits) + " for credits; for credits and connections " + in_ms(waited(of)) + " ms\n";
  return out;
}

std::string row(const std::vector<std::string>& cells) {
  constexpr std::size_t name_width = 22, width = 11;
  std::string out = "  " + left(cells.front(), name_width);
  for (std::size_t i = 1; i < cells.size(); ++i) out += right(cells[i], width);
  return out + "\n";
}

std::string row_of(const CallStatistics& one) {
  return row({one.name, std::to_string(one.count), in_ms(mean_of(one.total, one.count)), in_ms(one.longest),
              in_ms(one.waited), std::to_string(one.refused + one.failed), human_size(one.bytes_sent),
              human_size(one.bytes_received)});
}

std::string json_of(const CallStatistics& one) {
  json::Object out;
  out.text("operation", one.name).number("count", one.count).number("refused", one.refused);
  out.number("failed", one.failed).number("sent_again", one.sent_again);
  out.number("bytes_sent", one.bytes_sent).number("bytes_received", one.bytes_received);
  out.raw("mean_ms", in_ms(mean_of(one.total, one.count))).raw("p99_ms", in_ms(one.p99));
  out.raw("max_ms", in_ms(one.longest)).raw("wait_ms", in_ms(one.waited));
  return out.str();
}

}  // namespace

std::string statistics_text(const std::string& server, const Statistics& statistics) {
  std::string out = "statistics of " + printable(server) + ":\n" + totals_text(statistics);
  out += row({"operation", "count", "mean ms", "max ms", "waited ms", "errors", "sent", "received"});
  for (const CallStatistics& one : by_time(statistics.calls)) out += row_of(one);
  return out;
}

std::string statistics_json(const std::string& server, const Statistics& statistics) {
  std::string calls;
  for (const CallStatistics& one : by_time(statistics.calls))
    calls += (calls.empty() ? "" : ",") + json_of(one);
  json::Object out;
  out.text("server", server).number("connects", statistics.connects);
  out.number("reconnects", statistics.reconnects).number("retransmissions", statistics.retransmissions);
  out.number("recoveries", statistics.recoveries).number("calls", statistics.sent);
  out.number("round_trips", statistics.replies).number("bytes_sent", statistics.bytes_sent);
  out.number("bytes_received", statistics.bytes_received).number("hole_bytes", statistics.hole_bytes);
  out.number("slot_waits", statistics.slot_waits).raw("slot_wait_ms", in_ms(statistics.slot_waited));
  out.number("credit_waits", statistics.credit_waits).raw("wait_ms", in_ms(waited(statistics)));
  return out.raw("operations", "[" + calls + "]").str();
}

}  // namespace nfsrdma::cli
