// The XDR framework: worked examples of RFC 4506, every truncation, hostile counts, trailing bytes, DDP
// placement.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string_view>

#include "support/random_value.h"

using namespace nfsrdma;
using namespace nfsrdma::xdr;
using test::encoded;
using test::flatten;
using test::hex;

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

enum color : std::uint32_t { RED = 2, YELLOW = 3, BLUE = 5 };

struct Worked {
  std::uint32_t a = 0;
  Opaque<5> b{};
};

struct Everything {
  std::int32_t number = 0;
  std::int64_t hyper = 0;
  bool yes = false;
  color paint = RED;
  std::array<std::byte, 6> fixed{};
  String<20> text{};
  ShortOpaque<9> handle{};
  Array<std::uint64_t, 3> words{};
  List<Worked> list{};
  std::optional<Worked> maybe{};
  Union<color, On<RED, Worked>, On<BLUE>, Otherwise<String<8>>> choice{};
  Union<bool, On<true, std::uint32_t>, On<false>> flag{};
};

struct Result {
  bool eof = false;
  DdpOpaque<> data{};
  std::uint32_t after = 0;
};

template <class T>
Fault fault_of(ConstBytes bytes) {
  Decoder in(bytes);
  T value{};
  if (decode(in, value)) in.finish();
  return in.fault();
}

Everything everything() {
  Everything e;
  e.number = -2;
  e.hyper = -3;
  e.yes = true;
  e.paint = BLUE;
  e.fixed = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}, std::byte{6}};
  e.text.value = "sillyprog";
  e.handle.length = 2;
  e.handle.bytes[0] = std::byte{0xab};
  e.handle.bytes[1] = std::byte{0xcd};
  e.words.value = {1, 0x0203040506070809};
  e.list.value = {{7, {bytes_of("xyz")}}};
  e.maybe = Worked{8, {}};
  e.choice = decltype(e.choice)::of<YELLOW>(String<8>{"hue"});
  e.flag = decltype(e.flag)::of<true>(9U);
  return e;
}

}  // namespace

TEST_CASE("xdr: the worked example of the header") {
  const Worked w{7, {{std::byte{1}, std::byte{2}, std::byte{3}}}};
  CHECK(encoded(w) == hex("00000007 00000003 01020300"));
  static_assert(bounds<Worked>.min == 8 && bounds<Worked>.max == 16 && bounds<Worked>.ddp_items == 0);
}

TEST_CASE("xdr: every building block, byte by byte") {
  const Everything e = everything();
  const auto golden =
      hex("fffffffe"                            // number
          "ffffffff fffffffd"                   // hyper
          "00000001"                            // yes
          "00000005"                            // paint
          "010203040506 0000"                   // fixed and its padding
          "00000009 73696c6c7970726f67 000000"  // text
          "00000002 abcd 0000"                  // handle
          "00000002 0000000000000001 0203040506070809"
          "00000001 00000007 00000003 78797a 00 00000000"  // list of one
          "00000001 00000008 00000000"                     // maybe
          "00000003 00000003 687565 00"                    // choice: YELLOW goes to Otherwise
          "00000001 00000009");                            // flag
  CHECK(encoded(e) == golden);
  CHECK(encoded_size(e) == golden.size());

  Decoder in(golden);
  Everything back;
  REQUIRE(decode(in, back));
  CHECK(in.finish());
  CHECK(test::same(e, back));
}

TEST_CASE("xdr: every truncation is an error value") {
  const auto whole = encoded(everything());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // An own copy, so that a read past its end is seen by the sanitizer.
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK(fault_of<Everything>(part) == Fault::truncated);
  }
}

TEST_CASE("xdr: bytes behind the last item") {
  auto more = encoded(everything());
  more.resize(more.size() + 4);
  CHECK(fault_of<Everything>(more) == Fault::trailing);
  CHECK(fault_of<Void>(hex("00")) == Fault::trailing);
}

