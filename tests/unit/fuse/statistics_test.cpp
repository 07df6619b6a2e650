// A mount's statistics: histograms, counters of requests and calls, the text.
#include "fuse/statistics.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "fuse/metrics.h"
#include "fuse/mountstats.h"
#include "support/mounted.h"
#include "support/rpcrdma_driver.h"

namespace nfsrdma {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using async::Latencies;

/// The line that begins with `first`, without it; "-" if there is none.
std::string line_of(const std::string& text, const std::string& first) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(first + " ")) return line.substr(first.size() + 1);
  }
  return "-";
}

std::string text_of(const fuse::RequestCounters& requests, const engine::ServerCounters& session = {},
                    std::vector<fuse::Picture::Connection> connections = {},
                    std::string (*show)(const fuse::Picture&) = fuse::statistics_text) {
  auto options = fuse::parse_command_line("nfsrdma-fuse", {"host:/ex\nport", "/mnt", "-o", "soft,ro"}, true);
  REQUIRE(options);
  Info info;
  info.minor_version = 2;
  info.lease_seconds = 90;
  info.connections = 1;
  engine::ServerHoldings held;
  held.slots = 30;
  held.locks = 7;
  fs::Counters data;
  data.reads = 3;
  data.ahead_bytes_unused = 4096;
  fs::Holdings files;
  files.inodes = 12;
  files.read = {100e6, 50ms, 5'000'000, 12'097'152, fs::Window::Why::product};
  files.bytes_ahead = 1U << 20;
  files.readers = 1;
  return show(
      {*options, 61234ms, 1024, 2048, requests, info, session, held, std::move(connections), data, files});
}

/// All of the name, which stands for several where a compiler keeps equal literals apart (clang's ASan does).
engine::CallCounters calls_of(const nfs4::Session& session, const std::string& what) {
  engine::CallCounters out;
  for (const engine::CallCounters& one : session.counters().calls) {
    if (one.what == what) out.add(one);
  }
  return out;
}

}  // namespace

TEST_CASE("latencies: a power of two of microseconds each") {
  Latencies all;
  CHECK(all.count() == 0);
  CHECK(all.percentile_us(99) == 0);
  all.add(999ns);
  all.add(-5s);  // a clock that goes back, which it does not
  all.add(1us);
  all.add(2us);
  all.add(3us);
  all.add(4us);
  all.add(1023us);
  all.add(1024us);
  CHECK(all[0] == 2);
  CHECK(all[1] == 1);
  CHECK(all[2] == 2);
  CHECK(all[3] == 1);
  CHECK(all[10] == 1);
  CHECK(all[11] == 1);
  CHECK(all.count() == 8);
  CHECK(all.total_us() == 1 + 2 + 3 + 4 + 1023 + 1024);
  CHECK(all.longest_us() == 1024);
}

