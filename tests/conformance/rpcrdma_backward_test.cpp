// Calls of the server's on the client's connection (RFC 8167, RFC 8166 4.5).
#include <array>

#include "support/rpcrdma_asked.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

constexpr std::uint32_t kCredits = 4;
constexpr std::uint32_t kXid = 0x0badcafe;

Config serving(std::uint32_t credits = kCredits) {
  Config config;
  config.backward_credits = credits;
  return config;
}

/// A connection with a grant of 32, on which the server may call.
struct Served {
  Driver driver;

  explicit Served(Config config = serving()) : driver(config) { driver.establish(); }

  void call(std::uint32_t xid, std::uint32_t credits = 4) {
    driver.receive(BackwardMaker(xid, credits).bytes());
  }
  /// The connection is as it was, and both directions still work on it.
  void check_works() {
    CHECK(driver.closes.empty());
    CHECK(driver.requester.facts().granted == 32);
    call(0x77);
    const Deliver one = driver.take_delivered();
    driver.answer(one.id);
    check_reply(driver.take_answer(), 0x77);
    driver.submit(plain_call());
    driver.reply(ReplyMaker(driver.take_sent()));
    CHECK(driver.take_completed().failure == Failure::none);
  }
  static void check_reply(const AnswerView& answer, std::uint32_t xid) {
    CHECK(answer.fault == HeaderFault::none);
    CHECK(answer.header.rdma_xid == xid);
    CHECK(answer.header.proc == rdma_proc::RDMA_MSG);
    REQUIRE(answer.payload().size() >= 8);
    CHECK(xdr::load_u32(answer.payload().data()) == xid);
    CHECK(xdr::load_u32(&answer.payload()[4]) == 1);
  }
  /// RDMA_ERROR, ERR_CHUNK was the answer, and the only one.
  void check_err_chunk(std::uint32_t xid) {
    CHECK(driver.delivered.empty());
    REQUIRE(driver.answers.size() == 1);
    const AnswerView answer = driver.take_answer();
    CHECK(answer.fault == HeaderFault::none);
    CHECK(answer.header.rdma_xid == xid);
    CHECK(answer.header.rdma_vers == 1);
    CHECK(answer.header.proc == rdma_proc::RDMA_ERROR);
    CHECK(answer.header.err == rpc_rdma_errcode::ERR_CHUNK);
    CHECK(answer.bytes.size() >= kMinHeader);  // 8166 4.5: under it, nobody may read it
  }
  void check_discarded() {
    CHECK(driver.delivered.empty());
    CHECK(driver.answers.empty());
    CHECK(driver.requester.facts().discarded == 1);
  }
};

std::string text_of(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Octets encoded(const rdma_msg& header) {
  xdr::Buffer buffer;
  encode(header, buffer);
  return {buffer.bytes().begin(), buffer.bytes().end()};
}

}  // namespace

// ---- B1: direction ----

TEST_CASE("B1 the message type tells the direction: one xid under way both ways is two RPCs") {
  Served served;
  Driver& driver = served.driver;
  Octets destination(3000);
  driver.submit(read_call(destination));
  const CallView ours = driver.take_sent();
  const BackwardMaker theirs(ours.xid(), 7);
  driver.receive(theirs.bytes());
  CHECK(driver.completed.empty());
  const Deliver call = driver.take_delivered();
  CHECK(text_of(call.message) == text_of(theirs.payload));  // from its xid on
  SUBCASE("theirs is answered first") {
    driver.answer(call.id);
    Served::check_reply(driver.take_answer(), ours.xid());
    CHECK(driver.completed.empty());
    CHECK(driver.memory.live.size() == 1);
    driver.reply(ReplyMaker(ours));
    CHECK(driver.take_completed().failure == Failure::none);
  }
  SUBCASE("ours is answered first") {
    driver.reply(ReplyMaker(ours));
    CHECK(driver.take_completed().failure == Failure::none);
    driver.answer(call.id);
    Served::check_reply(driver.take_answer(), ours.xid());
  }
  CHECK(driver.completed.empty());
  CHECK(driver.delivered.empty());
  CHECK(driver.requester.facts().discarded == 0);
}

