// The requester at its borders: what is under way when a connection ends, what is left of the last one on the next, who
// goes first, and the least and the most that fits.
#include <cerrno>
#include <ranges>
#include <string>

#include "support/rpcrdma_asked.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

Config without_reserve(std::uint32_t credits) {
  Config config;
  config.credits_wanted = credits;
  config.reserved_credits = 0;
  return config;
}

/// A message as the fabric hands it over.
fabric::ReceiveBuffer arrived(ConstBytes bytes) {
  fabric::ReceiveBuffer buffer(4096);
  std::memcpy(buffer.storage().data(), bytes.data(), bytes.size());
  buffer.set_length(bytes.size());
  return buffer;
}

Error reset_by_peer() {
  return {ErrorKind::connection, ECONNRESET, "receive", "server", "reset by peer"};
}

/// Memory of a connection that may have ended, which is yet to be told.
class Ending final : public Exposer {
 public:
  Status expose(Bytes memory, fabric::Reach /*reach*/, std::vector<RemoteSegment>& to) override {
    if (ended) return Error(ErrorKind::connection, ENOTCONN, "expose memory", "", "the connection is closed");
    to.push_back({++last_, static_cast<std::uint32_t>(memory.size()), 0});
    return {};
  }
  [[nodiscard]] std::size_t segments_for(std::size_t /*length*/) const override { return 1; }
  bool ended = true;

 private:
  std::uint32_t last_ = 0;
};

}  // namespace

TEST_CASE("requester: a Config of less than the protocol has at the least is raised to that") {
  Config config;
  config.credits_wanted = 0;
  config.send_size = config.receive_size = 100;
  Driver driver(config);
  driver.establish(8, sizes(4096, 4096));
  CHECK(driver.requester.facts().call_threshold == 1024);
  CHECK(driver.requester.facts().reply_threshold == 1024);
  driver.submit(plain_call());
  CHECK(driver.take_sent().header.rdma_credit == 1);
}

TEST_CASE("T28 a call whose Reply has come is not cancelled any more") {
  Octets destination(5000);
  Asked asked(read_call(destination));
  Driver& driver = asked.driver;
  driver.answer_revokes = false;
  driver.reply(ReplyMaker(asked.call));
  REQUIRE(driver.revokes.size() == 1);
  driver.cancel(asked.id);
  CHECK(driver.completed.empty());
  CHECK(driver.revokes.size() == 1);
  driver.answer(driver.revokes[0]);
  driver.run();
  const Complete done = driver.take_completed();
  CHECK(done.failure == Failure::none);
  CHECK(done.reply);
}

TEST_CASE("requester: who has gone is not told of an end that was in the queue before") {
  Driver driver;
  driver.establish();
  int somebody = 0;
  bool goes = false;
  SUBCASE("he goes") {
    goes = true;
  }
  SUBCASE("he stays") {}
  Call call = plain_call();
  call.owner = &somebody;
  const CallId id = driver.submit(std::move(call));
  CHECK(driver.requester.owned() == std::vector<CallId>{id});
  driver.requester.cancel(id, driver.now);
  CHECK(driver.requester.owned().empty());
  if (goes) driver.requester.disown(id);
  driver.run();
  const void* const told = driver.take_completed().owner;
  CHECK((told == nullptr) == goes);
}

TEST_CASE("T28 what was cancelled before its Send was seen never left, and its credit is who waits for it") {
  Driver driver;
  driver.establish(2);  // one of them is kept for health checks
  const CallId id = driver.requester.submit(plain_call(), driver.now);
  const CallId next = driver.requester.submit(plain_call(), driver.now);
  driver.cancel(id);
  const Complete done = driver.take_completed();
  CHECK(done.id == id);
  CHECK(done.sends == 0);  // so that it may be made elsewhere
  REQUIRE(driver.sent.size() == 1);
  CHECK(driver.sent[0].cookie == next);
}