TEST_CASE("latencies: what takes longer than the last bucket's beginning is in it") {
  Latencies all;
  all.add(67s);  // 67,108,864 us are 2^26
  all.add(68s);
  all.add(24h);
  CHECK(all[26] == 1);
  CHECK(all[27] == 2);
  CHECK(all.percentile_us(99) == 86'400'000'000);
}

TEST_CASE("latencies: percentiles are ends of buckets, and never more than the longest") {
  Latencies all;
  for (int i = 0; i < 98; ++i) all.add(100us);
  all.add(1000us);
  all.add(100'000us);
  CHECK(all.percentile_us(50) == 128);
  CHECK(all.percentile_us(98) == 128);
  CHECK(all.percentile_us(99) == 1024);
  CHECK(all.percentile_us(100) == 100'000);
  Latencies more;
  more.add(7us);
  CHECK(more.percentile_us(50) == 7);
  all += more;
  CHECK(all.count() == 101);
  CHECK(all[3] == 1);
  CHECK(all.longest_us() == 100'000);
}

TEST_CASE("request counters: answered at once or later, each is counted once") {
  async::Loop loop;
  fuse::RequestCounters counters;
  const auto begun = loop.now();
  counters.arrived(3, begun);
  counters.handled(loop);
  CHECK(counters[3].took.count() == 1);
  counters.arrived(3, begun);
  const auto ticket = counters.take();
  counters.handled(loop);
  CHECK(counters[3].took.count() == 1);
  CHECK(counters.under_way() == 1);
  counters.arrived(4096, begun);  // CUSE_INIT: not known here
  counters.handled(loop);
  CHECK(counters[0].took.count() == 1);
  counters.answered(ticket, true, begun + 5ms);
  CHECK(counters[3].took.count() == 2);
  CHECK(counters[3].errors == 1);
  CHECK(counters[3].took.longest_us() >= 5000);
  CHECK(counters.under_way() == 0);
}

TEST_CASE("statistics text: the header, and sections of lines") {
  fuse::RequestCounters requests;
  const async::TimePoint begun{};
  for (const auto took : {100us, 200us, 90us}) {
    requests.arrived(35, begun);
    requests.answered(requests.take(), took == 90us, begun + took);
  }
  requests.arrived(63, begun);
  requests.answered(requests.take(), false, begun);
  requests.arrived(1, begun);
  fuse::Picture::Connection connection;
  connection.up = true;
  connection.fabric = "iwarp";
  connection.address = "10.0.0.1:20049";
  connection.credits_in_use = 5;
  connection.facts.granted = 32;
  connection.facts.reconnects = 2;
  const std::string text = text_of(requests, {}, {connection, {}});
  CHECK(text.starts_with("nfsrdma-fuse statistics 1\nversion "));
  CHECK(text.ends_with("\n"));
  CHECK(line_of(text, "source") == R"(host:/ex\nport)");
  CHECK(line_of(text, "mountpoint") == "/mnt");
  CHECK(line_of(text, "age") == "61.234");
  CHECK(line_of(text, "options").starts_with("vers=4.2,rsize=1024,wsize=2048,port=20049,fabric=auto,"));
  CHECK(line_of(text, "options").find(",timeo=600,soft,retrans=2,acregmin=3,") != std::string::npos);
  CHECK(line_of(text, "options").ends_with(",ro"));
  CHECK(line_of(text, "fuse CREATE") ==
        "count=3 errors=1 total_us=390 p50_us=128 p99_us=200 max_us=200 histogram=128:2,256:1");
  CHECK(line_of(text, "fuse 63").starts_with("count=1 errors=0 total_us=0 "));
  CHECK(line_of(text, "fuse LOOKUP") == "-");
  CHECK(line_of(text, "fuse_under_way") == "1");
  CHECK(line_of(text, "data read").starts_with("requests=3 "));
  CHECK(line_of(text, "data ahead").ends_with("unused_bytes=4096"));
  CHECK(line_of(text, "window read") ==
        "bytes_per_second=100000000 delay_us=50000 product_bytes=5000000 window_bytes=12097152 "
        "why=bandwidth_x_delay ahead_bytes=1048576 readers=1 kernel_ahead_bytes=0");
  CHECK(line_of(text, "window write") ==
        "bytes_per_second=0 delay_us=0 product_bytes=0 window_bytes=0 why=nothing_known");
  CHECK(line_of(text, "connection 1") == "up=1 fabric=iwarp address=10.0.0.1:20049 connects=0 reconnects=2");
  CHECK(line_of(text, "credits 1").starts_with("granted=32 in_use=5 "));
  CHECK(line_of(text, "connection 2").starts_with("up=0 fabric=none "));
  CHECK(line_of(text, "session").starts_with("connections=1 slots=30 "));
  CHECK(line_of(text, "state").starts_with("inodes=12 "));
  CHECK(line_of(text, "state").find(" locks=7 ") != std::string::npos);
}

TEST_CASE("statistics text: calls of one name are one line, wherever the name stands") {
  engine::ServerCounters session;
  const std::string name = "read";
  const std::string other = "READ";
  session.of(name.c_str()).failed = 1;
  session.of(other.c_str()).failed = 2;
  session.of(other.c_str()).round_trip.add(3ms);
  CHECK(session.calls.size() == 2);
  const std::string line = line_of(text_of({}, session), "nfs READ");
  CHECK(line.starts_with("count=1 refused=0 failed=3 "));
  CHECK(line.ends_with("histogram=4096:1"));
}

TEST_CASE("metrics: each sample follows the type of its metric, and says which mount it is about") {
  fuse::RequestCounters requests;
  const async::TimePoint begun{};
  for (const auto took : {10us, 100us, 20000us}) {
    requests.arrived(15, begun);
    requests.answered(requests.take(), took == 20000us, begun + took);
  }
  engine::ServerCounters server;
  server.of("read").round_trip.add(3ms);
  server.of("read").bytes_received = 4096;
  fuse::Picture::Connection up, down;
  up.up = true;
  up.facts.granted = 32;
  const std::string text = text_of(requests, server, {up, down}, fuse::metrics_text);
  std::set<std::string> types;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    std::istringstream words(line);
    std::string hash, what, name, type;
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      words >> hash >> what >> name >> type;
      CHECK(types.insert(name).second);  // each metric once
      CHECK((type == "counter") == name.ends_with("_total"));
      continue;
    }
    name = line.substr(0, line.find('{'));
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      const std::string base = name.substr(0, name.rfind(suffix));
      if (name.ends_with(suffix) && types.contains(base)) name = base;
    }
    CHECK(types.contains(name));
    CHECK(line.find("{mountpoint=\"/mnt\"") != std::string::npos);
    CHECK(line.find("} ") != std::string::npos);
  }
  const auto value = [&](const std::string& name, const std::string& labels) {
    return line_of(text, "nfsrdma_" + name + "{mountpoint=\"/mnt\"" + labels + "}");
  };
  CHECK(value("mount_info",
              R"(,source="host:/ex\\nport",nfs_version="",security="",fabric="",version=")" NFSRDMA_VERSION
              "\"") == "1");
  const std::string duration = "request_duration_seconds";
  CHECK(value(duration + "_bucket", R"(,operation="READ",le="1.6e-05")") == "1");
  CHECK(value(duration + "_bucket", R"(,operation="READ",le="0.000256")") == "2");
  CHECK(value(duration + "_bucket", R"(,operation="READ",le="+Inf")") == "3");
  CHECK(value(duration + "_sum", R"(,operation="READ")") == "0.02011");
  CHECK(value(duration + "_count", R"(,operation="READ")") == "3");
  CHECK(value("request_errors_total", R"(,operation="READ")") == "1");
  CHECK(value("call_received_bytes_total", R"(,operation="READ")") == "4096");
  CHECK(value("connection_up", R"(,connection="1")") == "1");
  CHECK(value("connection_up", R"(,connection="2")") == "0");
  CHECK(value("connection_credits", R"(,connection="1")") == "32");
  CHECK(value("locks", "") == "7");
}

