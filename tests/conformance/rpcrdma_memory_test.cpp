// Memory that a peer can reach, and when it no longer can (RFC 8166 4.4, 4.5.4, 8.1; RFC 8797 4.1).
#include "support/rpcrdma_asked.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

Config with_invalidation() {
  Config config;
  config.remote_invalidation = true;
  return config;
}

/// A call with all three kinds of chunk.
Call busy_call(ConstBytes data, Bytes destination) {
  Call call = write_call(100, data, 4);
  call.results.push_back({destination, false});
  call.reply_max_inline = 2000 + destination.size();
  call.reply_max_reduced = 2000;
  return call;
}

/// A connection, and on it a busy call that is out.
struct Busy {
  static constexpr Duration kPatience = 5s;
  const Octets data = pattern(5000);
  Octets destination = Octets(5000);
  Driver driver;
  CallId id = 0;
  CallView call;

  Busy() {
    driver.establish();
    Call made = busy_call(data, destination);
    made.deadline = driver.now + kPatience;
    id = driver.submit(std::move(made));
    call = driver.take_sent();
  }
  /// Its caller gives it up, or its deadline passes.
  void give_up(bool cancelled) {
    if (cancelled) {
      driver.cancel(id);
    } else {
      driver.pass(kPatience);
    }
  }
};

}  // namespace

TEST_CASE("T26 memory is exposed for one RPC and taken back before its caller sees the result") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(5000);
  Octets destination(5000);
  driver.answer_revokes = false;
  driver.submit(busy_call(data, destination));
  const CallView call = driver.take_sent();
  CHECK(driver.memory.live.size() == 3);
  driver.reply(ReplyMaker(call));
  // The Reply is here, and stays here until all three are out of reach.
  CHECK(driver.completed.empty());
  REQUIRE(driver.revokes.size() == 1);
  CHECK(driver.revokes[0].segments.size() == 3);
  driver.answer(driver.revokes[0]);
  driver.run();
  CHECK(driver.completed.size() == 1);
  CHECK(driver.memory.live.empty());
  // The same memory for the next call is exposed anew.
  driver.submit(busy_call(data, destination));
  const CallView next = driver.take_sent();
  for (const RemoteSegment& one : Driver::segments_of(next.header)) {
    for (const RemoteSegment& old : Driver::segments_of(call.header)) CHECK(one.handle != old.handle);
  }
}

TEST_CASE(
    "T40 a protected Reply can be opened when its memory is out of the server's reach, and not before") {
  Driver driver;
  driver.establish();
  driver.answer_revokes = false;
  Cover cover;
  Call call = plain_call(2000);
  call.seal = &cover;
  call.reply_max_inline = call.reply_max_reduced = 5000;
  driver.submit(std::move(call));
  const CallView sent = driver.take_sent();
  REQUIRE(sent.header.has_rdma_reply);
  REQUIRE(sent.header.rdma_writes.empty());
  const Octets wire = ReplyMaker::rpc_reply(sent.xid(), pattern(3000));
  const RemoteSegment& chunk = sent.header.rdma_reply[0];
  REQUIRE(driver.memory.write(chunk, wire));
  driver.reply(ReplyMaker(sent).long_reply(sent, wire.size()));
  // Who opens it gets it with Complete.
  CHECK(driver.completed.empty());
  REQUIRE(driver.revokes.size() == 1);
  CHECK(driver.revokes[0].segments == Driver::segments_of(sent.header));
  driver.answer(driver.revokes[0]);
  driver.run();
  const Complete done = driver.take_completed();
  // Nor can the server change now what is about to be verified.
  CHECK_FALSE(driver.memory.write(chunk, pattern(3000, 2)));
  REQUIRE(done.reply);
  CHECK(Octets(done.reply->message.begin(), done.reply->message.end()) == wire);
}