TEST_CASE("xdr: hostile counts are refused before anything is allocated") {
  CHECK(fault_of<Opaque<5>>(hex("00000006 010203040506 0000")) == Fault::too_long);
  CHECK(fault_of<Opaque<>>(hex("ffffffff 01020304")) == Fault::truncated);
  CHECK(fault_of<Opaque<>>(hex("fffffffd 01020304")) == Fault::truncated);  // padded, it wraps in 32 bits
  CHECK(fault_of<String<3>>(hex("00000004 61626364")) == Fault::too_long);
  CHECK(fault_of<ShortOpaque<3>>(hex("00000004 61626364")) == Fault::too_long);
  CHECK(fault_of<ShortOpaque<128>>(hex("00000080 61626364")) == Fault::truncated);
  CHECK(fault_of<Array<std::uint32_t, 2>>(hex("00000003 00000000 00000000 00000000")) == Fault::too_long);
  CHECK(fault_of<Array<std::uint32_t>>(hex("ffffffff 00000000")) == Fault::truncated);
  CHECK(fault_of<Array<std::uint64_t>>(hex("40000000 00000000")) == Fault::truncated);
  CHECK(fault_of<DdpOpaque<4>>(hex("00000005 0102030405 000000")) == Fault::too_long);
  // A list that never ends ends with the message.
  CHECK(fault_of<List<std::uint32_t>>(hex("00000001 00000000 00000001 00000000")) == Fault::truncated);
}

TEST_CASE("xdr: a missing pad is a truncation, a pad that is not zero is passed over") {
  CHECK(fault_of<Opaque<8>>(hex("00000003 010203")) == Fault::truncated);
  CHECK(fault_of<Opaque<8>>(hex("00000003 010203ff")) == Fault::none);
}

TEST_CASE("xdr: booleans and discriminants") {
  CHECK(fault_of<bool>(hex("00000002")) == Fault::bad_discriminant);
  CHECK(fault_of<std::optional<bool>>(hex("00000002")) == Fault::bad_discriminant);
  CHECK(fault_of<List<Void>>(hex("80000001")) == Fault::bad_discriminant);
  using Closed = Union<color, On<RED>, On<BLUE, std::uint32_t>>;
  CHECK(fault_of<Closed>(hex("00000002")) == Fault::none);
  CHECK(fault_of<Closed>(hex("00000005 00000001")) == Fault::none);
  CHECK(fault_of<Closed>(hex("00000003")) == Fault::bad_discriminant);
  Closed u;
  CHECK(u.tag() == RED);
  CHECK_FALSE(u.select(YELLOW));
  CHECK(u.tag() == RED);
  CHECK(u.select(BLUE));
  CHECK(u.get<BLUE>() != nullptr);
  CHECK(u.get<RED>() == nullptr);
}

TEST_CASE("xdr: the first fault sticks") {
  const auto two = hex("00000002");
  Decoder in(two);
  bool value = true;
  CHECK_FALSE(decode(in, value));
  std::uint32_t after = 5;
  CHECK_FALSE(in.u32(after));
  CHECK(after == 0);
  CHECK(in.fault() == Fault::bad_discriminant);
  CHECK_FALSE(in.finish());
}

TEST_CASE("xdr: an eligible item is noted beside the stream") {
  const auto payload = bytes_of("hello");
  Message message;
  Encoder out(message);
  encode(out, Result{true, {payload}, 3});
  CHECK(message.stream.size() == 12);
  REQUIRE(message.items.size() == 1);
  CHECK(message.items[0].stream_offset == 8);
  CHECK(message.unreduced_size() == 20);
  CHECK(flatten(message) == hex("00000001 00000005 68656c6c6f 000000 00000003"));
  CHECK(flatten(message, 1) == hex("00000001 00000005 00000003"));
  static_assert(bounds<Result>.max_reduced == 12 && bounds<Result>.ddp_items == 1);
  static_assert(bounds<Result>.max == 4 + 4 + padded_bound(kNoCap) + 4);
}

TEST_CASE("xdr: an eligible result in the stream is copied to its destination, or viewed where it has none") {
  const auto whole = hex("00000001 00000005 68656c6c6f 000000 00000003");
  std::array<std::byte, 8> memory{};
  Result r;
  {
    const Placement place{memory, false, 0};
    Decoder in(whole, {&place, 1});
    REQUIRE(decode(in, r));
    CHECK(in.finish());
    CHECK(r.data.data.data() == memory.data());
    CHECK(r.data.data.size() == 5);
    CHECK(std::memcmp(memory.data(), "hello", 5) == 0);
  }
  {
    Decoder in(whole);
    REQUIRE(decode(in, r));
    CHECK(r.data.data.data() == whole.data() + 8);
  }
  {
    const Placement place{Bytes(memory).first(4), false, 0};
    Decoder in(whole, {&place, 1});
    CHECK_FALSE(decode(in, r));
    CHECK(in.fault() == Fault::too_long);
  }
}