TEST_CASE("B1 a Reply with the xid of a backward Call does not answer anything of that Call") {
  Served served;
  served.call(kXid);
  ReplyMaker stray{CallView{}};
  stray.header.rdma_xid = kXid;
  stray.payload = ReplyMaker::rpc_reply(kXid);
  served.driver.receive(stray.bytes());
  CHECK(served.driver.requester.facts().discarded == 1);
  CHECK(served.driver.answers.empty());
  served.driver.answer(served.driver.take_delivered().id);
  Served::check_reply(served.driver.take_answer(), kXid);
}

TEST_CASE("B1 a Long Call with the xid of one of ours is theirs, unless it returns our Reply chunk") {
  Served served;
  Driver& driver = served.driver;
  driver.submit(expecting(3000));
  const CallView ours = driver.take_sent();
  REQUIRE(ours.header.has_rdma_reply);
  rdma_msg header;
  header.rdma_xid = ours.xid();
  header.rdma_credit = 9;
  header.proc = rdma_proc::RDMA_NOMSG;
  header.rdma_reads = {{0, {0x55, 5000, 0}}};
  SUBCASE("without a Reply chunk") {}
  SUBCASE("with one of its own") {
    header.has_rdma_reply = true;
    header.rdma_reply = {{0x56, 8000, 0}};
  }
  SUBCASE("with ours: a Reply that breaks the protocol (4.3.1)") {
    header.has_rdma_reply = true;
    header.rdma_reply = ours.header.rdma_reply;
    driver.receive(encoded(header));
    CHECK(driver.take_completed().failure == Failure::bad_reply);
    CHECK(driver.answers.empty());
    return;
  }
  driver.receive(encoded(header));
  served.check_err_chunk(ours.xid());
  CHECK(driver.completed.empty());
  driver.reply(ReplyMaker(ours));
  CHECK(driver.take_completed().failure == Failure::none);
}

TEST_CASE("B1 T24 what cannot be told for a Call is discarded and answered by nothing") {
  Served served;
  BackwardMaker call(kXid);
  Octets bytes = call.bytes();
  SUBCASE("a Reply that is nobody's") {
    call.payload = ReplyMaker::rpc_reply(kXid);
    bytes = call.bytes();
  }
  SUBCASE("a Reply of another version") {
    call.payload = ReplyMaker::rpc_reply(kXid);
    bytes = call.bytes();
    xdr::store_u32(&bytes[4], 2);
  }
  SUBCASE("a Reply with an unknown procedure, whose results look like a Call") {
    call.payload = ReplyMaker::rpc_reply(kXid, call.payload);
    bytes = call.bytes();
    xdr::store_u32(&bytes[12], 9);
  }
  SUBCASE("RDMA_NOMSG without a chunk") {
    bytes.resize(kMinHeader);
    xdr::store_u32(&bytes[12], 1);
  }
  SUBCASE("RDMA_NOMSG with a Reply chunk that is nobody's: a Long Reply too late") {
    call.header.proc = rdma_proc::RDMA_NOMSG;
    call.header.has_rdma_reply = true;
    call.header.rdma_reply = {{1, 2, 3}};
    call.payload.clear();
    bytes = call.bytes();
  }
  SUBCASE("lists and payload cut off") {
    xdr::store_u32(&bytes[16], 1);
    bytes.resize(kMinHeader + 8);
  }
  SUBCASE("RDMA_DONE") {
    xdr::store_u32(&bytes[12], 3);
  }
  SUBCASE("RDMA_ERROR, and a Call behind it") {
    xdr::store_u32(&bytes[12], 4);
  }
  SUBCASE("RDMA_ERROR of another version, and a Call behind it") {
    xdr::store_u32(&bytes[4], 2);
    xdr::store_u32(&bytes[12], 4);
  }
  SUBCASE("under 28 bytes") {
    bytes.resize(kMinHeader - 1);
    xdr::store_u32(&bytes[4], 2);
  }
  SUBCASE("a message type that is none") {
    xdr::store_u32(&bytes[kMinHeader + 4], 2);
  }
  SUBCASE("an RPC header with another xid, and not of version 2 of RPC") {
    xdr::store_u32(&bytes[kMinHeader], 1);
    xdr::store_u32(&bytes[kMinHeader + 8], 0);
  }
  SUBCASE("no RPC header at all") {
    bytes.resize(kMinHeader);
  }
  served.driver.receive(bytes);
  served.check_discarded();
  served.check_works();
}