TEST_CASE(
    "S2 S10 requester: a call that ends while there is no connection says how often it was sent before") {
  enum class End : std::uint8_t { time_is_over, given_up, unreachable };
  for (const End end : {End::time_is_over, End::given_up, End::unreachable}) {
    for (const std::uint32_t sends : {1U, 2U}) {
      CAPTURE(static_cast<int>(end));
      CAPTURE(sends);
      Driver driver;
      driver.establish(8);
      const auto submit = [&driver] {
        Call call = plain_call();
        call.deadline = driver.now + 10s;
        return driver.submit(std::move(call));
      };
      const CallId sent = submit();
      driver.disconnect();
      if (sends == 2) {
        driver.connect();
        driver.disconnect();
      }
      REQUIRE(driver.sent.size() == sends);
      const CallId unsent = submit();
      if (end == End::time_is_over) {
        driver.pass(10s);
      } else if (end == End::given_up) {
        driver.cancel(sent);
        driver.cancel(unsent);
      } else {
        driver.pass(1s);
        driver.connect_fails(true);
      }
      // The server may have executed the first one, and cannot know of the second.
      const Complete first = driver.take_completed();
      CHECK(first.id == sent);
      CHECK(first.failure != Failure::none);
      CHECK(first.sends == sends);
      const Complete second = driver.take_completed();
      CHECK(second.id == unsent);
      CHECK(second.sends == 0);
    }
  }
}

TEST_CASE("T30 nothing that was meant for a connection is done on the next one") {
  Config config;
  config.backward_credits = 4;
  Driver driver(config);
  driver.establish();
  Octets first(5000);
  Octets second(5000);
  driver.receive(BackwardMaker(7).bytes());
  const BackwardId call_of_theirs = driver.take_delivered().id;
  const CallId given_up = driver.submit(read_call(first));
  const CallView given_up_call = driver.take_sent();
  driver.cancel(given_up);
  const CallId cancelled = driver.submit(read_call(second));
  driver.completed.clear();
  driver.connects.clear();
  // One of each kind, none of which anybody takes before the connection ends.
  Requester& requester = driver.requester;
  requester.submit(plain_call(), driver.now);                                                   // Send
  requester.answer(call_of_theirs, backward_reply());                                           // SendAnswer
  requester.cancel(cancelled, driver.now);                                                      // Revoke
  requester.on_received(arrived(ReplyMaker(given_up_call).bytes()), std::nullopt, driver.now);  // Forget
  requester.on_received(arrived(BackwardMaker(8).bytes()), std::nullopt, driver.now);           // Deliver
  requester.on_disconnected(reset_by_peer(), driver.now);
  std::vector<CallId> completed;
  int connects = 0;
  while (const std::optional<Action> action = requester.poll()) {
    if (const auto* one = std::get_if<Complete>(&*action)) completed.push_back(one->id);
    connects += std::holds_alternative<Connect>(*action) ? 1 : 0;
    CHECK((std::holds_alternative<Complete>(*action) || std::holds_alternative<Connect>(*action) ||
           std::holds_alternative<Notice>(*action)));
  }
  CHECK(completed == std::vector<CallId>{cancelled});
  CHECK(connects == 1);
}

TEST_CASE("requester: a connection that was wanted is wanted once") {
  Driver driver;
  driver.requester.connect(driver.now);
  driver.run();
  REQUIRE(driver.connects.size() == 1);
  SUBCASE("it stood, and was lost") {
    driver.connect();
    driver.disconnect();
  }
  SUBCASE("it was asked for once more while it stood") {
    driver.connect();
    driver.requester.connect(driver.now);
    driver.disconnect();
  }
  SUBCASE("it cannot be had") {
    driver.connect_fails(true);
  }
  driver.connects.clear();
  driver.pass(60s);
  CHECK(driver.connects.empty());
}

TEST_CASE(
    "T1 a connection that replaces one whose credits were gone stands, however many calls wait for it") {
  Driver driver(without_reserve(2));
  driver.establish(2);
  const CallId first = driver.submit(plain_call());
  const CallId second = driver.submit(plain_call());
  driver.cancel(first);
  driver.cancel(second);
  driver.completed.clear();
  driver.sent.clear();
  for (int i = 0; i < 3; ++i) driver.submit(plain_call());
  driver.pass(driver.config.reply_timeout + 1s);
  REQUIRE(driver.closes.size() == 1);
  driver.connect();
  CHECK(driver.closes.size() == 1);
  for (int i = 0; i < 3; ++i) driver.reply(ReplyMaker(driver.take_sent(), 2));
  CHECK(driver.completed.size() == 3);
  CHECK(driver.closes.size() == 1);
}

