// Several connections to one session: how the work is spread, and what the loss of one costs (RFC
// 8881 2.10.3, 18.34).
#include <algorithm>
#include <map>
#include <set>

#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// Until so many have ended that were started.
void wait_for(Client& client, const unsigned& ended, std::size_t count) {
  const Stopwatch watch;
  while (ended < count && watch.elapsed() < 30s) client.wait(100ms);
  CHECK(ended == count);
}

/// READs of the whole file, `depth` at a time, until `count` are done.
void read_much(Client& client, File& file, const std::string& expected, unsigned depth, unsigned count) {
  struct Lane {
    std::string data;
  };
  std::vector<Lane> lanes(depth);
  unsigned started = 0, ended = 0;
  std::function<void(Lane&)> start = [&](Lane& lane) {
    if (started == count) return;
    ++started;
    lane.data.assign(expected.size(), '?');
    file.start_read(room(lane.data), 0, [&, at = &lane](const Result<std::size_t>& got) {
      ++ended;
      CHECK(ok(got));
      CHECK(at->data == expected);
      start(*at);
    });
  };
  for (Lane& lane : lanes) start(lane);
  wait_for(client, ended, count);
}

std::map<unsigned, unsigned> reads_of_connections(const NfsServer& server) {
  std::map<unsigned, unsigned> out;
  for (const SeenCall& call : server.calls()) {
    if (call.has(OP_READ)) ++out[call.connection];
  }
  return out;
}

}  // namespace

TEST_CASE("nconnect: every further connection is bound before it is used, and all share the work") {
  Mounted m;
  const std::string text = pattern(5000);
  m.server.add_file("/f", text);
  Client& client = m.connect("nconnect=3");
  CHECK(m.server.connections() == 3);
  CHECK(client.info().connections == 3);
  CHECK(m.server.succeeded(OP_BIND_CONN_TO_SESSION) == 2);
  const auto file = m.open("/f", OpenMode::read);
  m.server.set_reply_delay(2ms);
  read_much(client, *file, text, 12, 120);
  const auto reads = reads_of_connections(m.server);
  CHECK(reads.size() == 3);
  for (const auto& [connection, count] : reads) CHECK(count > 20);
  std::set<unsigned> known{1};
  for (const SeenCall& call : m.server.calls()) {
    if (call.has(OP_BIND_CONN_TO_SESSION)) {
      CHECK(call.ops.size() == 1);
      known.insert(call.connection);
    }
    if (call.has(OP_SEQUENCE)) CHECK(known.contains(call.connection));
  }
  CHECK(m.server.sessions() == 1);
}

TEST_CASE("nconnect: of bulk the first connection takes one call at a time, with sessions and without") {
  for (const std::string version : {"vers=4.2", "vers=4.0"}) {
    CAPTURE(version);
    Mounted m;
    constexpr std::size_t kSize = 128U << 10;
    const std::string text = pattern(kSize);
    m.server.add_file("/f", text);
    Client& client = m.connect(version + ",nconnect=2");
    const auto file = m.open("/f", OpenMode::read);
    read_much(client, *file, text, 8, 16);  // so that each connection has its credits
    m.server.clear_calls();
    m.server.hold(OP_READ);
    std::vector<std::string> places(4, std::string(kSize, '?'));
    unsigned ended = 0;
    for (std::string& place : places) {
      file->start_read(room(place), 0, [&](const Result<std::size_t>& got) {
        ++ended;
        CHECK(ok(got));
        CHECK(place == text);
      });
    }
    CHECK(comes(client, [&] { return m.server.held() == places.size(); }));
    auto reads = reads_of_connections(m.server);
    REQUIRE(reads.size() == 2);
    const auto [first, others] = std::minmax(reads.begin()->second, reads.rbegin()->second);
    CHECK(first == 1);
    CHECK(others == 3);
    // What is small goes where there is less of it, and comes before it.
    m.server.clear_calls();
    CHECK(ok(client.stat("/f")));
    const auto calls = m.server.calls();
    REQUIRE_FALSE(calls.empty());
    const unsigned least = reads.begin()->second == 1 ? reads.begin()->first : reads.rbegin()->first;
    CHECK(std::ranges::all_of(calls, [&](const SeenCall& call) { return call.connection == least; }));
    m.server.release();
    wait_for(client, ended, places.size());
  }
}

TEST_CASE("nconnect: calls of a lost connection are made again on another, in their slots") {
  Mounted m;
  m.server.add_file("/f", pattern(100));
  Client& client = m.connect("nconnect=2");
  for (const bool executed : {false, true}) {
    CAPTURE(executed);
    const std::string name = executed ? "/executed" : "/not";
    if (executed) {
      m.server.drop_after(OP_CREATE);
    } else {
      m.server.drop_before(OP_CREATE);
    }
    // Executed twice it would be EEXIST.
    CHECK(ok(client.make_directory(name, 0755)));
    CHECK(ok(client.stat(name)));
    CHECK(eventually([&] {
      (void)client.ping();
      return client.info().connections == 2;
    }));
  }
  CHECK(m.server.sessions() == 1);
}

TEST_CASE("nconnect: what is still being executed for a lost connection is waited for") {
  Mounted m;
  Client& client = m.connect("nconnect=2");
  m.server.answer(OP_SEQUENCE, NFS4ERR_DELAY, 2, 1);
  m.server.drop_after(OP_CREATE);
  CHECK(ok(client.make_directory("/d", 0755)));
  CHECK(m.server.succeeded(OP_CREATE) == 1);
}

TEST_CASE("nconnect: all connections lost at once, and a session that is lost, come back") {
  Mounted m;
  const std::string text = pattern(5000);
  m.server.add_file("/f", text);
  Client& client = m.connect("nconnect=4");
  const auto file = m.open("/f", OpenMode::read);
  m.server.drop_connections();
  read_much(client, *file, text, 8, 40);
  m.server.forget_sessions();
  read_much(client, *file, text, 8, 40);
  CHECK(eventually([&] {
    (void)client.ping();
    return client.info().connections == 4;
  }));
  m.server.restart();
  read_much(client, *file, text, 8, 40);
  CHECK(m.server.sessions() == 1);
}

TEST_CASE("nconnect: a server that refuses further connections leaves the first") {
  Mounted m;
  const std::string text = pattern(500);
  m.server.add_file("/f", text);
  m.server.answer(OP_BIND_CONN_TO_SESSION, NFS4ERR_NOTSUPP, 99);
  Client& client = m.connect("nconnect=3");
  CHECK(client.info().connections == 1);
  const auto file = m.open("/f", OpenMode::read);
  read_much(client, *file, text, 8, 40);
  CHECK(reads_of_connections(m.server).size() == 1);
}

}  // namespace nfsrdma
