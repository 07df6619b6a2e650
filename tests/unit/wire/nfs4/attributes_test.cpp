// The attribute codec, and READDIR's entries with it.
#include "wire/nfs4/attributes.h"

#include <doctest/doctest.h>

#include "support/random_value.h"
#include "wire/nfs4/ops.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;
using test::hex;

namespace {

bitmap4 random_bitmap(test::Filler& random) {
  bitmap4 map;
  for (std::uint32_t number = 0; number <= FATTR4_XATTR_SUPPORT; ++number) {
    if (has_bit(readable_attributes(), number) && random.one_in(2)) set_bit(map, number);
  }
  return map;
}

std::vector<std::byte> directory(std::size_t entries, const WireAttributes& attributes,
                                 const bitmap4& wanted) {
  READDIR4resok ok;
  ok.cookieverf.fill(std::byte{9});
  ok.reply.eof = true;
  for (std::size_t i = 0; i < entries; ++i) {
    ok.reply.entries.value.push_back(
        {i + 3, {"file" + std::to_string(i)}, encode_attributes(attributes, wanted)});
  }
  return test::encoded(READDIR4res::of<NFS4_OK>(std::move(ok)));
}

}  // namespace

TEST_CASE("nfs4 attributes: a capture's GETATTR, byte by byte") {
  // type, change, size, fsid, fileid | mode, numlinks, owner, owner_group, time_modify
  const auto wire =
      hex("00000002 0010011a 0020003a 00000050"
          "00000001 0000000000000007 0000000000000400"
          "0000000000000001 0000000000000002 000000000000002a"
          "000001a4 00000001 00000004 726f6f74 00000003 31303000"
          "0000000065000000 00000005");
  xdr::Decoder in(wire);
  WireAttributes a;
  REQUIRE(decode_attributes(in, a));
  CHECK(in.finish());
  CHECK(a.type == NF4REG);
  CHECK(a.change == 7U);
  CHECK(a.size == 1024U);
  CHECK(a.fsid == fsid4{1, 2});
  CHECK(a.fileid == 42U);
  CHECK(a.mode == 0644U);
  CHECK(a.numlinks == 1U);
  CHECK(a.owner->value == "root");
  CHECK(a.owner_group->value == "100");
  CHECK(a.time_modify == nfstime4{0x65000000, 5});
  CHECK_FALSE(a.time_access);

  fattr4 fattr;
  xdr::Decoder again(wire);
  REQUIRE(xdr::decode(again, fattr));
  WireAttributes b;
  CHECK(decode_attributes(fattr, b));
  CHECK(test::same(a, b));
  CHECK(encode_attributes(a, readable_attributes()) == fattr);
}

TEST_CASE("nfs4 attributes: bitmaps") {
  using Words = decltype(bitmap4::value);
  const bitmap4 map = bitmap_of({FATTR4_SIZE, FATTR4_MODE, FATTR4_XATTR_SUPPORT});
  CHECK(map.value == Words{0x10, 0x2, 0x40000});
  CHECK(has_bit(map, FATTR4_MODE));
  CHECK_FALSE(has_bit(map, FATTR4_TYPE));
  CHECK_FALSE(has_bit(map, 200));
  CHECK(intersection(map, bitmap_of({FATTR4_SIZE, FATTR4_TYPE})).value == Words{0x10});
  const Words either{0x12, 0x2, 0x40000};
  CHECK(union_of(map, bitmap_of({FATTR4_SIZE, FATTR4_TYPE})).value == either);
  CHECK(union_of(bitmap_of({FATTR4_SIZE, FATTR4_TYPE}), map).value == either);
  CHECK(attribute_name(FATTR4_TIME_MODIFY) == "time_modify");
  CHECK(attribute_name(FATTR4_MODE_UMASK) == "mode_umask");
  CHECK(attribute_name(FATTR4_ACL).empty());
  CHECK(attribute_name(4000000000).empty());
}

TEST_CASE("nfs4 attributes: any set of them survives, and never exceeds max_attr_size") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    test::Filler random(seed);
    const auto attributes = test::filled<WireAttributes>(random);
    const bitmap4 wanted = random_bitmap(random);
    const fattr4 fattr = encode_attributes(attributes, wanted);
    CHECK(fattr.attr_vals.value.size() <= max_attr_size(wanted));
    WireAttributes back;
    REQUIRE(decode_attributes(fattr, back));
    CHECK(encode_attributes(back, readable_attributes()) == fattr);
  }
}

TEST_CASE("nfs4 attributes: max_attr_size is reached") {
  test::Filler largest(test::Filler::Largest{});
  const auto attributes = test::filled<WireAttributes>(largest);
  CHECK(encode_attributes(attributes, readable_attributes()).attr_vals.value.size() ==
        max_attr_size(readable_attributes()));
  CHECK(max_attr_size(readable_attributes()) < kAttrlistMax);
  CHECK(max_attr_size(bitmap_of({FATTR4_TYPE, FATTR4_OWNER, FATTR4_FILEHANDLE})) == 4 + 260 + 132);
  CHECK(max_attr_size({}) == 0);
  CHECK(max_attr_size(bitmap_of({FATTR4_TIME_MODIFY_SET})) == 0);
  CHECK(max_attr_size(bitmap_of({FATTR4_ACL})) == xdr::kUnbounded);
}