TEST_CASE("requester: a loss is told with its own reason, not with that of one before") {
  Driver driver;
  driver.establish();
  driver.submit(plain_call());
  driver.pass(driver.config.reply_timeout);
  REQUIRE(driver.closes.size() == 1);
  driver.sent.clear();
  driver.connect();
  driver.reply(ReplyMaker(driver.take_sent()));
  driver.notices.clear();
  driver.submit(plain_call());
  driver.disconnect("reset by peer");
  REQUIRE(driver.notices.size() == 1);
  CHECK(driver.notices[0].kind == Notice::Kind::connection_lost);
  CHECK(driver.notices[0].text.find("reset by peer") != std::string::npos);
}

TEST_CASE(
    "requester: a server that has spoken in between is given no more time on the next silent connection") {
  Driver driver;
  driver.submit(plain_call());
  for (const Duration patience : {3s, 6s, 12s}) {
    driver.connect();
    driver.pass(patience);
  }
  REQUIRE(driver.closes.size() == 3);
  driver.sent.clear();
  driver.connect();
  driver.reply(ReplyMaker(driver.take_sent()));
  driver.disconnect();
  driver.submit(plain_call());
  driver.connect();
  driver.pass(2999ms);
  CHECK(driver.closes.size() == 3);
  driver.pass(1ms);
  CHECK(driver.closes.size() == 4);
}

TEST_CASE("requester: who waits on a connection on which nobody was ever answered is told so") {
  Driver driver;
  Call call = plain_call();
  call.deadline = driver.now + 2s;
  driver.submit(std::move(call));
  driver.connect();
  driver.pass(2s);
  const Complete done = driver.take_completed();
  CHECK(done.failure == Failure::timed_out);
  REQUIRE(done.error);
  CHECK(done.error->message().find("accepts the connection, but answers no call") != std::string::npos);
}

TEST_CASE("requester: what a connection has to begin with goes before all else, on each one") {
  Driver driver(without_reserve(8));
  driver.establish(8);
  const CallId regular = driver.submit(plain_call());
  Call check = plain_call();
  check.health_check = true;
  const CallId health = driver.submit(std::move(check));
  Call begins = plain_call();
  begins.health_check = begins.first = true;
  bool under_way = false;
  SUBCASE("it is under way with the others when their connection ends") {
    under_way = true;
  }
  SUBCASE("it comes when they wait already") {}
  if (!under_way) driver.disconnect();
  const CallId first = driver.submit(std::move(begins));
  if (under_way) driver.disconnect();
  driver.sent.clear();
  driver.connect();  // which has one credit before its first Reply
  REQUIRE(driver.sent.size() == 1);
  CHECK(driver.take_sent().cookie == first);
  driver.disconnect();
  driver.pass(1s);
  driver.connect();
  REQUIRE(driver.sent.size() == 1);
  const CallView again = driver.take_sent();
  CHECK(again.cookie == first);
  driver.reply(ReplyMaker(again, 8));
  REQUIRE(driver.sent.size() == 2);
  CHECK(driver.sent[0].cookie == health);
  CHECK(driver.sent[1].cookie == regular);
}

TEST_CASE("requester: calls that find their connection gone wait for the next one, in their order") {
  Ending memory;
  Requester requester({}, memory, 7, "server");
  TimePoint now(1000h);
  Octets destination(5000);
  const auto take = [&] {
    std::vector<CallId> sent;
    bool closes = false;
    while (const std::optional<Action> action = requester.poll()) {
      CHECK_FALSE(std::holds_alternative<Complete>(*action));
      if (const auto* one = std::get_if<Send>(&*action)) sent.push_back(one->cookie);
      closes = closes || std::holds_alternative<Close>(*action);
    }
    return std::pair(sent, closes);
  };
  const CallId first = requester.submit(read_call(destination), now);
  requester.submit(read_call(destination), now);
  take();
  requester.on_connected({}, now);
  CHECK(take() == std::pair(std::vector<CallId>(), true));
  CHECK(requester.pending() == 2);
  CHECK(requester.in_flight() == 0);
  requester.on_disconnected(reset_by_peer(), now);
  take();
  memory.ended = false;
  now += 1s;
  requester.on_time(now);
  take();
  requester.on_connected({}, now);
  CHECK(take() == std::pair(std::vector<CallId>{first}, false));
  CHECK(requester.in_flight() == 1);
}

