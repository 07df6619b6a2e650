// See bench_report.h.
#include "cli/bench_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "cli/format.h"
#include "cli/json.h"

namespace nfsrdma::cli {
namespace {

constexpr std::array<double, 4> percents{50, 90, 99, 99.9};
constexpr std::array<const char*, 4> percent_names{"p50", "p90", "p99", "p99.9"};
constexpr std::size_t name_width = 10, number_width = 9, time_width = 10;

std::string as_microseconds(std::chrono::nanoseconds time) {
  return fixed(static_cast<double>(time.count()) / 1000, 3);
}

/// Three significant digits.
std::string in_digits(double value) {
  return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::uint64_t largest(const std::vector<Latencies::Row>& rows) {
  std::uint64_t out = 1;
  for (const Latencies::Row& row : rows) out = std::max(out, row.count);
  return out;
}

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    }
  }
  return out;
}

// ---- the picture ----

constexpr double plot_left = 190, plot_width = 560, row_height = 46, bar_height = 34, plot_top = 50;
constexpr double shortest_ns = 1e3, longest_ns = 1e10;

/// The place of a latency on the axis.
double x_of(double ns) {
  const double share = std::log10(std::clamp(ns, shortest_ns, longest_ns) / shortest_ns) /
                       std::log10(longest_ns / shortest_ns);
  return plot_left + share * plot_width;
}

std::string svg_text(double x, double y, const std::string& text) {
  return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\">" + escaped_xml(text) + "</text>\n";
}

std::string svg_axis(double bottom) {
  std::string out;
  for (auto ns = static_cast<std::int64_t>(shortest_ns); ns <= static_cast<std::int64_t>(longest_ns);
       ns *= 10) {
    const double place = x_of(static_cast<double>(ns));
    const std::string x = fixed(place, 1);
    out.append("<line x1=\"").append(x).append("\" y1=\"").append(fixed(plot_top - 4, 1));
    out.append("\" x2=\"").append(x).append("\" y2=\"").append(fixed(bottom, 1));
    out.append("\" stroke=\"#ccc\"/>\n");
    out += svg_text(place - 14, plot_top - 8, short_time(std::chrono::nanoseconds(ns)));
  }
  return out;
}

std::string svg_row(const BenchResult& result, double top) {
  const std::vector<Latencies::Row> rows = result.latencies.rows();
  const auto most = static_cast<double>(largest(rows));
  std::string out = svg_text(8, top + 16, result.label() + ", depth " + std::to_string(result.depth));
  out += svg_text(8, top + 30,
                  "p50 " + short_time(result.latencies.percentile(50)) + ", p99 " +
                      short_time(result.latencies.percentile(99)));
  for (const Latencies::Row& row : rows) {
    const auto limit = static_cast<double>(row.limit.count());
    const double right_end = x_of(limit), left_end = x_of(limit / std::sqrt(2.0));
    const double height = bar_height * static_cast<double>(row.count) / most;
    out += "<rect x=\"" + fixed(left_end, 1) + "\" y=\"" + fixed(top + bar_height - height, 1) +
           "\" width=\"" + fixed(std::max(right_end - left_end - 0.5, 0.5), 1) + "\" height=\"" +
           fixed(height, 1) + "\" fill=\"#36c\"/>\n";
  }
  return out;
}

}  // namespace

double BenchResult::operations_per_second() const {
  return seconds <= 0 ? 0 : static_cast<double>(latencies.count()) / seconds;
}

double BenchResult::bytes_per_second() const {
  return operations_per_second() * static_cast<double>(size);
}

std::string short_time(std::chrono::nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  if (ns < 1e6) return in_digits(ns / 1e3) + " us";
  return ns < 1e9 ? in_digits(ns / 1e6) + " ms" : in_digits(ns / 1e9) + " s";
}

std::string bench_heading() {
  std::string out = left("part", name_width) + right("depth", 6) + right("size", 8) +
                    right("ops/s", number_width) + right("MB/s", number_width);
  for (const char* name : percent_names) out += right(name, time_width);
  return out + right("max", time_width);
}

