// The callback service, rule by rule (RFC 8881 19 and 20, 2.10.6; RFC 5531 9; RFC 8267 4.4.2).
#include "nfs4/compound/callback.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "support/callback_call.h"
#include "support/random_value.h"
#include "wire/nfs4/attributes.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;
using test::CallbackCall;
using test::CallbackResults;

namespace {

constexpr std::uint32_t kSlots = 3;
constexpr std::uint32_t kInline = 1024;

template <std::size_t N>
std::array<std::byte, N> all(unsigned value) {
  std::array<std::byte, N> out;
  out.fill(static_cast<std::byte>(value));
  return out;
}
const sessionid4 kSession = all<16>(0x11);
const stateid4 kStateid{1, all<12>(0x22)};
nfs_fh4 handle(unsigned value) {
  nfs_fh4 fh;
  fh.length = 1;
  fh.bytes[0] = static_cast<std::byte>(value);
  return fh;
}

/// Notes what it is asked for.
struct Handler final : CallbackHandler {
  nfsstat4 recall(const Recall& recall) override {
    log += "recall(" + std::to_string(std::to_integer<int>(recall.file.bytes[0])) +
           (recall.truncate ? ", truncate)" : ")");
    last_stateid = recall.stateid;
    referring.assign(recall.referring.begin(), recall.referring.end());
    return recall_status;
  }
  std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) override {
    log += "getattr";
    if (file != handle(1)) return std::nullopt;
    return DelegatedAttributes{7, 4096};
  }
  void recall_any(std::uint32_t keep, const bitmap4&) override {
    log += "recall_any(" + std::to_string(keep) + ")";
  }
  void recall_slot(slotid4 target) override { log += "recall_slot(" + std::to_string(target) + ")"; }
  void notify_lock(const nfs_fh4&, const lock_owner4& owner) override {
    log += "notify_lock(" + std::to_string(owner.clientid) + ")";
  }
  std::string log;
  stateid4 last_stateid{};
  std::vector<referring_call_list4> referring;
  nfsstat4 recall_status = NFS4_OK;
};

struct Fixture {
  Handler handler;
  CallbackService service;

  explicit Fixture(CallbackOptions options = {.announced = back_channel(kInline, kInline, kSlots)})
      : service(handler, options) {
    service.reset(kSession, 2, options.announced);
  }
  std::vector<std::byte> answer(const std::vector<std::byte>& call) {
    xdr::Message reply;
    if (!service.answer(call, reply)) return {};
    CHECK(reply.items.empty());
    const auto bytes = reply.stream.bytes();
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> answer(const CallbackCall& call, std::uint32_t xid = 1) {
    return answer(call.bytes(xid));
  }
  /// What CB_SEQUENCE says to `call`, whose only result it then is.
  nfsstat4 sequence_status(const CallbackCall& call) {
    const auto bytes = answer(call);
    CallbackResults results(bytes);
    const nfsstat4 status = results.take<cb_op::CB_SEQUENCE>();
    CHECK(results.status() == status);
    CHECK(results.count() == 1);
    CHECK(results.finish());
    return status;
  }
  rpc::ReplyHeader rpc_verdict(const CallbackCall& call) {
    const auto bytes = answer(call, 9);
    CallbackResults results(bytes);
    CHECK(results.xid() == 9);
    return results.rpc();
  }
};

CallbackCall call() {
  return CallbackCall(kSession);
}
CallbackCall recall_call(sequenceid4 sequence, unsigned file = 1, bool cache = false, slotid4 slot = 0) {
  return call().sequence(sequence, slot, cache).add<cb_op::CB_RECALL>({kStateid, false, handle(file)});
}
/// Status of the second of two results.
template <class Op>
nfsstat4 second(const std::vector<std::byte>& reply) {
  CallbackResults results(reply);
  CHECK(results.take<cb_op::CB_SEQUENCE>() == NFS4_OK);
  const nfsstat4 status = results.take<Op>();
  CHECK(results.status() == status);
  CHECK(results.count() == 2);
  CHECK(results.finish());
  return status;
}

}  // namespace

// ---- RPC ----

TEST_CASE("callback: CB_NULL is answered with nothing") {
  Fixture f;
  const auto bytes = f.answer(CallbackCall().with({.procedure = CB_NULL}), 9);
  CHECK(bytes == test::hex("00000009 00000001 00000000 00000000 00000000 00000000"));
}

TEST_CASE("callback: what the RPC layer refuses") {
  Fixture f({.program = 0x40000007, .announced = back_channel(kInline, kInline, 1)});
  CHECK(f.rpc_verdict(CallbackCall()).refusal == rpc::Refusal::program);
  const auto mine = [](CallbackCall::Header header) {
    header.program = 0x40000007;
    return CallbackCall().with(std::move(header));
  };
  CHECK(f.rpc_verdict(mine({})).refusal == rpc::Refusal::none);
  CHECK(f.rpc_verdict(mine({.version = 4})).refusal == rpc::Refusal::none);  // 18.36.3
  const auto mismatch = f.rpc_verdict(mine({.version = 2}));
  CHECK(mismatch.refusal == rpc::Refusal::version);
  CHECK(mismatch.detail == 1);
  CHECK(mismatch.highest == 4);
  CHECK(f.rpc_verdict(mine({.procedure = 2})).refusal == rpc::Refusal::procedure);

  auto bytes = mine({}).bytes(9);
  bytes[11] = std::byte{3};
  const auto denied = f.answer(bytes);
  CHECK(CallbackResults(denied).rpc().refusal == rpc::Refusal::rpc_version);
  CHECK(CallbackResults(denied).rpc().detail == 2);
}