TEST_CASE("a requester without backward credits discards the server's Calls, good or bad") {
  Driver driver;
  driver.establish();
  for (int i = 0; i < 4; ++i) driver.submit(plain_call());  // whose Receives these take
  BackwardMaker call(kXid);
  driver.receive(call.bytes());
  Octets version = call.bytes();
  xdr::store_u32(&version[4], 2);
  driver.receive(version);
  call.header.rdma_reads = {{64, {1, 2, 3}}};
  driver.receive(call.bytes());
  CHECK(driver.requester.facts().discarded == 3);
  CHECK(driver.requester.facts().granted == 32);
  CHECK(driver.delivered.empty());  // the driver looks for answers
  CHECK(driver.notices.empty());
}

// ---- B2: credits ----

TEST_CASE("B2 the credit field of a backward Call is a request: the forward grant stays") {
  for (const std::uint32_t asked : {0U, 1U, 2U, 1000U}) {
    CAPTURE(asked);
    Served served;
    Driver& driver = served.driver;
    served.call(kXid, asked);
    CHECK(driver.requester.facts().granted == 32);
    BackwardMaker bad(kXid + 1, asked);
    bad.header.rdma_reads = {{64, {1, 2, 3}}};
    driver.receive(bad.bytes());
    CHECK(driver.requester.facts().granted == 32);
    for (int i = 0; i < 40; ++i) driver.submit(plain_call());
    CHECK(driver.sent.size() == 31);                          // one is kept for health checks
    CHECK(driver.count(Notice::Kind::protocol_oddity) == 1);  // the chunks
  }
}

TEST_CASE("B2 a backward Call before the first Reply is no grant either") {
  Driver driver(serving());
  driver.submit(plain_call());
  driver.submit(plain_call());
  driver.connect();
  REQUIRE(driver.sent.size() == 1);
  driver.receive(BackwardMaker(kXid, 50).bytes());
  CHECK(driver.sent.size() == 1);
  CHECK(driver.delivered.size() == 1);
  CHECK(driver.requester.facts().granted == 0);
}

TEST_CASE("B2 backward Calls and their answers take no forward credit, and the other way round") {
  Served served;
  Driver& driver = served.driver;
  for (std::uint32_t i = 0; i < kCredits; ++i) served.call(kXid + i);
  for (int i = 0; i < 40; ++i) driver.submit(plain_call());
  CHECK(driver.sent.size() == 31);
  REQUIRE(driver.delivered.size() == kCredits);  // all forward credits are used up, and these can be answered
  for (const Deliver& one : driver.delivered) driver.answer(one.id);
  CHECK(driver.answers.size() == kCredits);
  CHECK(driver.sent.size() == 31);
}

TEST_CASE("B2 as many Calls are served at once as were granted, and each answer grants another") {
  Served served;
  Driver& driver = served.driver;
  for (std::uint32_t i = 0; i < kCredits; ++i) served.call(kXid + i);
  CHECK(driver.delivered.size() == kCredits);
  driver.answer(driver.take_delivered().id);
  served.call(kXid + 100);  // its credit has come back
  CHECK(driver.delivered.size() == kCredits);
  for (const Deliver& one : std::exchange(driver.delivered, {})) driver.answer(one.id);
  CHECK(driver.answers.size() == kCredits + 1);
  driver.answers.clear();
  CHECK(driver.closes.empty());
  served.check_works();
}

