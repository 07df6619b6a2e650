// The callback program's types, byte by byte as RFC 5662 and RFC 7863 define them, and with random values.
#include <doctest/doctest.h>

#include "unit/wire/nfs4/round_trip.h"
#include "wire/nfs4/ops.h"
#include "wire/nfs4/ops_callback.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;
using test::hex;

namespace {

constexpr cb_op::All* kAllCallbacks = nullptr;

template <class... Op>
void exercise(std::tuple<Op...>*) {
  (test::check_codec(Op::name, test::ValueOf<typename Op::Args>()), ...);
  (test::check_codec(Op::name, test::ValueOf<typename Op::Res>()), ...);
}

/// A status goes in and comes out; a failure is nothing but its status.
template <class Op>
bool carries_status() {
  typename Op::Res res{};
  if (status_of(res) != NFS4_OK) return false;
  set_status(res, NFS4ERR_NOTSUPP);
  return status_of(res) == NFS4ERR_NOTSUPP && xdr::encoded_size(res) == 4;
}
template <class... Op>
bool all_carry_status(std::tuple<Op...>*) {
  return (carries_status<Op>() && ...);
}
template <class... Op>
std::uint64_t eligible_items(std::tuple<Op...>*) {
  return (0 + ... + (xdr::bounds<typename Op::Args>.ddp_items + xdr::bounds<typename Op::Res>.ddp_items));
}

/// Decodes golden bytes, and encodes the value again, which must give the same bytes.
template <class T>
T golden(const std::string& text) {
  const auto bytes = hex(text);
  xdr::Decoder in(bytes);
  T value{};
  CHECK(xdr::decode(in, value));
  CHECK(in.finish());
  CHECK(test::encoded(value) == bytes);
  return value;
}

constexpr const char* kCallbackSession = "11111111 11111111 11111111 11111111";
constexpr const char* kHandle = "00000003 0a0b0c00";
constexpr const char* kStateid = "00000001 eeeeeeeeeeeeeeeeeeeeeeee";

}  // namespace

TEST_CASE("callback types: arguments and results survive encoding and decoding") {
  exercise(kAllCallbacks);
  test::check_codec("CB_COMPOUND", test::ValueOf<CB_COMPOUND4args_head>());
  test::check_codec("CB_COMPOUND", test::ValueOf<CB_COMPOUND4res_head>());
  test::check_codec("CB_ILLEGAL", test::ValueOf<CB_ILLEGAL4res>());
}
TEST_CASE("callback types: every result has a status, and a failure nothing else") {
  CHECK(all_carry_status(kAllCallbacks));
}
TEST_CASE("U2 callback types: nothing in the callback program is DDP-eligible (RFC 8267 4.1)") {
  CHECK(eligible_items(kAllCallbacks) == 0);
}

TEST_CASE("callback golden: CB_COMPOUND heads") {
  const auto args = golden<CB_COMPOUND4args_head>("00000002 63620000 00000002 00000007 00000003");
  CHECK(args.tag.value == "cb");
  CHECK(args.minorversion == 2);
  CHECK(args.callback_ident == 7);
  CHECK(args.argarray_count == 3);
  const auto res = golden<CB_COMPOUND4res_head>("00002714 00000002 63620000 00000001");
  CHECK(res.status == NFS4ERR_NOTSUPP);
  CHECK(res.resarray_count == 1);
}

TEST_CASE("callback golden: CB_SEQUENCE") {
  const auto args = golden<CB_SEQUENCE4args>(std::string(kCallbackSession) +
                                             "00000005 00000001 00000003 00000001"  // seqid, slot, highest
                                             "00000001 22222222 22222222 22222222 22222222"
                                             "00000002 00000009 00000004 0000000a 00000006");
  CHECK(args.csa_sequenceid == 5);
  CHECK(args.csa_slotid == 1);
  CHECK(args.csa_highest_slotid == 3);
  CHECK(args.csa_cachethis);
  REQUIRE(args.csa_referring_call_lists.value.size() == 1);
  const auto& calls = args.csa_referring_call_lists.value[0].rcl_referring_calls.value;
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].rc_sequenceid == 9);
  CHECK(calls[1].rc_slotid == 6);
  golden<CB_SEQUENCE4args>(kCallbackSession + std::string("00000005 00000001 00000003 00000000 00000000"));
  const auto res = golden<CB_SEQUENCE4res>("00000000" + std::string(kCallbackSession) +
                                           "00000005 00000001 00000003 00000002");
  CHECK(res.get<NFS4_OK>()->csr_slotid == 1);
  CHECK(res.get<NFS4_OK>()->csr_highest_slotid == 3);
  CHECK(res.get<NFS4_OK>()->csr_target_highest_slotid == 2);
  golden<CB_SEQUENCE4res>("0000274f");
}

TEST_CASE("callback golden: CB_GETATTR, CB_RECALL") {
  const auto getattr = golden<CB_GETATTR4args>(kHandle + std::string("00000001 00000018"));
  CHECK(getattr.fh.length == 3);
  CHECK(getattr.attr_request == bitmap4{{0x18}});
  const auto answer =
      golden<CB_GETATTR4res>("00000000 00000001 00000018 00000010 0000000000000007 0000000000001000");
  CHECK(answer.get<NFS4_OK>()->obj_attributes.attr_vals.value.size() == 16);
  golden<CB_GETATTR4res>("00002711");
  const auto recall = golden<CB_RECALL4args>(kStateid + ("00000001" + std::string(kHandle)));
  CHECK(recall.stateid.seqid == 1);
  CHECK(recall.truncate);
  CHECK(recall.fh.length == 3);
  CHECK(golden<CB_RECALL4res>("00002729").status == NFS4ERR_BAD_STATEID);
}