TEST_CASE("callback: credentials are taken as announced; CB_NULL needs none") {
  const auto sys = rpc::Credential::sys("server", 0, 0, {});
  const CallbackCall by_sys = call().with({.credential = sys}).sequence(1);
  const CallbackCall by_none = call().sequence(1);
  const auto announced = back_channel(kInline, kInline, 1);
  Fixture both({.announced = announced});
  CHECK(both.rpc_verdict(by_sys).refusal == rpc::Refusal::none);
  CHECK(both.rpc_verdict(by_none).refusal == rpc::Refusal::none);
  Fixture only_none({.auth_sys = false, .announced = announced});
  CHECK(only_none.rpc_verdict(by_sys).refusal == rpc::Refusal::authentication);
  Fixture only_sys({.auth_none = false, .announced = announced});
  CHECK(only_sys.rpc_verdict(by_none).refusal == rpc::Refusal::authentication);
  CHECK(only_sys.rpc_verdict(by_none).detail == rpc::kAuthBadCred);
  CHECK(only_sys.rpc_verdict(CallbackCall().with({.procedure = CB_NULL})).refusal == rpc::Refusal::none);

  auto bytes = by_sys.bytes(9);
  bytes[27] = std::byte{6};  // RPCSEC_GSS
  CHECK(CallbackResults(both.answer(bytes)).rpc().refusal == rpc::Refusal::authentication);
  bytes = by_sys.bytes(9);
  bytes[39] = std::byte{200};  // a machine name longer than its credential
  CHECK(CallbackResults(both.answer(bytes)).rpc().detail == rpc::kAuthBadCred);
  // A word behind the last group, within the credential's length.
  bytes = by_sys.bytes(9);
  constexpr std::size_t kLengthAt = 28, kBodyAt = 32;
  const std::uint32_t length = xdr::load_u32(&bytes[kLengthAt]);
  xdr::store_u32(&bytes[kLengthAt], length + 4);
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(kBodyAt + length), 4, std::byte{0});
  CHECK(CallbackResults(both.answer(bytes)).rpc().detail == rpc::kAuthBadCred);
}

TEST_CASE("callback: no Reply to what is no Call") {
  Fixture f;
  xdr::Message reply;
  CHECK_FALSE(f.service.answer({}, reply));
  const auto other = test::hex("00000001 00000001 00000000 00000000 00000000 00000000");
  CHECK_FALSE(f.service.answer(other, reply));
}

