// Credits and Receives (RFC 8166 3.3).
#include "rpcrdma/reply_check.h"
#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

Config asking_for(std::uint32_t credits, std::uint32_t reserved = 0) {
  Config config;
  config.credits_wanted = credits;
  config.reserved_credits = reserved;
  return config;
}

void submit(Driver& driver, int count) {
  for (int i = 0; i < count; ++i) driver.submit(plain_call());
}

/// The only one of five Calls that is out on a new connection.
CallView first_of_five(Driver& driver) {
  submit(driver, 5);
  driver.connect();
  return driver.take_sent();
}

Call health_check() {
  Call call = plain_call();
  call.health_check = true;
  return call;
}

}  // namespace

TEST_CASE("T1 credits are asked for in every Call, and no more Calls are out than min(asked, granted)") {
  SUBCASE("fewer granted than asked for") {
    Driver driver(asking_for(10));
    driver.establish(4);
    submit(driver, 20);
    CHECK(driver.sent.size() == 4);
    for (const CallView& call : driver.sent) CHECK(call.header.rdma_credit == 10);
    driver.reply(ReplyMaker(driver.take_sent(), 4));
    CHECK(driver.sent.size() == 4);  // one went, one came
    CHECK(driver.unanswered.size() == 4);
  }
  SUBCASE("more granted than asked for") {
    Driver driver(asking_for(3));
    driver.establish(0xffffffff);
    submit(driver, 20);
    CHECK(driver.sent.size() == 3);
  }
}

TEST_CASE("T2 one Call is out until the first Reply of each connection") {
  Driver driver(asking_for(8));
  submit(driver, 5);
  driver.connect();
  CHECK(driver.sent.size() == 1);
  driver.reply(ReplyMaker(driver.take_sent(), 8));
  CHECK(driver.sent.size() == 4);
  driver.sent.clear();
  // The grant of the old connection says nothing about the new one (3.3.3).
  driver.disconnect();
  driver.pass(1s);
  driver.connect();
  CHECK(driver.sent.size() == 1);
  driver.reply(ReplyMaker(driver.take_sent(), 8));
  CHECK(driver.sent.size() == 3);
}

TEST_CASE("T2 a message that is not a valid Reply brings no grant") {
  Driver driver(asking_for(8));
  const CallView first = first_of_five(driver);
  ReplyMaker stranger(first, 8);
  stranger.header.rdma_xid += 1000;
  driver.receive(stranger.bytes());
  ReplyMaker broken(first, 8);
  broken.header.rdma_vers = 2;
  driver.receive(broken.bytes());
  CHECK(driver.sent.empty());
}

TEST_CASE("T2 a Reply that breaks the protocol brings no grant, in time or late") {
  Driver driver(asking_for(8));
  const CallView first = first_of_five(driver);
  ReplyMaker bad(first, 8);
  SUBCASE("it claims a chunk that was not offered") {
    bad.header.rdma_writes.add_chunk(std::vector<RemoteSegment>{{1, 2, 3}});
  }
  SUBCASE("it has a Read list") {
    bad.header.rdma_reads.push_back({0, {0x77, 100, 0}});
  }
  SUBCASE("it is shorter than any Reply") {
    bad.payload.resize(kMinRpcReply - kWord);
  }
  SUBCASE("and its caller has gone") {
    bad.payload.resize(kMinRpcReply - kWord);
    driver.cancel(first.cookie);
  }
  driver.completed.clear();
  driver.reply(bad);
  CHECK(driver.requester.facts().granted == 0);
  // One Call is out, still for the first grant of the connection.
  REQUIRE(driver.sent.size() == 1);
  driver.reply(ReplyMaker(driver.take_sent(), 8));
  CHECK(driver.requester.facts().granted == 8);
  CHECK(driver.sent.size() == 3);
}