TEST_CASE("P6 what is announced follows the fabric of each connection") {
  Driver driver;
  const auto bears = [&](bool does) {
    const auto said = find_private_data(driver.requester.private_data(does));
    REQUIRE(said);
    return said->remote_invalidation;
  };
  CHECK(bears(true));
  driver.establish(8, sizes(4096, 4096, true));
  CHECK(driver.requester.facts().remote_invalidation);
  Octets destination(5000);
  driver.submit(read_call(destination));
  const CallView call = driver.take_sent();
  driver.reply(ReplyMaker(call), call.header.rdma_writes[0][0].handle);
  CHECK(driver.notices.empty());  // it was agreed
  driver.disconnect();
  CHECK_FALSE(bears(false));
  driver.submit(plain_call());
  driver.connect(sizes(4096, 4096, true));
  CHECK_FALSE(driver.requester.facts().remote_invalidation);
}

TEST_CASE("requester: the least RPC Reply is one: that the credential was refused") {
  const auto refused = [](std::uint32_t xid) { return results_of({xid, 1, 1, 1, 5}); };
  Complete done;
  SUBCASE("inline") {
    Asked asked(plain_call());
    ReplyMaker reply(asked.call);
    reply.payload = refused(asked.call.xid());
    REQUIRE(reply.payload.size() == 20);
    done = asked.answered(reply);
  }
  SUBCASE("in a Reply chunk") {
    Asked asked(expecting(3000));
    const Octets message = refused(asked.call.xid());
    REQUIRE(asked.driver.memory.write(asked.call.header.rdma_reply[0], message));
    ReplyMaker reply(asked.call);
    reply.long_reply(asked.call, message.size());
    done = asked.answered(reply);
  }
  CHECK(done.failure == Failure::none);
  REQUIRE(done.reply);
  CHECK(done.reply->message.size() == 20);
}

TEST_CASE("T7 a Call with a Write chunk is a Long Call from the first word on that does not fit") {
  Driver driver;
  driver.establish();
  Octets destination(4096);
  const auto send = [&](std::size_t stream) {
    Call call = plain_call(stream);
    call.results.push_back({destination, false});
    call.reply_max_reduced = 128;
    call.reply_max_inline = 128 + 4096;
    driver.submit(std::move(call));
    CallView view = driver.take_sent();
    driver.reply(ReplyMaker(view));
    return view;
  };
  constexpr std::size_t kMost = 1024 - kMinHeader - kWriteChunkHead - kSegment;
  const CallView fits = send(kMost);
  CHECK(fits.header.proc == rdma_proc::RDMA_MSG);
  CHECK(fits.bytes.size() == 1024);
  const CallView larger = send(kMost + 4);
  CHECK(larger.header.proc == rdma_proc::RDMA_NOMSG);
  REQUIRE(larger.header.rdma_reads.size() == 1);
  CHECK(larger.header.rdma_reads[0].target.length == kMost + 4);
  CHECK(larger.header.rdma_writes.size() == 1);
}

TEST_CASE("requester: many hundred calls at once find their Replies, the last one first") {
  constexpr std::uint32_t kMany = 600;
  Driver driver(without_reserve(kMany));
  driver.establish(kMany);
  for (std::uint32_t i = 0; i < kMany; ++i) driver.submit(plain_call());
  REQUIRE(driver.sent.size() == kMany);
  const std::vector<CallView> sent = std::exchange(driver.sent, {});
  for (const CallView& call : sent | std::views::reverse) {
    driver.reply(ReplyMaker(call, kMany));
    REQUIRE(driver.completed.size() == 1);
    CHECK(driver.take_completed().id == call.cookie);
  }
  CHECK(driver.requester.facts().discarded == 0);
  CHECK(driver.requester.in_flight() == 0);
}

}  // namespace nfsrdma::rpcrdma::testing
