// The callback service under a hostile server: several Calls on one session, or of NFSv4.0 without any.
//
// Input: one byte of options, then Calls, each behind its length in two bytes. The session id is 16 times
// 0x11, which seeds have in their CB_SEQUENCE.
//
// Checked: a Reply is one RPC Reply with the Call's xid, within the agreed size; it has as many results as it
// says, each decodes, all but the last are NFS4_OK, and the last has the COMPOUND's status; the same Call
// once more reaches the handler never if CB_SEQUENCE was good, and then gets the same bytes or
// NFS4ERR_RETRY_UNCACHED_REP. NFSv4.0 keeps no Replies: there the same Call is executed again, with the same Reply.
#include "nfs4/compound/callback.h"

#include <algorithm>
#include <array>

#include "fuzz.h"
#include "support/random_value.h"
#include "wire/nfs4/ops.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;

namespace {

enum Options : unsigned {
  v41 = 1,
  small_reply = 2,
  small_cache = 4,
  closed = 8,
  refuse_recalls = 16,
  v40 = 32
};
constexpr std::uint32_t kSlots = 3;
constexpr std::size_t kEmptyReply = 36;  // RPC header and COMPOUND head

struct Handler final : CallbackHandler {
  nfsstat4 recall(const Recall& recall) override {
    ++calls;
    FUZZ_CHECK(recall.file.length <= NFS4_FHSIZE);
    std::size_t referring = 0;
    for (const auto& list : recall.referring) referring += list.rcl_referring_calls.value.size();
    FUZZ_CHECK(referring <= 8192 / 8);
    return refuses ? NFS4ERR_BAD_STATEID : NFS4_OK;
  }
  std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) override {
    ++calls;
    if (file.length == 0) return std::nullopt;
    return DelegatedAttributes{1, 2};
  }
  void recall_any(std::uint32_t, const bitmap4&) override { ++calls; }
  void recall_slot(slotid4) override { ++calls; }
  void notify_lock(const nfs_fh4&, const lock_owner4&) override { ++calls; }
  std::size_t calls = 0;
  bool refuses = false;
};

template <class Op>
bool next_result(xdr::Decoder& in, std::uint32_t number, nfsstat4& status) {
  if (number != Op::number) return false;
  typename Op::Res value{};
  FUZZ_CHECK(xdr::decode(in, value));
  status = status_of(value);
  return true;
}
template <class... Op>
bool any_result(xdr::Decoder& in, std::uint32_t number, nfsstat4& status, std::tuple<Op...>*) {
  return (next_result<Op>(in, number, status) || ...);
}

struct Seen {
  bool sequenced = false;
  bool uncached = false;
};

Seen check_reply(fuzz::ConstOctets call, fuzz::ConstOctets reply, std::size_t limit) {
  Seen seen;
  FUZZ_CHECK(reply.size() <= std::max(limit, kEmptyReply));
  FUZZ_CHECK(std::ranges::equal(call.first(4), reply.first(4)));
  xdr::Decoder in(reply);
  const rpc::ReplyHeader header = rpc::read_reply(in);
  FUZZ_CHECK(header.refusal != rpc::Refusal::undecodable && header.refusal != rpc::Refusal::system);
  if (header.refusal != rpc::Refusal::none || in.remaining() == 0) {
    FUZZ_CHECK(in.finish());
    return seen;
  }
  CB_COMPOUND4res_head head;
  FUZZ_CHECK(xdr::decode(in, head));
  nfsstat4 last = NFS4_OK;
  for (std::uint32_t i = 0; i < head.resarray_count; ++i) {
    FUZZ_CHECK(last == NFS4_OK);
    std::uint32_t number = 0;
    FUZZ_CHECK(in.u32(number));
    if (number == OP_CB_ILLEGAL) {
      FUZZ_CHECK(xdr::decode(in, last) && last != NFS4_OK);
    } else {
      FUZZ_CHECK(any_result(in, number, last, static_cast<cb_op::All*>(nullptr)));
    }
    if (i == 0) seen.sequenced = number == OP_CB_SEQUENCE && last == NFS4_OK;
    seen.uncached = last == NFS4ERR_RETRY_UNCACHED_REP;
  }
  FUZZ_CHECK(head.resarray_count == 0 || last == head.status);
  FUZZ_CHECK(in.finish());
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 8192);
  const unsigned options = script.u8();
  Handler handler;
  handler.refuses = (options & refuse_recalls) != 0;
  CallbackService service(handler, {.announced = back_channel(4096, 1024, kSlots)});
  channel_attrs4 agreed = back_channel(4096, 1024, kSlots + 1);
  if ((options & small_reply) != 0) agreed.ca_maxresponsesize = 100;
  if ((options & small_cache) != 0) agreed.ca_maxresponsesize_cached = 84;
  if ((options & closed) == 0) {
    sessionid4 session;
    session.fill(std::byte{0x11});
    service.reset(session, (options & v41) != 0 ? 1 : 2, agreed);
  }
  const bool sessions = (options & v40) == 0;
  if (!sessions) service.reset_without_session(0);
  const std::size_t limit = !sessions ? 4096 : (options & closed) != 0 ? 1024 : agreed.ca_maxresponsesize;

  while (!script.empty()) {
    const std::uint16_t length = script.u16();
    const fuzz::ConstOctets call = script.take(length);
    xdr::Message first, second;
    if (!service.answer(call, first)) continue;
    const Seen once = check_reply(call, first.stream.bytes(), limit);
    const std::size_t calls = handler.calls;
    FUZZ_CHECK(service.answer(call, second));
    const Seen again = check_reply(call, second.stream.bytes(), limit);
    FUZZ_CHECK(handler.calls == calls || !sessions);
    FUZZ_CHECK(sessions || !once.sequenced);
    FUZZ_CHECK(once.sequenced == again.sequenced);
    FUZZ_CHECK(again.uncached || std::ranges::equal(first.stream.bytes(), second.stream.bytes()));
  }
  return 0;
}