/// The connection was closed, since a Call could not be answered, and its user has been told.
void check_closed_unanswered(Driver& driver, const char* why) {
  REQUIRE(driver.closes.size() == 1);
  CHECK(driver.closes[0].kind() == ErrorKind::protocol);
  CHECK(driver.closes[0].message().find(why) != std::string::npos);
  CHECK_FALSE(driver.requester.connected());
}

TEST_CASE("B10 a Call beyond the backward grant ends the connection") {
  Served served;
  Driver& driver = served.driver;
  for (std::uint32_t i = 0; i < kCredits + 1; ++i) served.call(kXid + i);
  CHECK(driver.delivered.size() == kCredits);
  check_closed_unanswered(driver, "more callbacks than it was granted");
}

TEST_CASE("B2 B10 a declined Call is answered with ERR_CHUNK and frees its place") {
  Served served;
  Driver& driver = served.driver;
  for (std::uint32_t i = 0; i < kCredits; ++i) served.call(kXid + i);
  const BackwardId id = driver.take_delivered().id;
  std::vector<Deliver> others = std::exchange(driver.delivered, {});
  driver.requester.decline(id);
  driver.run();
  served.check_err_chunk(kXid);
  driver.answer(id);  // too late
  CHECK(driver.answers.empty());
  served.call(kXid + 100);
  CHECK(driver.delivered.size() == 1);
  CHECK(driver.closes.empty());
}

TEST_CASE("B2 B10 a server that takes no answers cannot make them pile up: its connection ends") {
  Served served;
  Driver& driver = served.driver;
  driver.answer_answers = false;
  BackwardMaker bad(kXid);
  bad.header.rdma_reads = {{64, {1, 2, 3}}};
  bool errors_only = false;
  SUBCASE("of good Calls") {}
  SUBCASE("of bad ones") {
    errors_only = true;
  }
  for (std::uint32_t i = 0; i < 1000 && driver.closes.empty(); ++i) {
    if (errors_only) {
      driver.receive(bad.bytes());
    } else {
      served.call(kXid + i);
    }
    for (const Deliver& one : std::exchange(driver.delivered, {})) driver.answer(one.id);
  }
  CHECK(driver.answers.size() >= kCredits);
  CHECK(driver.answers.size() <= 2 * kCredits + 4);
  check_closed_unanswered(
      driver, errors_only ? "does not receive the replies" : "more callbacks than it was granted");
}

// ---- B3, B7: Receives ----

TEST_CASE("B3 Receives for the backward credits come on top of one for each forward Call") {
  for (const std::uint32_t credits : {1U, 4U, 16U}) {
    CAPTURE(credits);
    Served served(serving(credits));
    Driver& driver = served.driver;  // which compares with the Calls that are out after each step
    CHECK(driver.receives >= credits);
    for (int i = 0; i < 40; ++i) driver.submit(plain_call());
    CHECK(driver.sent.size() == 31);
    CHECK(driver.receives >= 31 + credits);
    // The server uses all that it has, both ways, before we do anything.
    for (std::uint32_t i = 0; i < credits; ++i) served.call(kXid + i);
    for (const CallView& call : std::exchange(driver.sent, {})) driver.reply(ReplyMaker(call));
    for (const Deliver& one : std::exchange(driver.delivered, {})) driver.answer(one.id);
    CHECK(driver.receives >= driver.unanswered.size() + credits);
    CHECK(driver.answers.size() == credits);
  }
}