TEST_CASE("callback: a COMPOUND head that does not decode, or cannot be true, is GARBAGE_ARGS") {
  Fixture f;
  const auto whole = call().tag("tag").bytes(9);
  for (std::size_t length = 40; length < whole.size(); ++length) {
    const auto reply = f.answer({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    CHECK(CallbackResults(reply).rpc().refusal == rpc::Refusal::garbage_args);
  }
  CHECK(f.rpc_verdict(call().sequence(1).claim_operations(0xffffffff)).refusal == rpc::Refusal::garbage_args);
  CHECK(f.rpc_verdict(call().tag(std::string(kCallbackTagMax + 1, 'x'))).refusal ==
        rpc::Refusal::garbage_args);
}

// ---- COMPOUND ----

TEST_CASE("callback: a recall, byte for byte") {
  Fixture f;
  const auto request = test::hex(
      "00000abc 00000000 00000002 40000000 00000001 00000001 00000000 00000000 00000000 00000000"
      "00000001 74000000 00000002 00000000 00000002"
      "0000000b 11111111111111111111111111111111 00000001 00000000 00000000 00000000 00000000"
      "00000004 00000001 222222222222222222222222 00000001 00000001 05000000");
  CHECK(f.answer(request) ==
        test::hex("00000abc 00000001 00000000 00000000 00000000 00000000"
                  "00000000 00000001 74000000 00000002"
                  "0000000b 00000000 11111111111111111111111111111111 00000001 00000000 00000002 00000002"
                  "00000004 00000000"));
  CHECK(f.handler.log == "recall(5, truncate)");
  CHECK(f.handler.last_stateid == kStateid);
}

TEST_CASE("callback: minor versions other than the session's are refused without a result") {
  Fixture f;
  for (const std::uint32_t minor : {0U, 1U, 3U}) {
    const auto bytes = f.answer(CallbackCall(kSession, minor).tag("x").sequence(1));
    CallbackResults results(bytes);
    CHECK(results.status() == NFS4ERR_MINOR_VERS_MISMATCH);
    CHECK(results.tag() == "x");
    CHECK(results.count() == 0);
    CHECK(results.finish());
  }
}

TEST_CASE("callback: an empty COMPOUND is good") {
  Fixture f;
  const auto bytes = f.answer(call().tag("t"));
  CallbackResults results(bytes);
  CHECK(results.status() == NFS4_OK);
  CHECK(results.count() == 0);
  CHECK(results.finish());
}

TEST_CASE("callback: CB_SEQUENCE is first, and only first") {
  Fixture f;
  const auto bytes = f.answer(call().add<cb_op::CB_RECALL>({}));
  CallbackResults first(bytes);
  CHECK(first.take<cb_op::CB_RECALL>() == NFS4ERR_OP_NOT_IN_SESSION);
  CHECK(first.finish());
  CHECK(second<cb_op::CB_SEQUENCE>(f.answer(call().sequence(1).sequence(2))) == NFS4ERR_SEQUENCE_POS);
  CHECK(f.handler.log.empty());
}

TEST_CASE("callback: unknown numbers are CB_ILLEGAL, one of a later minor version too") {
  Fixture f;
  for (const std::uint32_t number : {0U, 2U, 16U, 10044U, 0xffffffffU}) {
    CAPTURE(number);
    f.service.reset(kSession, 2, back_channel(kInline, kInline, kSlots));
    const auto bytes = f.answer(call().sequence(1).raw({number}));
    CallbackResults results(bytes);
    CHECK(results.take<cb_op::CB_SEQUENCE>() == NFS4_OK);
    CHECK(results.take_illegal() == NFS4ERR_OP_ILLEGAL);
    CHECK(results.status() == NFS4ERR_OP_ILLEGAL);
    CHECK(results.finish());
    const auto alone = f.answer(call().raw({number}));
    CHECK(CallbackResults(alone).take_illegal() == NFS4ERR_OP_ILLEGAL);
  }
  f.service.reset(kSession, 1, back_channel(kInline, kInline, kSlots));
  const auto old = f.answer(CallbackCall(kSession, 1).sequence(1).add<cb_op::CB_OFFLOAD>({}));
  CallbackResults results(old);
  CHECK(results.take<cb_op::CB_SEQUENCE>() == NFS4_OK);
  CHECK(results.take_illegal() == NFS4ERR_OP_ILLEGAL);
}

TEST_CASE("callback: operations that are not served") {
  Fixture f;
  sequenceid4 id = 0;
  CHECK(second<cb_op::CB_LAYOUTRECALL>(f.answer(call().sequence(++id).add<cb_op::CB_LAYOUTRECALL>({}))) ==
        NFS4ERR_NOTSUPP);
  CHECK(second<cb_op::CB_NOTIFY>(f.answer(call().sequence(++id).add<cb_op::CB_NOTIFY>({}))) ==
        NFS4ERR_NOTSUPP);
  CHECK(second<cb_op::CB_PUSH_DELEG>(f.answer(call().sequence(++id).add<cb_op::CB_PUSH_DELEG>({}))) ==
        NFS4ERR_NOTSUPP);
  CHECK(second<cb_op::CB_RECALLABLE_OBJ_AVAIL>(
            f.answer(call().sequence(++id).add<cb_op::CB_RECALLABLE_OBJ_AVAIL>({}))) == NFS4ERR_NOTSUPP);
  CHECK(second<cb_op::CB_WANTS_CANCELLED>(
            f.answer(call().sequence(++id).add<cb_op::CB_WANTS_CANCELLED>({}))) == NFS4ERR_NOTSUPP);
  CHECK(second<cb_op::CB_NOTIFY_DEVICEID>(
            f.answer(call().sequence(++id).add<cb_op::CB_NOTIFY_DEVICEID>({}))) == NFS4ERR_NOTSUPP);
  CHECK(second<cb_op::CB_OFFLOAD>(f.answer(call().sequence(++id).add<cb_op::CB_OFFLOAD>({}))) ==
        NFS4ERR_NOTSUPP);
  CHECK(f.handler.log.empty());
}

TEST_CASE("callback: a COMPOUND stops at the first failure") {
  Fixture f;
  f.handler.recall_status = NFS4ERR_BAD_STATEID;
  const auto bytes = f.answer(call()
                                  .sequence(1)
                                  .add<cb_op::CB_RECALL_SLOT>({3})
                                  .add<cb_op::CB_RECALL>({kStateid, false, handle(1)})
                                  .add<cb_op::CB_RECALL_SLOT>({4}));
  CallbackResults results(bytes);
  CHECK(results.status() == NFS4ERR_BAD_STATEID);
  CHECK(results.count() == 3);
  CHECK(results.take<cb_op::CB_SEQUENCE>() == NFS4_OK);
  CHECK(results.take<cb_op::CB_RECALL_SLOT>() == NFS4_OK);
  CHECK(results.take<cb_op::CB_RECALL>() == NFS4ERR_BAD_STATEID);
  CHECK(results.finish());
  CHECK(f.handler.log == "recall_slot(3)recall(1)");
}

TEST_CASE("callback: arguments that do not decode give NFS4ERR_BADXDR and reach nobody") {
  Fixture f;
  const auto whole = recall_call(1).bytes();
  constexpr std::size_t kNumber = 4, kArguments = 28, kSequence = 40;  // of CB_RECALL, CB_SEQUENCE
  const auto answer_without = [&](std::size_t cut) {
    f.service.reset(kSession, 2, back_channel(kInline, kInline, kSlots));
    return f.answer({whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(cut)});
  };
  for (std::size_t cut = 1; cut <= kArguments; ++cut) {
    CHECK(second<cb_op::CB_RECALL>(answer_without(cut)) == NFS4ERR_BADXDR);
  }
  // Not even a number.
  const auto numberless = answer_without(kArguments + 2);
  CallbackResults results(numberless);
  CHECK(results.take<cb_op::CB_SEQUENCE>() == NFS4_OK);
  CHECK(results.take_illegal() == NFS4ERR_BADXDR);
  // CB_SEQUENCE itself: its slot stays as it was.
  const auto sequence = answer_without(kArguments + kNumber + kSequence - 16);
  CHECK(CallbackResults(sequence).take<cb_op::CB_SEQUENCE>() == NFS4ERR_BADXDR);
  // A boolean of 2.
  CHECK(second<cb_op::CB_RECALL>(f.answer(call().sequence(1).raw({OP_CB_RECALL, 1, 0, 0, 0, 2, 0}))) ==
        NFS4ERR_BADXDR);
  CHECK(f.handler.log.empty());
}

// ---- operations ----

TEST_CASE("callback: CB_GETATTR gives change and size, as far as they are asked for") {
  Fixture f;
  const auto ask = [&](sequenceid4 id, const bitmap4& wanted, WireAttributes& out) {
    const auto bytes = f.answer(call().sequence(id).add<cb_op::CB_GETATTR>({handle(1), wanted}));
    CallbackResults results(bytes);
    CHECK(results.take<cb_op::CB_SEQUENCE>() == NFS4_OK);
    CB_GETATTR4res res;
    REQUIRE(results.take<cb_op::CB_GETATTR>(res) == NFS4_OK);
    CHECK(results.finish());
    REQUIRE(decode_attributes(res.get<NFS4_OK>()->obj_attributes, out));
  };
  WireAttributes both, size, none;
  ask(1, bitmap_of({FATTR4_CHANGE, FATTR4_SIZE, FATTR4_MODE, FATTR4_XATTR_SUPPORT}), both);
  CHECK(both.change == 7);
  CHECK(both.size == 4096);
  CHECK_FALSE(both.mode);
  ask(2, bitmap_of({FATTR4_SIZE}), size);
  CHECK_FALSE(size.change);
  CHECK(size.size == 4096);
  ask(3, {}, none);
  CHECK_FALSE(none.size);
  CHECK(second<cb_op::CB_GETATTR>(f.answer(call().sequence(4).add<cb_op::CB_GETATTR>({handle(2), {}}))) ==
        NFS4ERR_BADHANDLE);
}

TEST_CASE("callback: CB_RECALL brings its referring calls") {
  Fixture f;
  CB_SEQUENCE4args args{kSession, 1, 0, 0, false, {}};
  args.csa_referring_call_lists.value.push_back({kSession, {{{5, 2}, {6, 1}}}});
  f.answer(call().add<cb_op::CB_SEQUENCE>(args).add<cb_op::CB_RECALL>({kStateid, false, handle(1)}));
  REQUIRE(f.handler.referring.size() == 1);
  CHECK(f.handler.referring[0].rcl_sessionid == kSession);
  CHECK(f.handler.referring[0].rcl_referring_calls.value[1].rc_slotid == 1);
  f.answer(recall_call(2));
  CHECK(f.handler.referring.empty());
}

TEST_CASE(
    "callback: CB_RECALL_ANY with an undefined type is NFS4ERR_INVAL, with one that we never have not") {
  Fixture f;
  sequenceid4 id = 0;
  const auto recall_any = [&](const bitmap4& mask) {
    return second<cb_op::CB_RECALL_ANY>(f.answer(call().sequence(++id).add<cb_op::CB_RECALL_ANY>({4, mask})));
  };
  CHECK(recall_any({{0x3}}) == NFS4_OK);
  CHECK(recall_any({{0x3f31f}}) == NFS4_OK);
  CHECK(recall_any({{}}) == NFS4_OK);
  CHECK(f.handler.log == "recall_any(4)recall_any(4)recall_any(4)");
  for (const std::uint32_t bit : {5U, 7U, 10U, 11U, 18U, 31U})
    CHECK(recall_any({{1U << bit}}) == NFS4ERR_INVAL);
  CHECK(recall_any({{0, 1}}) == NFS4ERR_INVAL);
  CHECK(f.handler.log == "recall_any(4)recall_any(4)recall_any(4)");
}

TEST_CASE("callback: CB_RECALL_SLOT and CB_NOTIFY_LOCK reach the handler") {
  Fixture f;
  CHECK(second<cb_op::CB_RECALL_SLOT>(f.answer(call().sequence(1).add<cb_op::CB_RECALL_SLOT>({31}))) ==
        NFS4_OK);
  CHECK(second<cb_op::CB_NOTIFY_LOCK>(
            f.answer(call().sequence(2).add<cb_op::CB_NOTIFY_LOCK>({handle(1), {9, {}}}))) == NFS4_OK);
  CHECK(f.handler.log == "recall_slot(31)notify_lock(9)");
}

// ---- CB_SEQUENCE ----

TEST_CASE("callback: sessions, slots and their limits") {
  Fixture f;
  CHECK(f.sequence_status(CallbackCall(all<16>(0x12)).sequence(1)) == NFS4ERR_BADSESSION);
  CHECK(f.sequence_status(call().sequence(1, kSlots)) == NFS4ERR_BADSLOT);
  CHECK(f.sequence_status(call().add<cb_op::CB_SEQUENCE>({kSession, 1, 0, kSlots, false, {}})) ==
        NFS4ERR_BAD_HIGH_SLOT);
  CHECK(f.sequence_status(call().sequence(1, kSlots - 1)) == NFS4_OK);
  f.service.close();
  CHECK(f.sequence_status(call().sequence(1)) == NFS4ERR_BADSESSION);
  CHECK(f.sequence_status(CallbackCall().sequence(1)) == NFS4ERR_BADSESSION);
}

TEST_CASE("callback: sequence ids go up by one per slot, and wrap") {
  Fixture f;
  CHECK(f.sequence_status(call().sequence(0)) == NFS4ERR_SEQ_MISORDERED);  // never used: nothing to repeat
  CHECK(f.sequence_status(call().sequence(2)) == NFS4ERR_SEQ_MISORDERED);
  CHECK(f.sequence_status(call().sequence(1)) == NFS4_OK);
  CHECK(f.sequence_status(call().sequence(3)) == NFS4ERR_SEQ_MISORDERED);
  CHECK(f.sequence_status(call().sequence(0)) == NFS4ERR_SEQ_MISORDERED);
  CHECK(f.sequence_status(call().sequence(2)) == NFS4_OK);
  CHECK(f.sequence_status(call().sequence(1, 1)) == NFS4_OK);  // another slot has its own
  f.service.reset(kSession, 2, back_channel(kInline, kInline, kSlots));
  CHECK(f.sequence_status(call().sequence(3)) == NFS4ERR_SEQ_MISORDERED);
  CHECK(f.sequence_status(call().sequence(1)) == NFS4_OK);
}

TEST_CASE("callback: a CB_SEQUENCE that fails leaves its slot as it was; a later failure uses it up") {
  Fixture f;
  CHECK(f.sequence_status(call().add<cb_op::CB_SEQUENCE>({kSession, 1, 0, kSlots, false, {}})) ==
        NFS4ERR_BAD_HIGH_SLOT);
  f.handler.recall_status = NFS4ERR_DELAY;
  CHECK(second<cb_op::CB_RECALL>(f.answer(recall_call(1))) == NFS4ERR_DELAY);
  CHECK(f.sequence_status(call().sequence(3)) == NFS4ERR_SEQ_MISORDERED);
  CHECK(f.sequence_status(call().sequence(2)) == NFS4_OK);
}

TEST_CASE("callback: a repeated request gets the same bytes with the new xid, and is not executed again") {
  Fixture f;
  const auto first = f.answer(recall_call(1, 1, true), 100);
  f.handler.recall_status = NFS4ERR_BAD_STATEID;
  auto again = f.answer(recall_call(1, 1, true), 200);
  CHECK(CallbackResults(again).xid() == 200);
  xdr::store_u32(again.data(), 100);
  CHECK(again == first);
  CHECK(f.handler.log == "recall(1)");
  // Other slots in between do not matter.
  CHECK(f.sequence_status(call().sequence(1, 2)) == NFS4_OK);
  CHECK(f.answer(recall_call(1, 1, true), 100) == first);
  // The next request drops it.
  CHECK(f.sequence_status(call().sequence(2)) == NFS4_OK);
  CHECK(CallbackResults(f.answer(recall_call(1, 1, true))).status() == NFS4ERR_SEQ_MISORDERED);
}

TEST_CASE("callback: failures are kept too") {
  Fixture f;
  f.handler.recall_status = NFS4ERR_DELAY;
  const auto first = f.answer(recall_call(1, 1, true));
  f.handler.recall_status = NFS4_OK;
  CHECK(f.answer(recall_call(1, 1, true)) == first);
}

TEST_CASE("callback: what was not to be cached gives NFS4ERR_RETRY_UNCACHED_REP behind CB_SEQUENCE") {
  Fixture f;
  f.answer(recall_call(1));
  CHECK(second<cb_op::CB_RECALL>(f.answer(recall_call(1))) == NFS4ERR_RETRY_UNCACHED_REP);
  CHECK(f.handler.log == "recall(1)");
  CHECK(second<cb_op::CB_RECALL>(f.answer(recall_call(2))) == NFS4_OK);
  // CB_SEQUENCE's own result can be recovered.
  CHECK(f.sequence_status(call().sequence(3)) == NFS4_OK);
  CHECK(f.sequence_status(call().sequence(3)) == NFS4_OK);
}

TEST_CASE("callback: another request with a used sequence id is a false retry") {
  Fixture f;
  f.answer(recall_call(1, 1, true));
  CHECK(f.sequence_status(recall_call(1, 2, true)) == NFS4ERR_SEQ_FALSE_RETRY);
  CHECK(f.handler.log == "recall(1)");
}

TEST_CASE("callback: too many operations, and a request too big, leave the slot alone") {
  Fixture f;
  const auto limits = back_channel(kInline, kInline, kSlots);
  CallbackCall many = call().sequence(1);
  for (std::uint32_t i = 1; i < limits.ca_maxoperations; ++i) many.add<cb_op::CB_RECALL_SLOT>({i});
  CallbackCall more = many;
  more.add<cb_op::CB_RECALL_SLOT>({0});
  CHECK(f.sequence_status(more) == NFS4ERR_TOO_MANY_OPS);
  CHECK(CallbackResults(f.answer(many)).status() == NFS4_OK);

  auto big = recall_call(2).bytes();
  big.resize(limits.ca_maxrequestsize + 1);
  const auto reply = f.answer(big);
  CHECK(CallbackResults(reply).take<cb_op::CB_SEQUENCE>() == NFS4ERR_REQ_TOO_BIG);
  big.resize(limits.ca_maxrequestsize);
  CHECK(second<cb_op::CB_RECALL>(f.answer(big)) == NFS4_OK);
}

TEST_CASE("callback: a Reply never gets larger than agreed, and what cannot be said is not done") {
  const auto request = call()
                           .sequence(1, 0, false)
                           .add<cb_op::CB_RECALL_SLOT>({1})
                           .add<cb_op::CB_RECALL_SLOT>({2})
                           .add<cb_op::CB_GETATTR>({handle(1), bitmap_of({FATTR4_CHANGE, FATTR4_SIZE})});
  constexpr std::uint32_t kWhole = 24 + 12 + 40 + 8 + 8 + 36;
  for (std::uint32_t limit = 0; limit <= kWhole + 4; limit += 4) {
    CAPTURE(limit);
    Fixture f;
    auto agreed = back_channel(kInline, kInline, 1);
    agreed.ca_maxresponsesize = limit;
    f.service.reset(kSession, 2, agreed);
    const auto bytes = f.answer(request);
    // A head without results is the least.
    CHECK(bytes.size() <= std::max(limit, 36U));
    CallbackResults results(bytes);
    CHECK(results.status() == (limit >= kWhole ? NFS4_OK : NFS4ERR_REP_TOO_BIG));
    if (results.count() > 0) {
      const bool sequenced = results.take<cb_op::CB_SEQUENCE>() == NFS4_OK;
      CHECK(sequenced == (limit >= 24 + 12 + 40 + 8));
      const std::uint32_t good = results.count() - (limit >= kWhole ? 0 : 1);
      CHECK(f.handler.log == std::string(good > 1 ? "recall_slot(1)" : "") +
                                 (good > 2 ? "recall_slot(2)" : "") + (good > 3 ? "getattr" : ""));
    }
  }
}

TEST_CASE("callback: a Reply that is to be cached and is too big for that") {
  Fixture f;
  auto agreed = back_channel(kInline, kInline, 1);
  agreed.ca_maxresponsesize_cached = 0;
  f.service.reset(kSession, 2, agreed);
  CHECK(f.sequence_status(recall_call(1, 1, true)) == NFS4ERR_REP_TOO_BIG_TO_CACHE);
  CHECK(second<cb_op::CB_RECALL>(f.answer(recall_call(1))) == NFS4_OK);  // the slot was left alone
  agreed.ca_maxresponsesize_cached = 24 + 12 + 40 + 8;
  f.service.reset(kSession, 2, agreed);
  const auto getattr = call().sequence(1, 0, true).add<cb_op::CB_GETATTR>({handle(1), {}});
  const auto first = f.answer(getattr);
  CHECK(second<cb_op::CB_GETATTR>(first) == NFS4ERR_REP_TOO_BIG_TO_CACHE);
  CHECK(f.answer(getattr) == first);
  CHECK(f.handler.log == "recall(1)");
}

TEST_CASE("callback: a tag goes back as it came; one without room for it does not") {
  Fixture f({.announced = back_channel(4096, kInline, 1)});
  const std::string longest(kCallbackTagMax, 'x');
  const auto bytes = f.answer(call().tag(longest).sequence(1));
  CallbackResults results(bytes);
  CHECK(results.status() == NFS4ERR_REP_TOO_BIG);
  CHECK(results.tag().empty());
  CHECK(results.count() == 0);
  const auto other = f.answer(call().tag(std::string(800, 'y')).sequence(1));
  CHECK(CallbackResults(other).tag() == std::string(800, 'y'));
  CHECK(CallbackResults(other).status() == NFS4_OK);
}

// ---- what is announced ----

TEST_CASE("U13 callback: the announced sizes are thresholds without the transport's header") {
  const auto least = back_channel(1024, 1024, 1);
  CHECK(least.ca_headerpadsize == 0);
  CHECK(least.ca_maxrequestsize == 1024 - 28);
  CHECK(least.ca_maxresponsesize == 1024 - 28);
  CHECK(least.ca_maxresponsesize_cached == 1024 - 28);
  CHECK(least.ca_maxoperations == 16);
  CHECK(least.ca_maxrequests == 1);
  CHECK(least.ca_rdma_ird.value.empty());
  const auto uneven = back_channel(4096, 8192, 16);
  CHECK(uneven.ca_maxrequestsize == 4068);
  CHECK(uneven.ca_maxresponsesize == 8164);
  CHECK(uneven.ca_maxrequests == 16);
  CHECK(back_channel(0, 0, 1).ca_maxrequestsize == 0);
}

TEST_CASE(
    "U13 callback: the announced sizes are true: as many of the largest operations as announced are served") {
  for (const std::uint32_t size : {1024U, 1028U, 4096U, 65536U}) {
    CAPTURE(size);
    const auto announced = back_channel(size, size, 2);
    Fixture f({.announced = announced});
    // The largest Reply: every operation is the one with the largest result, and the tag is as long as ours
    // may be.
    CallbackCall largest = call().tag(std::string(kTagMax, 't')).sequence(1, 0, true);
    for (std::uint32_t i = 1; i < announced.ca_maxoperations; ++i) {
      largest.add<cb_op::CB_GETATTR>({handle(1), bitmap_of({FATTR4_CHANGE, FATTR4_SIZE})});
    }
    const auto reply = f.answer(largest);
    CHECK(CallbackResults(reply).status() == NFS4_OK);
    CHECK(CallbackResults(reply).count() == announced.ca_maxoperations);
    CHECK(reply.size() <= announced.ca_maxresponsesize);
    CHECK(reply == f.answer(largest));  // and it can be cached

    // The largest recall, in a request of exactly the announced size: the rest is referring calls.
    nfs_fh4 file;
    file.length = NFS4_FHSIZE;
    const std::vector<std::uint32_t> groups(16, 1);
    const auto credential = rpc::Credential::sys(std::string(255, 'm'), 0, 0, groups);
    CB_SEQUENCE4args args{kSession, 1, 1, 1, true, {{{kSession, {}}}}};
    const auto build = [&] {
      return call()
          .with({.credential = credential})
          .add<cb_op::CB_SEQUENCE>(args)
          .add<cb_op::CB_RECALL>({kStateid, true, file})
          .bytes();
    };
    const std::size_t room = announced.ca_maxrequestsize - build().size();
    args.csa_referring_call_lists.value[0].rcl_referring_calls.value.resize(
        std::min<std::size_t>(room / 8, kReferringCallsMax));
    const auto request = build();
    CHECK(request.size() <= announced.ca_maxrequestsize);
    CHECK(second<cb_op::CB_RECALL>(f.answer(request)) == NFS4_OK);
  }
}

TEST_CASE("U13 callback: what is announced anew is for the next session") {
  Fixture f({.announced = back_channel(4096, 4096, 2)});
  f.service.announce(back_channel(1024, 1024, 3));
  CHECK(f.service.announced().ca_maxrequestsize == 1024 - 28);
  // The session of the moment has what was announced for it.
  CHECK(f.sequence_status(call().sequence(1, 1, false)) == NFS4_OK);
  CHECK(f.sequence_status(call().sequence(1, 2)) == NFS4ERR_BADSLOT);
  f.service.reset(kSession, 2, back_channel(4096, 4096, 8));
  CHECK(f.sequence_status(call().sequence(1, 2)) == NFS4_OK);
  CHECK(f.sequence_status(call().sequence(1, 3)) == NFS4ERR_BADSLOT);
  const std::string long_tag(1000, 'x');
  CHECK(CallbackResults(f.answer(call().tag(long_tag).sequence(2))).status() == NFS4ERR_REP_TOO_BIG);
}

TEST_CASE("U13 B9 callback: a Reply fits the connection that its Call came over") {
  Fixture f({.announced = back_channel(4096, 4096, 1)});
  const std::uint32_t small = largest_callback_reply(1024);
  CHECK(small == 1024 - 28);
  const auto answered = [&](const CallbackCall& request, std::uint32_t most) {
    xdr::Message reply;
    REQUIRE(f.service.answer(request.bytes(), reply, most));
    CHECK(reply.stream.size() <= most);
    return std::vector<std::byte>(reply.stream.bytes().begin(), reply.stream.bytes().end());
  };
  CallbackCall large = call().sequence(1, 0, true);
  for (int i = 0; i < 15; ++i) {
    large.add<cb_op::CB_GETATTR>({handle(1), bitmap_of({FATTR4_CHANGE, FATTR4_SIZE})});
  }
  large.tag(std::string(600, 't'));
  const auto whole = answered(large, 4068);
  CHECK(CallbackResults(whole).status() == NFS4_OK);
  CHECK(answered(large, 4068) == whole);
  // Asked again over a connection that takes less, it is not to be had.
  CHECK(CallbackResults(answered(large, small)).status() == NFS4ERR_RETRY_UNCACHED_REP);
  CHECK(CallbackResults(answered(call().tag(std::string(990, 't')).sequence(2), small)).status() ==
        NFS4ERR_REP_TOO_BIG);
}

TEST_CASE("callback: a server that agrees to more than was announced does not get it") {
  Fixture f;
  channel_attrs4 agreed{0, ~0U, ~0U, ~0U, ~0U, ~0U, {}};
  f.service.reset(kSession, 2, agreed);
  CHECK(f.sequence_status(call().sequence(1, kSlots)) == NFS4ERR_BADSLOT);
  CHECK(f.sequence_status(call().sequence(1, kSlots - 1)) == NFS4_OK);
}

// ---- whatever comes ----

TEST_CASE("callback: damaged Calls are answered within the limit, or not at all") {
  Fixture f;
  const auto limits = back_channel(kInline, kInline, kSlots);
  const auto whole = call()
                         .with({.credential = rpc::Credential::sys("server", 1, 2, {})})
                         .tag("tag")
                         .sequence(1, 0, true)
                         .add<cb_op::CB_GETATTR>({handle(1), bitmap_of({FATTR4_SIZE})})
                         .add<cb_op::CB_RECALL_ANY>({4, {{3}}})
                         .add<cb_op::CB_RECALL>({kStateid, false, handle(1)})
                         .bytes();
  test::Filler random(1);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = whole;
    for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(2) == 0 ? random.word() : 0xff);
    }
    if (random.one_in(4)) bytes.resize(random.below(bytes.size()));
    const auto reply = f.answer(bytes);
    if (reply.empty()) continue;
    CHECK(reply.size() <= limits.ca_maxresponsesize);
    CHECK(CallbackResults(reply).rpc().refusal != rpc::Refusal::undecodable);
    if (random.one_in(3)) f.service.reset(kSession, 2, limits);
  }
}

