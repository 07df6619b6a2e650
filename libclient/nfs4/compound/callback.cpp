#include "nfs4/compound/callback.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "rpcrdma/header.h"
#include "wire/nfs4/attributes.h"
#include "wire/nfs4/ops.h"

namespace nfsrdma::nfs4 {
namespace {

using rpc::Refusal;

/// The callback program is accepted in version 1 (NFS_CB), as the XDR calls it, and in version 4, as RFC
/// 8881 18.36.3 wants it.
constexpr std::uint32_t kOtherVersion = 4;

// ---- sizes ----

constexpr std::uint64_t kWord = 4;
constexpr std::uint64_t kFailed = 2 * kWord;  // the result of an operation that failed: number, status
/// Sizes of what follows the status NFS4_OK, for each operation whose result has more than a status.
constexpr std::uint64_t kSequenceBody = xdr::bounds<CB_SEQUENCE4resok>.max;
constexpr std::uint64_t kGetattrBody = 2 * kWord  // attrmask of one word
                                       + kWord + sizeof(changeid4) + sizeof(std::uint64_t);
constexpr std::uint64_t kLargestResult = kFailed + kGetattrBody;
static_assert(kFailed + kSequenceBody == 40 && kLargestResult == 36);

/// The beginning of a Reply: the RPC header, the COMPOUND head with a tag of kTagMax bytes (the longest that
/// this client uses itself), and CB_SEQUENCE.
constexpr std::uint64_t kReplyStart =
    rpc::kReplyHeaderSize + xdr::bounds<CB_COMPOUND4res_head>.min + kTagMax + kFailed + kSequenceBody;
/// The largest recall that a server must be able to send: any credential, no tag, no referring calls.
constexpr std::uint64_t kRecallCall = 6 * kWord          // xid to procedure
                                      + 2 * kWord + 400  // credential (RFC 5531 8.2)
                                      + 2 * kWord        // verifier
                                      + xdr::bounds<CB_COMPOUND4args_head>.min + kWord +
                                      xdr::bounds<CB_SEQUENCE4args>.min + kWord +
                                      xdr::bounds<CB_RECALL4args>.max;
constexpr std::uint64_t kLeastInline = 1024;  // RFC 8166 3.3.2
static_assert(kRecallCall == 652 && kRecallCall <= kLeastInline - rpcrdma::kMinHeader);
static_assert(kReplyStart + kLargestResult <= kLeastInline - rpcrdma::kMinHeader);

constexpr std::uint32_t kMostOperations = 16;

/// NFSv4.0 agrees on no sizes. This size has room for the longest tag, and for more results
/// than a server asks for.
constexpr std::uint32_t kLargestReplyWithoutSession = 4096;
static_assert(rpc::kReplyHeaderSize + xdr::bounds<CB_COMPOUND4res_head>.max +
                  kMostOperations * kLargestResult <=
              kLargestReplyWithoutSession);

std::uint32_t without_transport(std::uint32_t threshold) {
  return threshold - std::min(threshold, static_cast<std::uint32_t>(rpcrdma::kMinHeader));
}

// ---- operations ----

struct Context {
  CallbackHandler& handler;
  std::span<const referring_call_list4> referring;
  xdr::Decoder& in;
  xdr::Encoder& out;
};

nfsstat4 serve_getattr(const Context& context) {
  CB_GETATTR4args args;
  if (!decode(context.in, args)) return NFS4ERR_BADXDR;
  const auto answer = context.handler.getattr(args.fh);
  if (!answer) return NFS4ERR_BADHANDLE;
  WireAttributes attributes;
  attributes.change = answer->change;
  attributes.size = answer->size;
  // RFC 8881 20.1.4: of the requested attributes, those that a write delegation lets the client change.
  encode(context.out, encode_attributes(attributes, args.attr_request));
  return NFS4_OK;
}

nfsstat4 serve_recall(const Context& context) {
  CB_RECALL4args args;
  if (!decode(context.in, args)) return NFS4ERR_BADXDR;
  return context.handler.recall({args.stateid, args.fh, args.truncate, context.referring});
}

constexpr bool is_recallable(std::uint32_t type) {
  return type <= RCA4_TYPE_MASK_BLK_LAYOUT ||
         (type >= RCA4_TYPE_MASK_OBJ_LAYOUT_MIN && type <= RCA4_TYPE_MASK_OBJ_LAYOUT_MAX) ||
         (type >= RCA4_TYPE_MASK_OTHER_LAYOUT_MIN && type <= RCA4_TYPE_MASK_FF_LAYOUT_MAX);
}

nfsstat4 serve_recall_any(const Context& context) {
  CB_RECALL_ANY4args args;
  if (!decode(context.in, args)) return NFS4ERR_BADXDR;
  const bitmap4& types = args.craa_type_mask;
  for (std::uint32_t type = 0; type < types.value.size() * 32; ++type) {
    // RFC 8881 20.6.3: INVAL is a MUST for an undefined type. A defined type that this client
    // never has is no error.
    if (has_bit(types, type) && !is_recallable(type)) return NFS4ERR_INVAL;
  }
  context.handler.recall_any(args.craa_objects_to_keep, types);
  return NFS4_OK;
}

nfsstat4 serve_recall_slot(const Context& context) {
  CB_RECALL_SLOT4args args;
  if (!decode(context.in, args)) return NFS4ERR_BADXDR;
  context.handler.recall_slot(args.rsa_target_highest_slotid);
  return NFS4_OK;
}

nfsstat4 serve_notify_lock(const Context& context) {
  CB_NOTIFY_LOCK4args args;
  if (!decode(context.in, args)) return NFS4ERR_BADXDR;
  context.handler.notify_lock(args.cnla_fh, args.cnla_lock_owner);
  return NFS4_OK;
}

nfsstat4 serve_offload(const Context& context) {
  CB_OFFLOAD4args args;
  if (!decode(context.in, args)) return NFS4ERR_BADXDR;
  return context.handler.copy_ended(args);
}

struct Row {
  nfs_cb_opnum4 number;
  std::uint8_t first_minor;
  std::uint64_t body;  ///< largest size of what follows the status NFS4_OK
  /// Writes what follows NFS4_OK. Null: the operation is known, and not supported.
  nfsstat4 (*serve)(const Context&);
};

template <class Op>
constexpr Row row(nfsstat4 (*serve)(const Context&) = nullptr, std::uint64_t body = 0) {
  return {Op::number, Op::first_minor, body, serve};
}

constexpr auto kRows = std::to_array<Row>({
    row<cb_op::CB_GETATTR>(serve_getattr, kGetattrBody),
    row<cb_op::CB_RECALL>(serve_recall),
    row<cb_op::CB_LAYOUTRECALL>(),
    row<cb_op::CB_NOTIFY>(),
    row<cb_op::CB_PUSH_DELEG>(),
    row<cb_op::CB_RECALL_ANY>(serve_recall_any),
    row<cb_op::CB_RECALLABLE_OBJ_AVAIL>(),
    row<cb_op::CB_RECALL_SLOT>(serve_recall_slot),
    row<cb_op::CB_SEQUENCE>(),  // served by sequence()
    row<cb_op::CB_WANTS_CANCELLED>(),
    row<cb_op::CB_NOTIFY_LOCK>(serve_notify_lock),
    row<cb_op::CB_NOTIFY_DEVICEID>(),
    row<cb_op::CB_OFFLOAD>(serve_offload),
});

consteval bool rows_in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].number != OP_CB_GETATTR + i) return false;
  }
  return kRows.size() == std::tuple_size_v<cb_op::All>;
}
static_assert(rows_in_order(), "a row of kRows is missing or misplaced");

