// The codec of the transport header: golden bytes, round trips, every truncation, hostile counts.
#include "rpcrdma/header.h"

#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

Octets words(std::initializer_list<std::uint32_t> values) {
  Octets out(values.size() * 4);
  std::byte* at = out.data();
  for (const std::uint32_t value : values) {
    xdr::store_u32(at, value);
    at += 4;
  }
  return out;
}

Octets encoded(const rdma_msg& header) {
  xdr::Buffer buffer;
  encode(header, buffer);
  CHECK(buffer.size() == encoded_size(header));
  return {buffer.bytes().begin(), buffer.bytes().end()};
}

/// Everything that a header can have.
rdma_msg full(rdma_proc proc) {
  rdma_msg header;
  header.rdma_xid = 0x12345678;
  header.rdma_credit = 64;
  header.proc = proc;
  header.rdma_reads = {{0, {1, 2, 0x300000004}}, {0, {5, 6, 7}}, {100, {8, 9, 10}}};
  const RemoteSegment segments[] = {{11, 12, 13}, {14, 15, 16}};
  header.rdma_writes.add_chunk(segments);
  header.rdma_writes.add_chunk();
  header.rdma_writes.add_chunk(std::span(segments).first(1));
  header.has_rdma_reply = true;
  header.rdma_reply = {{17, 18, 19}, {20, 21, 22}};
  return header;
}

}  // namespace

TEST_CASE("header: the READ of the header's opening comment") {
  const Octets call = words({0x12345678, 1, 64, 0, 0, 1, 1, 0xa1b2c3d4, 4096, 0x00007f00, 0x12345000, 0, 0});
  rdma_msg header;
  Octets message = call;
  append(message, pattern(40));
  const Decoded decoded = decode(message, header);
  CHECK(decoded.fault == HeaderFault::none);
  CHECK(decoded.size == 52);
  CHECK(header.rdma_xid == 0x12345678);
  CHECK(header.rdma_credit == 64);
  CHECK(header.proc == rdma_proc::RDMA_MSG);
  REQUIRE(header.rdma_writes.size() == 1);
  CHECK(header.rdma_writes[0][0] == RemoteSegment{0xa1b2c3d4, 4096, 0x7f0012345000});
  CHECK_FALSE(header.has_rdma_reply);
  CHECK(encoded(header) == call);
}

TEST_CASE("header: the examples of RFC 8166 4.7") {
  // "1 PHLOO 1 PHLOO 1 PHLOO 0", "1 3 HLOO HLOO HLOO 1 2 HLOO HLOO 0", "1 2 HLOO HLOO"
  const Octets bytes = words({7, 1, 2, 0,                                                                 //
                              1, 4, 1, 1, 0, 1, 1, 4, 2, 1, 0, 2, 1, 4, 3, 1, 0, 3, 0,                    //
                              1, 3, 1, 1, 0, 1, 2, 1, 0, 2, 3, 1, 0, 3, 1, 2, 4, 1, 0, 4, 5, 1, 0, 5, 0,  //
                              1, 2, 6, 1, 0, 6, 7, 1, 0, 7});
  rdma_msg header;
  const Decoded decoded = decode(bytes, header);
  CHECK(decoded.fault == HeaderFault::none);
  CHECK(decoded.size == bytes.size());
  REQUIRE(header.rdma_reads.size() == 3);
  CHECK(header.rdma_reads[2] == xdr_read_chunk{4, {3, 1, 3}});
  REQUIRE(header.rdma_writes.size() == 2);
  CHECK(header.rdma_writes[0].size() == 3);
  CHECK(header.rdma_writes[1].size() == 2);
  CHECK(header.rdma_writes[1][0] == RemoteSegment{4, 1, 4});
  REQUIRE(header.rdma_reply.size() == 2);
  CHECK(chunk_length(header.rdma_reply) == 2);
  CHECK(encoded(header) == bytes);
  // No chunks: "simply three 32-bit fields that contain zero".
  CHECK(encoded(rdma_msg{}) == words({0, 1, 0, 0, 0, 0, 0}));
}

TEST_CASE("header: RDMA_ERROR, golden") {
  rdma_msg header;
  header.rdma_xid = 9;
  header.rdma_credit = 3;
  header.proc = rdma_proc::RDMA_ERROR;
  CHECK(encoded(header) == words({9, 1, 3, 4, 2}));
  header.err = rpc_rdma_errcode::ERR_VERS;
  header.rdma_vers_low = 1;
  header.rdma_vers_high = 2;
  CHECK(encoded(header) == words({9, 1, 3, 4, 1, 1, 2}));
  rdma_msg back;
  CHECK(decode(encoded(header), back).fault == HeaderFault::none);
  CHECK(back == header);
}