TEST_CASE("mountstats: the lines of /proc/self/mountstats, in their order") {
  fuse::RequestCounters requests;
  requests.arrived(14, {});
  requests.answered(requests.take(), false, async::TimePoint{} + 1ms);
  engine::ServerCounters server;
  engine::CallCounters& read = server.of("read");
  read.round_trip.add(3ms);
  read.waited.add(2ms);
  read.sent_again = 1;
  read.refused = 1;
  read.bytes_sent = 160;
  read.bytes_received = 4200;
  fuse::Picture::Connection connection;
  connection.facts.connects = 2;
  connection.facts.calls = 9;
  const std::string text = text_of(requests, server, {connection}, fuse::mountstats_text);
  CHECK(text.starts_with(
      "device host:/ex\\nport mounted on /mnt with fstype nfs statvers=1.1\n\topts:\tvers="));
  CHECK(text.find("\n\tage:\t61\n") != std::string::npos);
  CHECK(text.find("\n\tevents:\t0 0 0 0 1 0 0 0 0 3 ") != std::string::npos);
  CHECK(text.find("\n\tRPC iostats version: 1.1  p/v: 100003/") != std::string::npos);
  CHECK(text.find("\n\txprt:\trdma 0 1 2 0 0 9 0 ") != std::string::npos);
  CHECK(line_of(text, "\tREAD:") == "1 2 0 160 4200 2 3 5 1");
  CHECK(line_of(text, "\tWRITE:") == "0 0 0 0 0 0 0 0 0");
}