// ---- NFSv4.0 (RFC 7530) ----

namespace {

constexpr std::uint32_t kIdent = 0xc0ffee;

struct WithoutSession : Fixture {
  WithoutSession() { service.reset_without_session(kIdent); }
  static CallbackCall call(std::uint32_t minor_version = 0) {
    return CallbackCall({}, minor_version).ident(kIdent);
  }
  /// Status of the only result.
  template <class Op>
  nfsstat4 only(const CallbackCall& call) {
    const auto bytes = answer(call);
    CallbackResults results(bytes);
    const nfsstat4 status = results.take<Op>();
    CHECK(results.status() == status);
    CHECK(results.count() == 1);
    CHECK(results.finish());
    return status;
  }
};

}  // namespace

TEST_CASE("callback: NFSv4.0 recalls without CB_SEQUENCE, and again without harm") {
  WithoutSession f;
  const auto recall = WithoutSession::call().tag("recall").add<cb_op::CB_RECALL>({kStateid, true, handle(1)});
  CHECK(f.only<cb_op::CB_RECALL>(recall) == NFS4_OK);
  CHECK(f.handler.log == "recall(1, truncate)");
  CHECK(f.handler.last_stateid == kStateid);
  CHECK(f.handler.referring.empty());
  const auto first = f.answer(recall, 7);
  CHECK(CallbackResults(first).tag() == "recall");
  CHECK(f.answer(recall, 7) == first);
  f.handler.recall_status = NFS4ERR_BAD_STATEID;  // it is returned by now
  CHECK(f.only<cb_op::CB_RECALL>(recall) == NFS4ERR_BAD_STATEID);
}

