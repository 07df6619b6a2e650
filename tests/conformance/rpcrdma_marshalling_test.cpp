// How a Call is put on the wire: thresholds, chunks, Positions (RFC 8166 3.3.2, 3.4, 3.5, 4.3).
#include "reply_sizing/plan.h"
#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

/// The RPC Call that the server rebuilds: chunks fetched and put back at their Positions (3.4.5).
Octets rebuilt(const CallView& call, const FakeMemory& memory) {
  Octets stream;
  std::vector<xdr_read_chunk> items;
  for (const xdr_read_chunk& one : call.header.rdma_reads) {
    if (one.position != 0) {
      items.push_back(one);
      continue;
    }
    const auto piece = memory.read(one.target);
    REQUIRE(piece);
    append(stream, *piece);
  }
  if (call.header.proc == rdma_proc::RDMA_MSG) stream.assign(call.payload().begin(), call.payload().end());
  for (std::size_t i = 0; i < items.size();) {
    const std::uint32_t position = items[i].position;
    Octets item;
    for (; i < items.size() && items[i].position == position; ++i) {
      const auto piece = memory.read(items[i].target);
      REQUIRE(piece);
      append(item, *piece);
    }
    item.resize(xdr::padded(item.size()));
    REQUIRE(position <= stream.size());
    stream.insert(stream.begin() + position, item.begin(), item.end());
  }
  return stream;
}

/// What the call is, with everything in it.
Octets whole(const Call& call, std::uint32_t xid) {
  Octets out;
  std::size_t at = 0;
  const auto stream = call.message.stream.bytes();
  for (const xdr::Item& item : call.message.items) {
    append(out, stream.subspan(at, item.stream_offset - at));
    append(out, item.data);
    out.resize(xdr::padded(out.size()));
    at = item.stream_offset;
  }
  append(out, stream.subspan(at));
  xdr::store_u32(out.data(), xid);
  return out;
}

/// Submits a copy of what `make` makes, and checks that the server would get it whole.
template <class Make>
CallView send(Driver& driver, const Make& make) {
  driver.submit(make());
  CallView call = driver.take_sent();
  CHECK(rebuilt(call, driver.memory) == whole(make(), call.xid()));
  return call;
}

}  // namespace

TEST_CASE("T6 thresholds are 1024 bytes where nothing else was negotiated") {
  Driver driver;
  driver.establish();
  CHECK(driver.requester.facts().call_threshold == 1024);
  CHECK(driver.requester.facts().reply_threshold == 1024);
  CHECK(send(driver, [] { return plain_call(1024 - kMinHeader); }).header.proc == rdma_proc::RDMA_MSG);
  CHECK(send(driver, [] { return plain_call(1024 - kMinHeader + 4); }).header.proc == rdma_proc::RDMA_NOMSG);
  const auto expecting = [](std::uint64_t reply) {
    return [reply] {
      Call call = plain_call();
      call.reply_max_inline = call.reply_max_reduced = reply;
      return call;
    };
  };
  CHECK_FALSE(send(driver, expecting(1024 - kMinHeader)).header.has_rdma_reply);
  CHECK(send(driver, expecting(1024 - kMinHeader + 4)).header.has_rdma_reply);
}

TEST_CASE("T7 a Call that fits the threshold is sent whole, DDP-eligible items and all") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(301);
  const auto make = [&] { return write_call(100, data, 20); };
  const CallView call = send(driver, make);
  CHECK(call.header.proc == rdma_proc::RDMA_MSG);
  CHECK(call.header.rdma_reads.empty());
  CHECK(driver.requester.facts().reduced_calls == 0);
}

TEST_CASE("T7 a Call over the threshold is reduced where something is DDP-eligible") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(5000);
  const CallView call = send(driver, [&] { return write_call(100, data, 20); });
  CHECK(call.header.proc == rdma_proc::RDMA_MSG);
  CHECK(call.header.rdma_reads.size() == 1);
  CHECK(call.payload().size() == 124);
  CHECK(driver.requester.facts().reduced_calls == 1);
  CHECK(driver.requester.facts().long_calls == 0);
}