TEST_CASE("xdr: T12, an eligible result that was placed has the length that was placed") {
  const auto reduced = hex("00000001 00000005 00000003");
  std::array<std::byte, 8> memory{};
  const auto fault = [&](std::uint32_t placed, std::size_t room) {
    const Placement place{Bytes(memory).first(room), true, placed};
    Decoder in(reduced, {&place, 1});
    Result r;
    if (decode(in, r)) in.finish();
    return in.fault();
  };
  CHECK(fault(5, 8) == Fault::none);
  CHECK(fault(4, 8) == Fault::ddp_count);
  CHECK(fault(8, 8) == Fault::ddp_count);
  CHECK(fault(5, 4) == Fault::ddp_count);
}

TEST_CASE("xdr: T25, a result that had a chunk is not left in the stream") {
  const auto whole = hex("00000001 00000005 68656c6c6f 000000 00000003");
  std::array<std::byte, 8> memory{};
  const Placement place{memory, true, 0};
  Decoder in(whole, {&place, 1});
  Result r;
  CHECK_FALSE(decode(in, r));
  CHECK(in.fault() == Fault::ddp_violation);
  // An empty one has nothing to place.
  const auto nothing = hex("00000001 00000000 00000003");
  Decoder empty(nothing, {&place, 1});
  CHECK(decode(empty, r));
  CHECK(empty.finish());
}

TEST_CASE("xdr: a chunk that was filled for no result") {
  std::array<std::byte, 8> memory{};
  const Placement used{memory, true, 8};
  const Placement unused{memory, true, 0};
  Decoder in({}, {&used, 1});
  CHECK_FALSE(in.finish());
  CHECK(in.fault() == Fault::ddp_violation);
  Decoder fine({}, {&unused, 1});
  CHECK(fine.finish());
}

TEST_CASE("xdr: one placement for a result with several items or none") {
  std::array<std::byte, 8> first{}, second{};
  const std::array<Placement, 2> places{Placement{first, true, 4}, Placement{second, true, 8}};
  // Two items: the first was placed, the second stands in the stream; the next result has the next placement.
  const auto stream = hex("00000004 00000003 61626300 00000008");
  Decoder in(stream, places);
  DdpOpaque<> a, b, next;
  in.begin_single_placement();
  CHECK(decode(in, a));
  CHECK(decode(in, b));
  CHECK(in.end_single_placement());
  CHECK(decode(in, next));
  CHECK(in.finish());
  CHECK(a.data.data() == first.data());
  CHECK(b.data.size() == 3);
  CHECK(next.data.data() == second.data());

  // No item, but its chunk was filled.
  Decoder none({}, places);
  none.begin_single_placement();
  CHECK_FALSE(none.end_single_placement());
  CHECK(none.fault() == Fault::ddp_violation);
}

TEST_CASE("xdr: a placement that a result without an item has left is not the next result's") {
  std::array<std::byte, 8> first{}, second{};
  const std::array<Placement, 2> places{Placement{first, true, 0}, Placement{second, true, 8}};
  const auto stream = hex("00000008");
  Decoder in(stream, places);
  in.begin_single_placement();
  CHECK(in.end_single_placement());
  DdpOpaque<> next;
  CHECK(decode(in, next));
  CHECK(in.finish());
  CHECK(next.data.data() == second.data());
}

TEST_CASE("xdr: random values keep within their bounds and survive") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::Filler random(seed);
    const auto value = test::filled<Everything>(random);
    const auto wire = encoded(value);
    CHECK(wire.size() == encoded_size(value));
    CHECK(wire.size() >= bounds<Everything>.min);
    Decoder in(wire);
    Everything back;
    REQUIRE(decode(in, back));
    CHECK(in.finish());
    CHECK(test::same(value, back));
    CHECK(encoded(back) == wire);
  }
}

TEST_CASE("xdr: the largest value has the largest size, and sums of bounds do not wrap") {
  test::Filler largest(test::Filler::Largest{0});
  CHECK(encoded(test::filled<Worked>(largest)).size() == bounds<Worked>.max);
  using Choice = decltype(Everything::choice);
  CHECK(encoded(test::filled<Choice>(largest)).size() == bounds<Choice>.max);
  static_assert(bounds<Everything>.max == kUnbounded);  // it has a List
  static_assert(sum(kUnbounded, 4) == kUnbounded && product(kUnbounded, 2) == kUnbounded &&
                product(0, 5) == 0);
  static_assert(padded_bound(kUnbounded) == kUnbounded && padded_bound(5) == 8);
}