std::string bench_row(const BenchResult& result) {
  std::string out = left(result.part, name_width) + right(std::to_string(result.depth), 6);
  out += right(result.size == 0 ? "-" : human_size(result.size), 8);
  out += right(in_digits(result.operations_per_second()), number_width);
  out += right(result.size == 0 ? "-" : in_digits(result.bytes_per_second() / 1e6), number_width);
  for (const double percent : percents)
    out += right(short_time(result.latencies.percentile(percent)), time_width);
  return out + right(short_time(result.latencies.most()), time_width);
}

std::string bench_json(const BenchResult& result) {
  json::Object out;
  out.text("part", result.part);
  if (!result.call.empty()) out.text("call", result.call);
  out.number("depth", result.depth).number("size", result.size);
  out.number("operations", result.latencies.count()).raw("seconds", fixed(result.seconds, 6));
  out.raw("operations_per_second", fixed(result.operations_per_second(), 1));
  out.raw("bytes_per_second", fixed(result.bytes_per_second(), 0));
  out.raw("min_us", as_microseconds(result.latencies.least()))
      .raw("mean_us", as_microseconds(result.latencies.mean()));
  for (std::size_t i = 0; i < percents.size(); ++i)
    out.raw(std::string(percent_names.at(i)) + "_us",
            as_microseconds(result.latencies.percentile(percents.at(i))));
  return out.raw("max_us", as_microseconds(result.latencies.most())).str();
}

std::string bench_plot(const BenchResult& result) {
  constexpr double bar_width = 50;
  const std::vector<Latencies::Row> rows = result.latencies.rows();
  const auto most = static_cast<double>(largest(rows));
  std::string out = result.label() + ", depth " + std::to_string(result.depth) + ":\n";
  for (const Latencies::Row& row : rows) {
    const auto length =
        static_cast<std::size_t>(std::ceil(bar_width * static_cast<double>(row.count) / most));
    out += right("<= " + short_time(row.limit), 12) + right(std::to_string(row.count), 10) + "  " +
           std::string(length, '#') + "\n";
  }
  return out;
}

std::string bench_svg(const std::vector<BenchResult>& results, const std::string& title) {
  const double bottom = plot_top + row_height * static_cast<double>(results.size());
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
                    fixed(plot_left + plot_width + 30, 0) + "\" height=\"" + fixed(bottom + 10, 0) +
                    "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
                    "fill=\"white\"/>\n";
  out += svg_text(8, 18, title) + svg_axis(bottom);
  double top = plot_top;
  for (const BenchResult& one : results) {
    out += svg_row(one, top);
    top += row_height;
  }
  return out + "</svg>\n";
}

std::string bench_summary(const Info& info, const std::vector<BenchResult>& results) {
  std::string out = "nfsrdma-cli " NFSRDMA_VERSION ", " + info.fabric;
  if (!info.device.empty()) out += " on " + info.device;
  out += ", NFS " + info.version + ", sec=" + info.security;
  if (info.mpa_revision != 0) out += std::string(", CRC ") + (info.crc ? "on" : "off");
  out += ", rsize/wsize " + std::to_string(info.rsize) + "/" + std::to_string(info.wsize);
  out += ", inline " + std::to_string(info.call_threshold) + "/" + std::to_string(info.reply_threshold);
  out += ", credits " + std::to_string(info.credits_granted) + ", slots " + std::to_string(info.slots);
  out += ", connections " + std::to_string(info.connections);
  out += ", server " + (info.implementation_name.empty() ? "unknown" : info.implementation_name) + ":";
  for (const BenchResult& one : results) {
    out += " " + one.label() + "/" + std::to_string(one.depth) + " " +
           (one.size < 65536 ? in_digits(one.operations_per_second()) + " ops/s"
                             : in_digits(one.bytes_per_second() / 1e6) + " MB/s") +
           " p99 " + short_time(one.latencies.percentile(99)) + ";";
  }
  if (out.ends_with(';')) out.pop_back();
  return out;
}

}  // namespace nfsrdma::cli