TEST_CASE("T7 a Call without anything DDP-eligible that is over the threshold is a Long Call") {
  Driver driver;
  driver.establish();
  const CallView call = send(driver, [] { return plain_call(3000); });
  CHECK(call.header.proc == rdma_proc::RDMA_NOMSG);
  REQUIRE(call.header.rdma_reads.size() == 1);
  CHECK(call.header.rdma_reads[0].position == 0);
  CHECK(call.header.rdma_reads[0].target.length == 3000);
  CHECK(call.payload().empty());
  CHECK(driver.requester.facts().long_calls == 1);
}

TEST_CASE("T7 a Call that is still over the threshold when reduced is a Long Call with its items apart") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(70001);
  const CallView call = send(driver, [&] { return write_call(2000, data, 20); });
  CHECK(call.header.proc == rdma_proc::RDMA_NOMSG);
  REQUIRE(call.header.rdma_reads.size() == 2);
  CHECK(call.header.rdma_reads[0].position == 0);
  CHECK(call.header.rdma_reads[0].target.length == 2024);  // the copy has no item in it
  CHECK(call.header.rdma_reads[1].position == 2004);
}

TEST_CASE("T7 items in too many pieces to be named go into one Long Call") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(100 * 52);
  const auto make = [&] {
    Call call = plain_call(100);
    xdr::Encoder encoder(call.message);
    for (std::size_t i = 0; i < 100; ++i) encoder.eligible(ConstBytes(data).subspan(i * 52, 52));
    return call;
  };
  const CallView call = send(driver, make);
  CHECK(call.header.proc == rdma_proc::RDMA_NOMSG);
  CHECK(call.header.rdma_reads.size() == 1);
}

TEST_CASE(
    "T8 the plan offers a Reply chunk exactly when the largest Reply with its header is over the threshold") {
  using reply_sizing::ResultBound;
  const auto plan_reply = [](const reply_sizing::ReplyBounds& bounds, std::uint32_t threshold) {
    return reply_sizing::plan_reply(bounds, threshold, {kMinHeader, kWriteChunkHead, kSegment});
  };
  const ResultBound one[] = {{4096, false, 1}};
  const ResultBound split[] = {{4096, false, 3}};
  SUBCASE("no results") {
    CHECK(plan_reply({996, 996, {}}, 1024).reply_chunk == 0);
    CHECK(plan_reply({997, 997, {}}, 1024).reply_chunk == 1000);  // rounded up
  }
  SUBCASE("the echoed Write list counts") {
    const std::uint64_t room = 1024 - kMinHeader - kWriteChunkHead - kSegment;
    CHECK(plan_reply({5000, room, one}, 1024).write_list);
    CHECK(plan_reply({5000, room, one}, 1024).reply_chunk == 0);
    CHECK(plan_reply({5000, room + 4, one}, 1024).reply_chunk == room + 4);
    CHECK(plan_reply({5000, room, split}, 1024).reply_chunk == room);
    CHECK(plan_reply({5000, room - 2 * kSegment, split}, 1024).reply_chunk == 0);
  }
  SUBCASE("nothing is offered for what fits as it is") {
    CHECK_FALSE(plan_reply({996, 500, one}, 1024).write_list);
    CHECK(plan_reply({996, 500, one}, 1024).reply_chunk == 0);
  }
  SUBCASE("results wanted inline are in the Reply chunk") {
    const ResultBound wanted[] = {{4096, true, 1}};
    CHECK_FALSE(plan_reply({5000, 5000, wanted}, 1024).write_list);
    CHECK(plan_reply({5000, 5000, wanted}, 1024).reply_chunk == 5000);
  }
  SUBCASE("an unbounded Reply stays unbounded") {
    CHECK(plan_reply({~0ULL, ~0ULL, {}}, 1024).reply_chunk > 1ULL << 60);
  }
}

TEST_CASE("T8 the requester offers a Reply chunk exactly when the plan says so, and one of that length") {
  Driver driver;
  driver.establish();
  Octets destination(4096);
  const auto expecting = [&](std::uint64_t reduced) {
    return [&, reduced] {
      Call call = read_call(destination);
      call.reply_max_reduced = reduced;
      call.reply_max_inline = reduced + 4096;
      return call;
    };
  };
  CHECK_FALSE(send(driver, expecting(972)).header.has_rdma_reply);  // 28 + 24 + 972 = 1024
  const CallView larger = send(driver, expecting(973));
  CHECK(larger.header.has_rdma_reply);
  CHECK(chunk_length(larger.header.rdma_reply) == 976);
  CHECK(larger.header.rdma_writes.size() == 1);
}