const Row* find_row(std::uint32_t number, unsigned minor_version) {
  const std::uint32_t index = number - OP_CB_GETATTR;
  return index < kRows.size() && minor_version >= kRows[index].first_minor ? &kRows[index] : nullptr;
}

}  // namespace

channel_attrs4 back_channel(std::uint32_t receive_size, std::uint32_t send_size, std::uint32_t slots) {
  channel_attrs4 attributes;
  // RFC 8881 18.36.3: these sizes include the RPC header, but not the transport's header.
  attributes.ca_maxrequestsize = without_transport(receive_size);
  attributes.ca_maxresponsesize = largest_callback_reply(send_size);
  attributes.ca_maxresponsesize_cached = attributes.ca_maxresponsesize;
  const std::uint64_t room =
      attributes.ca_maxresponsesize - std::min<std::uint64_t>(kReplyStart, attributes.ca_maxresponsesize);
  attributes.ca_maxoperations =
      std::min(kMostOperations, static_cast<std::uint32_t>(1 + room / kLargestResult));
  attributes.ca_maxrequests = slots;
  return attributes;
}

std::uint32_t largest_callback_reply(std::uint32_t send_size) {
  return without_transport(send_size);
}

/// A CB_COMPOUND while it is answered.
struct CallbackService::Request {
  xdr::ConstBytes call;
  std::uint32_t xid = 0;
  xdr::Decoder in;
  CB_COMPOUND4args_head head;
  CB_SEQUENCE4args sequence;

