// See top_view.h.
#include "cli/top_view.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>

#include "cli/format.h"
#include "cli/json.h"

namespace nfsrdma::cli {
namespace {

std::string bytes_text(double per_second) {
  return binary_size(per_second) + "/s";
}

std::string age_text(double age) {
  return clock_time(std::chrono::seconds(static_cast<std::int64_t>(age)));
}

std::string state_text(const MountSample& sample, const MountRates& rates) {
  std::string out = "up " + age_text(sample.age) + ", " + std::to_string(sample.connections_up) + " of " +
                    std::to_string(sample.connections) + " connections, " +
                    std::to_string(sample.reconnects) + " reconnects";
  if (rates.reconnects != 0) out += " (" + std::to_string(rates.reconnects) + " now)";
  return out + ", " + std::to_string(sample.in_flight) + " in flight";
}

/// Returns the rate of a family of requests, such as "reads 12.0/s, 0.420 ms".
std::string family_text(const char* name, const KindRate& rate) {
  std::string out = std::string(name) + " " + fixed(rate.per_second, 1) + "/s";
  if (rate.per_second > 0) out += ", " + fixed(rate.mean_ms, 3) + " ms";
  return out;
}

std::string table_row(std::initializer_list<std::string> cells) {
  constexpr std::size_t side_width = 8, name_width = 20, width = 12;
  const auto* cell = cells.begin();
  std::string out = "  " + left(*cell, side_width);
  out += left(*++cell, name_width);
  while (++cell != cells.end()) out += right(*cell, width);
  return out + "\n";
}

std::string kind_row(const KindRate& kind) {
  return table_row({kind.is_call ? "server" : "kernel", printable(kind.name), fixed(kind.per_second, 1),
                    fixed(kind.mean_ms, 3), fixed(kind.busy, 2), fixed(kind.errors_per_second, 1)});
}

std::string kind_json(const KindRate& kind) {
  json::Object out;
  out.text("side", kind.is_call ? "server" : "kernel").text("operation", kind.name);
  out.raw("per_second", fixed(kind.per_second, 3)).raw("mean_ms", fixed(kind.mean_ms, 3));
  return out.raw("under_way", fixed(kind.busy, 3))
      .raw("errors_per_second", fixed(kind.errors_per_second, 3))
      .str();
}

std::string family_json(const KindRate& rate) {
  json::Object out;
  out.raw("per_second", fixed(rate.per_second, 3)).raw("mean_ms", fixed(rate.mean_ms, 3));
  return out.raw("errors_per_second", fixed(rate.errors_per_second, 3)).str();
}

}  // namespace

std::string top_text(const TopRow& row, std::size_t most_kinds) {
  const std::string name = printable(row.mountpoint);
  if (!row.sample) return name + ": " + row.trouble + "\n";
  const MountRates& rates = row.rates;
  std::string out =
      name + " (" + printable(row.sample->source) + "): " + state_text(*row.sample, rates) + "\n";
  out += "  programs: read " + bytes_text(rates.read_bytes) + ", write " + bytes_text(rates.written_bytes) +
         "; server: received " + bytes_text(rates.received_bytes) + ", sent " + bytes_text(rates.sent_bytes) +
         "\n";
  out += "  " + family_text("reads", rates.reads) + "; " + family_text("writes", rates.writes) + "; " +
         family_text("metadata", rates.metadata) + "\n";
  if (rates.kinds.empty() || most_kinds == 0) return out;
  out += table_row({"", "operation", "per second", "mean ms", "under way", "errors/s"});
  for (std::size_t i = 0; i < std::min(most_kinds, rates.kinds.size()); ++i) out += kind_row(rates.kinds[i]);
  return out;
}

std::string top_json(const TopRow& row) {
  json::Object out;
  out.text("mountpoint", row.mountpoint);
  if (!row.sample) return out.text("trouble", row.trouble).str();
  const MountSample& sample = *row.sample;
  const MountRates& rates = row.rates;
  out.text("source", sample.source).raw("age", fixed(sample.age, 3)).raw("seconds", fixed(rates.seconds, 3));
  out.number("connections", sample.connections).number("connections_up", sample.connections_up);
  out.number("reconnects", sample.reconnects).number("in_flight", sample.in_flight);
  out.raw("read_bytes_per_second", fixed(rates.read_bytes, 0));
  out.raw("written_bytes_per_second", fixed(rates.written_bytes, 0));
  out.raw("received_bytes_per_second", fixed(rates.received_bytes, 0));
  out.raw("sent_bytes_per_second", fixed(rates.sent_bytes, 0));
  out.raw("reads", family_json(rates.reads)).raw("writes", family_json(rates.writes));
  out.raw("metadata", family_json(rates.metadata));
  std::string kinds;
  for (const KindRate& kind : rates.kinds) kinds += (kinds.empty() ? "" : ",") + kind_json(kind);
  return out.raw("operations", "[" + kinds + "]").str();
}

}  // namespace nfsrdma::cli
