// Messages that are discarded, or end an RPC without a Reply (RFC 8166 4.2, 4.5, 4.6; RFC 8167 2.4).
#include "support/rpcrdma_asked.h"

namespace nfsrdma::rpcrdma::testing {

TEST_CASE("T19 a message of under 28 bytes is discarded, whatever its first words say") {
  Octets destination(3000);
  Asked asked(read_call(destination));
  const Octets whole = ReplyMaker(asked.call).bytes();
  rdma_msg vers;
  vers.rdma_xid = asked.call.xid();
  vers.rdma_credit = 9;
  vers.proc = rdma_proc::RDMA_ERROR;
  vers.err = rpc_rdma_errcode::ERR_VERS;
  xdr::Buffer error;
  encode(vers, error);
  for (std::size_t size = 0; size < kMinHeader; ++size) {
    asked.driver.receive(ConstBytes(whole).first(size));
    asked.driver.receive(error.bytes().first(size));
    REQUIRE(asked.driver.completed.empty());
  }
  CHECK(asked.driver.requester.facts().granted == 32);
  CHECK(asked.driver.requester.facts().discarded == 56);
  asked.check_lives_on();
}

TEST_CASE("T20 a Reply with an error in its transport header is discarded, and the RPC lives on") {
  Octets destination(3000);
  Asked asked(read_call(destination));
  Octets bytes = ReplyMaker(asked.call, 7).bytes();
  SUBCASE("another version") {
    xdr::store_u32(&bytes[4], 2);
  }
  SUBCASE("an unknown procedure") {
    xdr::store_u32(&bytes[12], 5);
  }
  SUBCASE("a Read list that is neither there nor not") {
    xdr::store_u32(&bytes[16], 2);
  }
  SUBCASE("a Write list that does not end") {
    bytes.resize(44);
  }
  SUBCASE("more segments than there are bytes") {
    xdr::store_u32(&bytes[24], 0x7fffffff);
  }
  SUBCASE("a segment count that wraps around") {
    xdr::store_u32(&bytes[24], 0x10000001);
  }
  SUBCASE("a Reply chunk cut short") {
    bytes.resize(52);
    xdr::store_u32(&bytes[48], 1);
  }
  SUBCASE("a Long Reply that is nowhere") {
    rdma_msg nowhere;
    nowhere.rdma_xid = asked.call.xid();
    nowhere.rdma_credit = 7;
    nowhere.proc = rdma_proc::RDMA_NOMSG;
    xdr::Buffer buffer;
    encode(nowhere, buffer);
    bytes.assign(buffer.bytes().begin(), buffer.bytes().end());
  }
  asked.driver.receive(bytes);
  CHECK(asked.driver.requester.facts().granted == 32);  // nothing in it was believed
  CHECK(asked.driver.requester.facts().discarded == 1);
  asked.check_lives_on();
}

TEST_CASE("T20 an RPC whose Reply was discarded ends at its own time-out") {
  Call call = plain_call();
  call.deadline = TimePoint(1000h) + 10s;
  Asked asked(std::move(call));
  Octets bytes = ReplyMaker(asked.call).bytes();
  xdr::store_u32(&bytes[12], 17);
  asked.driver.receive(bytes);
  asked.driver.pass(9s);
  CHECK(asked.driver.completed.empty());
  asked.driver.pass(1s);
  CHECK(asked.driver.take_completed().failure == Failure::timed_out);
}

TEST_CASE("T21 RDMA_ERROR ends the RPC and says why") {
  Octets destination(3000);
  Asked asked(read_call(destination));
  ReplyMaker reply(asked.call, 20);
  reply.header.proc = rdma_proc::RDMA_ERROR;
  reply.payload.clear();
  SUBCASE("ERR_VERS, with the versions that the server speaks") {
    reply.header.err = rpc_rdma_errcode::ERR_VERS;
    reply.header.rdma_vers_low = 3;
    reply.header.rdma_vers_high = 5;
    asked.driver.reply(reply);
    const Complete done = asked.check_ended(Failure::err_vers);
    CHECK(done.error->message().find("versions 3 to 5") != std::string::npos);
  }
  SUBCASE("ERR_CHUNK, in the 20 bytes that its XDR has") {
    REQUIRE(reply.bytes().size() == 20);
    asked.driver.reply(reply);
    CHECK(asked.check_ended(Failure::err_chunk).error->errno_value() == EREMOTEIO);
  }
  SUBCASE("ERR_CHUNK, filled up to the smallest header") {
    reply.payload = Octets(8);
    asked.driver.reply(reply);
    asked.check_ended(Failure::err_chunk);
  }
}

TEST_CASE("T21 an RDMA_ERROR that cannot be decoded is discarded") {
  Asked asked(plain_call());
  ReplyMaker reply(asked.call);
  reply.header.proc = rdma_proc::RDMA_ERROR;
  reply.payload = Octets(12);
  Octets bytes = reply.bytes();
  xdr::store_u32(&bytes[16], 3);  // no such error
  asked.driver.receive(bytes);
  asked.check_lives_on();
}

TEST_CASE("T22 RDMA_MSGP and RDMA_DONE are discarded") {
  Asked asked(plain_call());
  for (const rdma_proc proc : {rdma_proc::RDMA_MSGP, rdma_proc::RDMA_DONE}) {
    Octets bytes = ReplyMaker(asked.call, 3).bytes();
    xdr::store_u32(&bytes[12], static_cast<std::uint32_t>(proc));
    asked.driver.receive(bytes);
  }
  CHECK(asked.driver.requester.facts().granted == 32);
  asked.check_lives_on();
}

TEST_CASE("T22 T24 neither RDMA_MSGP nor RDMA_DONE nor RDMA_ERROR is ever sent") {
  // Whatever comes: Calls of every form, and every kind of bad message.
  Asked asked(plain_call());
  Octets destination(3000);
  const Octets data = pattern(3000);
  asked.driver.submit(read_call(destination));
  asked.driver.submit(write_call(100, data, 4));
  asked.driver.submit(plain_call(2000));
  asked.driver.submit(write_call(2000, data, 4));
  asked.driver.submit(expecting(3000));
  const Octets good = ReplyMaker(asked.call).bytes();
  for (std::size_t at = 0; at < good.size(); at += 4) {
    for (const std::uint32_t word : {0U, 1U, 2U, 3U, 4U, 5U, 0xffffffffU}) {
      Octets bad = good;
      xdr::store_u32(&bad[at], word);
      asked.driver.receive(bad);
    }
  }
  REQUIRE(asked.driver.sent.size() == 5);
  for (const CallView& call : asked.driver.sent) {
    CHECK((call.header.proc == rdma_proc::RDMA_MSG || call.header.proc == rdma_proc::RDMA_NOMSG));
  }
}

TEST_CASE("T23 a Reply with an unknown xid is discarded") {
  Asked asked(plain_call());
  ReplyMaker reply(asked.call, 5);
  reply.header.rdma_xid += 77;
  reply.payload = ReplyMaker::rpc_reply(reply.header.rdma_xid);
  asked.driver.receive(reply.bytes());
  CHECK(asked.driver.requester.facts().granted == 32);
  asked.check_lives_on();
}

TEST_CASE("T23 a Reply whose RPC header bears another xid is discarded") {
  Asked asked(plain_call());
  ReplyMaker reply(asked.call, 5);
  SUBCASE("another") {
    reply.payload = ReplyMaker::rpc_reply(asked.call.xid() + 1);
  }
  SUBCASE("none") {
    reply.payload.clear();
  }
  SUBCASE("half of one") {
    reply.payload.resize(6);
  }
  asked.driver.receive(reply.bytes());
  CHECK(asked.driver.requester.facts().granted == 32);
  asked.check_lives_on();
}

TEST_CASE("T23 a duplicate of a Reply is discarded") {
  Asked asked(plain_call());
  const Octets bytes = ReplyMaker(asked.call).bytes();
  asked.driver.receive(bytes);
  asked.driver.receive(bytes);
  CHECK(asked.driver.completed.size() == 1);
  CHECK(asked.driver.requester.facts().discarded == 1);
}

TEST_CASE("T23 a Reply to a Call that has been answered, or is yet to be sent, is discarded whole") {
  Config config;
  config.reserved_credits = 0;
  Driver driver(config);
  driver.establish(1);
  driver.answer_sends = false;  // the fabric is slow to say that it has sent: the Call is remembered
  driver.submit(plain_call());
  CallView call = driver.take_sent();
  SUBCASE("answered") {
    driver.reply(ReplyMaker(call, 1));
  }
  SUBCASE("yet to be sent") {
    driver.submit(plain_call());
    REQUIRE(driver.sent.empty());
    ++call.header.rdma_xid;
  }
  driver.completed.clear();
  driver.receive(ReplyMaker(call, 20).bytes());
  CHECK(driver.completed.empty());
  CHECK(driver.requester.facts().granted == 1);
  CHECK(driver.requester.facts().discarded == 1);
}

TEST_CASE("T23 a Long Reply that is not this RPC's ends it: its memory is gone, no other can come") {
  Asked asked(expecting(3000));
  const Octets message = ReplyMaker::rpc_reply(asked.call.xid() + 1, pattern(1000));
  REQUIRE(asked.driver.memory.write(asked.call.header.rdma_reply[0], message));
  ReplyMaker reply(asked.call, 7);
  reply.long_reply(asked.call, message.size());
  asked.driver.reply(reply);
  CHECK(asked.driver.requester.facts().granted == 32);  // nothing in it was believed
  asked.check_ended(Failure::bad_reply);
}

TEST_CASE("a backward Call is discarded, and its credit value is not a grant") {
  Asked asked(plain_call());
  ReplyMaker reply(asked.call, 1);
  xdr::store_u32(&reply.payload[4], 0);  // CALL
  asked.driver.receive(reply.bytes());
  rdma_msg long_call;
  long_call.rdma_xid = asked.call.xid();
  long_call.rdma_credit = 1;
  long_call.proc = rdma_proc::RDMA_NOMSG;
  long_call.rdma_reads = {{0, {1, 2000, 3}}};
  xdr::Buffer buffer;
  encode(long_call, buffer);
  asked.driver.receive(buffer.bytes());
  CHECK(asked.driver.requester.facts().granted == 32);
  asked.check_lives_on();
}

TEST_CASE("a Reply shorter than any RPC Reply ends the RPC") {
  Asked asked(plain_call());
  ReplyMaker reply(asked.call);
  reply.payload.resize(16);
  asked.driver.reply(reply);
  asked.check_ended(Failure::bad_reply);
}

}  // namespace nfsrdma::rpcrdma::testing
