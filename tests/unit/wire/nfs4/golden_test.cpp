// NFSv4.1 and 4.2 operations, byte by byte as RFC 5662, RFC 7863 and RFC 8276 define them.
#include <doctest/doctest.h>

#include "support/random_value.h"
#include "wire/nfs4/ops.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;
using test::encoded;
using test::hex;

namespace {

template <class Op>
std::vector<std::byte> encoded_op(const typename Op::Args& args) {
  xdr::Message message;
  xdr::Encoder out(message);
  encode_op<Op>(out, args);
  return test::flatten(message);
}

/// Decodes the result of an Op from golden bytes and encodes it again, which must give the same bytes.
template <class Op>
typename Op::Res decoded_op(const std::vector<std::byte>& golden) {
  xdr::Decoder in(golden);
  typename Op::Res res{};
  CHECK(decode_op<Op>(in, res));
  CHECK(in.finish());
  CHECK(encoded(res) == std::vector(golden.begin() + 4, golden.end()));
  return res;
}

nfs_fh4 handle(std::initializer_list<unsigned> bytes) {
  nfs_fh4 fh;
  for (const unsigned b : bytes) fh.bytes[fh.length++] = static_cast<std::byte>(b);
  return fh;
}
template <std::size_t N>
std::array<std::byte, N> all(unsigned value) {
  std::array<std::byte, N> out;
  out.fill(static_cast<std::byte>(value));
  return out;
}
stateid4 state(std::uint32_t seqid, unsigned fill) {
  return {seqid, all<12>(fill)};
}

constexpr const char* kSession = "11111111 11111111 11111111 11111111";

}  // namespace

TEST_CASE("nfs4 golden: COMPOUND heads") {
  CHECK(encoded(COMPOUND4args_head{.tag = {}, .minorversion = 2, .argarray_count = 3}) ==
        hex("00000000 00000002 00000003"));
  const auto golden = hex("0000000d 00000002 6c730000 00000001");
  xdr::Decoder in(golden);
  COMPOUND4res_head head;
  REQUIRE(xdr::decode(in, head));
  CHECK(head.status == NFS4ERR_ACCESS);
  CHECK(head.tag.value == "ls");
  CHECK(head.resarray_count == 1);
}