TEST_CASE("B3 the number of Receives stays right whatever the server sends") {
  Served served;
  Driver& driver = served.driver;
  const auto most = [&] { return driver.config.credits_wanted + kCredits + 2; };
  BackwardMaker bad(kXid);
  bad.header.rdma_writes.add_chunk();
  for (std::uint32_t i = 0; i < 200; ++i) {
    switch (i % 5) {
      case 0:
      case 1:
        if (driver.delivered.size() < kCredits) served.call(kXid + i);
        break;
      case 2:
        driver.receive(bad.bytes());
        break;
      case 3:
        driver.receive(Octets(20));
        break;
      default:
        driver.submit(plain_call());
        driver.reply(ReplyMaker(driver.take_sent()));
        if (!driver.delivered.empty()) driver.answer(driver.take_delivered().id);
    }
    CHECK(driver.receives >= kCredits);
    CHECK(driver.receives <= most());
  }
}

TEST_CASE("B3 B7 they are there on every connection, before the first Send on it") {
  Driver driver(serving());
  const auto first_actions = [&] {
    // PostReceives comes first, and has room for the backward credits and the Reply of what follows.
    driver.requester.on_connected({}, driver.now);
    std::uint32_t receives = 0;
    bool sent = false;
    while (auto action = driver.requester.poll()) {
      if (const auto* post = std::get_if<PostReceives>(&*action)) {
        CHECK_FALSE(sent);
        receives += post->count;
      }
      sent = sent || std::holds_alternative<Send>(*action);
    }
    CHECK(sent);
    CHECK(receives >= kCredits + 1);
    driver.receives = receives;
  };
  driver.submit(plain_call());
  first_actions();
  driver.disconnect();
  driver.pass(1s);
  first_actions();
}

TEST_CASE("B7 backward Receives are posted as soon as there is a connection, Call or not") {
  Driver driver(serving());
  driver.requester.connect(driver.now);
  driver.run();
  driver.connect();
  CHECK(driver.sent.empty());
  CHECK(driver.receives >= kCredits);
  driver.receive(BackwardMaker(kXid).bytes());
  CHECK(driver.delivered.size() == 1);
  driver.hold(true);
  driver.disconnect();
  CHECK(driver.receives == 0);
  driver.pass(1s);
  driver.connect();
  CHECK(driver.receives >= kCredits);
}

// ---- B4: the answer ----

TEST_CASE("B4 an answer bears the Call's xid and version and the backward grant") {
  Served served(serving(7));
  Driver& driver = served.driver;
  served.call(kXid, 3);
  served.call(kXid + 1, 300);
  const Deliver first = driver.take_delivered();
  const Deliver second = driver.take_delivered();
  CHECK(first.id != second.id);
  const xdr::Message reply = backward_reply(100);
  driver.answer(second.id, reply);  // in any order
  driver.answer(first.id, reply);
  for (const std::uint32_t xid : {kXid + 1, kXid}) {
    const AnswerView answer = driver.take_answer();
    Served::check_reply(answer, xid);
    CHECK(answer.header.rdma_vers == 1);
    CHECK(answer.header.rdma_credit == 7);
    CHECK(answer.header_size == kMinHeader);  // and no chunk
    CHECK(text_of(answer.payload().subspan(4)) == text_of(reply.stream.bytes().subspan(4)));
  }
  driver.answer(first.id, reply);  // answered already
  CHECK(driver.answers.empty());
  CHECK(driver.requester.facts().backward_calls == 2);
  CHECK(driver.requester.facts().backward_replies == 2);
}

TEST_CASE("B4 items of an answer go inline, with their padding") {
  Served served;
  served.call(kXid);
  xdr::Message reply = backward_reply(24);
  xdr::Encoder encoder(reply);
  const Octets data = pattern(5);
  encoder.eligible(data);
  encoder.u32(0x01020304);
  served.driver.answer(served.driver.take_delivered().id, reply);
  const AnswerView answer = served.driver.take_answer();
  Served::check_reply(answer, kXid);
  Octets expected = results_of({5});
  append(expected, data);
  append(expected, octets({0, 0, 0, 1, 2, 3, 4}));
  CHECK(text_of(answer.payload().subspan(24)) == text_of(expected));
}

