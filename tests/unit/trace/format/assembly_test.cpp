// RPC messages put together from their pieces.
#include "trace/format/assembly.h"

#include <doctest/doctest.h>

#include <string>

namespace nfsrdma::trace {
namespace {

ConstBytes as_octets(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string as_text(const Whole& whole) {
  const ConstBytes rest = whole.bytes().subspan(rpcrdma::kMinHeader);
  return {reinterpret_cast<const char*>(rest.data()), rest.size()};
}
/// Memory that is known for handles 1 and 2.
ConstBytes memory_known(const fabric::RemoteSegment& segment) {
  static const std::string one = "ABCDE", two = "xyz";
  return segment.handle == 1 ? as_octets(one) : segment.handle == 2 ? as_octets(two) : ConstBytes();
}

}  // namespace

TEST_CASE("trace: a Call's Read chunk is put into its place, with the fill bytes of its item") {
  rpcrdma::rdma_msg header;
  header.rdma_reads = {{8, {1, 5, 0}}};
  const std::string stream = "12345678rest";
  const Whole whole = whole_call(header, as_octets(stream), 100, memory_known);
  CHECK(as_text(whole) == std::string("12345678ABCDE\0\0\0rest", 20));
  CHECK(whole.missing() == 0);
}

TEST_CASE("trace: a Long Call, and a Reply, of two segments") {
  rpcrdma::rdma_msg header;
  header.rdma_reads = {{0, {1, 5, 0}}, {0, {2, 3, 0}}};
  CHECK(as_text(whole_call(header, {}, 100, memory_known)) == "ABCDExyz");
  header.rdma_reply = {{2, 3, 0}, {1, 5, 0}};
  CHECK(as_text(whole_reply(header, 100, memory_known)) == "xyzABCDE");
}

TEST_CASE("trace: nothing follows what is not known or beyond the limit") {
  rpcrdma::rdma_msg header;
  header.rdma_reads = {{4, {3, 6, 0}}};
  const std::string stream = "1234rest";
  const Whole unknown = whole_call(header, as_octets(stream), 100, memory_known);
  CHECK(as_text(unknown) == "1234");
  CHECK(unknown.missing() == 6 + 2 + 4);
  header.rdma_reads = {{4, {1, 5, 0}}};
  const Whole cut = whole_call(header, as_octets(stream), 6, memory_known);
  CHECK(as_text(cut) == "1234AB");
  CHECK(cut.missing() == 3 + 3 + 4);
  // A position behind the end, and memory that is larger than its segment.
  header.rdma_reads = {{400, {1, 2, 0}}};
  CHECK(as_text(whole_call(header, as_octets(stream), 100, memory_known)) ==
        std::string("1234restAB\0\0", 12));
}

}  // namespace nfsrdma::trace