TEST_CASE("T2 a Long Reply brings its grant when its memory has been looked at and is its own") {
  for (const bool good : {true, false}) {
    CAPTURE(good);
    Driver driver(asking_for(8));
    Call call = plain_call();
    call.reply_max_inline = call.reply_max_reduced = 5000;
    driver.submit(std::move(call));
    submit(driver, 4);
    driver.connect();
    const CallView first = driver.take_sent();
    const Octets message = ReplyMaker::rpc_reply(good ? first.xid() : first.xid() + 1, pattern(2000));
    REQUIRE(driver.memory.write(first.header.rdma_reply[0], message));
    driver.answer_revokes = false;
    ReplyMaker reply(first, 8);
    reply.long_reply(first, message.size());
    driver.reply(reply);
    CHECK(driver.requester.facts().granted == 0);
    REQUIRE(driver.revokes.size() == 1);
    driver.answer(driver.revokes[0]);
    driver.run();
    CHECK(driver.requester.facts().granted == (good ? 8 : 0));
    CHECK(driver.take_completed().failure == (good ? Failure::none : Failure::bad_reply));
    CHECK(driver.sent.size() == (good ? 4 : 1));
  }
}

TEST_CASE("T4 the grant of a Long Reply does not replace that of a Reply that came behind it") {
  Driver driver(asking_for(8));
  driver.establish(8);
  Call call = plain_call();
  call.reply_max_inline = call.reply_max_reduced = 5000;
  driver.submit(std::move(call));
  const CallView with_chunk = driver.take_sent();
  driver.submit(plain_call());
  const CallView other = driver.take_sent();
  const Octets message = ReplyMaker::rpc_reply(with_chunk.xid(), pattern(2000));
  REQUIRE(driver.memory.write(with_chunk.header.rdma_reply[0], message));
  driver.answer_revokes = false;
  ReplyMaker reply(with_chunk, 6);
  reply.long_reply(with_chunk, message.size());
  driver.reply(reply);
  driver.reply(ReplyMaker(other, 3));
  CHECK(driver.requester.facts().granted == 3);
  driver.answer(driver.revokes[0]);
  driver.run();
  CHECK(driver.requester.facts().granted == 3);
}

TEST_CASE("T3 a grant of zero is taken for one, said once, and stops nothing") {
  Driver driver(asking_for(8));
  submit(driver, 4);
  driver.connect();
  for (int i = 0; i < 4; ++i) {
    REQUIRE(driver.sent.size() == 1);
    driver.reply(ReplyMaker(driver.take_sent(), 0));
  }
  CHECK(driver.completed.size() == 4);
  CHECK(driver.count(Notice::Kind::protocol_oddity) == 1);
  CHECK(driver.requester.facts().granted == 1);
}

TEST_CASE(
    "T4 a lowered grant holds for new Calls and leaves those in flight alone; a raised one is used at once") {
  Driver driver(asking_for(16));
  driver.establish(8);
  submit(driver, 30);
  REQUIRE(driver.sent.size() == 8);
  std::vector<CallView> out = std::exchange(driver.sent, {});
  for (std::size_t i = 0; i < 5; ++i) driver.reply(ReplyMaker(out[i], 3));
  CHECK(driver.sent.empty());  // three are still out, and three is the grant
  CHECK(driver.completed.size() == 5);
  driver.reply(ReplyMaker(out[5], 3));
  CHECK(driver.sent.size() == 1);
  driver.reply(ReplyMaker(out[6], 12));
  CHECK(driver.unanswered.size() == 12);
  for (const Complete& one : driver.completed) CHECK(one.failure == Failure::none);
}