  Slot* slot = nullptr;  // null until CB_SEQUENCE is good
  std::uint64_t fingerprint = 0;
  bool repeated = false;                   // the slot's last request was sent once more
  std::uint64_t limit = 0;                 // largest size of the Reply
  nfsstat4 too_big = NFS4ERR_REP_TOO_BIG;  // status of an operation whose result exceeds the limit

  std::uint32_t done = 0;  // results so far
  nfsstat4 status = NFS4_OK;

  [[nodiscard]] bool more() const { return done + 1 < head.argarray_count; }
  /// Whether the Reply was kept when the request came first, and fits the connection that the
  /// request came over now.
  [[nodiscard]] bool has_reply() const {
    return slot != nullptr && repeated && !slot->reply.empty() && slot->reply.size() <= limit;
  }
  /// Room to keep free behind the current result, so that the next operation can at least say that it failed.
  [[nodiscard]] std::uint64_t reserve() const { return more() ? kFailed : 0; }
};

CallbackService::CallbackService(CallbackHandler& handler, const CallbackOptions& options)
    : handler_(handler), options_(options), announced_(options.announced), limits_(options.announced) {}

void CallbackService::reset(const sessionid4& session, unsigned minor_version, const channel_attrs4& agreed) {
  const channel_attrs4& most = announced_;
  limits_.ca_maxrequestsize = std::min(most.ca_maxrequestsize, agreed.ca_maxrequestsize);
  limits_.ca_maxresponsesize = std::min(most.ca_maxresponsesize, agreed.ca_maxresponsesize);
  limits_.ca_maxresponsesize_cached =
      std::min(most.ca_maxresponsesize_cached, agreed.ca_maxresponsesize_cached);
  limits_.ca_maxoperations = std::min(most.ca_maxoperations, agreed.ca_maxoperations);
  limits_.ca_maxrequests = std::min(most.ca_maxrequests, agreed.ca_maxrequests);
  session_ = session;
  minor_version_ = minor_version;
  callback_ident_.reset();
  slots_.assign(limits_.ca_maxrequests, Slot{});
  open_ = true;
}

void CallbackService::reset_without_session(std::uint32_t callback_ident) {
  minor_version_ = 0;
  callback_ident_ = callback_ident;
  limits_.ca_maxresponsesize = kLargestReplyWithoutSession;
  slots_.clear();
  open_ = true;
}

void CallbackService::close() {
  open_ = false;
  callback_ident_.reset();
  slots_.clear();
  limits_ = announced_;
}

bool CallbackService::answer(xdr::ConstBytes call, xdr::Message& reply, std::uint32_t largest_reply) {
  reply.clear();
  xdr::Decoder in(call);
  const rpc::CallHeader header = rpc::read_call(in);
  if (header.verdict.refusal == Refusal::undecodable) return false;
  rpc::ReplyHeader verdict = judge(header);
  if (verdict.refusal == Refusal::none && header.procedure == CB_COMPOUND) {
    CB_COMPOUND4args_head head;
    // A count that cannot be true belongs to an array that cannot be decoded, which RFC 5531
    // answers by GARBAGE_ARGS.
    if (decode(in, head) && head.argarray_count <= in.remaining() / kWord) {
      if (head.minorversion == 0 && !has_sessions() && head.callback_ident != callback_ident_) {
        // The Call is not from a server that was given this callback_ident. No status of a COMPOUND says so.
        rpc::begin_reply(reply, header.xid, {Refusal::authentication, rpc::kAuthBadCred, 0});
        return true;
      }
      Request request{.call = call, .xid = header.xid, .in = in, .head = std::move(head), .sequence = {}};
      request.limit = std::min(limits_.ca_maxresponsesize, largest_reply);
      compound(request, reply);
      return true;
    }
    verdict.refusal = Refusal::garbage_args;
  }
  rpc::begin_reply(reply, header.xid, verdict);
  return true;
}