TEST_CASE("callback: NFSv4.0 asks for attributes, several operations go until one fails") {
  WithoutSession f;
  const auto attributes = bitmap_of({FATTR4_CHANGE, FATTR4_SIZE});
  const auto bytes = f.answer(WithoutSession::call()
                                  .add<cb_op::CB_GETATTR>({handle(1), attributes})
                                  .add<cb_op::CB_GETATTR>({handle(2), attributes})
                                  .add<cb_op::CB_RECALL>({kStateid, false, handle(1)}));
  CallbackResults results(bytes);
  CB_GETATTR4res res;
  CHECK(results.take<cb_op::CB_GETATTR>(res) == NFS4_OK);
  REQUIRE(res.get<NFS4_OK>() != nullptr);
  CHECK(res.get<NFS4_OK>()->obj_attributes.attrmask == attributes);
  CHECK(results.take<cb_op::CB_GETATTR>() == NFS4ERR_BADHANDLE);
  CHECK(results.status() == NFS4ERR_BADHANDLE);
  CHECK(results.count() == 2);
  CHECK(results.finish());
  CHECK(f.handler.log == "getattrgetattr");
}

TEST_CASE("callback: what NFSv4.0 does not have is OP_ILLEGAL") {
  WithoutSession f;
  for (const std::uint32_t number : {0U, 2U, 5U, 8U, 10U, 11U, 13U, 15U, 10044U}) {
    CAPTURE(number);
    const auto bytes = f.answer(WithoutSession::call().raw({number, 0, 0, 0, 0, 0, 0, 0}));
    CallbackResults results(bytes);
    CHECK(results.take_illegal() == NFS4ERR_OP_ILLEGAL);
    CHECK(results.status() == NFS4ERR_OP_ILLEGAL);
    CHECK(results.finish());
  }
  CHECK(f.handler.log.empty());
}