TEST_CASE("nfs4 attributes: faults are values") {
  WireAttributes a;
  xdr::Fault fault = xdr::Fault::none;
  CHECK_FALSE(decode_attributes(fattr4{bitmap_of({FATTR4_ACL}), {hex("00000000")}}, a, &fault));
  CHECK(fault == xdr::Fault::bad_discriminant);
  CHECK_FALSE(decode_attributes(fattr4{{{0, 0, 0, 1}}, {}}, a, &fault));
  CHECK(fault == xdr::Fault::bad_discriminant);
  CHECK_FALSE(decode_attributes(fattr4{bitmap_of({FATTR4_SIZE}), {hex("00000000")}}, a, &fault));
  CHECK(fault == xdr::Fault::truncated);
  CHECK_FALSE(decode_attributes(fattr4{bitmap_of({FATTR4_MODE}), {hex("0000000000000000")}}, a, &fault));
  CHECK(fault == xdr::Fault::trailing);
  CHECK_FALSE(decode_attributes(fattr4{bitmap_of({FATTR4_OWNER}), {hex("00000101 61")}}, a, &fault));
  CHECK(fault == xdr::Fault::too_long);
  // Zero words at the end.
  CHECK(decode_attributes(fattr4{{decltype(bitmap4::value)(kBitmapWords)}, {}}, a, &fault));
  CHECK(fault == xdr::Fault::none);

  // In place: the fault is the message's.
  const auto nine = hex("00000009");
  xdr::Decoder in(nine);
  CHECK_FALSE(decode_attributes(in, a));
  CHECK(in.fault() == xdr::Fault::too_long);
  const auto trailing = hex("00000001 00000002 00000008 00000001 00000000");
  xdr::Decoder more(trailing);
  CHECK_FALSE(decode_attributes(more, a));
  CHECK(more.fault() == xdr::Fault::trailing);
}

TEST_CASE("nfs4 attributes: what was there before is gone") {
  WireAttributes a;
  a.size = 5;
  a.owner = principal4{"somebody"};
  CHECK(decode_attributes(encode_attributes({}, readable_attributes()), a));
  CHECK_FALSE(a.size);
  CHECK_FALSE(a.owner);
}

TEST_CASE("nfs4 attributes: changes, byte by byte") {
  WireChanges changes;
  changes.size = 5;
  changes.mode = 0600;
  changes.owner = principal4{"0"};
  changes.time_access_set = server_time();
  changes.time_modify_set = client_time({-1, 7});
  const fattr4 fattr = encode_changes(changes);
  // size | mode, owner, time_access_set, time_modify_set
  CHECK(test::encoded(fattr) == hex("00000002 00000010 00410012 00000028"
                                    "0000000000000005 00000180 00000001 30000000 00000000"
                                    "00000001 ffffffffffffffff 00000007"));
  WireChanges back;
  REQUIRE(decode_changes(fattr, back));
  CHECK(test::same(changes, back));
  CHECK_FALSE(decode_changes(fattr4{bitmap_of({FATTR4_TYPE}), {hex("00000001")}}, back));

  WireChanges created;
  created.mode_umask = mode_umask4{0666, 0022};
  CHECK(test::encoded(encode_changes(created)) ==
        hex("00000003 00000000 00000000 00020000 00000008 000001b6 00000012"));
  CHECK(encode_changes({}) == fattr4{});
}

TEST_CASE("nfs4 readdir: entries and their attributes") {
  test::Filler random(3);
  const auto attributes = test::filled<WireAttributes>(random);
  const auto wire = directory(100, attributes, readable_attributes());
  xdr::Decoder in(wire);
  READDIR4res res;
  REQUIRE(xdr::decode(in, res));
  CHECK(in.finish());
  const READDIR4resok& ok = *res.get<NFS4_OK>();
  CHECK(ok.cookieverf[0] == std::byte{9});
  CHECK(ok.reply.eof);
  REQUIRE(ok.reply.entries.value.size() == 100);
  std::size_t count = 0;
  for (const entry4& entry : ok.reply.entries.value) {
    CHECK(entry.cookie == count + 3);
    CHECK(entry.name.value == "file" + std::to_string(count));
    WireAttributes back;
    REQUIRE(decode_attributes(entry.attrs, back));
    CHECK(test::same(back, attributes));
    ++count;
  }
}

TEST_CASE("nfs4 readdir: truncations and refusals") {
  WireAttributes attributes;
  attributes.type = NF4REG;
  const auto wire = directory(3, attributes, readable_attributes());
  READDIR4res res;
  for (std::size_t length = 0; length < wire.size(); ++length) {
    xdr::Decoder in(xdr::ConstBytes(wire).first(length));
    CHECK_FALSE(xdr::decode(in, res));
    CHECK(in.fault() == xdr::Fault::truncated);
  }
  const auto refused = hex("0000000d");
  xdr::Decoder in(refused);
  CHECK(xdr::decode(in, res));
  CHECK(status_of(res) == NFS4ERR_ACCESS);
  CHECK(in.finish());
}