rpc::ReplyHeader CallbackService::judge(const rpc::CallHeader& call) const {
  if (call.verdict.refusal != Refusal::none) return call.verdict;
  bool good_credential = false;
  if (call.flavor == kAuthNone) {
    good_credential = options_.auth_none || call.procedure == CB_NULL;  // a ping needs no identity
  } else if (call.flavor == kAuthSys && options_.auth_sys) {
    xdr::Decoder body(call.credential);
    authsys_parms parms;
    good_credential = decode(body, parms) && body.finish();
  }
  if (!good_credential) return {Refusal::authentication, rpc::kAuthBadCred, 0};
  if (call.program != options_.program) return {Refusal::program, 0, 0};
  if (call.version != NFS_CB && call.version != kOtherVersion) {
    return {Refusal::version, NFS_CB, kOtherVersion};
  }
  if (call.procedure != CB_NULL && call.procedure != CB_COMPOUND) return {Refusal::procedure, 0, 0};
  return {Refusal::none, 0, 0};
}

bool CallbackService::is_agreed(std::uint32_t minor_version) const {
  if (open_) return minor_version == minor_version_;
  return minor_version != 0 && minor_version <= kNewestMinor;
}

void CallbackService::compound(Request& request, xdr::Message& reply) {
  rpc::begin_reply(reply, request.xid, {Refusal::none, 0, 0});
  xdr::Encoder out(reply);
  CB_COMPOUND4res_head head{.status = NFS4_OK, .tag = std::move(request.head.tag), .resarray_count = 0};
  if (!has_sessions()) request.too_big = NFS4ERR_RESOURCE;
  if (out.position() + xdr::encoded_size(head) + kFailed > request.limit) {
    // If the reply has no room for the tag, it has none for a result either.
    head.tag.value.clear();
    request.status = request.too_big;
  } else if (!is_agreed(request.head.minorversion)) {
    request.status = NFS4ERR_MINOR_VERS_MISMATCH;  // RFC 8881 19.2.3: without a result
  }
  const std::size_t status_at = out.position();
  encode(out, head);
  const std::size_t count_at = out.position() - kWord;

  // Bytes behind the last operation are ignored, because the operations have been executed by then.
  while (request.done < request.head.argarray_count && request.status == NFS4_OK) operation(request, out);

  if (request.has_reply()) {
    reply.clear();
    out.fixed(request.slot->reply);
    xdr::store_u32(reply.stream.data(), request.xid);
    return;
  }
  xdr::store_u32(reply.stream.data() + status_at, request.status);
  xdr::store_u32(reply.stream.data() + count_at, request.done);
  if (request.slot != nullptr && !request.repeated) {
    Slot& slot = *request.slot;
    slot = {request.sequence.csa_sequenceid, true, request.fingerprint, {}};
    const xdr::ConstBytes bytes = reply.stream.bytes();
    if (request.sequence.csa_cachethis) slot.reply.assign(bytes.begin(), bytes.end());
  }
}

/// Appends one result. If the operation fails, there is always room for its result.
void CallbackService::operation(Request& request, xdr::Encoder& out) {
  std::uint32_t number = 0;
  const bool there = request.in.u32(number);
  const bool known = there && find_row(number, request.head.minorversion) != nullptr;
  out.u32(known ? number : std::uint32_t{OP_CB_ILLEGAL});
  const std::size_t status_at = out.position();
  out.u32(0);
  if (known) {
    request.status = run(request, number, out);
  } else {
    request.status = there ? NFS4ERR_OP_ILLEGAL : NFS4ERR_BADXDR;  // 20.13.3
  }
  xdr::store_u32(out.message().stream.data() + status_at, request.status);
  ++request.done;
}