TEST_CASE("callback: NFSv4.0 takes no other minor version and no other ident") {
  WithoutSession f;
  for (const std::uint32_t minor : {1U, 2U, 3U}) {
    const auto bytes = f.answer(WithoutSession::call(minor).sequence(1));
    CallbackResults results(bytes);
    CHECK(results.status() == NFS4ERR_MINOR_VERS_MISMATCH);
    CHECK(results.count() == 0);
  }
  const auto strange =
      WithoutSession::call().ident(kIdent + 1).add<cb_op::CB_RECALL>({kStateid, false, handle(1)});
  CHECK(f.rpc_verdict(strange).refusal == rpc::Refusal::authentication);
  CHECK(f.rpc_verdict(WithoutSession::call().with({.procedure = CB_NULL})).refusal == rpc::Refusal::none);
  CHECK(f.handler.log.empty());
}

TEST_CASE("callback: NFSv4.0's Replies are bounded, and what has no room for its result is not done") {
  WithoutSession f;
  auto many = WithoutSession::call().tag(std::string(kCallbackTagMax, 't'));
  for (int i = 0; i < 1000; ++i) {
    many.add<cb_op::CB_GETATTR>({handle(1), bitmap_of({FATTR4_CHANGE, FATTR4_SIZE})});
  }
  const auto bytes = f.answer(many);
  CHECK(bytes.size() <= 4096);
  CallbackResults results(bytes);
  CHECK(results.status() == NFS4ERR_RESOURCE);
  CHECK(results.count() > 16);
  for (std::uint32_t i = 1; i < results.count(); ++i) CHECK(results.take<cb_op::CB_GETATTR>() == NFS4_OK);
  CHECK(results.take<cb_op::CB_GETATTR>() == NFS4ERR_RESOURCE);
  CHECK(results.finish());
}

TEST_CASE("callback: minor version 0 is not taken by a session, nor a session's after a change of sides") {
  Fixture f;
  const auto recall = WithoutSession::call().add<cb_op::CB_RECALL>({kStateid, false, handle(1)});
  CHECK(CallbackResults(f.answer(recall)).status() == NFS4ERR_MINOR_VERS_MISMATCH);
  f.service.close();
  CHECK(CallbackResults(f.answer(recall)).status() == NFS4ERR_MINOR_VERS_MISMATCH);
  f.service.reset_without_session(kIdent);
  CHECK(CallbackResults(f.answer(recall)).status() == NFS4_OK);
  f.service.reset(kSession, 2, f.service.announced());
  CHECK(CallbackResults(f.answer(recall)).status() == NFS4ERR_MINOR_VERS_MISMATCH);
  CHECK(second<cb_op::CB_RECALL>(f.answer(recall_call(1))) == NFS4_OK);
}
