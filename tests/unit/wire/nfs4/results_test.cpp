// Every type of results: as for arguments; statuses; which items may travel by themselves; READ_PLUS's chunk.
#include <doctest/doctest.h>

#include <string>

#include "unit/wire/nfs4/round_trip.h"
#include "wire/nfs4/ops.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;

namespace {

template <class... Op>
void exercise_results(std::tuple<Op...>*) {
  (test::check_codec(Op::name, test::ValueOf<typename Op::Res>()), ...);
}

/// A status goes in and comes out, and says nothing else.
template <class Op>
bool carries_status() {
  typename Op::Res res{};
  if (status_of(res) != NFS4_OK) return false;
  set_status(res, NFS4ERR_GRACE);
  return status_of(res) == NFS4ERR_GRACE && xdr::encoded_size(res) <= 8;
}
template <class... Op>
bool all_carry_status(std::tuple<Op...>*) {
  return (carries_status<Op>() && ...);
}

/// RFC 8267 4.1: what may travel by itself, and nothing else (row U2).
template <class... Op>
std::string eligible_operations(std::tuple<Op...>*) {
  std::string names;
  ((xdr::bounds<typename Op::Args>.ddp_items != 0 ? names += std::string(Op::name) + "> " : names), ...);
  ((xdr::bounds<typename Op::Res>.ddp_items != 0 ? names += std::string("<") + Op::name + " " : names), ...);
  return names;
}

constexpr op::All* kAll = nullptr;

}  // namespace

TEST_CASE("nfs4 types: results survive encoding and decoding") {
  exercise_results(kAll);
}
TEST_CASE("nfs4 types: every result has a status") {
  CHECK(all_carry_status(kAll));
}

TEST_CASE("U2 nfs4 types: exactly the items of RFC 8267 4.1 are DDP-eligible") {
  CHECK(eligible_operations(kAll) == "CREATE> WRITE> <READ <READLINK <READ_PLUS ");
}

TEST_CASE("U6 nfs4 types: READ_PLUS has two elements at most") {
  const auto three = test::hex(
      "00000000 00000001 00000003 00000001 0000000000000000 0000000000000001"
      "00000001 0000000000000001 0000000000000001 00000001 0000000000000002 0000000000000001");
  xdr::Decoder in(three);
  READ_PLUS4res res;
  CHECK_FALSE(xdr::decode(in, res));
  CHECK(in.fault() == xdr::Fault::too_long);
}

TEST_CASE(
    "U10 nfs4 types: a READ_PLUS without data leaves its chunk unused, and the next READ has the next") {
  const auto hole_then_read = test::hex(
      "00000044 00000000 00000000 00000001 00000001 0000000000000000 0000000000001000"
      "00000019 00000000 00000001 00000008");
  std::array<std::byte, 8> first{}, second{};
  const std::array<xdr::Placement, 2> places{xdr::Placement{first, true, 0}, xdr::Placement{second, true, 8}};
  xdr::Decoder in(hole_then_read, places);
  READ_PLUS4res plus;
  READ4res read;
  REQUIRE(decode_op<op::READ_PLUS>(in, plus));
  REQUIRE(decode_op<op::READ>(in, read));
  CHECK(in.finish());
  CHECK(read.get<NFS4_OK>()->data.data.data() == second.data());
}

TEST_CASE(
    "U10 nfs4 types: data in both elements of a READ_PLUS: the first was placed, the second is inline") {
  const auto both = test::hex(
      "00000044 00000000 00000001 00000002 00000000 0000000000000000 00000008"
      "00000000 0000000000000008 00000003 61626300");
  std::array<std::byte, 16> memory{};
  const xdr::Placement place{memory, true, 8};
  xdr::Decoder in(both, {&place, 1});
  READ_PLUS4res plus;
  REQUIRE(decode_op<op::READ_PLUS>(in, plus));
  CHECK(in.finish());
  const auto& contents = plus.get<NFS4_OK>()->rpr_contents.value;
  CHECK(contents[0].get<NFS4_CONTENT_DATA>()->d_data.data.data() == memory.data());
  CHECK(contents[1].get<NFS4_CONTENT_DATA>()->d_data.data.size() == 3);
}