TEST_CASE("T8 the Reply chunk's bytes count when the form of a Call is chosen") {
  // 28 of header, 4 + 16 more for a Reply chunk of one segment, and the Call itself: up to 1024.
  constexpr std::size_t kRoom = 1024 - 28 - 4 - 16;
  Driver driver;
  driver.establish();
  const auto of = [](std::size_t size) {
    return [size] {
      Call call = plain_call(size);
      call.reply_max_inline = call.reply_max_reduced = 2000;
      return call;
    };
  };
  const CallView fits = send(driver, of(kRoom));
  CHECK(fits.header.proc == rdma_proc::RDMA_MSG);
  CHECK(fits.header.has_rdma_reply);
  CHECK(fits.bytes.size() == 1024);
  const CallView larger = send(driver, of(kRoom + 4));
  CHECK(larger.header.proc == rdma_proc::RDMA_NOMSG);
  CHECK(larger.header.has_rdma_reply);
}

TEST_CASE("T8 the Reply chunk's bytes count when the items of a Call are taken out of it") {
  // Header, Reply chunk, one Read segment: what is left is for the Call without its item.
  constexpr std::size_t kRoom = 1024 - 28 - (4 + 16) - 24;
  const Octets data = pattern(4000);
  Driver driver;
  driver.establish();
  const auto of = [&](std::size_t before) {
    return [&, before] {
      Call call = write_call(before, data, 0);
      call.reply_max_inline = call.reply_max_reduced = 2000;
      return call;
    };
  };
  const CallView fits = send(driver, of(kRoom - 4));  // and the item's count
  CHECK(fits.header.proc == rdma_proc::RDMA_MSG);
  CHECK(fits.bytes.size() == 1024);
  CHECK(send(driver, of(kRoom)).header.proc == rdma_proc::RDMA_NOMSG);
}

TEST_CASE("T37 no more is offered than a Reply can return within its threshold, and else the Call fails") {
  Config config;
  config.send_size = 8192;  // the Call has more room than the Reply
  config.receive_size = 1024;
  Driver driver(config);
  driver.establish(32, sizes(8192, 8192));
  REQUIRE(driver.requester.facts().call_threshold == 8192);
  REQUIRE(driver.requester.facts().reply_threshold == 1024);
  // 28 of header, a Write chunk of 8 and so many segments, a Reply chunk of 4 and one segment.
  constexpr std::size_t kSegments = (1024 - 28 - 8 - 4 - 16) / 16;
  const auto of = [](Octets& destination) {
    return [&destination] {
      Call call = read_call(destination);
      call.reply_max_reduced = 1000;
      call.reply_max_inline = 1000 + destination.size();
      return call;
    };
  };
  driver.memory.segment_size = 1000;
  Octets most(kSegments * 1000);
  const CallView fits = send(driver, of(most));
  CHECK(fits.header.rdma_writes.segment_count() == kSegments);
  CHECK(fits.header.has_rdma_reply);
  CHECK(fits.header_size == 1016);
  const std::size_t exposed = driver.memory.live.size();
  Octets more(kSegments * 1000 + 1);
  driver.submit(of(more)());
  CHECK(driver.sent.empty());
  const Complete done = driver.take_completed();
  CHECK(done.failure == Failure::cannot_construct);
  REQUIRE(done.error);
  CHECK(done.error->errno_value() == EMSGSIZE);
  CHECK(done.error->message().find("smaller requests") != std::string::npos);
  CHECK(driver.memory.live.size() == exposed);
}

TEST_CASE(
    "T9 a Read chunk's Position is that in the unreduced stream, aligned, the same in all its segments") {
  Driver driver;
  driver.establish();
  driver.memory.segment_size = 1000;
  const Octets first = pattern(2501, 1);
  const Octets second = pattern(1999, 2);
  const auto make = [&] {
    Call call = plain_call(100);
    xdr::Encoder encoder(call.message);
    encoder.eligible(first);
    encoder.u32(42);
    encoder.eligible(second);
    encoder.u32(43);
    return call;
  };
  const CallView call = send(driver, make);
  REQUIRE(call.header.proc == rdma_proc::RDMA_MSG);
  REQUIRE(call.header.rdma_reads.size() == 5);
  const std::uint32_t second_position =
      104 + 2504 + 4 + 4;  // its round-up counts, although it does not travel
  for (std::size_t i = 0; i < 3; ++i) CHECK(call.header.rdma_reads[i].position == 104);
  for (std::size_t i = 3; i < 5; ++i) CHECK(call.header.rdma_reads[i].position == second_position);
}