TEST_CASE("T26 a call that needs no memory of its caller's exposes none") {
  Driver driver;
  driver.establish();
  driver.submit(plain_call());
  CHECK(driver.memory.live.empty());
  driver.reply(ReplyMaker(driver.take_sent()));
  CHECK(driver.revokes.empty());
  CHECK(driver.completed.size() == 1);
}

TEST_CASE("T27 memory that cannot be taken back closes the connection before the RPC completes") {
  Driver driver;
  driver.establish();
  Octets destination(5000);
  driver.submit(read_call(destination));
  driver.submit(plain_call());
  const CallView call = driver.take_sent();
  driver.sent.clear();
  driver.answer_closes = false;
  driver.revoke_works = false;
  driver.reply(ReplyMaker(call));
  CHECK(driver.closes.size() == 1);
  CHECK(driver.completed.empty());
  CHECK(driver.memory.live.size() == 1);
  driver.disconnect();
  const Complete done = driver.take_completed();
  CHECK(done.failure == Failure::none);  // its Reply was good, and now nobody can touch it
  CHECK(done.reply);
  // The other RPC goes on, on another connection.
  driver.connect();
  driver.reply(ReplyMaker(driver.take_sent()));
  CHECK(driver.take_completed().failure == Failure::none);
}

TEST_CASE("T28 the memory of an RPC that was cancelled or timed out is taken back before it ends") {
  for (const bool cancelled : {true, false}) {
    for (const bool reply_in_between : {true, false}) {
      CAPTURE(cancelled);
      CAPTURE(reply_in_between);
      Busy busy;
      Driver& driver = busy.driver;
      driver.answer_revokes = false;
      busy.give_up(cancelled);
      CHECK(driver.completed.empty());
      REQUIRE(driver.revokes.size() == 1);
      CHECK(driver.revokes[0].segments.size() == 3);
      if (reply_in_between) driver.reply(ReplyMaker(busy.call));
      CHECK(driver.completed.empty());
      driver.answer(driver.revokes[0]);
      driver.run();
      const Complete done = driver.take_completed();
      CHECK(done.failure == (cancelled ? Failure::cancelled : Failure::timed_out));
      CHECK_FALSE(done.reply);
      CHECK(driver.memory.live.empty());
      // A late Reply, or RDMA Write, changes nothing.
      CHECK_FALSE(driver.memory.write(busy.call.header.rdma_writes[0][0], pattern(100)));
      driver.receive(ReplyMaker(busy.call).bytes());
      CHECK(driver.completed.empty());
      CHECK(driver.closes.empty());
    }
  }
}

TEST_CASE("T28 an owner who cannot wait has his memory back before anything else is done") {
  using Memory = Requester::Memory;
  Busy busy;
  Driver& driver = busy.driver;
  std::optional<Revoke> revoke;
  const CallId id = busy.id;
  CHECK(driver.requester.want_back(id + 1, revoke) == Memory::free);
  SUBCASE("its Revoke is taken out of the actions") {
    driver.requester.disown(id);
    driver.requester.cancel(id, driver.now);
    CHECK(driver.requester.want_back(id, revoke) == Memory::taken_back);
    REQUIRE(revoke);
    CHECK(revoke->cookie == id);
    CHECK(revoke->segments.size() == 3);
    CHECK(revoke->abandoned);
    driver.run();
    CHECK(driver.revokes.empty());
    for (const RemoteSegment& one : revoke->segments) driver.memory.live.erase(one.handle);
    driver.requester.on_revoked(id, true, driver.now);
  }
  SUBCASE("there is none where it has been performed") {
    driver.answer_revokes = false;
    driver.cancel(id);
    REQUIRE(driver.revokes.size() == 1);
    CHECK(driver.requester.want_back(id, revoke) == Memory::taken_back);
    CHECK_FALSE(revoke);
    driver.answer(driver.revokes[0]);
  }
  SUBCASE("nor where the connection is about to be closed, which takes it back") {
    driver.answer_closes = false;
    driver.requester.shut_down(driver.now);
    CHECK(driver.requester.want_back(id, revoke) == Memory::out_of_hand);
    CHECK_FALSE(revoke);
    driver.answer_closes = true;
  }
  driver.run();
  CHECK(driver.requester.want_back(id, revoke) == Memory::free);
}