TEST_CASE("callback golden: CB_LAYOUTRECALL of each kind") {
  const auto file =
      golden<CB_LAYOUTRECALL4args>("00000004 00000002 00000001 00000001" + std::string(kHandle) +
                                   "0000000000000008 ffffffffffffffff" + kStateid);
  CHECK(file.clora_type == LAYOUT4_FLEX_FILES);
  CHECK(file.clora_iomode == LAYOUTIOMODE4_RW);
  CHECK(file.clora_changed);
  REQUIRE(file.clora_recall.get<LAYOUTRECALL4_FILE>() != nullptr);
  CHECK(file.clora_recall.get<LAYOUTRECALL4_FILE>()->lor_offset == 8);
  const auto fs =
      golden<CB_LAYOUTRECALL4args>("00000001 00000003 00000000 00000002 0000000000000001 0000000000000002");
  CHECK(*fs.clora_recall.get<LAYOUTRECALL4_FSID>() == fsid4{1, 2});
  golden<CB_LAYOUTRECALL4args>("00000001 00000003 00000000 00000003");
  const auto other = hex("00000001 00000003 00000000 00000004");
  xdr::Decoder in(other);
  CB_LAYOUTRECALL4args none;
  CHECK_FALSE(xdr::decode(in, none));
  CHECK(in.fault() == xdr::Fault::bad_discriminant);
  golden<CB_LAYOUTRECALL4res>("0000274c");
}

TEST_CASE("callback golden: notifications") {
  const std::string change = "00000001 00000004 00000005 0102030405 000000";
  const auto directory = golden<CB_NOTIFY4args>(kStateid + (kHandle + ("00000001" + change)));
  REQUIRE(directory.cna_changes.value.size() == 1);
  CHECK(directory.cna_changes.value[0].notify_vals.value.size() == 5);
  CHECK(golden<CB_NOTIFY_DEVICEID4args>("00000002" + change + change).cnda_changes.value.size() == 2);
  const auto lock = golden<CB_NOTIFY_LOCK4args>(kHandle + std::string("0000000000000009 00000001 aa000000"));
  CHECK(lock.cnla_lock_owner.clientid == 9);
  CHECK(lock.cnla_lock_owner.owner.value == hex("aa"));
  golden<CB_NOTIFY4res>("00002714");
  golden<CB_NOTIFY_DEVICEID4res>("00002714");
  golden<CB_NOTIFY_LOCK4res>("00000000");
}

TEST_CASE("callback golden: delegations and what else can be recalled") {
  const auto push = golden<CB_PUSH_DELEG4args>(kHandle + ("00000001" + std::string(kStateid)) +
                                               "00000000 00000000 00000000 00000001 00000000");
  REQUIRE(push.cpda_delegation.get<OPEN_DELEGATE_READ>() != nullptr);
  CHECK(push.cpda_delegation.get<OPEN_DELEGATE_READ>()->permissions.access_mask == 1);
  golden<CB_PUSH_DELEG4res>("00002765");
  const auto any = golden<CB_RECALL_ANY4args>("00000005 00000001 00000003");
  CHECK(any.craa_objects_to_keep == 5);
  CHECK(any.craa_type_mask.value[0] == (1U << RCA4_TYPE_MASK_RDATA_DLG | 1U << RCA4_TYPE_MASK_WDATA_DLG));
  golden<CB_RECALL_ANY4res>("00000016");
  golden<CB_RECALLABLE_OBJ_AVAIL4args>("00000005 00000001 00000003");
  golden<CB_RECALLABLE_OBJ_AVAIL4res>("00000000");
  CHECK(golden<CB_RECALL_SLOT4args>("0000001f").rsa_target_highest_slotid == 31);
  golden<CB_RECALL_SLOT4res>("00000000");
  const auto wants = golden<CB_WANTS_CANCELLED4args>("00000000 00000001");
  CHECK_FALSE(wants.cwca_contended_wants_cancelled);
  CHECK(wants.cwca_resourced_wants_cancelled);
  golden<CB_WANTS_CANCELLED4res>("00000000");
  golden<CB_ILLEGAL4res>("0000273c");
}

TEST_CASE("callback golden: CB_OFFLOAD of a copy that ended, and of one that failed") {
  const auto good =
      golden<CB_OFFLOAD4args>(kHandle + (kStateid + std::string("00000000 00000000 0000000000001000"
                                                                "00000002 0101010101010101")));
  REQUIRE(good.coa_offload_info.get<NFS4_OK>() != nullptr);
  CHECK(good.coa_offload_info.get<NFS4_OK>()->wr_count == 4096);
  CHECK(good.coa_offload_info.get<NFS4_OK>()->wr_committed == FILE_SYNC4);
  const auto bad = golden<CB_OFFLOAD4args>(kHandle + (kStateid + std::string("0000001c 0000000000000200")));
  CHECK(bad.coa_offload_info.tag() == NFS4ERR_NOSPC);
  CHECK(*bad.coa_offload_info.get<NFS4ERR_NOSPC>() == 512);
  golden<CB_OFFLOAD4res>("00000000");
}