TEST_CASE("T10 the count of a reduced opaque stays, its bytes move, its padding is in neither place") {
  Driver driver;
  driver.establish();
  for (const std::size_t length : {4001U, 4002U, 4003U, 4004U}) {
    const Octets data = pattern(length);
    const CallView call = send(driver, [&] { return write_call(100, data, 20); });
    CHECK(call.payload().size() == 100 + 4 + 20);
    CHECK(xdr::load_u32(&call.payload()[100]) == length);
    REQUIRE(call.header.rdma_reads.size() == 1);
    CHECK(call.header.rdma_reads[0].target.length == length);
    CHECK(driver.memory.read(call.header.rdma_reads[0].target) == data);
  }
}

TEST_CASE("T11 a Write chunk has room for the largest result, and none for padding") {
  Driver driver;
  driver.establish();
  driver.memory.segment_size = 1500;
  Octets destination(4097);
  const CallView call = send(driver, [&] { return read_call(destination); });
  REQUIRE(call.header.rdma_writes.size() == 1);
  CHECK(call.header.rdma_writes[0].size() == 3);
  CHECK(chunk_length(call.header.rdma_writes[0]) == 4097);
}

TEST_CASE("T14 one result is forced inline with an empty Write list") {
  Driver driver;
  driver.establish();
  Octets destination(4096);
  const auto make = [&] {
    Call call = read_call(destination);
    call.results[0].wanted_inline = true;
    call.reply_max_reduced = call.reply_max_inline;
    return call;
  };
  const CallView call = send(driver, make);
  CHECK(call.header.rdma_writes.empty());
  CHECK(chunk_length(call.header.rdma_reply) == 128 + 4096);
}

TEST_CASE("T14 one of several results is forced inline with an empty Write chunk in its place") {
  Driver driver;
  driver.establish();
  Octets first(4096);
  Octets second(100);
  Octets third(8192);
  const auto make = [&] {
    Call call = plain_call(128);
    call.results = {{first, false}, {second, true}, {third, false}};
    call.reply_max_reduced = 300;
    call.reply_max_inline = 300 + 4096 + 8192;
    return call;
  };
  const CallView call = send(driver, make);
  REQUIRE(call.header.rdma_writes.size() == 3);
  CHECK(chunk_length(call.header.rdma_writes[0]) == 4096);
  CHECK(call.header.rdma_writes[1].empty());
  CHECK(chunk_length(call.header.rdma_writes[2]) == 8192);
  CHECK_FALSE(call.header.has_rdma_reply);
}

TEST_CASE(
    "T8 T14 U10 a result that is wanted inline takes no room for the segments that it would have needed") {
  // 28 of header, 8 + 16 for the chunk of one segment, 8 for the empty chunk: the rest is for the Reply itself.
  constexpr std::size_t kRoom = 1024 - 28 - (8 + 16) - 8;
  Driver driver;
  driver.establish();
  driver.memory.segment_size = 400;
  Octets first(400);
  Octets second(900);  // of three segments, if it had a chunk
  const auto of = [&](std::size_t reduced) {
    return [&, reduced] {
      Call call = plain_call(128);
      call.results = {{first, false}, {second, true}};
      call.reply_max_reduced = reduced;
      call.reply_max_inline = reduced + first.size();
      return call;
    };
  };
  const CallView fits = send(driver, of(kRoom));
  REQUIRE(fits.header.rdma_writes.size() == 2);
  CHECK(fits.header.rdma_writes[0].size() == 1);
  CHECK(fits.header.rdma_writes[1].empty());
  CHECK_FALSE(fits.header.has_rdma_reply);
  CHECK(fits.header_size + kRoom == 1024);  // which the Reply returns
  const CallView larger = send(driver, of(kRoom + 4));
  CHECK(larger.header.has_rdma_reply);
  CHECK(chunk_length(larger.header.rdma_reply) == kRoom + 4);
}