TEST_CASE("T28 the handles of an RPC that was given up are borne with until its Reply has come") {
  for (const bool cancelled : {true, false}) {
    CAPTURE(cancelled);
    Busy busy;
    Driver& driver = busy.driver;
    busy.give_up(cancelled);
    REQUIRE(driver.revokes.size() == 1);
    CHECK(driver.revokes[0].abandoned);
    CHECK(driver.completed.size() == 1);
    CHECK(driver.forgets.empty());
    CHECK(driver.abandoned.size() == 3);
    ReplyMaker reply(busy.call);
    SUBCASE("a Reply") {}
    SUBCASE("an RDMA_ERROR") {
      reply.header.proc = rdma_proc::RDMA_ERROR;
      reply.payload.clear();
    }
    driver.reply(reply);
    REQUIRE(driver.forgets.size() == 1);
    CHECK(driver.forgets[0].segments == driver.revokes[0].segments);
    driver.receive(reply.bytes());  // once more
    CHECK(driver.forgets.size() == 1);
    CHECK(driver.closes.empty());
  }
}

TEST_CASE("T28 a late Reply that overtakes the invalidation forgets the handles, too") {
  Octets destination(5000);
  Asked asked(read_call(destination));
  Driver& driver = asked.driver;
  driver.answer_revokes = false;
  driver.cancel(asked.id);
  driver.reply(ReplyMaker(asked.call));
  CHECK(driver.forgets.size() == 1);
  CHECK(driver.completed.empty());
  driver.answer(driver.revokes[0]);
  driver.run();
  CHECK(driver.take_completed().failure == Failure::cancelled);
  CHECK(driver.abandoned.empty());
}

TEST_CASE("T28 what the server was never told, or has answered, is revoked for good") {
  Driver driver;
  driver.establish();
  Octets destination(5000);
  SUBCASE("its Reply has come") {
    driver.submit(read_call(destination));
    driver.reply(ReplyMaker(driver.take_sent()));
  }
  SUBCASE("its Send was not seen") {
    driver.cancel(driver.requester.submit(read_call(destination), driver.now));
  }
  SUBCASE("it could not be built") {
    driver.memory.fail_after = 1;
    driver.submit(busy_call(pattern(5000), destination));
  }
  REQUIRE(driver.revokes.size() == 1);
  CHECK_FALSE(driver.revokes[0].abandoned);
  CHECK(driver.forgets.empty());
}

TEST_CASE("T28 the end of a connection forgets what was abandoned on it") {
  Octets destination(5000);
  Asked asked(read_call(destination));
  Driver& driver = asked.driver;
  driver.cancel(asked.id);
  driver.disconnect();
  driver.submit(plain_call());
  driver.connect();
  driver.reply(ReplyMaker(driver.take_sent()));
  driver.receive(ReplyMaker(asked.call).bytes());  // of the old connection's call
  CHECK(driver.forgets.empty());
  CHECK(driver.closes.empty());
}

TEST_CASE("T28 a connection that had to go for what was given up is replaced without a word") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(5000);
  const CallId id = driver.submit(write_call(100, data, 4));
  driver.submit(plain_call());
  driver.cancel(id);
  driver.completed.clear();
  driver.sent.clear();
  const Error why(ErrorKind::cancelled, ECANCELED, "", "server", "still fetching");
  driver.disconnect(why);
  REQUIRE(driver.connects.size() == 1);
  SUBCASE("it can be replaced") {
    driver.connect();
    driver.reply(ReplyMaker(driver.take_sent()));
    CHECK(driver.take_completed().failure == Failure::none);
    CHECK(driver.notices.empty());
    // One that is lost for another reason is told as ever.
    driver.disconnect();
    CHECK(driver.count(Notice::Kind::connection_lost) == 1);
  }
  SUBCASE("it cannot") {
    driver.connect_fails();
    CHECK(driver.notices.empty());
    driver.pass(driver.config.notice_after);
    CHECK(driver.count(Notice::Kind::not_responding) == 1);
  }
}