TEST_CASE("B4 a Call is answered on the connection that it came on, or not at all") {
  Served served;
  Driver& driver = served.driver;
  served.call(kXid);
  const BackwardId old = driver.take_delivered().id;
  driver.submit(plain_call());
  bool reconnects = true;
  SUBCASE("after it has gone") {
    driver.disconnect();
  }
  SUBCASE("while it is being closed") {
    driver.answer_closes = false;
    driver.receive(Octets(40), 0x1234);  // invalidates a handle that is nobody's
    REQUIRE(driver.closes.size() == 1);
    reconnects = false;
  }
  if (reconnects) {
    driver.pass(1s);
    driver.connect();
    served.call(kXid);  // sent again: another Call of the same xid
  }
  const std::uint64_t discarded = driver.requester.facts().discarded;
  driver.answer(old);
  CHECK(driver.answers.empty());
  CHECK(driver.requester.facts().discarded == discarded + 1);
  if (!reconnects) return;
  const BackwardId again = driver.take_delivered().id;
  CHECK(again != old);
  driver.answer(again);
  Served::check_reply(driver.take_answer(), kXid);
}

TEST_CASE("B4 what the fabric says of answers is not mistaken for what it says of Calls") {
  Served served;
  Driver& driver = served.driver;
  driver.answer_sends = driver.answer_answers = false;
  const CallId id = driver.submit(plain_call());
  const CallView call = driver.take_sent();
  // As many backward Calls as it takes for the same number.
  for (std::uint32_t i = 0; i < id; ++i) {
    served.call(kXid + i);
    driver.answer(driver.take_delivered().id);
  }
  REQUIRE(driver.answers.back().cookie == id);
  driver.requester.on_answer_sent(id);
  driver.reply(ReplyMaker(call));
  CHECK(driver.take_completed().id == id);
  const AnswerView& kept = driver.answers.front();
  CHECK(text_of(kept.borrowed) == text_of(kept.bytes));
}

TEST_CASE("B4 after a shutdown nobody is answered") {
  Served served;
  served.call(kXid);
  const BackwardId id = served.driver.take_delivered().id;
  served.driver.requester.shut_down(served.driver.now);
  served.driver.run();
  served.driver.answer(id);
  CHECK(served.driver.answers.empty());
}

// ---- B5, B6: errors ----

TEST_CASE("B5 a backward Call with chunks is answered with ERR_CHUNK") {
  Served served;
  BackwardMaker call(kXid);
  SUBCASE("a Read list") {
    call.header.rdma_reads = {{64, {1, 2, 3}}};
  }
  SUBCASE("a Write list") {
    call.header.rdma_writes.add_chunk(std::vector<RemoteSegment>{{1, 2, 3}});
  }
  SUBCASE("a Reply chunk") {
    call.header.has_rdma_reply = true;
    call.header.rdma_reply = {{1, 2, 3}};
  }
  SUBCASE("a Long Call") {
    call.header.proc = rdma_proc::RDMA_NOMSG;
    call.header.rdma_reads = {{0, {1, 2000, 3}}};
    call.payload.clear();
  }
  SUBCASE("a Long Call with room for a Long Reply") {
    call.header.proc = rdma_proc::RDMA_NOMSG;
    call.header.rdma_reads = {{0, {1, 2000, 3}}};
    call.header.has_rdma_reply = true;
    call.header.rdma_reply = {{4, 5000, 6}};
    call.payload.clear();
  }
  served.driver.receive(call.bytes());
  served.check_err_chunk(kXid);
  CHECK(served.driver.requester.facts().backward_refused == 1);
  served.check_works();
}