TEST_CASE(
    "T35 a protected Call's text lies in one page where it goes apart from the data, else all is copied") {
  constexpr std::uint64_t kPage = 4096;
  Driver driver;
  driver.establish();
  Cover cover;
  const Octets data = pattern(8000);
  const auto of = [&](std::size_t text) {
    return [&, text] {
      constexpr std::size_t kCount = 4, kBehind = 20;
      Call call = write_call(text - kCount - kBehind, data, kBehind);
      call.seal = &cover;
      return call;
    };
  };
  // The server reads the text before the data and the text behind it as a segment each. Linux's siw (6.1) sends wrong bytes
  // of a short segment that crosses a page boundary, so both lie in one page.
  for (const std::size_t text : {std::size_t{1200}, std::size_t{kPage}}) {
    CAPTURE(text);
    const CallView call = send(driver, of(text));
    CHECK(call.header.proc == rdma_proc::RDMA_NOMSG);
    REQUIRE(call.header.rdma_reads.size() == 3);
    const RemoteSegment& before = call.header.rdma_reads[0].target;
    const RemoteSegment& behind = call.header.rdma_reads[2].target;
    CHECK(before.length + behind.length == text);
    CHECK(before.offset / kPage == (behind.offset + behind.length - 1) / kPage);
    CHECK(call.header.rdma_reads[1].target.length == data.size());
  }
  // Text of more than a page crosses a boundary wherever it lies, so text and data are copied into one long segment.
  const CallView whole = send(driver, of(kPage + 4));
  CHECK(whole.header.proc == rdma_proc::RDMA_NOMSG);
  REQUIRE(whole.header.rdma_reads.size() == 1);
  CHECK(whole.header.rdma_reads[0].target.length == kPage + 4 + data.size());
}

TEST_CASE("a Reply that fits with its results in it gets no chunk") {
  Driver driver;
  driver.establish();
  Octets destination(512);
  const CallView call = send(driver, [&] { return read_call(destination); });
  CHECK(call.header.rdma_writes.empty());
  const Octets data = pattern(512);
  xdr::Buffer results;
  xdr::store_u32(results.extend(4), 512);
  ReplyMaker reply(call);
  reply.payload = ReplyMaker::rpc_reply(call.xid(), results.bytes());
  append(reply.payload, data);
  driver.reply(reply);
  driver.completed.erase(driver.completed.begin(), driver.completed.end() - 1);
  const Complete done = driver.take_completed();
  xdr::Decoder decoder = decoder_of(done);
  ConstBytes out;
  CHECK(decoder.eligible(4096, out));
  CHECK(decoder.finish());
  CHECK(destination == data);  // copied to where it was wanted
}

TEST_CASE("T31 an RPC that cannot be constructed fails at once, and what was exposed for it is taken back") {
  Driver driver;
  driver.establish();
  const Octets data = pattern(5000);
  Octets destination(5000);
  const auto failing = [&](Call call, int errno_value) {
    driver.submit(std::move(call));
    CHECK(driver.sent.empty());
    const Complete done = driver.take_completed();
    CHECK(done.failure == Failure::cannot_construct);
    REQUIRE(done.error);
    CHECK(done.error->kind() == ErrorKind::local);
    CHECK(done.error->errno_value() == errno_value);
    CHECK(driver.memory.live.empty());
  };
  SUBCASE("no memory to expose, from the first on") {
    driver.memory.fail_after = 0;
    failing(write_call(100, data, 20), ENOMEM);
  }
  SUBCASE("no memory to expose, half-way") {
    Call call = write_call(100, data, 20);
    call.results.push_back({destination, false});
    call.reply_max_inline = 6000;
    driver.memory.fail_after = 1;
    failing(std::move(call), ENOMEM);
    CHECK(driver.revokes.size() == 1);
  }
  SUBCASE("an unbounded Reply") {
    Call call = plain_call();
    call.reply_max_inline = call.reply_max_reduced = ~0ULL;
    failing(std::move(call), EMSGSIZE);
  }
  SUBCASE("more segments than a header can name") {
    driver.memory.segment_size = 16;
    failing(write_call(100, data, 20), EMSGSIZE);
  }
  SUBCASE("an item that is not on XDR's boundary") {
    Call call = write_call(100, data, 20);
    call.message.items[0].stream_offset += 1;
    failing(std::move(call), EINVAL);
  }
  // The others go on.
  driver.memory.fail_after = -1;
  driver.memory.segment_size = ~std::size_t{0};
  driver.submit(plain_call());
  driver.reply(ReplyMaker(driver.take_sent()));
  CHECK(driver.take_completed().failure == Failure::none);
  CHECK(driver.closes.empty());
}

}  // namespace nfsrdma::rpcrdma::testing