TEST_CASE("S19 an invalidation that does not complete closes the connection, and nobody waits for ever") {
  Octets destination(5000);
  Asked asked(read_call(destination));
  Driver& driver = asked.driver;
  driver.answer_revokes = false;
  Failure expected = Failure::none;
  SUBCASE("behind its Reply") {
    driver.reply(ReplyMaker(asked.call));
  }
  SUBCASE("behind a Reply that was long in coming") {
    driver.pass(20s);
    driver.reply(ReplyMaker(asked.call));
  }
  SUBCASE("behind a cancellation") {
    driver.cancel(asked.id);
    expected = Failure::cancelled;
  }
  driver.pass(driver.config.revoke_timeout - 1ms);
  CHECK(driver.completed.empty());
  CHECK(driver.closes.empty());
  driver.pass(1ms);
  REQUIRE(driver.closes.size() == 1);
  CHECK(driver.closes[0].kind() == ErrorKind::local);
  CHECK(driver.take_completed().failure == expected);
  CHECK(driver.memory.live.empty());
  driver.requester.on_revoked(asked.id, true, driver.now);  // late
  driver.run();
  CHECK(driver.completed.empty());
  // Calls go on over another connection.
  driver.submit(plain_call());
  driver.connect();
  driver.reply(ReplyMaker(driver.take_sent()));
  CHECK(driver.take_completed().failure == Failure::none);
}

TEST_CASE("S19 an invalidation that completes in time costs nothing") {
  Driver driver;
  driver.establish();
  driver.answer_revokes = false;
  Octets destination(5000);
  for (int i = 0; i < 5; ++i) {
    driver.submit(read_call(destination));
    driver.reply(ReplyMaker(driver.take_sent()));
    driver.pass(driver.config.revoke_timeout - 1s);
    driver.answer(driver.revokes.back());
    driver.run();
    CHECK(driver.take_completed().failure == Failure::none);
  }
  driver.pass(1h);
  CHECK(driver.closes.empty());
}

TEST_CASE("T28 a Call that is cancelled before anybody saw its Send is not sent") {
  Driver driver;
  driver.establish(2);
  Octets destination(5000);
  const CallId id = driver.requester.submit(read_call(destination), driver.now);
  driver.cancel(id);
  CHECK(driver.sent.empty());
  CHECK(driver.take_completed().failure == Failure::cancelled);
  CHECK(driver.memory.live.empty());
  driver.submit(plain_call());  // its credit is free
  CHECK(driver.sent.size() == 1);
}

TEST_CASE("T28 a Call that is cancelled while it waits ends at once") {
  Driver driver;
  driver.establish(1);
  driver.submit(plain_call());
  const CallId id = driver.submit(plain_call());
  driver.cancel(id);
  CHECK(driver.take_completed().id == id);
  driver.reply(ReplyMaker(driver.take_sent()));
  CHECK(driver.completed.size() == 1);
  CHECK(driver.sent.empty());
}

TEST_CASE("T28 the bytes of a Send stay until the fabric has sent them, answered or not") {
  Driver driver;
  driver.establish();
  driver.answer_sends = false;
  driver.requester.submit(plain_call(), driver.now);
  std::optional<Send> send;
  while (auto action = driver.requester.poll()) {
    if (const Send* one = std::get_if<Send>(&*action)) send = *one;
  }
  REQUIRE(send);
  const Octets before(send->bytes.begin(), send->bytes.end());
  CallView call{send->cookie, before, {}, 0};
  call.header_size = decode(call.bytes, call.header).size;
  driver.reply(ReplyMaker(call));
  REQUIRE(driver.completed.size() == 1);
  for (int i = 0; i < 20; ++i) driver.submit(plain_call(500));  // would take the buffer over
  CHECK(Octets(send->bytes.begin(), send->bytes.end()) == before);
}