TEST_CASE("B6 a backward Call of another version is answered with ERR_VERS, 1 to 1") {
  bool other_layout = false;
  SUBCASE("laid out as in version 1") {}
  SUBCASE("with another header") {
    other_layout = true;
  }
  for (const std::uint32_t version : {0U, 2U, 0xffffffffU}) {
    Served served;
    Octets bytes = BackwardMaker(kXid).bytes();
    xdr::store_u32(&bytes[4], version);
    if (other_layout) {
      bytes.insert(bytes.begin() + kMinHeader, 24, std::byte{0x11});
      xdr::store_u32(&bytes[12], 7);
    }
    served.driver.receive(bytes);
    CHECK(served.driver.delivered.empty());
    REQUIRE(served.driver.answers.size() == 1);
    const Octets error = served.driver.take_answer().bytes;
    // 8166 4.5: the xid and the version of the failing request; 4.5.1: what we speak.
    CHECK(error.size() == kErrVersMessage);
    const std::array<std::uint32_t, 7> expected{kXid, version, kCredits, 4, 1, 1, 1};
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(xdr::load_u32(&error[4 * i]) == expected[i]);
    served.check_works();
  }
}

TEST_CASE("B6 a backward Call with a header that cannot be read is answered with ERR_CHUNK") {
  Served served;
  BackwardMaker call(kXid);
  Octets bytes = call.bytes();
  SUBCASE("an unknown procedure") {
    xdr::store_u32(&bytes[12], 5);
  }
  SUBCASE("RDMA_MSGP, which is no more (4.6.1)") {
    bytes.insert(bytes.begin() + 16, 8, std::byte{0});
    xdr::store_u32(&bytes[12], 2);
  }
  SUBCASE("a list that is neither there nor not") {
    xdr::store_u32(&bytes[20], 2);
  }
  SUBCASE("more segments than there are bytes") {
    call.header.has_rdma_reply = true;
    call.header.rdma_reply = {{1, 2, 3}};
    bytes = call.bytes();
    xdr::store_u32(&bytes[28], 0x7fffffff);
  }
  SUBCASE("another xid in the RPC header (4.5.2)") {
    xdr::store_u32(&bytes[kMinHeader], kXid + 1);
  }
  served.driver.receive(bytes);
  served.check_err_chunk(kXid);
  served.check_works();
}

TEST_CASE("B6 T20 errors are for Calls: with our xid, a bad header tells the two directions apart") {
  Served served;
  Driver& driver = served.driver;
  driver.submit(plain_call());
  const CallView ours = driver.take_sent();
  Octets call = BackwardMaker(ours.xid()).bytes();
  Octets reply = ReplyMaker(ours, 3).bytes();
  for (Octets* one : {&call, &reply}) xdr::store_u32(&(*one)[12], 5);
  driver.receive(reply);
  CHECK(driver.answers.empty());
  CHECK(driver.requester.facts().discarded == 1);
  driver.receive(call);
  served.check_err_chunk(ours.xid());
  CHECK(driver.completed.empty());
  driver.reply(ReplyMaker(ours));
  CHECK(driver.take_completed().failure == Failure::none);
}

// ---- B8: keeping the connection ----

TEST_CASE("B8 a held connection is made anew without a Call, again and again, at growing intervals") {
  Served served;
  Driver& driver = served.driver;
  driver.hold(true);
  driver.disconnect();
  Duration last{};
  for (int i = 0; i < 40; ++i) {
    const TimePoint before = driver.now;
    for (int steps = 0; driver.connects.empty(); ++steps) {
      REQUIRE(steps < 1000);
      driver.pass(10ms);
    }
    REQUIRE(driver.connects.size() == 1);
    driver.connects.clear();
    last = driver.now - before;
    CHECK(last <= driver.config.reconnect_most + 10ms);
    driver.connect_fails(i == 20);  // even if it is said to be for good
  }
  CHECK(last >= driver.config.reconnect_most);
  driver.pass(10s);
  REQUIRE(driver.connects.size() == 1);
  driver.connect();
  CHECK(driver.requester.connected());
  CHECK(driver.sent.empty());
  served.call(kXid);
  CHECK(driver.delivered.size() == 1);
}