TEST_CASE("nfs4 golden: SEQUENCE") {
  CHECK(encoded_op<op::SEQUENCE>({.sa_sessionid = all<16>(0x11),
                                  .sa_sequenceid = 5,
                                  .sa_slotid = 2,
                                  .sa_highest_slotid = 7,
                                  .sa_cachethis = true}) ==
        hex(std::string("00000035") + kSession + "00000005 00000002 00000007 00000001"));
  const auto res = decoded_op<op::SEQUENCE>(
      hex(std::string("00000035 00000000") + kSession + "00000005 00000002 0000003f 0000001f 00000100"));
  const auto* ok = res.get<NFS4_OK>();
  REQUIRE(ok != nullptr);
  CHECK(ok->sr_slotid == 2);
  CHECK(ok->sr_target_highest_slotid == 31);
  CHECK(ok->sr_status_flags == SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
  CHECK(status_of(decoded_op<op::SEQUENCE>(hex("00000035 00002744"))) == NFS4ERR_BADSESSION);
}

TEST_CASE("nfs4 golden: file handles") {
  CHECK(encoded_op<op::PUTROOTFH>({}) == hex("00000018"));
  CHECK(encoded_op<op::PUTFH>({handle({1, 2, 3, 4, 5})}) == hex("00000016 00000005 0102030405 000000"));
  const auto res = decoded_op<op::GETFH>(hex("0000000a 00000000 00000003 0a0b0c00"));
  CHECK(res.get<NFS4_OK>()->object == handle({0xa, 0xb, 0xc}));
  CHECK(status_of(decoded_op<op::PUTFH>(hex("00000016 00000046"))) == NFS4ERR_STALE);
}

TEST_CASE("nfs4 golden: LOOKUP, ACCESS") {
  CHECK(encoded_op<op::LOOKUP>({{"etc"}}) == hex("0000000f 00000003 65746300"));
  CHECK(encoded_op<op::ACCESS>({ACCESS4_READ | ACCESS4_EXECUTE}) == hex("00000003 00000021"));
  const auto res = decoded_op<op::ACCESS>(hex("00000003 00000000 0000003f 00000001"));
  CHECK(res.get<NFS4_OK>()->access == ACCESS4_READ);
}

TEST_CASE("nfs4 golden: READ") {
  CHECK(encoded_op<op::READ>({state(1, 0xee), 0x100000000, 4096}) ==
        hex("00000019 00000001 eeeeeeee eeeeeeee eeeeeeee 00000001 00000000 00001000"));
  const auto golden = hex("00000019 00000000 00000001 00000003 61626300");
  const auto res = decoded_op<op::READ>(golden);
  CHECK(res.get<NFS4_OK>()->eof);
  CHECK(res.get<NFS4_OK>()->data.data.size() == 3);
}

TEST_CASE("nfs4 golden: WRITE, COMMIT") {
  const auto payload = hex("0102030405");
  xdr::Message message;
  xdr::Encoder out(message);
  encode_op<op::WRITE>(out, {state(0, 0), 8, UNSTABLE4, {payload}});
  REQUIRE(message.items.size() == 1);
  CHECK(message.items[0].data.data() == payload.data());
  CHECK(test::flatten(message, 1) == hex("00000026 00000000 00000000 00000000 00000000"
                                         "00000000 00000008 00000000 00000005"));
  CHECK(test::flatten(message).size() == message.stream.size() + 8);
  const auto res = decoded_op<op::WRITE>(hex("00000026 00000000 00000005 00000002 0101010101010101"));
  CHECK(res.get<NFS4_OK>()->committed == FILE_SYNC4);
  CHECK(res.get<NFS4_OK>()->writeverf == all<8>(1));
  CHECK(encoded_op<op::COMMIT>({1, 2}) == hex("00000005 0000000000000001 00000002"));
}

TEST_CASE("nfs4 golden: OPEN that creates, and its answers") {
  OPEN4args args{.seqid = 0,
                 .share_access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
                 .share_deny = OPEN4_SHARE_DENY_NONE,
                 .owner = {.clientid = 9, .owner = {hex("aa")}}};
  args.openhow = openflag4::of<OPEN4_CREATE>(
      createhow4::of<EXCLUSIVE4_1>(creatverfattr{all<8>(0x77), {{{0, 2}}, {hex("000001a4")}}}));
  args.claim = open_claim4::of<CLAIM_NULL>(component4{"f"});
  CHECK(encoded_op<op::OPEN>(args) == hex("00000012 00000000 00000403 00000000"
                                          "0000000000000009 00000001 aa000000"
                                          "00000001 00000003 7777777777777777"
                                          "00000002 00000000 00000002 00000004 000001a4"
                                          "00000000 00000001 66000000"));
  args.openhow = {};
  args.claim = open_claim4::of<CLAIM_FH>();
  CHECK(encoded_op<op::OPEN>(args) == hex("00000012 00000000 00000403 00000000"
                                          "0000000000000009 00000001 aa000000 00000000 00000004"));

  const std::string head =
      "00000012 00000000 00000001 222222222222222222222222"  // stateid
      "00000001 0000000000000001 0000000000000002"           // cinfo
      "00000004 00000002 00000000 00000002";                 // rflags, attrset
  const auto none = decoded_op<op::OPEN>(hex(head + "00000000"));
  CHECK(none.get<NFS4_OK>()->stateid == state(1, 0x22));
  CHECK(none.get<NFS4_OK>()->cinfo == change_info4{true, 1, 2});
  const auto why = decoded_op<op::OPEN>(hex(head + "00000003 00000001 00000001"));
  const auto* ext = why.get<NFS4_OK>()->delegation.get<OPEN_DELEGATE_NONE_EXT>();
  REQUIRE(ext != nullptr);
  CHECK(*ext->get<WND4_CONTENTION>());
  decoded_op<op::OPEN>(hex(head + "00000003 00000000"));
  const auto write = decoded_op<op::OPEN>(
      hex(head + "00000002 00000003 333333333333333333333333 00000000"  // stateid, recall
                 "00000002 00000010 00001000"                           // limited by blocks
                 "00000000 00000000 00000001 00000006 454f574e4552 0000"));
  const auto* delegation = write.get<NFS4_OK>()->delegation.get<OPEN_DELEGATE_WRITE>();
  REQUIRE(delegation != nullptr);
  CHECK(delegation->space_limit.get<NFS_LIMIT_BLOCKS>()->num_blocks == 16);
  CHECK(delegation->permissions.who.value == "EOWNER");
}

TEST_CASE("nfs4 golden: CLOSE, SETATTR, GETATTR") {
  CHECK(encoded_op<op::CLOSE>({0, state(1, 2)}) ==
        hex("00000004 00000000 00000001 020202020202020202020202"));
  CHECK(encoded_op<op::SETATTR>({state(0, 0), {{{0x10}}, {hex("0000000000000005")}}}) ==
        hex("00000022 00000000 000000000000000000000000 00000001 00000010 00000008 0000000000000005"));
  // A failure has the attributes too (18.30).
  const auto res = decoded_op<op::SETATTR>(hex("00000022 0000001c 00000001 00000010"));
  CHECK(status_of(res) == NFS4ERR_NOSPC);
  CHECK(res.attrsset == bitmap4{{0x10}});
  CHECK(encoded_op<op::GETATTR>({{{0x10, 2}}}) == hex("00000009 00000002 00000010 00000002"));
  const auto attr =
      decoded_op<op::GETATTR>(hex("00000009 00000000 00000001 00000010 00000008 0000000000000005"));
  CHECK(attr.get<NFS4_OK>()->obj_attributes.attr_vals.value.size() == 8);
}

TEST_CASE("nfs4 golden: CREATE of each type") {
  const std::string rest = "00000001 64000000 00000000 00000000";
  CREATE4args args{.objtype = {}, .objname = {"d"}};
  CHECK(encoded_op<op::CREATE>(args) == hex("00000006 00000002" + rest));
  const auto target = hex("2e2e");
  args.objtype = createtype4::of<NF4LNK>(linktext4{target});
  CHECK(encoded_op<op::CREATE>(args) == hex("00000006 00000005 00000002 2e2e0000" + rest));
  args.objtype = createtype4::of<NF4CHR>(specdata4{1, 3});
  CHECK(encoded_op<op::CREATE>(args) == hex("00000006 00000004 00000001 00000003" + rest));
  decoded_op<op::CREATE>(hex("00000006 00000000 00000001 0000000000000001 0000000000000002 00000000"));
}

TEST_CASE("nfs4 golden: READDIR") {
  CHECK(encoded_op<op::READDIR>({3, all<8>(4), 512, 4096, {{0x100002}}}) ==
        hex("0000001a 0000000000000003 0404040404040404 00000200 00001000 00000001 00100002"));
  const auto res = decoded_op<op::READDIR>(
      hex("0000001a 00000000 0404040404040404"
          "00000001 0000000000000005 00000001 61000000 00000001 00000002 00000004 00000001"
          "00000001 0000000000000006 00000002 62620000 00000000 00000000"
          "00000000 00000001"));
  const auto& reply = res.get<NFS4_OK>()->reply;
  REQUIRE(reply.entries.value.size() == 2);
  CHECK(reply.entries.value[0].name.value == "a");
  CHECK(reply.entries.value[1].cookie == 6);
  CHECK(reply.eof);
}

TEST_CASE("nfs4 golden: names") {
  CHECK(encoded_op<op::RENAME>({{"a"}, {"bc"}}) == hex("0000001d 00000001 61000000 00000002 62630000"));
  CHECK(encoded_op<op::REMOVE>({{"abcd"}}) == hex("0000001c 00000004 61626364"));
  CHECK(encoded_op<op::LINK>({{"l"}}) == hex("0000000b 00000001 6c000000"));
  const auto golden = hex("0000001b 00000000 00000003 2f612f00");
  CHECK(decoded_op<op::READLINK>(golden).get<NFS4_OK>()->link.data.size() == 3);
  const std::string info = "00000000 0000000000000001 0000000000000002";
  decoded_op<op::RENAME>(hex("0000001d 00000000" + info + info));
}

TEST_CASE("nfs4 golden: LOCK") {
  LOCK4args args{.locktype = WRITE_LT, .reclaim = false, .offset = 0, .length = NFS4_UINT64_MAX};
  args.locker = locker4::of<true>(open_to_lock_owner4{0, state(1, 5), 0, {9, {hex("bb")}}});
  CHECK(encoded_op<op::LOCK>(args) ==
        hex("0000000c 00000002 00000000 0000000000000000 ffffffffffffffff 00000001"
            "00000000 00000001 050505050505050505050505 00000000"
            "0000000000000009 00000001 bb000000"));
  const auto res = decoded_op<op::LOCK>(
      hex("0000000c 0000271a 0000000000000000 0000000000000008 00000001 0000000000000007 00000002 cccc0000"));
  CHECK(res.get<NFS4ERR_DENIED>()->owner.clientid == 7);
  CHECK(status_of(decoded_op<op::LOCKT>(hex("0000000d 00000000"))) == NFS4_OK);
}

TEST_CASE("nfs4 golden: EXCHANGE_ID, CREATE_SESSION") {
  EXCHANGE_ID4args id{.eia_clientowner = {all<8>(1), {hex("6e6f6465")}},
                      .eia_flags = EXCHGID4_FLAG_USE_NON_PNFS,
                      .eia_state_protect = {},
                      .eia_client_impl_id = {{{{"example.org"}, {"nfsrdma"}, {1, 2}}}}};
  CHECK(encoded_op<op::EXCHANGE_ID>(id) == hex("0000002a 0101010101010101 00000004 6e6f6465 00010000 00000000"
                                               "00000001 0000000b 6578616d706c652e6f7267 00"
                                               "00000007 6e667372646d61 00 0000000000000001 00000002"));
  const auto res =
      decoded_op<op::EXCHANGE_ID>(hex("0000002a 00000000 0000000000000009 00000001 80010000 00000000"
                                      "0000000000000000 00000002 73310000 00000002 73320000 00000000"));
  CHECK(res.get<NFS4_OK>()->eir_clientid == 9);
  CHECK(res.get<NFS4_OK>()->eir_server_scope.value == hex("7332"));

  const channel_attrs4 fore{0, 1049620, 1049480, 7584, 16, 64, {}};
  const channel_attrs4 back{0, 4096, 4096, 0, 2, 16, {{1}}};
  CREATE_SESSION4args session{9, 1, CREATE_SESSION4_FLAG_CONN_BACK_CHAN, fore, back, 0x40000000, {}};
  session.csa_sec_parms.value.push_back(
      callback_sec_parms4::of<kAuthSys>(authsys_parms{0, {"h"}, 1, 2, {{3}}}));
  const std::string channels =
      "00000000 00100414 00100388 00001da0 00000010 00000040 00000000"
      "00000000 00001000 00001000 00000000 00000002 00000010 00000001 00000001";
  CHECK(encoded_op<op::CREATE_SESSION>(session) ==
        hex("0000002b 0000000000000009 00000001 00000002" + channels +
            "40000000 00000001 00000001 00000000 00000001 68000000 00000001 00000002 00000001 00000003"));
  decoded_op<op::CREATE_SESSION>(
      hex(std::string("0000002b 00000000") + kSession + "00000001 00000002" + channels));
}

TEST_CASE("nfs4 golden: OPEN that gives a read delegation") {
  const auto res =
      decoded_op<op::OPEN>(hex("00000012 00000000 00000001 222222222222222222222222"
                               "00000001 0000000000000001 0000000000000002 00000004 00000000"
                               "00000001 00000001 444444444444444444444444 00000001"  // stateid, recall
                               "00000000 00000000 00000021 00000000"));
  const auto* delegation = res.get<NFS4_OK>()->delegation.get<OPEN_DELEGATE_READ>();
  REQUIRE(delegation != nullptr);
  CHECK(delegation->stateid == state(1, 0x44));
  CHECK(delegation->recall);
  CHECK(delegation->permissions.access_mask == 0x21);
  // 18.16.3: neither size nor blocks.
  const auto golden = hex("00000002 00000001 444444444444444444444444 00000000 00000003");
  xdr::Decoder in(golden);
  open_delegation4 other;
  CHECK_FALSE(xdr::decode(in, other));
  CHECK(in.fault() == xdr::Fault::bad_discriminant);
}

TEST_CASE("nfs4 golden: BIND_CONN_TO_SESSION, BACKCHANNEL_CTL") {
  CHECK(encoded_op<op::BIND_CONN_TO_SESSION>({all<16>(0x11), CDFC4_BACK_OR_BOTH, false}) ==
        hex(std::string("00000029") + kSession + "00000007 00000000"));
  const auto res = decoded_op<op::BIND_CONN_TO_SESSION>(
      hex(std::string("00000029 00000000") + kSession + "00000003 00000001"));
  CHECK(res.get<NFS4_OK>()->bctsr_sessid == all<16>(0x11));
  CHECK(res.get<NFS4_OK>()->bctsr_dir == CDFS4_BOTH);
  CHECK(res.get<NFS4_OK>()->bctsr_use_conn_in_rdma_mode);
  CHECK(status_of(decoded_op<op::BIND_CONN_TO_SESSION>(hex("00000029 00002744"))) == NFS4ERR_BADSESSION);
  CHECK(encoded_op<op::BACKCHANNEL_CTL>({0x40000001, {{{}}}}) == hex("00000028 40000001 00000001 00000000"));
  CHECK(status_of(decoded_op<op::BACKCHANNEL_CTL>(hex("00000028 00000016"))) == NFS4ERR_INVAL);
}

TEST_CASE("nfs4 golden: DELEGRETURN, TEST_STATEID, FREE_STATEID") {
  const std::string stateid = "00000001 020202020202020202020202";
  CHECK(encoded_op<op::DELEGRETURN>({state(1, 2)}) == hex("00000008" + stateid));
  CHECK(status_of(decoded_op<op::DELEGRETURN>(hex("00000008 00002767"))) == NFS4ERR_DELEG_REVOKED);
  CHECK(encoded_op<op::TEST_STATEID>({{{state(1, 2), state(1, 2)}}}) ==
        hex("00000037 00000002" + stateid + stateid));
  const auto res = decoded_op<op::TEST_STATEID>(hex("00000037 00000000 00000002 00000000 00002729"));
  CHECK(res.get<NFS4_OK>()->tsr_status_codes.value == std::vector{NFS4_OK, NFS4ERR_BAD_STATEID});
  CHECK(encoded_op<op::FREE_STATEID>({state(1, 2)}) == hex("0000002d" + stateid));
  CHECK(status_of(decoded_op<op::FREE_STATEID>(hex("0000002d 00002735"))) == NFS4ERR_LOCKS_HELD);
}

TEST_CASE("nfs4 golden: NFSv4.2") {
  CHECK(encoded_op<op::SEEK>({state(0, 0), 16, NFS4_CONTENT_HOLE}) ==
        hex("00000045 00000000 000000000000000000000000 0000000000000010 00000001"));
  const auto seek = decoded_op<op::SEEK>(hex("00000045 00000000 00000000 0000000000001000"));
  CHECK(seek.get<NFS4_OK>()->sr_offset == 4096);

  const auto golden =
      hex("00000044 00000000 00000001 00000002"
          "00000000 0000000000000000 00000003 61626300"
          "00000001 0000000000000003 0000000000000ffd");
  const auto plus = decoded_op<op::READ_PLUS>(golden);
  const auto& contents = plus.get<NFS4_OK>()->rpr_contents.value;
  REQUIRE(contents.size() == 2);
  CHECK(contents[0].get<NFS4_CONTENT_DATA>()->d_data.data.size() == 3);
  CHECK(contents[1].get<NFS4_CONTENT_HOLE>()->di_length == 4093);

  CHECK(encoded_op<op::COPY>({state(1, 1), state(2, 2), 0, 8, 16, true, true, {}}) ==
        hex("0000003c 00000001 010101010101010101010101 00000002 020202020202020202020202"
            "0000000000000000 0000000000000008 0000000000000010 00000001 00000001 00000000"));
  decoded_op<op::COPY>(
      hex("0000003c 00000000 00000000 0000000000000010 00000002 0505050505050505 00000001 00000001"));
  decoded_op<op::COPY>(hex("0000003c 0000276e 00000001 00000001"));

  CHECK(encoded_op<op::OFFLOAD_STATUS>({state(1, 1)}) == hex("00000043 00000001 010101010101010101010101"));
  CHECK(encoded_op<op::OFFLOAD_CANCEL>({state(1, 1)}) == hex("00000042 00000001 010101010101010101010101"));
  const auto going_on = decoded_op<op::OFFLOAD_STATUS>(hex("00000043 00000000 0000000000000010 00000000"));
  CHECK(going_on.get<NFS4_OK>()->osr_count == 16);
  CHECK(going_on.get<NFS4_OK>()->osr_complete.value.empty());
  const auto over =
      decoded_op<op::OFFLOAD_STATUS>(hex("00000043 00000000 0000000000000010 00000001 0000001c"));
  CHECK(over.get<NFS4_OK>()->osr_complete == xdr::Array<nfsstat4, 1>{{NFS4ERR_NOSPC}});
}

TEST_CASE("nfs4 golden: extended attributes") {
  CHECK(encoded_op<op::SETXATTR>({SETXATTR4_CREATE, {"k"}, {hex("0102")}}) ==
        hex("00000049 00000001 00000001 6b000000 00000002 01020000"));
  const auto list = decoded_op<op::LISTXATTRS>(
      hex("0000004a 00000000 0000000000000001 00000002 00000001 61000000 00000001 62000000 00000001"));
  CHECK(list.get<NFS4_OK>()->lxr_names.value.size() == 2);
  CHECK(status_of(decoded_op<op::GETXATTR>(hex("00000048 0000276f"))) == NFS4ERR_NOXATTR);
}

TEST_CASE("nfs4 golden: an operation that the server does not know") {
  const auto illegal = hex("0000273c 0000273c");
  xdr::Decoder in(illegal);
  SEEK4res seek;
  CHECK(decode_op<op::SEEK>(in, seek));
  CHECK(status_of(seek) == NFS4ERR_OP_ILLEGAL);
  CHECK(in.finish());

  const auto liar = hex("0000273c 00000000");
  xdr::Decoder lies(liar);
  CHECK_FALSE(decode_op<op::SEEK>(lies, seek));
  CHECK(lies.fault() == xdr::Fault::bad_discriminant);

  const auto other = hex("00000003 00000000 00000000 00000000");
  xdr::Decoder wrong(other);
  CHECK_FALSE(decode_op<op::SEEK>(wrong, seek));
  CHECK(wrong.fault() == xdr::Fault::bad_discriminant);
}