TEST_CASE("T30 a new connection is told nothing of an old one: everything is exposed anew") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(5000);
  Octets destination(5000);
  driver.submit(busy_call(data, destination));
  const CallView first = driver.take_sent();
  driver.disconnect();
  driver.connect();
  const CallView second = driver.take_sent();  // the driver checks that each handle lives
  CHECK(second.xid() == first.xid());
  const auto old_segments = Driver::segments_of(first.header);
  const auto new_segments = Driver::segments_of(second.header);
  REQUIRE(new_segments.size() == old_segments.size());
  for (const RemoteSegment& one : new_segments) {
    for (const RemoteSegment& old : old_segments) CHECK(one.handle != old.handle);
  }
  driver.reply(ReplyMaker(second));
  REQUIRE(driver.revokes.size() == 1);
  for (const RemoteSegment& one : driver.revokes[0].segments) {
    for (const RemoteSegment& old : old_segments) CHECK(one.handle != old.handle);
  }
}

TEST_CASE("P6 remote invalidation is announced only where the handles bear it") {
  CHECK(find_private_data(Driver().requester.private_data())->remote_invalidation == false);
  CHECK(find_private_data(Driver(with_invalidation()).requester.private_data())->remote_invalidation == true);
  Driver both(with_invalidation());
  both.establish(8, sizes(4096, 4096, true));
  CHECK(both.requester.facts().remote_invalidation);
  Driver peer_does_not(with_invalidation());
  peer_does_not.establish(8, sizes(4096, 4096, false));
  CHECK_FALSE(peer_does_not.requester.facts().remote_invalidation);
}

TEST_CASE("P6 a handle that the Reply invalidated is not taken back again, the others are") {
  Driver driver(with_invalidation());
  driver.establish(8, sizes(4096, 4096, true));
  const Octets data = pattern(5000);
  Octets destination(5000);
  SUBCASE("one of several") {
    Call call = busy_call(data, destination);
    call.reply_max_reduced = 5000;
    driver.submit(std::move(call));
    const CallView sent = driver.take_sent();
    REQUIRE(driver.memory.live.size() == 3);
    const std::uint32_t gone = sent.header.rdma_writes[0][0].handle;
    driver.reply(ReplyMaker(sent), gone);
    REQUIRE(driver.revokes.size() == 1);
    CHECK(driver.revokes[0].segments.size() == 2);
    for (const RemoteSegment& one : driver.revokes[0].segments) CHECK(one.handle != gone);
  }
  SUBCASE("the only one") {
    driver.submit(read_call(destination));
    const CallView sent = driver.take_sent();
    driver.reply(ReplyMaker(sent), sent.header.rdma_writes[0][0].handle);
    CHECK(driver.revokes.empty());
  }
  CHECK(driver.take_completed().failure == Failure::none);
  CHECK(driver.memory.live.empty());
  CHECK(driver.closes.empty());
  CHECK(driver.notices.empty());
}

