// The lines and the JSON of nfsrdma-cli trace.
#include "cli/trace_lines.h"

#include <doctest/doctest.h>

#include <chrono>

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using trace::EventKind;

trace::Event a_reply() {
  trace::Event out;
  out.kind = EventKind::reply;
  out.time_ns = 1'700'000'000'123'456'789;
  out.connection = 2;
  out.to_server = false;
  out.xid = 0x1234;
  out.credits = 32;
  out.size = 120;
  out.protocol = "NFSv4.2";
  out.procedure = "COMPOUND";
  out.operations = {{"SEQUENCE", "", "OK"}, {"READ", "count=5 eof", "NFS4ERR_IO"}};
  out.status = "NFS4ERR_IO";
  out.failed = true;
  out.round_trip = 1234567ns;
  out.writes = {1, 2, 4096};
  out.invalidates = true;
  out.cut = true;
  return out;
}

}  // namespace

TEST_CASE("trace: the line of a reply") {
  const std::string line = trace_line(a_reply());
  CHECK(line.substr(line.find('.')) ==
        ".123456 #2 < 0x00001234 NFSv4.2 NFS4ERR_IO 1.235 ms SEQUENCE; READ count=5 eof NFS4ERR_IO "
        "[120 bytes, 32 credits granted, write chunk 4096 in 2 segments, invalidates, cut]");
}

TEST_CASE("trace: the line of a call that was sent again, and of a connection") {
  trace::Event event = a_reply();
  event.kind = EventKind::call;
  event.to_server = true;
  event.round_trip.reset();
  event.operations.clear();
  event.invalidates = event.cut = false;
  event.writes = {};
  event.long_call = {1, 1, 5000};
  event.sends = 2;
  const std::string line = trace_line(event);
  CHECK(line.substr(line.find('#')) ==
        "#2 > 0x00001234 NFSv4.2 COMPOUND [120 bytes, 32 credits asked, long call 5000, sent 2 times]");
  trace::Event lost;
  lost.kind = EventKind::disconnected;
  lost.connection = 1;
  lost.text = "connection ended: reset by peer";
  CHECK(trace_line(lost).ends_with("#1 - connection ended: reset by peer"));
}

TEST_CASE("trace: a reply as JSON") {
  CHECK(trace_json(a_reply()) ==
        R"({"time":1700000000.123456789,"connection":2,"event":"reply","xid":"0x00001234","backward":false,)"
        R"("protocol":"NFSv4.2","procedure":"COMPOUND","operations":[{"name":"SEQUENCE","status":"OK"},)"
        R"({"name":"READ","detail":"count=5 eof","status":"NFS4ERR_IO"}],"bytes":120,"credits_granted":32,)"
        R"("write_chunks":{"chunks":1,"segments":2,"bytes":4096},"sends":1,"cut":true,"status":"NFS4ERR_IO",)"
        R"("failed":true,"invalidates":true,"data_bytes":0,"round_trip":0.001234567})");
}

TEST_CASE("trace: the sums as lines and as JSON") {
  trace::Summary summary;
  summary.add(a_reply(), "READ");
  const auto lines = summary_lines(summary, 3);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1] ==
        "READ                                  1          1      1.235      1.235      1.235      1.235      "
        "    0");
  CHECK(lines[2] == "0 calls, 1 replies, 3 without a reply, 0 retransmissions, 0 connections");
  CHECK(summary_json(summary, 3).starts_with(R"({"event":"summary","calls":0,"replies":1,"unanswered":3,)"));
}

}  // namespace nfsrdma::cli