TEST_CASE("header: round trips, into a struct that was used before") {
  rdma_msg back = full(rdma_proc::RDMA_MSG);
  for (const rdma_proc proc : {rdma_proc::RDMA_MSG, rdma_proc::RDMA_NOMSG}) {
    const rdma_msg header = full(proc);
    Octets bytes = encoded(header);
    CHECK(decode(bytes, back).size == bytes.size());
    CHECK(back == header);
    const std::size_t size = bytes.size();
    append(bytes, pattern(13));  // what follows is not the header's
    CHECK(decode(bytes, back).size == size);
    CHECK(back == header);
  }
  const rdma_msg none;
  CHECK(decode(encoded(none), back).fault == HeaderFault::none);
  CHECK(back == none);
}

TEST_CASE("header: every truncation is refused, and by the right name") {
  for (const rdma_proc proc : {rdma_proc::RDMA_MSG, rdma_proc::RDMA_NOMSG}) {
    const Octets whole = encoded(full(proc));
    rdma_msg out;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Octets part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const HeaderFault expected = size < kMinHeader ? HeaderFault::too_short : HeaderFault::bad_list;
      REQUIRE(decode(part, out).fault == expected);
    }
  }
}

TEST_CASE("header: every word changed to something hostile is survived") {
  const Octets whole = encoded(full(rdma_proc::RDMA_NOMSG));
  rdma_msg out;
  for (std::size_t at = 0; at < whole.size(); at += 4) {
    for (const std::uint32_t word : {0U, 1U, 2U, 3U, 4U, 255U, 0x0fffffffU, 0x10000000U, 0x10000001U,
                                     0x7fffffffU, 0x80000000U, 0xfffffffeU, 0xffffffffU}) {
      Octets bytes = whole;
      xdr::store_u32(&bytes[at], word);
      const Decoded decoded = decode(bytes, out);
      REQUIRE(decoded.size <= bytes.size());
      // n bytes never make more than n/16 segments.
      REQUIRE(out.rdma_reads.size() + out.rdma_writes.segment_count() + out.rdma_reply.size() <=
              bytes.size() / 16);
    }
  }
}

TEST_CASE("header: faults have their names") {
  rdma_msg out;
  CHECK(decode(words({1, 2, 3, 0, 0, 0, 0}), out).fault == HeaderFault::bad_version);
  CHECK(out.rdma_xid == 1);  // what a responder needs for ERR_VERS
  CHECK(out.rdma_vers == 2);
  CHECK(decode(words({1, 1, 3, 5, 0, 0, 0}), out).fault == HeaderFault::bad_proc);
  CHECK(decode(words({1, 1, 3, 0, 2, 0, 0}), out).fault == HeaderFault::bad_list);
  CHECK(decode(words({1, 1, 3, 0, 0, 2, 0}), out).fault == HeaderFault::bad_list);
  CHECK(decode(words({1, 1, 3, 0, 0, 0, 2}), out).fault == HeaderFault::bad_list);
  CHECK(decode(words({1, 1, 3, 1, 0, 0, 0}), out).fault == HeaderFault::no_chunk);
  CHECK(decode(words({1, 1, 3, 4, 3, 0, 0}), out).fault == HeaderFault::bad_error);
  CHECK(decode(words({1, 1, 3, 4, 2}), out).fault == HeaderFault::none);  // ERR_CHUNK is whole with 20
  CHECK(decode(words({1, 1, 3, 4, 2, 0}), out).fault == HeaderFault::too_short);
  CHECK(decode(words({1, 1, 3, 4, 1, 1}), out).fault == HeaderFault::too_short);
  CHECK(decode(words({1, 1, 3, 2, 0, 0, 0}), out).fault == HeaderFault::none);
  CHECK(out.proc == rdma_proc::RDMA_MSGP);
  CHECK(decode(words({1, 1, 3, 3, 0, 0, 0}), out).fault == HeaderFault::none);
  CHECK(out.proc == rdma_proc::RDMA_DONE);
}

TEST_CASE("header: a Write list of nothing but empty chunks is bounded by its bytes") {
  Octets bytes = words({1, 1, 1, 0, 0});
  for (int i = 0; i < 1000; ++i) append(bytes, words({1, 0}));
  append(bytes, words({0, 0}));
  rdma_msg out;
  CHECK(decode(bytes, out).fault == HeaderFault::none);
  CHECK(out.rdma_writes.size() == 1000);
  CHECK(out.rdma_writes[999].empty());
  CHECK(encoded(out) == bytes);
}

TEST_CASE("header: every truncation of the usual headers is refused, and nothing behind it is read") {
  for (const bool chunk : {false, true}) {
    rdma_msg header;
    header.rdma_xid = 5;
    header.rdma_credit = 9;
    if (chunk) {
      header.rdma_writes.add_chunk();
      header.rdma_writes.add_segment({1, 2, 3});
    }
    xdr::Buffer whole;
    encode(header, whole);
    rdma_msg out;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const ConstBytes begin = whole.bytes().first(size);
      const Octets part(begin.begin(), begin.end());
      const HeaderFault expected = size < kMinHeader ? HeaderFault::too_short : HeaderFault::bad_list;
      REQUIRE(decode(part, out).fault == expected);
    }
    CHECK(decode(whole.bytes(), out).fault == HeaderFault::none);
    CHECK(out == header);
  }
}

}  // namespace nfsrdma::rpcrdma::testing
