// NFSv3's wire types: bytes worked out by hand from RFC 1813, round trips of random values, statuses.
#include <doctest/doctest.h>

#include <cerrno>
#include <string_view>

#include "reply_sizing/nfs3_reply.h"
#include "unit/wire/nfs4/round_trip.h"
#include "wire/nfs3/procedures.h"
#include "wire/nfs3/status.h"

namespace nfsrdma::nfs3 {
namespace {

template <class T>
std::vector<std::byte> encoded(const T& value) {
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, value);
  const auto bytes = message.stream.bytes();
  return {bytes.begin(), bytes.end()};
}

nfs_fh3 handle(std::uint8_t byte) {
  nfs_fh3 out;
  out.length = 5;
  out.bytes.fill(std::byte{0});
  for (int i = 0; i < 5; ++i) out.bytes[static_cast<std::size_t>(i)] = std::byte{byte};
  return out;
}

template <class P>
void check_procedure() {
  test::check_codec(P::name, test::ValueOf<typename P::Args>());
  test::check_codec(P::name, test::ValueOf<typename P::Res>());
}

}  // namespace

TEST_CASE("nfs3 types: requests by hand") {
  LOOKUP3args lookup;
  lookup.what.dir = handle(0x11);
  lookup.what.name.value = "abc";
  CHECK(encoded(lookup) == test::hex("00000005 11111111 11000000 00000003 61626300"));
  CREATE3args create;
  create.where = lookup.what;
  create.how.emplace<GUARDED>().mode = 0644;
  CHECK(encoded(create) == test::hex("00000005 11111111 11000000 00000003 61626300 00000001 00000001 000001a4"
                                     "00000000 00000000 00000000 00000000 00000000"));
  create.how.emplace<EXCLUSIVE>().fill(std::byte{0x22});
  CHECK(encoded(create) ==
        test::hex("00000005 11111111 11000000 00000003 61626300 00000002 22222222 22222222"));
  SETATTR3args set;
  set.object = handle(0x33);
  set.new_attributes.size = 0x123456789;
  set.new_attributes.mtime.emplace<SET_TO_CLIENT_TIME>() = {7, 8};
  CHECK(encoded(set) ==
        test::hex("00000005 33333333 33000000 00000000 00000000 00000000 00000001 00000001 23456789"
                  "00000000 00000002 00000007 00000008 00000000"));
}

TEST_CASE("nfs3 types: an answer by hand") {
  const auto bytes = test::hex(
      "00000000"                    // NFS3_OK
      "00000005 11111111 11000000"  // the object's handle
      "00000001"                    // its attributes follow
      "00000002 000001ed 00000003 000003e8 00000064 00000000 00001000 00000000 00002000"
      "00000000 00000000 00000000 00000007 00000000 0000002a"
      "00000001 00000002 00000003 00000004 00000005 00000006"
      "00000000");  // none of the directory
  xdr::Decoder in(bytes);
  LOOKUP3res res;
  REQUIRE(xdr::decode(in, res));
  CHECK(in.finish());
  const LOOKUP3resok& ok = *res.get<NFS3_OK>();
  CHECK(ok.object == handle(0x11));
  CHECK(ok.obj_attributes->type == NF3DIR);
  CHECK(ok.obj_attributes->mode == 0755);
  CHECK(ok.obj_attributes->size == 4096);
  CHECK(ok.obj_attributes->used == 8192);
  CHECK(ok.obj_attributes->fsid == 7);
  CHECK(ok.obj_attributes->fileid == 42);
  CHECK(ok.obj_attributes->ctime == nfstime3{5, 6});
  CHECK_FALSE(ok.dir_attributes);
}

TEST_CASE("nfs3 types: every procedure's arguments and results survive, and are refused when cut") {
  const auto all = []<std::size_t... I>(std::index_sequence<I...>) {
    (check_procedure<std::tuple_element_t<I, proc::All>>(), ...);
  };
  all(std::make_index_sequence<std::tuple_size_v<proc::All>>());
}

TEST_CASE("nfs3 types: procedures stand at their numbers") {
  const auto all = []<std::size_t... I>(std::index_sequence<I...>) {
    return ((std::tuple_element_t<I, proc::All>::number == I) && ...);
  };
  CHECK(all(std::make_index_sequence<std::tuple_size_v<proc::All>>()));
  CHECK(proc::WRITE::idempotent);
  CHECK_FALSE(proc::REMOVE::idempotent);
}

TEST_CASE("U3 nfs3 types: the largest Reply of READ") {
  using namespace reply_sizing;
  ReplySize size = begin();
  READ3args read;
  read.count = 1048576;
  grow(size, result<proc::READ>(read));
  CHECK(size.max_inline == 1'048'704);
  CHECK(size.max_reduced == 128);
  CHECK(size.eligible_results().size() == 1);
  CHECK(size.eligible_results().front() == 1048576);
}

TEST_CASE("nfs3 status: every code has a row") {
  std::size_t rows = 0;
  for (std::uint32_t code = 0; code < 11000; ++code) {
    const StatusRow* row = find_status(static_cast<nfsstat3>(code));
    if (row == nullptr) continue;
    ++rows;
    CHECK(row->status == code);
    CHECK(std::string_view(row->name).starts_with("NFS3"));
    CHECK((code == 0) == (row->errno_value == 0));
  }
  CHECK(rows == 29);
  const Error error = status_error(NFS3ERR_NOENT, "LOOKUP", "server:/a");
  CHECK(error.errno_value() == ENOENT);
  CHECK(error.text() == "server:/a: LOOKUP: there is no such file or directory (NFS3ERR_NOENT)");
  CHECK(status_error(static_cast<nfsstat3>(12345), "READ", "").errno_value() == EIO);
}

}  // namespace nfsrdma::nfs3
