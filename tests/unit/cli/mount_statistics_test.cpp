// The statistics of a mount as top reads them, and the rates between two readings.
#include "cli/mount_statistics.h"

#include <doctest/doctest.h>

#include <string>

#include "cli/top_view.h"

namespace nfsrdma::cli {
namespace {

/// Returns the text of a mount's file, `age` seconds after the mount was made, with so many reads.
std::string text_at(double age, unsigned reads, const std::string& more = "") {
  const std::string count = std::to_string(reads), bytes = std::to_string(reads * 4096);
  return "nfsrdma-fuse statistics 1\nversion 0.1.0\nsource server:/a b\nmountpoint /m\nage " +
         std::to_string(age) +
         "\nfuse LOOKUP count=10 errors=4 total_us=100 p50_us=1\nfuse READ count=" + count +
         " errors=0 total_us=" + std::to_string(reads * 500) + "\nfuse_under_way 3\nnfs READ count=" + count +
         " refused=1 failed=1 total_us=" + std::to_string(reads * 400) +
         " bytes_sent=200 bytes_received=" + bytes + "\ndata read requests=1 bytes=" + bytes +
         " server_requests=1\nconnection 1 up=1 fabric=iwarp reconnects=2\nconnection 2 up=0 reconnects=1\n" +
         more;
}

MountSample sample_at(double age, unsigned reads, const std::string& more = "") {
  auto sample = parse_mount_statistics(text_at(age, reads, more));
  REQUIRE(sample);
  return *std::move(sample);
}

std::string names(const MountRates& rates) {
  std::string out;
  for (const KindRate& one : rates.kinds)
    out += (out.empty() ? "" : " ") + one.name + (one.is_call ? "*" : "");
  return out;
}

}  // namespace

TEST_CASE("top: a mount's file gives its counters") {
  const MountSample sample =
      sample_at(12.5, 100, "ring requests reads=1 bytes_read=7 bytes_written=9\nunknown x=1\n");
  CHECK(sample.source == "server:/a b");
  CHECK(sample.age == doctest::Approx(12.5));
  CHECK(sample.requests.at("LOOKUP").errors == 4);
  CHECK(sample.calls.at("READ").errors == 2);
  CHECK(sample.bytes_read == 409607);
  CHECK(sample.bytes_written == 9);
  CHECK(sample.bytes_received == 409600);
  CHECK(sample.in_flight == 2);
  CHECK(sample.connections == 2);
  CHECK(sample.connections_up == 1);
  CHECK(sample.reconnects == 3);
}

TEST_CASE("top: what is no such file is none, and malformed numbers count as 0") {
  CHECK_FALSE(parse_mount_statistics(""));
  CHECK_FALSE(parse_mount_statistics("nfsrdma-fuse statistics 2\n"));
  CHECK_FALSE(parse_mount_statistics("nfsrdma-fuse statistics 1"));
  const auto odd = parse_mount_statistics(
      "nfsrdma-fuse statistics 1\nfuse\nfuse READ\nfuse WRITE count=x errors==\nage\nnfs READ "
      "count=99999999999999999999999\n"
      "fuse_under_way 0");
  REQUIRE(odd);
  CHECK(odd->requests.at("WRITE").count == 0);
  CHECK(odd->calls.at("READ").count == 0);
  CHECK(odd->in_flight == 0);
}

TEST_CASE("top: rates are those of the time between two readings") {
  const MountRates rates = rates_between(sample_at(10, 100), sample_at(12, 300));
  CHECK(rates.seconds == doctest::Approx(2));
  CHECK(rates.reads.per_second == doctest::Approx(100));
  CHECK(rates.reads.mean_ms == doctest::Approx(0.5));
  CHECK(rates.read_bytes == doctest::Approx(100 * 4096));
  CHECK(rates.metadata.per_second == 0);
  CHECK(names(rates) == "READ READ*");  // LOOKUP did not occur
  CHECK(rates.kinds[1].mean_ms == doctest::Approx(0.4));
  CHECK(rates.kinds[0].busy == doctest::Approx(0.05));
  const MountRates none = rates_between(sample_at(10, 100), sample_at(10, 100));
  CHECK(none.reads.per_second == 0);
  CHECK(none.read_bytes == 0);
}

TEST_CASE(
    "top: without an earlier reading, or after another mount's, rates are averages since the mount was "
    "made") {
  const MountRates first = rates_between({}, sample_at(10, 100));
  CHECK(first.reads.per_second == doctest::Approx(10));
  CHECK(first.metadata.per_second == doctest::Approx(1));
  CHECK(first.metadata.errors_per_second == doctest::Approx(0.4));
  const MountRates remade = rates_between(sample_at(5000, 100000), sample_at(10, 100));
  CHECK(remade.reads.per_second == doctest::Approx(10));
  const MountRates younger = rates_between(sample_at(5000, 50), sample_at(10, 100));
  CHECK(younger.reads.per_second == doctest::Approx(10));
  const MountRates fewer = rates_between(sample_at(9, 101), sample_at(10, 100));
  CHECK(fewer.reads.per_second == doctest::Approx(10));
}

TEST_CASE("top: each order, and its reverse") {
  MountRates rates;
  rates.kinds = {{false, "B", 1, 0, 9, 5}, {true, "A", 2, 0, 1, 7}, {false, "C", 3, 0, 5, 6}};
  const auto sorted = [&](std::string_view order, bool reversed) {
    sort_kinds(rates.kinds, rate_order(order).value(), reversed);
    return names(rates);
  };
  CHECK(sorted("busy", false) == "A* C B");
  CHECK(sorted("busy", true) == "B C A*");
  CHECK(sorted("rate", false) == "C A* B");
  CHECK(sorted("latency", false) == "B C A*");
  CHECK(sorted("name", false) == "A* B C");
  CHECK_FALSE(rate_order("colour"));
}

TEST_CASE("top: the view of a mount, and of one without an answer") {
  const MountSample sample = sample_at(3723, 300);
  MountRates rates = rates_between(sample_at(3721, 100), sample);
  sort_kinds(rates.kinds, RateOrder::busy, false);
  const std::string text = top_text({"/mnt\x1b", sample, rates, ""}, 1);
  CHECK(
      text.starts_with("/mnt? (server:/a b): up 1:02:03, 1 of 2 connections, 3 reconnects, 2 in flight\n"
                       "  programs: read 400 KiB/s, write 0 B/s; "));
  CHECK(text.find("\n  reads 100.0/s, 0.500 ms; writes 0.0/s; metadata 0.0/s\n") != std::string::npos);
  CHECK(text.find("\n  kernel  READ                       100.0       0.500        0.05         0.0\n") !=
        std::string::npos);
  CHECK(text.find("server  READ") == std::string::npos);  // only one row was asked for
  CHECK(top_text({"/m", {}, {}, "no answer"}, 9) == "/m: no answer\n");
  CHECK(top_json({"/m", {}, {}, "no answer"}) == "{\"mountpoint\":\"/m\",\"trouble\":\"no answer\"}");
  const std::string json = top_json({"/m", sample, rates, ""});
  CHECK(json.find("\"reads\":{\"per_second\":100.000,\"mean_ms\":0.500,") != std::string::npos);
  CHECK(json.find("\"operations\":[{\"side\":\"kernel\",\"operation\":\"READ\",") != std::string::npos);
}

}  // namespace nfsrdma::cli