TEST_CASE("requester: counts credits, bytes and chunks, and tells how long a call took") {
  using namespace rpcrdma::testing;
  Driver driver;
  driver.establish(2);
  const rpcrdma::Facts& facts = driver.requester.facts();
  CHECK(facts.connects == 1);
  CHECK(facts.credit_waits == 0);
  CHECK(facts.plain_calls == 1);
  const std::uint64_t sent = facts.bytes_sent, received = facts.bytes_received;
  // The second of two credits is kept for health checks.
  driver.submit(plain_call());
  Octets memory(100'000);
  driver.now += 3ms;
  driver.submit(read_call(memory));
  CHECK(facts.credit_waits == 1);
  CHECK(driver.requester.in_flight() == 1);
  CHECK(facts.most_in_flight == 1);
  driver.now += 4ms;
  const CallView first = driver.take_sent();
  CHECK(facts.bytes_sent == sent + first.bytes.size());
  const ReplyMaker answer(first, 2);
  driver.reply(answer);
  CHECK(facts.bytes_received == received + answer.bytes().size());
  rpcrdma::Trip trip = driver.take_completed().reply->trip;
  CHECK(trip.waited == 0ms);
  CHECK(trip.round_trip == 7ms);
  CHECK(trip.sends == 1);
  // The connection is lost: it is sent again on the next one.
  CHECK(driver.take_sent().header.rdma_writes.size() == 1);
  CHECK(facts.write_chunks_offered == 1);
  driver.disconnect();
  driver.now += 10ms;
  driver.connect();
  const CallView again = driver.take_sent();
  driver.now += 5ms;
  driver.reply(ReplyMaker(again, 2).fill(again, 0, 70'000));
  trip = driver.take_completed().reply->trip;
  CHECK(trip.waited == 14ms);
  CHECK(trip.round_trip == 5ms);
  CHECK(trip.sends == 2);
  CHECK(facts.bytes_placed == 70'000);
  CHECK(facts.connects == 2);
  CHECK(facts.reconnects == 1);
  driver.submit(write_call(64, memory, 8));
  CHECK(facts.reduced_calls == 1);
  CHECK(facts.bytes_exposed == 100'000);
}

TEST_CASE("session: counts calls by their name, what was refused, and its slots") {
  NfsServer server;
  server.add_file("/f", std::string(5000, 'x'));
  EngineClient c(server);
  (void)c.handle("/f");
  server.answer(nfs4::OP_GETATTR, nfs4::NFS4ERR_ACCESS);
  const auto refused = calls_of(c.session, "GETATTR").refused;
  const auto count = calls_of(c.session, "GETATTR").round_trip.count();
  CHECK_FALSE(c.run(c.engine.attributes(nullptr, c.root)));
  CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
  CHECK(calls_of(c.session, "GETATTR").refused == refused + 1);
  CHECK(calls_of(c.session, "GETATTR").round_trip.count() == count + 2);
  CHECK(calls_of(c.session, "GETATTR").waited.count() == count + 2);
  const engine::CallCounters before = calls_of(c.session, "GETATTR");
  server.drop_before(nfs4::OP_GETATTR);
  CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
  CHECK(calls_of(c.session, "GETATTR").sent_again == before.sent_again + 1);
  CHECK(calls_of(c.session, "GETATTR").bytes_sent > before.bytes_sent);
  const engine::ServerHoldings held = c.session.holdings();
  CHECK(held.slots == c.session.facts().slots);
  CHECK(held.slots_busy == 0);
  CHECK(held.opens == 0);
  CHECK(c.session.counters().recoveries == 0);
  CHECK(c.session.counters().slot_waits == 0);
}

TEST_CASE("file system: counts what was read ahead, and what of it was for nothing") {
  constexpr std::size_t kPiece = 65536;
  NfsServer server;
  server.add_file("/f", std::string(64 * kPiece, 'x'));
  EngineClient c(server);
  fs::CacheOptions options;
  options.rsize = options.wsize = kPiece;
  const auto mount = mounted(c, options);
  fs::FileSystem& files = *mount;
  const fs::Counters& counters = files.counters();
  const auto entry = c.run(files.lookup(nullptr, fs::Inodes::kRoot, "f"));
  REQUIRE(ok(entry));
  auto opened = c.run(files.open(nullptr, entry->inode, O_RDWR));
  REQUIRE(ok(opened));
  CHECK(files.holdings().files == 1);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto got = c.run(files.read(opened->handle, i * kPiece, kPiece));
    REQUIRE(ok(got));
    CHECK(got->size == kPiece);
  }
  CHECK(counters.reads == 8);
  CHECK(counters.bytes_read == 8 * kPiece);
  CHECK(counters.ahead_hits >= 5);
  CHECK(counters.ahead_reads == counters.server_reads - (8 - counters.ahead_hits));
  CHECK(counters.ahead_bytes_unused == 0);
  CHECK(c.turn_until([&] { return counters.ahead_bytes_read == counters.ahead_reads * kPiece; }));
  CHECK(files.holdings().readers == 1);
  CHECK(files.holdings().bytes_ahead > 0);
  // A write throws the rest away.
  const std::string data(1000, 'y');
  CHECK(ok(c.run(files.write(opened->handle, {}, bytes(data), 0))));
  CHECK(counters.ahead_bytes_unused == counters.ahead_bytes_read - counters.ahead_hits * kPiece);
  CHECK(files.holdings().bytes_ahead == 0);
  CHECK(ok(c.run(files.flush(opened->handle, 0))));
  CHECK(counters.writes == 1);
  CHECK(counters.writes_behind == 1);
  CHECK(counters.bytes_written == 1000);
  CHECK(counters.server_bytes_written == 1000);
  CHECK(counters.behind_waits == 0);
  CHECK(ok(c.run(files.close(std::move(opened->handle)))));
  CHECK(files.holdings().files == 0);
  CHECK(files.holdings().uncommitted_bytes == 0);
}

TEST_CASE("statistics: every operation of the kernel's that is served has a name") {
  for (const unsigned number : {1U, 3U, 14U, 15U, 16U, 35U, 44U, 45U, 47U}) {
    CHECK(fuse::operation_name(number) != std::to_string(number));
  }
  CHECK(fuse::operation_name(44) == "READDIRPLUS");
  CHECK(fuse::operation_name(0) == "0");
}

}  // namespace nfsrdma
