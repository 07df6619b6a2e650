// Percentiles and histograms of latencies, against the exact values.
#include "cli/latencies.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "cli/bench_report.h"

namespace nfsrdma::cli {

TEST_CASE("latencies: percentiles are exact to 3.2 %, and never below the exact value") {
  std::mt19937_64 random(7);
  Latencies latencies;
  std::vector<std::int64_t> all;
  for (int i = 0; i < 20'000; ++i) {
    const auto ns = static_cast<std::int64_t>(random() % (std::uint64_t{1} << (random() % 36 + 1)));
    all.push_back(ns);
    latencies.add(std::chrono::nanoseconds(ns));
  }
  std::ranges::sort(all);
  for (const double percent : {0.1, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    CAPTURE(percent);
    const auto rank = static_cast<std::size_t>(std::max(1.0, percent / 100 * 20'000));
    const auto exact = static_cast<double>(all[rank - 1]);
    const auto found = static_cast<double>(latencies.percentile(percent).count());
    CHECK(found >= exact);
    CHECK(found <= exact * 1.032 + 1);
  }
  CHECK(latencies.count() == 20'000);
  CHECK(latencies.least().count() == all.front());
  CHECK(latencies.most().count() == all.back());
}

TEST_CASE("latencies: none, one, and those that are out of range") {
  Latencies latencies;
  CHECK(latencies.percentile(50).count() == 0);
  CHECK(latencies.rows().empty());
  CHECK(latencies.mean().count() == 0);
  latencies.add(std::chrono::nanoseconds(-5));
  latencies.add(std::chrono::hours(1000));
  CHECK(latencies.least().count() == 0);
  CHECK(latencies.percentile(100) == std::chrono::hours(1000));
  std::uint64_t sum = 0;
  for (const auto& row : latencies.rows()) sum += row.count;
  CHECK(sum == 2);
}

TEST_CASE("latencies: rows hold every latency once, below their limits") {
  Latencies latencies;
  for (int us = 1; us <= 1000; ++us) latencies.add(std::chrono::microseconds(us));
  const auto rows = latencies.rows();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sum += rows[i].count;
    if (i != 0) CHECK(rows[i].limit > rows[i - 1].limit);
  }
  CHECK(sum == 1000);
  CHECK(rows.front().count != 0);
  CHECK(rows.back().count != 0);
}

TEST_CASE("bench report: rates, rows, JSON, the plot and the picture") {
  BenchResult result{"randread", 16, 4096, 2.0, {}};
  for (int i = 0; i < 999; ++i) result.latencies.add(std::chrono::microseconds(100));
  result.latencies.add(std::chrono::milliseconds(50));
  CHECK(result.operations_per_second() == 500);
  CHECK(result.bytes_per_second() == 500 * 4096);
  CHECK(BenchResult{}.operations_per_second() == 0);
  BenchResult ping{"ping", 1, 0, 1.0, {}, "RENEW"};
  CHECK(bench_json(ping).starts_with(R"({"part":"ping","call":"RENEW","depth":1,)"));
  CHECK(bench_json(result).starts_with(R"({"part":"randread","depth":16,)"));
  CHECK(bench_plot(ping).starts_with("ping (RENEW), depth 1:\n"));
  CHECK(bench_svg({ping}, "").find(">ping (RENEW), depth 1<") != std::string::npos);
  CHECK(bench_summary({}, {ping}).find(": ping (RENEW)/1 ") != std::string::npos);
  const std::string row = bench_row(result);
  CHECK(row.find("randread") == 0);
  CHECK(row.find("50.0 ms") != std::string::npos);
  CHECK(row.size() == bench_heading().size());
  const std::string object = bench_json(result);
  CHECK(object.find("\"operations\":1000,\"seconds\":2.000000,") != std::string::npos);
  CHECK(object.find("\"max_us\":50000.000}") != std::string::npos);
  CHECK(bench_plot(result).find(std::string(50, '#')) != std::string::npos);
  const std::string picture = bench_svg({result}, "a<b & c");
  CHECK(picture.find("a&lt;b &amp; c") != std::string::npos);
  CHECK(picture.ends_with("</svg>\n"));
  Info info;
  info.fabric = "iwarp";
  info.version = "4.2";
  info.credits_granted = 64;
  const std::string summary = bench_summary(info, {result});
  CHECK(summary.find("iwarp, NFS 4.2") != std::string::npos);
  CHECK(summary.find("credits 64") != std::string::npos);
  CHECK(summary.find("randread/16 500 ops/s p99 ") != std::string::npos);
}

TEST_CASE("bench report: times have three digits and a unit") {
  CHECK(short_time(std::chrono::nanoseconds(1234)) == "1.23 us");
  CHECK(short_time(std::chrono::microseconds(123)) == "123 us");
  CHECK(short_time(std::chrono::microseconds(45600)) == "45.6 ms");
  CHECK(short_time(std::chrono::seconds(3)) == "3.00 s");
}

}  // namespace nfsrdma::cli
