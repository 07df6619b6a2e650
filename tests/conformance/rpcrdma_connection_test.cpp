// Having a connection, losing it, sending again, giving up in time, and what its user hears of all that.
#include <algorithm>
#include <map>
#include <set>

#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

Call due(TimePoint deadline) {
  Call call = plain_call();
  call.deadline = deadline;
  return call;
}

bool says(const Complete& done, const char* what) {
  return done.error && done.error->message().find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("T32 after connection loss the Calls are sent again, in order, with the same xids") {
  Driver driver;
  driver.establish(8);
  for (int i = 0; i < 3; ++i) driver.submit(plain_call(64 + 4 * static_cast<std::size_t>(i)));
  const std::vector<CallView> before = std::exchange(driver.sent, {});
  driver.reply(ReplyMaker(before[1], 8));  // this one is answered
  driver.completed.clear();
  driver.disconnect();
  REQUIRE(driver.connects.size() == 1);
  CHECK(driver.connects[0].attempt == 1);
  driver.submit(plain_call());  // comes after those that were sent before
  driver.connect();
  for (const std::size_t index : {0U, 2U}) {
    const CallView again = driver.take_sent();
    CHECK(again.bytes == before[index].bytes);
    driver.reply(ReplyMaker(again, 1));
  }
  CHECK(driver.take_sent().xid() == before[2].xid() + 1);
  CHECK(driver.completed.size() == 2);
  CHECK(driver.requester.facts().retransmissions == 2);
  CHECK(driver.requester.facts().reconnects == 1);
}

TEST_CASE("T32 ERR_CHUNK after a retransmission ends the RPC, and there is no reconnect loop") {
  Driver driver;
  driver.establish(8);
  Octets destination(5000);
  driver.submit(read_call(destination));
  driver.take_sent();
  driver.disconnect("remote access error");
  driver.connect();
  const CallView again = driver.take_sent();
  ReplyMaker reply(again);
  reply.header.proc = rdma_proc::RDMA_ERROR;
  reply.header.err = rpc_rdma_errcode::ERR_CHUNK;
  reply.payload.clear();
  driver.reply(reply);
  CHECK(driver.take_completed().failure == Failure::err_chunk);
  driver.pass(300s);
  CHECK(driver.sent.empty());
  CHECK(driver.closes.empty());
  CHECK(driver.connects.size() == 1);
}

TEST_CASE("T32 an RPC that kills each connection meets growing delays and its deadline, not a tight loop") {
  Driver driver;
  driver.submit(due(driver.now + 60s));
  int connections = 0;
  while (driver.completed.empty()) {
    if (!driver.connects.empty()) {
      driver.connects.clear();
      ++connections;
      driver.connect();
    }
    if (!driver.sent.empty()) {
      driver.sent.clear();
      driver.disconnect();
    }
    driver.pass(10ms);
  }
  CHECK(driver.take_completed().failure == Failure::timed_out);
  CHECK(connections > 5);
  CHECK(connections < 30);
  CHECK(driver.count(Notice::Kind::connection_lost) == 1);  // one occasion, however often it failed
  CHECK(driver.count(Notice::Kind::reconnected) == 1);
}

namespace {

/// A server, or a path to it, that breaks the connection whenever one of some calls arrives, and answers all others.
struct Breaking {
  Driver driver;
  std::set<std::uint32_t> fatal;  ///< xids
  int breaks = 0;
  Duration longest_wait{};  ///< of the other calls
  std::map<std::uint32_t, TimePoint> submitted;
  std::optional<std::uint32_t> before_ids;  ///< ids and xids count up in step

  explicit Breaking(std::uint32_t credits = 16) { driver.establish(credits); }
  void submit(bool is_fatal) {
    const CallId id = driver.submit(due(driver.now + 300s));
    if (!before_ids) before_ids = driver.sent.at(0).xid() - static_cast<std::uint32_t>(id);
    const std::uint32_t xid = *before_ids + static_cast<std::uint32_t>(id);
    if (is_fatal)
      fatal.insert(xid);
    else
      submitted[xid] = driver.now;
  }
  /// Deals with what has been sent: as a server that looks at a burst of calls and breaks the connection before its
  /// answers leave, if one of them is fatal.
  void serve() {
    while (!driver.sent.empty()) {
      const std::vector<CallView> burst = std::exchange(driver.sent, {});
      const auto is_fatal = [this](const CallView& call) { return fatal.contains(call.xid()); };
      if (std::ranges::any_of(burst, is_fatal)) {
        ++breaks;
        driver.disconnect("reset by peer");
        connect();
        continue;
      }
      for (const CallView& call : burst) {
        if (const auto one = submitted.extract(call.xid()))
          longest_wait = std::max(longest_wait, driver.now - one.mapped());
        driver.reply(ReplyMaker(call, 16));
      }
    }
  }
  void connect() {
    if (!std::exchange(driver.connects, {}).empty()) driver.connect();
  }
  void pass(Duration time) {
    for (const TimePoint end = driver.now + time; driver.now < end;) {
      driver.pass(5ms);
      connect();
      serve();
    }
  }
};

}  // namespace

TEST_CASE("F31 T32 an RPC that breaks each connection is paced by itself, and the others go on") {
  Breaking m;
  m.submit(true);
  for (int i = 0; i < 5; ++i) m.submit(false);
  m.serve();
  for (int i = 0; i < 1200; ++i) {
    m.pass(50ms);
    m.submit(false);
    m.serve();
  }
  CHECK(m.breaks > 10);  // in 60 s
  CHECK(m.breaks < 30);
  CHECK(m.submitted.size() < 3);
  // Only those that were in flight together with it from the beginning have been suspects, too.
  CHECK(m.longest_wait <= 200ms);
}

TEST_CASE("F31 T32 several RPCs that break connections hold none of the others up for long") {
  Breaking m;
  for (int i = 0; i < 8; ++i) m.submit(i % 2 == 0);
  m.serve();
  for (int i = 0; i < 1200; ++i) {
    m.pass(50ms);
    m.submit(false);
    m.serve();
  }
  CHECK(m.breaks > 40);
  CHECK(m.breaks < 120);
  CHECK(m.submitted.size() < 3);
  CHECK(m.longest_wait <= 500ms);
}

TEST_CASE("F31 a connection that has answered a call is replaced at once, however short its life") {
  Driver driver;
  driver.establish(8);
  for (int resets = 0; resets < 20; ++resets) {
    CAPTURE(resets);
    driver.submit(plain_call());
    driver.reply(ReplyMaker(driver.take_sent(), 8));
    driver.submit(plain_call());
    driver.submit(plain_call());
    driver.sent.clear();
    driver.disconnect("reset by peer");
    REQUIRE(driver.connects.size() == 1);
    CHECK(driver.connects[0].attempt == 1);
    driver.connects.clear();
    driver.connect();
    REQUIRE(driver.sent.size() == 1);  // until its credits are known
    driver.reply(ReplyMaker(driver.take_sent(), 8));
    driver.reply(ReplyMaker(driver.take_sent(), 8));
    driver.pass(resets % 2 == 0 ? 3s : 10ms);
  }
  CHECK(driver.completed.size() == 60);
}

TEST_CASE("F31 a connection on which only the handshake was answered is replaced after a growing delay") {
  Driver driver;
  driver.establish(8);
  driver.submit(due(driver.now + 300s));
  driver.sent.clear();
  driver.disconnect();
  std::vector<Duration> gaps;
  for (int i = 0; i < 9; ++i) {
    const TimePoint before = driver.now;
    while (driver.connects.empty()) driver.pass(1ms);
    gaps.push_back(driver.now - before);
    driver.connects.clear();
    Call handshake = due(driver.now + 300s);
    handshake.health_check = handshake.first = true;
    driver.connect();
    driver.sent.clear();
    driver.submit(std::move(handshake));
    for (const CallView& call : std::exchange(driver.sent, {})) driver.reply(ReplyMaker(call, 8));
    driver.completed.clear();
    driver.submit(due(driver.now + 300s));
    driver.sent.clear();
    driver.disconnect();
  }
  CHECK(gaps.front() == 0ms);
  CHECK(gaps.back() == 5s);
}

TEST_CASE("F31 what is known of a call that breaks connections goes with it to another connection") {
  Driver driver;
  driver.establish(8);
  const CallId id = driver.submit(due(driver.now + 300s));
  for (int i = 0; i < 3; ++i) {
    while (driver.sent.empty()) driver.pass(1ms);
    driver.sent.clear();
    driver.disconnect();
    while (driver.connects.empty()) driver.pass(1ms);
    driver.connects.clear();
    driver.connect();
  }
  driver.requester.cancel(id, driver.now);
  driver.run();
  REQUIRE(driver.completed.size() == 1);
  CHECK(driver.completed.front().losses == 3);
  Call again = due(driver.now + 300s);
  again.losses = driver.completed.front().losses;
  driver.completed.clear();
  const TimePoint before = driver.now;
  driver.submit(std::move(again));
  CHECK(driver.sent.empty());
  while (driver.sent.empty()) driver.pass(1ms);
  CHECK(driver.now - before == 100ms);
  // It was not that call after all.
  driver.reply(ReplyMaker(driver.take_sent(), 8));
  CHECK(driver.take_completed().losses == 0);
}

TEST_CASE("F31 a connection that ends for reasons of this side's own makes no call a suspect") {
  Driver driver;
  driver.establish(8);
  const CallId id = driver.submit(due(driver.now + 300s));
  const Error own(ErrorKind::cancelled, ECANCELED, "", "server", "memory that was given up is in use");
  for (int i = 0; i < 5; ++i) {
    CAPTURE(i);
    REQUIRE(driver.sent.size() == 1);
    CHECK(driver.take_sent().cookie == id);
    driver.connects.clear();
    driver.disconnect(own);
    REQUIRE(driver.connects.size() == 1);
    // A health check is answered first, so that attempts to connect need no pause either.
    Call check = plain_call();
    check.health_check = true;
    driver.submit(std::move(check));
    driver.connect();
    driver.reply(ReplyMaker(driver.take_sent(), 8));
    CHECK(driver.take_completed().failure == Failure::none);
    // The call has gone out again at once, which the next turn of the loop checks. A suspect would be held back.
  }
  driver.cancel(id);
  CHECK(driver.take_completed().losses == 0);
}

TEST_CASE("a connection is started when there is something to do, or when it is wanted") {
  Driver driver;
  driver.run();
  driver.pass(10s);
  CHECK(driver.connects.empty());
  SUBCASE("a call") {
    driver.submit(plain_call());
  }
  SUBCASE("wanted") {
    driver.requester.connect(driver.now);
    driver.run();
  }
  CHECK(driver.connects.size() == 1);
  CHECK_FALSE(driver.requester.connected());
  driver.connect();
  CHECK(driver.requester.connected());
}

TEST_CASE("an idle connection that is lost is not missed until there is something to do") {
  Driver driver;
  driver.establish();
  driver.disconnect();
  driver.pass(60s);
  CHECK(driver.connects.empty());
  CHECK_FALSE(driver.requester.connected());
  driver.submit(plain_call());
  CHECK(driver.connects.size() == 1);
}

TEST_CASE("attempts to connect are spaced by a delay that doubles up to its most") {
  Driver driver;
  driver.submit(due(driver.now + 60s));
  std::vector<Duration> gaps;
  TimePoint last = driver.now;
  for (unsigned attempt = 1; attempt < 12; ++attempt) {
    REQUIRE(driver.connects.size() == 1);
    CHECK(driver.connects[0].attempt == attempt);
    driver.connects.clear();
    last = driver.now;
    driver.connect_fails();
    while (driver.connects.empty()) driver.pass(1ms);
    gaps.push_back(driver.now - last);
  }
  CHECK(gaps[0] == 50ms);
  CHECK(gaps[1] == 100ms);
  CHECK(gaps[2] == 200ms);
  CHECK(gaps[6] == 3200ms);
  CHECK(gaps[7] == 5s);
  CHECK(gaps[10] == 5s);
}

TEST_CASE(
    "the first Call of a connection that is not answered leads to another connection, soon and at once") {
  Driver driver;
  driver.submit(plain_call());
  driver.connect();
  const CallView first = driver.take_sent();
  driver.pass(2999ms);
  CHECK(driver.closes.empty());
  driver.connects.clear();
  driver.pass(1ms);
  REQUIRE(driver.closes.size() == 1);
  CHECK(driver.connects.size() == 1);  // no further delay
  driver.connect();
  CHECK(driver.take_sent().xid() == first.xid());
  // A server that is merely slow gets more time each time.
  driver.pass(5999ms);
  CHECK(driver.closes.size() == 1);
  driver.pass(1ms);
  CHECK(driver.closes.size() == 2);
  driver.connect();
  driver.reply(ReplyMaker(driver.take_sent()));
  CHECK(driver.take_completed().failure == Failure::none);
  driver.submit(plain_call());
  driver.pass(30s);
  CHECK(driver.closes.size() == 2);  // once it has spoken, reply_timeout counts
}

TEST_CASE("a Call that is not answered within reply_timeout replaces the connection") {
  Driver driver;
  driver.establish();
  driver.submit(plain_call());
  driver.sent.clear();
  driver.pass(30s);
  driver.submit(plain_call());
  driver.reply(ReplyMaker(driver.take_sent()));  // others are answered
  driver.pass(29s);
  CHECK(driver.closes.empty());
  driver.pass(1s);
  CHECK(driver.closes.size() == 1);
  driver.connect();
  CHECK(driver.sent.size() == 1);
}

TEST_CASE("each call ends at its deadline, wherever it is, and says what it waited for") {
  Driver driver;
  SUBCASE("no connection could be made") {
    driver.submit(due(driver.now + 10s));
    driver.connect_fails(false, "connection refused by 192.0.2.1");
    for (int i = 0; i < 100 && driver.completed.empty(); ++i) {
      if (!std::exchange(driver.connects, {}).empty())
        driver.connect_fails(false, "connection refused by 192.0.2.1");
      driver.pass(100ms);
    }
    const Complete done = driver.take_completed();
    CHECK(done.failure == Failure::timed_out);
    CHECK(done.error->kind() == ErrorKind::timeout);
    CHECK(says(done, "refused by 192.0.2.1"));
    CHECK(says(done, "on this port (20049 by default)"));
    CHECK(driver.now == TimePoint(1000h) + 10s);
  }
  SUBCASE("the attempt hangs") {
    driver.submit(due(driver.now + 10s));
    driver.pass(10s);
    CHECK(says(driver.take_completed(), "no connection could be established"));
  }
  SUBCASE("the connection was lost") {
    driver.establish();
    driver.submit(due(driver.now + 10s));
    driver.disconnect("reset by peer");
    driver.connect_fails(false, "no route to host");
    driver.pass(10s);
    const Complete done = driver.take_completed();
    CHECK(says(done, "lost"));
    CHECK(says(done, "no route to host"));
  }
  SUBCASE("no credit") {
    driver.establish(1);
    driver.submit(plain_call());
    driver.submit(due(driver.now + 10s));
    driver.pass(10s);
    CHECK(says(driver.take_completed(), "credit"));
  }
  SUBCASE("no answer") {
    driver.establish();
    driver.submit(due(driver.now + 10s));
    driver.pass(10s);
    CHECK(says(driver.take_completed(), "no answer within 10.0 s"));
  }
  CHECK(driver.completed.empty());
}

TEST_CASE("calls with different deadlines end in time, each by itself") {
  Driver driver;
  driver.establish(4);
  std::map<CallId, TimePoint> ends;
  for (int i = 0; i < 50; ++i) {
    const TimePoint deadline = driver.now + (((i * 37) % 50) + 1) * 100ms;
    ends[driver.submit(due(deadline))] = deadline;
  }
  while (!ends.empty()) {
    driver.pass(50ms);
    for (const Complete& done : std::exchange(driver.completed, {})) {
      CHECK(done.failure == Failure::timed_out);
      CHECK(ends.at(done.id) == driver.now);
      ends.erase(done.id);
    }
    for (const auto& [id, deadline] : ends) REQUIRE(deadline > driver.now);
  }
}

TEST_CASE("a permanent failure to connect ends all calls with its reason") {
  Driver driver;
  driver.submit(plain_call());
  driver.submit(plain_call());
  driver.connect_fails(true, "an IPv6 address on an IPv4-only fabric; name another");
  REQUIRE(driver.completed.size() == 2);
  for (const Complete& done : driver.completed) {
    CHECK(done.failure == Failure::unreachable);
    CHECK(says(done, "IPv4-only"));
  }
  driver.connects.clear();
  driver.pass(60s);
  CHECK(driver.connects.empty());
}

TEST_CASE("its user hears of a loss and of the way back, once") {
  Driver driver;
  driver.establish();
  driver.submit(plain_call());
  driver.disconnect("reset by peer");
  REQUIRE(driver.notices.size() == 1);
  CHECK(driver.notices[0].kind == Notice::Kind::connection_lost);
  CHECK(driver.notices[0].text.find("reset by peer") != std::string::npos);
  CHECK(driver.notices[0].text.find("reconnecting") != std::string::npos);
  for (int i = 0; i < 20; ++i) {
    driver.connect_fails();
    driver.pass(6s);
  }
  CHECK(driver.notices.size() == 1);
  driver.connect();
  REQUIRE(driver.notices.size() == 2);
  CHECK(driver.notices[1].kind == Notice::Kind::reconnected);
  driver.sent.erase(driver.sent.begin());
  driver.reply(ReplyMaker(driver.take_sent()));
  driver.submit(plain_call());
  driver.disconnect();
  CHECK(driver.count(Notice::Kind::connection_lost) == 2);  // another occasion
}

TEST_CASE("its user hears of a server that does not answer, and that it does again, once for all calls") {
  Driver driver;
  driver.establish();
  for (int i = 0; i < 10; ++i) driver.submit(plain_call());
  driver.pass(2999ms);
  CHECK(driver.notices.empty());
  driver.pass(20s);
  CHECK(driver.notices.size() == 1);
  CHECK(driver.count(Notice::Kind::not_responding) == 1);
  for (const CallView& call : std::exchange(driver.sent, {})) driver.reply(ReplyMaker(call));
  CHECK(driver.notices.size() == 2);
  CHECK(driver.count(Notice::Kind::responding_again) == 1);
}

TEST_CASE("one slow call among others that are answered is no silence") {
  Driver driver;
  driver.establish();
  driver.submit(plain_call());
  driver.sent.clear();
  for (int i = 0; i < 20; ++i) {
    driver.pass(1s);
    driver.submit(plain_call());
    driver.reply(ReplyMaker(driver.take_sent()));
  }
  CHECK(driver.notices.empty());
}

TEST_CASE("its user hears of a server that cannot be reached, with the reason") {
  Driver driver;
  driver.submit(plain_call());
  driver.connect_fails(false, "connection refused");
  driver.pass(3s);
  REQUIRE(driver.notices.size() == 1);
  CHECK(driver.notices[0].kind == Notice::Kind::not_responding);
  CHECK(driver.notices[0].text.find("connection refused") != std::string::npos);
}

TEST_CASE("shutting down ends every call, those with exposed memory after the connection") {
  Driver driver;
  driver.answer_closes = false;
  SUBCASE("in the middle of work") {
    driver.establish(2);
    Octets destination(5000);
    driver.submit(read_call(destination));
    driver.submit(plain_call());
    driver.submit(plain_call());
    driver.requester.shut_down(driver.now);
    driver.run();
    CHECK(driver.closes.size() == 1);
    CHECK(driver.completed.size() == 2);
    driver.disconnect();
    CHECK(driver.completed.size() == 3);
    for (const Complete& done : driver.completed) CHECK(done.failure == Failure::closed);
  }
  SUBCASE("while connecting") {
    driver.submit(plain_call());
    driver.requester.shut_down(driver.now);
    driver.run();
    CHECK(driver.completed.size() == 1);
    CHECK(driver.closes.size() == 1);
    driver.connect();  // it came too late
    CHECK_FALSE(driver.requester.connected());
    driver.disconnect();
  }
  SUBCASE("before anything was seen of it") {
    driver.requester.submit(plain_call(), driver.now);
    driver.requester.shut_down(driver.now);
    driver.run();
    CHECK(driver.connects.empty());
    CHECK(driver.closes.empty());
    CHECK(driver.completed.size() == 1);
  }
  driver.pass(600s);
  CHECK(driver.requester.pending() == 0);
  CHECK(driver.connects.size() <= 1);
  driver.submit(plain_call());
  CHECK(driver.completed.back().failure == Failure::closed);
  CHECK_FALSE(driver.requester.next_deadline());
}

TEST_CASE("xids count up from the first, and pass over the end of their range") {
  Driver driver({}, 0xfffffffe);
  driver.establish(8);
  std::vector<std::uint32_t> xids;
  for (int i = 0; i < 3; ++i) {
    driver.submit(plain_call());
    xids.push_back(driver.take_sent().xid());
  }
  CHECK(xids == std::vector<std::uint32_t>{0xffffffff, 0, 1});
}

TEST_CASE("the Call's message comes back with its completion") {
  Driver driver;
  driver.establish();
  Call call = plain_call(400);
  const std::byte* const storage = call.message.stream.data();
  driver.submit(std::move(call));
  driver.reply(ReplyMaker(driver.take_sent()));
  CHECK(driver.take_completed().message.stream.data() == storage);
}

TEST_CASE("a server that was idle for long is given time before it is called silent") {
  Driver driver;
  driver.establish();
  driver.pass(10min);
  driver.submit(plain_call());
  driver.pass(driver.config.notice_after - 1ms);
  CHECK(driver.notices.empty());
  driver.pass(1ms);
  CHECK(driver.count(Notice::Kind::not_responding) == 1);
}

TEST_CASE("the clock is wanted for the call that is under way, not for those before it") {
  Driver driver;
  driver.establish();
  driver.now += 10min;  // nobody has looked at the clock, as nothing was under way
  driver.submit(plain_call());
  REQUIRE(driver.requester.next_deadline());
  CHECK(*driver.requester.next_deadline() == driver.now + driver.config.notice_after);
  const CallView given_up = driver.take_sent();
  driver.cancel(given_up.cookie);
  driver.now += 10min;
  driver.submit(plain_call());
  // The one that was given up holds its credit, and is watched.
  CHECK(*driver.requester.next_deadline() < driver.now);
  driver.pass(0s);
  CHECK(driver.closes.empty());
}

}  // namespace nfsrdma::rpcrdma::testing
