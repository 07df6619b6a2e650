// RPC headers and XDR where they carry numbers on: what a refusal tells, how large a protected Reply's header may be, the
// marks of handles, and the one placement of a result that has no item.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <optional>

#include "rpc/message.h"
#include "support/random_value.h"
#include "xdr/marks.h"

namespace nfsrdma::rpc {
namespace {

using Handle = xdr::ShortOpaque<8>;

enum Kind : std::uint32_t { kNothing = 0, kObject = 1 };

struct Entry {
  std::uint32_t number = 0;
  Handle handle{};
};

/// A handle wherever one can stand.
struct Told {
  std::uint32_t number = 0;
  Handle handle{};
  Entry inner{};
  std::optional<Handle> maybe{};
  xdr::Array<Handle, 4> several{};
  xdr::List<Entry> list{};
  xdr::Union<Kind, xdr::On<kNothing>, xdr::On<kObject, Entry>> either{};
};

struct Named {
  Entry first{};
  Entry second{};
  std::optional<Handle> maybe{};
};

}  // namespace

TEST_CASE("rpc message: the Reply to a sealed Call may have the padded verifier in its header") {
  CHECK(Credential::to_be_sealed(0).largest_reply_header() == 24);
  CHECK(Credential::to_be_sealed(37).largest_reply_header() == 24 + 40);
}

TEST_CASE("rpc message: an Error has the server's own number for what it refused") {
  CHECK(refusal_error({Refusal::garbage_args, 0, 0}, {"NFS", 3}, "FSINFO", "server").status() ==
        kGarbageArgs);
  CHECK(refusal_error({Refusal::authentication, 13, 0}, {"NFS", 3}, "FSINFO", "server").status() == 13);
}

TEST_CASE("rpc message: what a refusal tells beside itself comes as it was written") {
  for (const Refusal refusal : {Refusal::version, Refusal::rpc_version, Refusal::authentication}) {
    xdr::Message message;
    begin_reply(message, 5, {refusal, 3, 4});
    xdr::Decoder in(message.stream.bytes());
    const ReplyHeader header = read_reply(in);
    CHECK(header.refusal == refusal);
    CHECK(header.detail == 3);
    CHECK(header.highest == (refusal == Refusal::authentication ? 0U : 4U));
  }
}

TEST_CASE("xdr: a mark is on every handle of a result, wherever it stands") {
  Told told;
  told.maybe.emplace();
  told.several.value.resize(2);
  told.list.value.resize(2);
  told.either.emplace<kObject>();
  xdr::mark_all(told, 7);
  CHECK(told.handle.mark == 7);
  CHECK(told.inner.handle.mark == 7);
  CHECK(told.maybe->mark == 7);
  for (const Handle& one : told.several.value) CHECK(one.mark == 7);
  for (const Entry& one : told.list.value) CHECK(one.handle.mark == 7);
  CHECK(told.either.get<kObject>()->handle.mark == 7);
  Told bare;
  xdr::mark_all(bare, 7);
  CHECK_FALSE(bare.maybe);
  CHECK(bare.either.tag() == kNothing);
}

TEST_CASE("xdr: the mark of arguments is that of the first handle that has one") {
  Named named;
  CHECK(xdr::mark_of(named) == 0);
  named.second.handle.mark = 3;
  CHECK(xdr::mark_of(named) == 3);
  named.first.handle.mark = 2;
  CHECK(xdr::mark_of(named) == 2);
}

TEST_CASE("xdr: a placement that a result without an item has left is not the next result's") {
  std::array<std::byte, 8> first{}, second{};
  const std::array<xdr::Placement, 2> places{xdr::Placement{first, true, 0}, xdr::Placement{second, true, 8}};
  const auto stream = test::hex("00000008");
  xdr::Decoder in(stream, places);
  in.begin_single_placement();
  CHECK(in.end_single_placement());
  xdr::DdpOpaque<> next;
  CHECK(xdr::decode(in, next));
  CHECK(in.finish());
  CHECK(next.data.data() == second.data());
}

}  // namespace nfsrdma::rpc