TEST_CASE("T5 a Receive is posted for every Reply before its Call is sent") {
  Driver driver(asking_for(64));  // the driver checks at every Send
  driver.establish(64);
  submit(driver, 64);
  CHECK(driver.sent.size() == 64);
  CHECK(driver.receives >= 64);
  const CallView first = driver.take_sent();
  // Messages that nobody asked for use up Receives as well; what is outstanding must not suffer.
  for (int i = 0; i < 200; ++i) {
    ReplyMaker stranger(first);
    stranger.header.rdma_xid += 5000;
    driver.receive(stranger.bytes());
    REQUIRE(driver.receives >= driver.unanswered.size());
  }
  driver.reply(ReplyMaker(first));
  for (const CallView& call : std::exchange(driver.sent, {})) driver.reply(ReplyMaker(call));
  CHECK(driver.completed.size() == 64);
}

TEST_CASE("T5 Receives are posted anew on a new connection") {
  Driver driver(asking_for(8));
  driver.establish(8);
  submit(driver, 8);
  driver.disconnect();
  CHECK(driver.receives == 0);
  driver.pass(1s);
  driver.connect();  // the driver checks at the Send
  CHECK(driver.receives >= 1);
}

TEST_CASE("a credit is kept for health checks, but never the only one") {
  Driver driver(asking_for(8, 1));
  SUBCASE("of several") {
    driver.establish(4);
    submit(driver, 10);
    CHECK(driver.sent.size() == 3);
    driver.submit(health_check());
    CHECK(driver.sent.size() == 4);  // overtakes the seven that wait
    driver.submit(health_check());
    CHECK(driver.sent.size() == 4);
  }
  SUBCASE("and its use takes none from the others") {
    driver.establish(4);
    driver.submit(health_check());
    submit(driver, 10);
    CHECK(driver.sent.size() == 4);
  }
  SUBCASE("of one") {
    driver.establish(1);
    submit(driver, 2);
    CHECK(driver.sent.size() == 1);
  }
}

TEST_CASE("T1 a call that was given up holds its credit until the server has answered it") {
  Driver driver(asking_for(2));
  driver.establish(2);
  const CallId first = driver.submit(plain_call());
  submit(driver, 3);
  REQUIRE(driver.sent.size() == 2);
  driver.cancel(first);
  CHECK(driver.completed.size() == 1);
  CHECK(driver.sent.size() == 2);
  driver.reply(ReplyMaker(driver.sent[0], 2));  // late: frees the credit, completes nothing
  CHECK(driver.completed.size() == 1);
  CHECK(driver.sent.size() == 3);
}

TEST_CASE("T1 credits that calls given up never give back lead to a new connection, not to a standstill") {
  Driver driver(asking_for(2));
  driver.establish(2);
  const CallId a = driver.submit(plain_call());
  const CallId b = driver.submit(plain_call());
  driver.cancel(a);
  driver.cancel(b);
  driver.completed.clear();
  driver.sent.clear();
  SUBCASE("when another call waits") {
    driver.submit(plain_call());
    driver.pass(driver.config.reply_timeout - 1s);
    CHECK(driver.closes.empty());
    driver.pass(2s);
    REQUIRE(driver.closes.size() == 1);
    driver.connect();
    CHECK(driver.sent.size() == 1);
  }
  SUBCASE("when a health check waits") {
    driver.submit(health_check());
    driver.pass(driver.config.reply_timeout + 1s);
    CHECK(driver.closes.size() == 1);
  }
  SUBCASE("not before one does") {
    driver.pass(driver.config.reply_timeout + 10s);
    CHECK(driver.closes.empty());
    driver.submit(plain_call());
    CHECK(driver.closes.size() == 1);
  }
  SUBCASE("unless the late Replies came after all") {
    driver.pass(driver.config.reply_timeout + 10s);
    for (const std::uint32_t xid : std::set(driver.unanswered)) {
      ReplyMaker late(CallView{}, 2);
      late.header.rdma_xid = xid;
      late.payload = ReplyMaker::rpc_reply(xid);
      driver.reply(late);
    }
    driver.submit(plain_call());
    CHECK(driver.closes.empty());
    CHECK(driver.sent.size() == 1);
  }
}

}  // namespace nfsrdma::rpcrdma::testing