TEST_CASE("B8 a connection that is not held, or no longer, is made when it is needed") {
  Served served;
  Driver& driver = served.driver;
  SUBCASE("never held") {
    driver.disconnect();
  }
  SUBCASE("let go before") {
    driver.hold(true);
    driver.hold(false);
    driver.disconnect();
  }
  SUBCASE("let go while it waits for the next attempt") {
    driver.hold(true);
    driver.disconnect();
    driver.connect_fails();
    driver.connects.clear();
    driver.hold(false);
  }
  driver.connects.clear();
  driver.pass(60s);
  CHECK(driver.connects.empty());
  CHECK_FALSE(driver.requester.next_deadline());
  driver.submit(plain_call());
  CHECK(driver.connects.size() == 1);
}

TEST_CASE("B8 holding makes a connection where there is none, and a shutdown ends it") {
  Driver driver(serving());
  driver.hold(true);
  REQUIRE(driver.connects.size() == 1);
  driver.connect();
  driver.requester.shut_down(driver.now);
  driver.run();
  driver.connects.clear();
  driver.hold(true);
  driver.pass(60s);
  CHECK(driver.connects.empty());
}

// ---- B9: the threshold ----

TEST_CASE("B9 an answer over the threshold is not sent: ERR_CHUNK tells that there is none") {
  for (const std::uint32_t threshold : {1024U, 2048U, 4096U}) {
    CAPTURE(threshold);
    Driver driver(serving());
    driver.establish(32, sizes(4096, threshold));
    REQUIRE(driver.requester.facts().call_threshold == threshold);
    const auto answer_with = [&](std::size_t size) {
      driver.receive(BackwardMaker(kXid).bytes());
      driver.answer(driver.take_delivered().id, backward_reply(size));
      REQUIRE(driver.answers.size() == 1);
      return driver.take_answer();
    };
    const std::size_t most = threshold - kMinHeader;
    Served::check_reply(answer_with(most), kXid);
    for (const std::size_t size : {most + 4, most + 4000, most + 1000000}) {
      const AnswerView error = answer_with(size);
      CHECK(error.header.rdma_xid == kXid);
      CHECK(error.header.proc == rdma_proc::RDMA_ERROR);
      CHECK(error.header.err == rpc_rdma_errcode::ERR_CHUNK);
    }
    CHECK(driver.count(Notice::Kind::protocol_oddity) == 1);
    Served::check_reply(answer_with(most), kXid);
  }
}

// ---- P6: invalidation ----

TEST_CASE("P6 a backward Call that invalidates a handle ends the connection, whosever xid it bears") {
  Config config = serving();
  config.remote_invalidation = true;
  Driver driver(config);
  driver.establish(8, sizes(4096, 4096, true));
  Octets destination(5000);
  driver.submit(read_call(destination));
  const CallView ours = driver.take_sent();
  const std::uint32_t handle = ours.header.rdma_writes[0][0].handle;
  BackwardMaker call(kXid);
  Octets bytes = call.bytes();
  SUBCASE("its own") {}
  SUBCASE("that of the handle's RPC") {
    bytes = BackwardMaker(ours.xid()).bytes();
  }
  SUBCASE("that of the handle's RPC, with chunks") {
    call = BackwardMaker(ours.xid());
    call.header.rdma_reads = {{64, {1, 2, 3}}};
    bytes = call.bytes();
  }
  SUBCASE("that of the handle's RPC, with a bad header") {
    bytes = BackwardMaker(ours.xid()).bytes();
    xdr::store_u32(&bytes[4], 2);
  }
  driver.receive(bytes, handle);
  REQUIRE(driver.closes.size() == 1);
  CHECK(driver.closes[0].kind() == ErrorKind::protocol);
  CHECK(driver.completed.empty());
  CHECK(driver.delivered.empty());
  CHECK(driver.answers.empty());
  driver.pass(1s);
  driver.connect(sizes(4096, 4096, true));
  CHECK(driver.take_sent().xid() == ours.xid());
}

}  // namespace nfsrdma::rpcrdma::testing
