// What a Reply may say about the memory that was offered (RFC 8166 3.4.6, 3.5.3, 4.3, 6.1).
#include "support/rpcrdma_asked.h"

namespace nfsrdma::rpcrdma::testing {

TEST_CASE("T12 a returned Write list that is not the one offered ends the RPC") {
  Octets first(3000);
  Octets second(3000);
  Asked asked(large_call(first, second), 1000);  // two chunks of three segments
  ReplyMaker reply(asked.call, 7);
  reply.fill(asked.call, 0, 3000);
  WriteList& list = reply.header.rdma_writes;
  const auto changed = [&](std::size_t chunk, std::size_t segment, auto change) {
    WriteList other;
    for (std::size_t i = 0; i < list.size(); ++i) {
      other.add_chunk();
      for (std::size_t k = 0; k < list[i].size(); ++k) {
        RemoteSegment one = list[i][k];
        if (i == chunk && k == segment) change(one);
        other.add_segment(one);
      }
    }
    list = other;
  };
  SUBCASE("a chunk is missing") {
    const WriteList all = list;
    list.clear();
    list.add_chunk(all[0]);
  }
  SUBCASE("no chunk at all") {
    list.clear();
  }
  SUBCASE("a chunk too many") {
    list.add_chunk();
  }
  SUBCASE("a segment is missing") {
    const WriteList all = list;
    list.clear();
    list.add_chunk(all[0].first(2));
    list.add_chunk(all[1]);
  }
  SUBCASE("another handle") {
    changed(0, 1, [](RemoteSegment& one) { ++one.handle; });
  }
  SUBCASE("another offset") {
    changed(1, 2, [](RemoteSegment& one) { ++one.offset; });
  }
  SUBCASE("a length over the one offered") {
    changed(0, 2, [](RemoteSegment& one) { one.length = 1001; });
  }
  SUBCASE("a gap") {
    changed(0, 0, [](RemoteSegment& one) { one.length = 999; });
  }
  asked.driver.reply(reply);
  CHECK(asked.driver.requester.facts().granted == 32);  // the grant before it
  CHECK(asked.check_ended(Failure::bad_reply).error->kind() == ErrorKind::protocol);
}

TEST_CASE("T12 the lengths of a chunk add up to what its item must be") {
  Octets destination(3000);
  Asked asked(read_call(destination), 1000);
  ReplyMaker reply(asked.call);
  reply.fill(asked.call, 0, 2500);
  reply.payload = ReplyMaker::rpc_reply(asked.call.xid(), results_of({2500}));
  std::uint32_t count = 2500;
  SUBCASE("they agree") {}
  SUBCASE("the item says more") {
    count = 2501;
  }
  SUBCASE("the item says less") {
    count = 2499;
  }
  SUBCASE("the item is empty") {
    count = 0;
  }
  reply.payload = ReplyMaker::rpc_reply(asked.call.xid(), results_of({count}));
  const Complete done = asked.answered(reply);
  REQUIRE(done.reply);
  REQUIRE(done.reply->placements.size() == 1);
  CHECK(done.reply->placements[0].placed == 2500);
  xdr::Decoder decoder = decoder_of(done);
  ConstBytes data;
  CHECK(decoder.eligible(4096, data) == (count == 2500));
  if (count == 2500) CHECK(data.data() == destination.data());
}

TEST_CASE("T13 an unused Write chunk is returned empty, and says nothing about its memory") {
  Octets destination(3000);
  Asked asked(read_call(destination));
  // The server wrote, and then decided otherwise (4.3.2.2).
  REQUIRE(asked.driver.memory.write(asked.call.header.rdma_writes[0][0], pattern(3000)));
  const Complete done = asked.answered(ReplyMaker(asked.call));
  CHECK(done.failure == Failure::none);
  REQUIRE(done.reply);
  REQUIRE(done.reply->placements.size() == 1);
  CHECK(done.reply->placements[0].offered);
  CHECK(done.reply->placements[0].placed == 0);
  xdr::Decoder decoder = decoder_of(done);
  CHECK(decoder.finish());
}

TEST_CASE("T13 U11 an unused Write chunk may come back without its segments") {
  Octets first(3000);
  Octets second(3000);
  Asked asked(large_call(first, second), 1000);
  ReplyMaker reply(asked.call);
  const WriteList all = reply.header.rdma_writes;
  reply.header.rdma_writes.clear();
  reply.header.rdma_writes.add_chunk();
  reply.header.rdma_writes.add_chunk(all[1]);
  SUBCASE("and its result carries nothing") {
    reply.payload = ReplyMaker::rpc_reply(asked.call.xid(), results_of({0}));
    const Complete done = asked.answered(reply);
    REQUIRE(done.reply);
    CHECK(done.reply->placements.size() == 2);
    CHECK(done.reply->placements[0].placed == 0);
    xdr::Decoder decoder = decoder_of(done);
    ConstBytes data;
    CHECK(decoder.eligible(4096, data));
    CHECK(data.empty());
    CHECK(decoder.finish());
  }
  SUBCASE("but no result may claim to be in it") {
    reply.payload = ReplyMaker::rpc_reply(asked.call.xid(), results_of({3000}));
    const Complete done = asked.answered(reply);
    xdr::Decoder decoder = decoder_of(done);
    ConstBytes data;
    CHECK_FALSE(decoder.eligible(4096, data));
  }
  CHECK(asked.driver.closes.empty());
  CHECK(asked.driver.memory.live.empty());
}

TEST_CASE("T14 the result that was wanted inline comes inline, its neighbour in its chunk") {
  Octets first(3000);
  Octets second(3000);
  Call call = large_call(first, second);
  call.results[0].wanted_inline = true;
  Asked asked(std::move(call));
  REQUIRE(asked.call.header.rdma_writes.size() == 2);
  const Octets data = pattern(3000);
  REQUIRE(asked.driver.memory.write(asked.call.header.rdma_writes[1][0], data));
  ReplyMaker reply(asked.call);
  reply.fill(asked.call, 1, 3000);
  reply.payload = ReplyMaker::rpc_reply(asked.call.xid(), results_of({4, 0x01020304, 3000}));
  const Complete done = asked.answered(reply);
  xdr::Decoder decoder = decoder_of(done);
  ConstBytes out;
  CHECK(decoder.eligible(4096, out));
  CHECK(out.size() == 4);
  CHECK(out.data() == first.data());
  CHECK(decoder.eligible(4096, out));
  CHECK(out.data() == second.data());
  CHECK(second == data);
  CHECK(decoder.finish());
}

TEST_CASE("T15 several Write chunks belong to several results in order") {
  Octets first(3000);
  Octets second(2000);
  Asked asked(large_call(first, second), 900);
  for (std::size_t i = 0; i < 2; ++i) {
    const Octets data = pattern(i == 0 ? 3000 : 2000, static_cast<unsigned>(i));
    std::size_t at = 0;
    for (const RemoteSegment& one : asked.call.header.rdma_writes[i]) {
      REQUIRE(asked.driver.memory.write(one, ConstBytes(data).subspan(at, one.length)));
      at += one.length;
    }
  }
  ReplyMaker reply(asked.call);
  reply.fill(asked.call, 0, 3000).fill(asked.call, 1, 1999);
  reply.payload = ReplyMaker::rpc_reply(asked.call.xid(), results_of({3000, 77, 1999}));
  const Complete done = asked.answered(reply);
  REQUIRE(done.reply);
  CHECK(done.reply->placements[0].placed == 3000);
  CHECK(done.reply->placements[1].placed == 1999);
  CHECK(done.reply->placements[0].destination.data() == first.data());
  CHECK(done.reply->placements[1].destination.data() == second.data());
  CHECK(first == pattern(3000, 0));
  CHECK(second == pattern(2000, 1));
}

TEST_CASE("T16 a Long Reply is taken out of the Reply chunk") {
  Asked asked(expecting(5000), 2000);
  const Octets message = ReplyMaker::rpc_reply(asked.call.xid(), pattern(4500));
  std::size_t at = 0;
  for (const RemoteSegment& one : asked.call.header.rdma_reply) {
    const auto piece =
        ConstBytes(message).subspan(at, std::min<std::size_t>(one.length, message.size() - at));
    REQUIRE(asked.driver.memory.write(one, piece));
    at += piece.size();
  }
  ReplyMaker reply(asked.call);
  reply.long_reply(asked.call, message.size());
  const Complete done = asked.answered(reply);
  REQUIRE(done.reply);
  CHECK(Octets(done.reply->message.begin(), done.reply->message.end()) == message);
  CHECK(asked.driver.requester.facts().long_replies == 1);
}

TEST_CASE("T16 a short Reply is taken inline although a Reply chunk was offered") {
  Asked asked(expecting(5000));
  REQUIRE(asked.call.header.has_rdma_reply);
  ReplyMaker reply(asked.call);
  SUBCASE("its Reply chunk returned unused") {}
  SUBCASE("its Reply chunk left out") {
    reply.header.has_rdma_reply = false;
    reply.header.rdma_reply.clear();
  }
  const Complete done = asked.answered(reply);
  REQUIRE(done.reply);
  CHECK(Octets(done.reply->message.begin(), done.reply->message.end()) ==
        ReplyMaker::rpc_reply(asked.call.xid()));
}

TEST_CASE("T17 a Long Reply is as long as the returned Reply chunk says, within what was offered") {
  Asked asked(expecting(5000), 2000);
  const Octets message = ReplyMaker::rpc_reply(asked.call.xid(), pattern(4976));
  const auto& offered = asked.call.header.rdma_reply;
  REQUIRE(asked.driver.memory.write(offered[0], ConstBytes(message).first(2000)));
  ReplyMaker reply(asked.call, 7);
  SUBCASE("longer than offered") {
    reply.long_reply(asked.call, 5000);
    reply.header.rdma_reply.back().length = offered.back().length + 4;
  }
  SUBCASE("another handle") {
    reply.long_reply(asked.call, 5000);
    reply.header.rdma_reply[1].handle ^= 1;
  }
  SUBCASE("a segment too few") {
    reply.long_reply(asked.call, 4000);
    reply.header.rdma_reply.pop_back();
  }
  SUBCASE("a gap") {
    reply.long_reply(asked.call, 5000);
    reply.header.rdma_reply[0].length -= 4;
  }
  SUBCASE("shorter than an RPC Reply can be") {
    reply.long_reply(asked.call, 16);
  }
  SUBCASE("shorter than offered") {
    reply.long_reply(asked.call, 1032);
    const Complete done = asked.answered(reply);
    REQUIRE(done.reply);
    CHECK(done.reply->message.size() == 1032);
    CHECK(asked.driver.requester.facts().granted == 7);
    return;
  }
  asked.driver.reply(reply);
  CHECK(asked.driver.requester.facts().granted == 32);
  asked.check_ended(Failure::bad_reply);
}

TEST_CASE("T17 a Long Reply where no Reply chunk was offered ends the RPC") {
  Asked asked(plain_call());
  ReplyMaker reply(asked.call);
  reply.header.proc = rdma_proc::RDMA_NOMSG;
  reply.header.has_rdma_reply = true;
  reply.header.rdma_reply = {{0x1234, 400, 0}};
  reply.payload.clear();
  asked.driver.reply(reply);
  asked.check_ended(Failure::bad_reply);
}

TEST_CASE("T16 T17 a short Reply that returns another Reply chunk than the one offered ends the RPC") {
  Asked asked(expecting(5000), 2000);
  const auto& offered = asked.call.header.rdma_reply;
  REQUIRE(offered.size() == 3);
  ReplyMaker reply(asked.call, 7);
  SUBCASE("another handle") {
    reply.header.rdma_reply[1].handle ^= 1;
  }
  SUBCASE("another offset") {
    ++reply.header.rdma_reply[0].offset;
  }
  SUBCASE("a segment too few") {
    reply.header.rdma_reply.pop_back();
  }
  SUBCASE("longer than offered") {
    reply.header.rdma_reply.back().length = offered.back().length + 4;
  }
  asked.driver.reply(reply);
  CHECK(asked.driver.requester.facts().granted == 32);  // the grant before it
  CHECK(asked.check_ended(Failure::bad_reply).error->kind() == ErrorKind::protocol);
}

TEST_CASE("T16 T17 a short Reply that returns a Reply chunk where none was offered ends the RPC") {
  Asked asked(plain_call());
  REQUIRE_FALSE(asked.call.header.has_rdma_reply);
  ReplyMaker reply(asked.call, 7);
  reply.header.has_rdma_reply = true;
  reply.header.rdma_reply = {{0x1234, 0, 0}};
  asked.driver.reply(reply);
  CHECK(asked.driver.requester.facts().granted == 32);
  asked.check_ended(Failure::bad_reply);
}

TEST_CASE("T18 a Reply with a Read list is refused") {
  Asked asked(plain_call());
  ReplyMaker reply(asked.call, 7);
  reply.header.rdma_reads.push_back({0, {0x77, 100, 0}});
  asked.driver.reply(reply);
  CHECK(asked.driver.requester.facts().granted == 32);
  const Complete done = asked.check_ended(Failure::bad_reply);
  CHECK(done.error->message().find("Read list") != std::string::npos);
}

TEST_CASE(
    "T25 a result that has a chunk and is left inline is refused, and so is a chunk filled for no result") {
  Octets destination(3000);
  Asked asked(read_call(destination));
  ReplyMaker reply(asked.call);
  Octets results = results_of({8, 1, 2});
  bool left_inline = true;
  SUBCASE("left inline") {}
  SUBCASE("reduced what may not be") {
    left_inline = false;
    reply.fill(asked.call, 0, 8);
    results = results_of({8});  // as if this count were that of something else
  }
  reply.payload = ReplyMaker::rpc_reply(asked.call.xid(), results);
  const Complete done = asked.answered(reply);
  xdr::Decoder decoder = decoder_of(done);
  if (left_inline) {
    ConstBytes data;
    CHECK_FALSE(decoder.eligible(4096, data));
  } else {
    std::uint32_t count = 0;
    CHECK(decoder.u32(count));
    CHECK_FALSE(decoder.finish());
  }
  CHECK(decoder.fault() == xdr::Fault::ddp_violation);
}

TEST_CASE("T25 a Long Reply may have in it no result that has a chunk") {
  Octets destination(3000);
  Call call = read_call(destination);
  call.reply_max_reduced = 2000;
  call.reply_max_inline = 5000;
  Asked asked(std::move(call));
  REQUIRE(asked.call.header.rdma_writes.size() == 1);
  REQUIRE(asked.call.header.has_rdma_reply);
  const Octets message = ReplyMaker::rpc_reply(asked.call.xid(), results_of({8, 1, 2}));
  REQUIRE(asked.driver.memory.write(asked.call.header.rdma_reply[0], message));
  ReplyMaker reply(asked.call);
  reply.long_reply(asked.call, message.size());
  const Complete done = asked.answered(reply);
  xdr::Decoder decoder = decoder_of(done);
  ConstBytes data;
  CHECK_FALSE(decoder.eligible(4096, data));
  CHECK(decoder.fault() == xdr::Fault::ddp_violation);
}

}  // namespace nfsrdma::rpcrdma::testing
