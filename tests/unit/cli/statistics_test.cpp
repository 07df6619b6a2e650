// What --stats prints.
#include "cli/statistics.h"

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;
using std::chrono::microseconds;

namespace {

Statistics some_statistics() {
  Statistics out;
  out.connects = 2;
  out.reconnects = 1;
  out.sent = 12;
  out.replies = 11;
  out.bytes_sent = 100;
  out.bytes_received = 3U << 20U;
  out.slot_waits = 4;
  out.slot_waited = microseconds(1500);
  CallStatistics read{"READ", 4, 1, 2};
  read.total = microseconds(8000);
  read.longest = microseconds(5000);
  read.waited = microseconds(250);
  out.calls = {CallStatistics{"CLOSE", 1}, read, CallStatistics{"NEVER"}};
  return out;
}

}  // namespace

TEST_CASE("cli: --stats shows totals, and the kinds of calls, the one that took most time first") {
  const std::string text = statistics_text("srv", some_statistics());
  const auto at = [&](const char* part) { return text.find(part); };
  CHECK(text.starts_with("statistics of srv:\n  connections: 2 made, 1 after a loss; "));
  CHECK(at("round trips: 11 of 12 calls\n") != std::string::npos);
  CHECK(at("bytes: 100 sent, 3145728 (3.00 MiB) received\n") != std::string::npos);
  CHECK(at("waits: 4 for a slot (1.500 ms), 0 for credits; for credits and connections 0.250 ms\n") !=
        std::string::npos);
  CHECK(at("  READ                            4      2.000      5.000      0.250          3") !=
        std::string::npos);
  CHECK(at("READ") < at("CLOSE"));
  CHECK(at("NEVER") == std::string::npos);
}

TEST_CASE("cli: --stats with --json is one object") {
  const std::string text = statistics_json("srv", some_statistics());
  CHECK(text.starts_with("{\"server\":\"srv\",\"connects\":2,\"reconnects\":1,"));
  CHECK(text.find("\"operations\":[{\"operation\":\"READ\",\"count\":4,\"refused\":1,\"failed\":2,") !=
        std::string::npos);
  CHECK(text.find("\"mean_ms\":2.000,") != std::string::npos);
  CHECK(text.ends_with("\"wait_ms\":0.000}]}"));
}

TEST_CASE("cli: --stats counts what a command has sent to the server") {
  Shell shell;
  shell.server.add_file("/file", "text");
  const std::string none = shell.statistics(false);
  CHECK(none == "statistics: the command made no connection\n");
  CHECK(shell.told({"cat", "srv:/file"}) == "text");
  const Statistics found = shell.client().statistics();
  CHECK(found.connects == 1);
  CHECK(found.replies > 2);
  CHECK(found.replies <= found.sent);
  CHECK(found.bytes_sent > 100);
  CHECK(found.bytes_received > 100);
  const auto read = std::ranges::find(found.calls, "READ", &CallStatistics::name);
  REQUIRE(read != found.calls.end());
  CHECK(read->count == 1);
  CHECK(read->bytes_received > 4);
  CHECK(read->total >= read->longest);
  CHECK(shell.statistics(false).find("\n  READ ") != std::string::npos);
  CHECK(shell.statistics(true).starts_with("{\"statistics\":[{\"server\":\"127.0.0.1\","));
}

TEST_CASE("cli: -v says what is connected and what was negotiated, once for each server") {
  Shell shell;
  shell.be_verbose();
  const Ran first = shell.run({"ls", "srv:/"});
  CHECK(first.err.starts_with("nfsrdma-cli: connecting to 127.0.0.1\nnfsrdma-cli: 127.0.0.1: connected to "));
  CHECK(first.err.find(": NFS 4.2, sec=sys, rsize ") != std::string::npos);
  CHECK(first.err.find(" slots\n") != std::string::npos);
  CHECK(shell.run({"ls", "srv:/"}).err.empty());
}

}  // namespace nfsrdma::cli