nfsstat4 CallbackService::run(Request& request, std::uint32_t number, xdr::Encoder& out) {
  // RFC 8881 20.9.3: CB_SEQUENCE MUST be the first operation, and nowhere else. NFSv4.0 does not have it.
  if (request.done == 0 && has_sessions()) {
    return number == OP_CB_SEQUENCE ? sequence(request, out) : NFS4ERR_OP_NOT_IN_SESSION;
  }
  // RFC 8881 2.10.6.1.3: csa_cachethis concerns what follows CB_SEQUENCE. The result of CB_SEQUENCE itself
  // can be produced again at any time.
  if (request.repeated) return NFS4ERR_RETRY_UNCACHED_REP;
  if (number == OP_CB_SEQUENCE) return NFS4ERR_SEQUENCE_POS;
  const Row& operation = *find_row(number, request.head.minorversion);
  if (operation.serve == nullptr) return NFS4ERR_NOTSUPP;
  // The size is checked before the operation is executed, because what cannot be answered must not be done.
  if (out.position() + operation.body + request.reserve() > request.limit) return request.too_big;
  return operation.serve({handler_, request.sequence.csa_referring_call_lists.value, request.in, out});
}

nfsstat4 CallbackService::sequence(Request& request, xdr::Encoder& out) {
  CB_SEQUENCE4args& args = request.sequence;
  if (!decode(request.in, args)) return NFS4ERR_BADXDR;
  const nfsstat4 status = judge_sequence(request, out.position() + kSequenceBody + request.reserve());
  if (status != NFS4_OK) return status;
  request.slot = &slots_[args.csa_slotid];
  if (request.has_reply()) {
    request.head.argarray_count = 1;  // has_reply(): the kept Reply has the rest
  }
  if (args.csa_cachethis && limits_.ca_maxresponsesize_cached < request.limit) {
    request.limit = limits_.ca_maxresponsesize_cached;
    request.too_big = NFS4ERR_REP_TOO_BIG_TO_CACHE;
  }
  const auto highest = static_cast<slotid4>(slots_.size() - 1);
  encode(out, CB_SEQUENCE4resok{args.csa_sessionid, args.csa_sequenceid, args.csa_slotid, highest, highest});
  return NFS4_OK;
}

/// Judges CB_SEQUENCE (RFC 8881 20.9.3 and 2.10.6). `reply_size`: the least size of the Reply.
nfsstat4 CallbackService::judge_sequence(Request& request, std::size_t reply_size) {
  const CB_SEQUENCE4args& args = request.sequence;
  if (!open_ || args.csa_sessionid != session_) return NFS4ERR_BADSESSION;
  if (args.csa_slotid >= slots_.size()) return NFS4ERR_BADSLOT;
  if (args.csa_highest_slotid >= slots_.size()) return NFS4ERR_BAD_HIGH_SLOT;
  const Slot& slot = slots_[args.csa_slotid];
  // Only what follows CB_SEQUENCE is compared, because a retransmission may have newer
  // arguments of CB_SEQUENCE.
  const xdr::ConstBytes rest = request.call.last(request.in.remaining());
  request.fingerprint =
      std::hash<std::string_view>()({reinterpret_cast<const char*>(rest.data()), rest.size()});
  if (slot.used && args.csa_sequenceid == slot.last) {
    if (request.fingerprint != slot.request) return NFS4ERR_SEQ_FALSE_RETRY;
    request.repeated = true;
    // RFC 8881 2.10.6.1: the sequence id wraps from 2^32 - 1 to 0.
  } else if (args.csa_sequenceid != slot.last + 1) {
    return NFS4ERR_SEQ_MISORDERED;
  }
  if (request.call.size() > limits_.ca_maxrequestsize) return NFS4ERR_REQ_TOO_BIG;
  if (request.head.argarray_count > limits_.ca_maxoperations) return NFS4ERR_TOO_MANY_OPS;
  if (reply_size > request.limit) return NFS4ERR_REP_TOO_BIG;
  if (args.csa_cachethis && reply_size > limits_.ca_maxresponsesize_cached) {
    return NFS4ERR_REP_TOO_BIG_TO_CACHE;
  }
  return NFS4_OK;
}

}  // namespace nfsrdma::nfs4