TEST_CASE("P6 a Reply may invalidate a handle of any chunk of its RPC: Linux takes the first that it finds") {
  Driver driver(with_invalidation());
  driver.establish(8, sizes(4096, 4096, true));
  const Octets data = pattern(5000);
  Octets destination(5000);
  enum class Chunk : std::uint8_t { read, write, reply };
  const auto handle_in = [](const CallView& call, Chunk chunk) {
    switch (chunk) {
      case Chunk::read:
        return call.header.rdma_reads.at(0).target.handle;
      case Chunk::write:
        return call.header.rdma_writes[0][0].handle;
      case Chunk::reply:
        break;
    }
    return call.header.rdma_reply.at(0).handle;
  };
  for (const Chunk chunk : {Chunk::read, Chunk::write, Chunk::reply}) {
    CAPTURE(static_cast<int>(chunk));
    // One of three chunks.
    Call busy = busy_call(data, destination);
    busy.reply_max_reduced = 5000;
    driver.submit(std::move(busy));
    const CallView one_of_three = driver.take_sent();
    REQUIRE(driver.memory.live.size() == 3);
    const std::uint32_t gone = handle_in(one_of_three, chunk);
    driver.reply(ReplyMaker(one_of_three), gone);
    CHECK(driver.closes.empty());
    CHECK(driver.take_completed().failure == Failure::none);
    REQUIRE(driver.revokes.size() == 1);
    CHECK(driver.revokes[0].segments.size() == 2);
    for (const RemoteSegment& one : driver.revokes[0].segments) CHECK(one.handle != gone);
    CHECK(driver.memory.live.empty());
    driver.revokes.clear();
    // The only chunk that there is: nothing is left to be revoked.
    driver.submit(chunk == Chunk::read    ? write_call(100, data, 4)
                  : chunk == Chunk::write ? read_call(destination)
                                          : expecting(5000));
    const CallView single = driver.take_sent();
    REQUIRE(driver.memory.live.size() == 1);
    driver.reply(ReplyMaker(single), handle_in(single, chunk));
    CHECK(driver.closes.empty());
    CHECK(driver.take_completed().failure == Failure::none);
    CHECK(driver.revokes.empty());
    CHECK(driver.memory.live.empty());
  }
  CHECK(driver.notices.empty());
}

TEST_CASE("P6 a Reply that invalidates the handle of another RPC ends the connection") {
  Driver driver(with_invalidation());
  driver.establish(8, sizes(4096, 4096, true));
  Octets first(5000);
  Octets second(5000);
  driver.submit(read_call(first));
  driver.submit(read_call(second));
  const CallView one = driver.take_sent();
  const CallView other = driver.take_sent();
  SUBCASE("another RPC's") {
    driver.reply(ReplyMaker(one), other.header.rdma_writes[0][0].handle);
  }
  SUBCASE("nobody's") {
    driver.reply(ReplyMaker(one), 0xdeadbeef);
  }
  SUBCASE("with a Reply that is nobody's") {
    ReplyMaker reply(one);
    reply.header.rdma_xid += 99;
    driver.receive(reply.bytes(), one.header.rdma_writes[0][0].handle);
  }
  SUBCASE("with a message too short to be one") {
    driver.receive(Octets(20), one.header.rdma_writes[0][0].handle);
  }
  REQUIRE(driver.closes.size() == 1);
  CHECK(driver.closes[0].kind() == ErrorKind::protocol);
  CHECK(driver.completed.empty());
  // Both are sent again.
  driver.connect();
  driver.pass(1s);
  if (driver.sent.empty()) driver.connect();
  CHECK(driver.take_sent().xid() == one.xid());
}

TEST_CASE("P6 an invalidation that was not agreed is survived and told, if it hits its own RPC") {
  Driver driver;
  driver.establish();
  Octets destination(5000);
  driver.submit(read_call(destination));
  const CallView sent = driver.take_sent();
  driver.reply(ReplyMaker(sent), sent.header.rdma_writes[0][0].handle);
  CHECK(driver.take_completed().failure == Failure::none);
  CHECK(driver.count(Notice::Kind::protocol_oddity) == 1);
}

TEST_CASE("P6 a late Reply to an RPC that was given up may invalidate a handle that it had") {
  Driver driver(with_invalidation());
  driver.establish(8, sizes(4096, 4096, true));
  Octets destination(5000);
  const CallId id = driver.submit(read_call(destination));
  const CallView sent = driver.take_sent();
  driver.cancel(id);
  driver.reply(ReplyMaker(sent), sent.header.rdma_writes[0][0].handle);
  CHECK(driver.closes.empty());
}

}  // namespace nfsrdma::rpcrdma::testing
