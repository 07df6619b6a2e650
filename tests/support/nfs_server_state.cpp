// The test server: the execution of one COMPOUND (RFC 8881 2.10.6, 16.2), and the log of what was executed.
#include "support/nfs_server_state.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using xdr::Encoder;

constexpr std::size_t kRpcReplyHeader = 24;
/// Room that a modifying operation must find in the Reply before it is executed (2.10.6.4): its result, or
/// the error in its place.
constexpr std::size_t kRoomForResult = 256;
constexpr std::size_t kProblemsMax = 64U << 10;

/// Calls f with the struct of operation `number`; false for one that this server does not have.
template <class F>
bool with_op(std::uint32_t number, F f) {
  switch (number) {
#define NFS_OP(NAME) \
  case OP_##NAME:    \
    return f(op::NAME{});
    NFS_SERVER_OPERATIONS(NFS_OP)
#undef NFS_OP
    default:
      return false;
  }
}

// ---- what the log says of arguments ----

std::string range(std::uint64_t offset, std::uint64_t length) {
  return std::to_string(offset) + "+" + std::to_string(length);
}

template <class Args>
std::string gist(const Args&) {
  return "";
}
std::string gist(const CREATE4args& args) {
  return args.objname.value;
}
std::string gist(const LINK4args& args) {
  return args.newname.value;
}
std::string gist(const REMOVE4args& args) {
  return args.target.value;
}
std::string gist(const RENAME4args& args) {
  return args.oldname.value + " -> " + args.newname.value;
}
std::string gist(const OPEN4args& args) {
  const component4* name = args.claim.get<CLAIM_NULL>();
  std::string out = name != nullptr ? name->value : "claim " + std::to_string(args.claim.tag());
  if (const createhow4* how = args.openhow.get<OPEN4_CREATE>()) {
    out += " create " + std::to_string(how->tag());
  }
  return out + " access " + std::to_string(args.share_access & OPEN4_SHARE_ACCESS_BOTH);
}
std::string gist(const WRITE4args& args) {
  return range(args.offset, args.data.data.size()) + (args.stable == UNSTABLE4 ? " unstable" : "");
}
std::string gist(const SETATTR4args& args) {
  WireChanges changes;
  if (!decode_changes(args.obj_attributes, changes)) return "";
  return changes.size ? "size " + std::to_string(*changes.size) : "";
}
std::string gist(const LOCK4args& args) {
  return std::string(args.locktype == WRITE_LT || args.locktype == WRITEW_LT ? "write " : "read ") +
         range(args.offset, args.length) + (args.reclaim ? " reclaim" : "");
}
std::string gist(const LOCKU4args& args) {
  return range(args.offset, args.length);
}
std::string gist(const ALLOCATE4args& args) {
  return range(args.aa_offset, args.aa_length);
}
std::string gist(const DEALLOCATE4args& args) {
  return range(args.da_offset, args.da_length);
}
std::string gist(const COPY4args& args) {
  return range(args.ca_src_offset, args.ca_count) + " to " + std::to_string(args.ca_dst_offset);
}
std::string gist(const CLONE4args& args) {
  return range(args.cl_src_offset, args.cl_count) + " to " + std::to_string(args.cl_dst_offset);
}
std::string gist(const SETXATTR4args& args) {
  return args.sxa_key.value;
}
std::string gist(const REMOVEXATTR4args& args) {
  return args.rxa_name.value;
}

/// What changes what others see, or state; more than what must not be repeated.
template <class Op>
constexpr bool is_logged =
    !Op::idempotent || Op::number == OP_WRITE || Op::number == OP_COMMIT || Op::number == OP_ALLOCATE ||
    Op::number == OP_DEALLOCATE || Op::number == OP_CREATE_SESSION || Op::number == OP_EXCHANGE_ID;

std::uint64_t digest_of(xdr::ConstBytes bytes) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void shorten(xdr::Buffer& buffer, std::size_t size) {
  xdr::Buffer shorter;
  std::memcpy(shorter.extend(size), buffer.data(), size);
  buffer = std::move(shorter);
}

}  // namespace

Octets flattened(const xdr::Message& message) {
  Octets out;
  out.reserve(message.unreduced_size());
  const auto append = [&](xdr::ConstBytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
  std::size_t from = 0;
  for (const xdr::Item& item : message.items) {
    append(message.stream.bytes().subspan(from, item.stream_offset - from));
    append(item.data);
    out.resize(out.size() + xdr::padding(item.data.size()));
    from = item.stream_offset;
  }
  append(message.stream.bytes().subspan(from));
  return out;
}

bool SeenCall::has(nfs_opnum4 wanted) const {
  return std::ranges::find(ops, wanted) != ops.end();
}

std::string SeenCall::operations() const {
  std::string out;
  for (const nfs_opnum4 op : ops) {
    if (op == OP_SEQUENCE || op == OP_PUTFH) continue;
    if (!out.empty()) out += '+';
    out += operation_name(op);
  }
  return out;
}

std::string to_string(const Executed& one) {
  return one.client + " slot " + std::to_string(one.slot) + "/" + std::to_string(one.sequence) + " " +
         std::string(operation_name(one.op)) + " " + std::to_string(one.inode) + " " + one.gist + " = " +
         std::to_string(one.status);
}

Principal Principal::of(xdr::ConstBytes encoded) {
  xdr::Decoder in(encoded);
  std::uint32_t flavor = 0, length = 0;
  authsys_parms sys;
  if (!in.u32(flavor) || flavor != kAuthSys || !in.u32(length) || !xdr::decode(in, sys)) return {};
  return {sys.uid, sys.gid, true};
}

ServerState::ServerState(Now now, std::uint64_t seed)
    : chance(seed), next_id(kRoot), now_(std::move(now)), begun_(now_()) {
  Inode& root = fresh(NF4DIR, 0);
  root.parent = root.id;
}

void ServerState::problem(const std::string& text) {
  if (problems.size() < kProblemsMax) problems += text + "\n";
}

void ServerState::log(const Execution& at, nfs_opnum4 op, std::uint64_t inode, std::string gist,
                      nfsstat4 status) {
  Executed& one = executed.emplace_back();
  one.at = now_();
  if (const auto found = clients.find(at.client); found != clients.end()) {
    const Octets& owner = found->second.owner;
    one.client.assign(reinterpret_cast<const char*>(owner.data()), owner.size());
  }
  one.session = at.session;
  one.slot = at.slot;
  one.sequence = at.sequence;
  one.connection = at.connection;
  one.op = op;
  one.inode = inode;
  one.gist = std::move(gist);
  one.status = status;
}

std::optional<nfsstat4> ServerState::injected(nfs_opnum4 op) {
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    if (rule->op != op) continue;
    if (rule->skip > 0) {
      --rule->skip;
      return std::nullopt;
    }
    const nfsstat4 status = rule->status;
    if (--rule->times == 0) rules.erase(rule);
    return status;
  }
  return std::nullopt;
}

// ---- one operation ----

template <class Op>
std::optional<nfsstat4> ServerState::trouble(const Execution& at, const typename Op::Args& args) {
  if (habits.trouble_percent == 0 || at.minor == 0) return std::nullopt;
  bool recovers = Op::number == OP_BIND_CONN_TO_SESSION || Op::number == OP_RECLAIM_COMPLETE ||
                  Op::number == OP_EXCHANGE_ID || Op::number == OP_FREE_STATEID || Op::number == OP_CLOSE ||
                  Op::number == OP_DELEGRETURN;
  if constexpr (Op::number == OP_OPEN) recovers = args.claim.tag() == CLAIM_PREVIOUS;
  if constexpr (Op::number == OP_LOCK) recovers = args.reclaim;
  if (!recovers || !chance.percent(habits.trouble_percent)) return std::nullopt;
  constexpr std::array kTroubles{NFS4ERR_SERVERFAULT, NFS4ERR_RESOURCE, NFS4ERR_IO};
  return kTroubles.at(chance.below(kTroubles.size()));
}

namespace {

constexpr std::array kFault{NFS4ERR_SERVERFAULT};
constexpr std::array kFaultOrIo{NFS4ERR_SERVERFAULT, NFS4ERR_IO};
constexpr std::array kFaultOrBusy{NFS4ERR_SERVERFAULT, NFS4ERR_BACK_CHAN_BUSY};
constexpr std::array kNoReclaim{NFS4ERR_SERVERFAULT, NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD,
                                NFS4ERR_RECLAIM_CONFLICT};

/// RFC 8881 15.2: which operations may be answered NFS4ERR_DELAY. Of NFSv4.0's own, RFC 7530 13.2.
constexpr bool may_delay(nfs_opnum4 op) {
  switch (op) {
    case OP_GETFH:
    case OP_SAVEFH:
    case OP_RESTOREFH:
    case OP_ILLEGAL:
    case OP_RENEW:
    case OP_OPEN_CONFIRM:
    case OP_RELEASE_LOCKOWNER:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::optional<nfsstat4> ServerState::busy(nfs_opnum4 op) {
  if (!may_delay(op)) return std::nullopt;
  if (const auto known = busy_until_.find(op); known != busy_until_.end() && now_() < known->second)
    return NFS4ERR_DELAY;
  if (!chance.percent(habits.busy_percent)) return std::nullopt;
  // SEQUENCE renews the lease: for long it would end it.
  if (op != OP_SEQUENCE && chance.coin()) {
    const auto longest = static_cast<std::uint64_t>(habits.longest_busy.count());
    busy_until_[op] = now_() + std::chrono::milliseconds(chance.below(longest));
  }
  return NFS4ERR_DELAY;
}

std::optional<nfsstat4> ServerState::spell(nfs_opnum4 op, std::span<const nfsstat4> statuses, bool lasts) {
  Spell& last = spells_[op];
  if (now_() < last.until) return last.status;
  if (!chance.percent(habits.failing_percent)) return std::nullopt;
  last.status = statuses[chance.below(statuses.size())];
  if (lasts && chance.coin()) {
    const auto longest = static_cast<std::uint64_t>(habits.longest_failing.count());
    last.until = now_() + std::chrono::milliseconds(chance.below(longest));
  }
  return last.status;
}

/// What a client has to survive of RFC 8881 15.2 beside NFS4ERR_DELAY. Not drawn: what is a verdict on the object or its
/// user (ACCESS, STALE, IO of a READ, …), which the programs are told; and what says that an argument is wrong.
/// CLOSE, DELEGRETURN, DESTROY_SESSION and DESTROY_CLIENTID do not fail for long: who ends asks some times and goes.
template <class Op>
std::optional<nfsstat4> ServerState::failing(const Execution& at, const typename Op::Args& args) {
  if (habits.failing_percent == 0 || at.minor == 0) return std::nullopt;
  bool reclaims = false;
  if constexpr (Op::number == OP_OPEN) reclaims = args.claim.tag() == CLAIM_PREVIOUS;
  if constexpr (Op::number == OP_LOCK) reclaims = args.reclaim;
  if (reclaims) {
    const auto refused = spell(Op::number, kNoReclaim, true);
    // The client may go without it (8.4.2.1).
    if (refused) lost_state.insert(clients.at(at.client).owner);
    return refused;
  }
  if constexpr (Op::number == OP_GETATTR) {
    // Of a recovery: the server's limits.
    if (has_bit(args.attr_request, FATTR4_LEASE_TIME)) return spell(OP_GETATTR, kFaultOrIo, true);
  } else if constexpr (Op::number == OP_EXCHANGE_ID || Op::number == OP_BIND_CONN_TO_SESSION ||
                       Op::number == OP_RECLAIM_COMPLETE || Op::number == OP_FREE_STATEID ||
                       Op::number == OP_TEST_STATEID) {
    return spell(Op::number, kFault, true);
  } else if constexpr (Op::number == OP_DESTROY_SESSION) {
    return spell(OP_DESTROY_SESSION, kFaultOrBusy, false);
  } else if constexpr (Op::number == OP_DESTROY_CLIENTID || Op::number == OP_CLOSE ||
                       Op::number == OP_DELEGRETURN || Op::number == OP_OPEN_DOWNGRADE) {
    return spell(Op::number, kFault, false);
  }
  return std::nullopt;
}

template <class Op>
bool ServerState::one(Execution& at, Encoder& out) {
  typename Op::Args args{};
  if (!xdr::decode(at.in, args)) return false;
  typename Op::Res res{};
  ++seen_ops[Op::number];
  const std::size_t begin = out.position();
  const std::size_t items = at.answer->message.items.size();
  const auto length = [&] { return kRpcReplyHeader + at.answer->message.unreduced_size(); };
  if (Op::number == OP_SEQUENCE) at.digest = digest_of(at.body.last(at.in.remaining()));
  std::vector<CountedRequest> requests;
  std::optional<nfsstat4> misordered;
  if constexpr (requires { counted(args); }) {
    if (at.minor == 0) {
      requests = counted(args);
      nfsstat4 wrong = NFS4_OK;
      const OwnerSequence* again = check_sequence(requests, Op::number, wrong);
      if (again != nullptr && is_executed_twice(at)) {
        for (CountedRequest& request : requests) ++request.seqid;
        again = nullptr;
      }
      if (again != nullptr) {
        out.fixed(again->result);
        at.status = again->status;
        if (again->current != 0) at.current = again->current;
        return true;
      }
      if (wrong != NFS4_OK) misordered = wrong;
    }
  }
  // A failed CREATE_SESSION may have used its sequence id: create_session() looks at this itself.
  std::optional<nfsstat4> forced;
  if constexpr (Op::number != OP_CREATE_SESSION) {
    forced = misordered ? misordered : injected(Op::number);
    if (!forced) forced = failing<Op>(at, args);
    if (!forced) forced = busy(Op::number);
  }
  if (!forced) forced = trouble<Op>(at, args);
  if (!forced && is_wrong_flavor(at, Op::number)) forced = NFS4ERR_WRONGSEC;
  if (!forced && !Op::idempotent && length() + kRoomForResult > at.largest) forced = at.too_large;
  if constexpr (Op::number == OP_DELEGRETURN) {
    const auto returned = delegations.find(number_of(args.deleg_stateid));
    if (forced && returned != delegations.end()) returned->second.return_refused = true;
  }
  if (forced) {
    at.status = plain(res, *forced);
  } else {
    const std::uint64_t inode = at.current;
    at.status = run(at, Op{}, args, res);
    if (at.status == NFS4_OK) ++good_ops[Op::number];
    if constexpr (is_logged<Op>) log(at, Op::number, inode, gist(args), at.status);
  }
  if (at.replay || at.stage == Execution::Stage::parked) return true;
  out.u32(Op::number);
  xdr::encode(out, res);
  if (Op::number == OP_LOOKUP && habits.garbled_lookup != 0 && --habits.garbled_lookup == 0)
    xdr::store_u32(at.answer->message.stream.data() + begin + 4, NFS4ERR_NOENT);
  if (!requests.empty()) {
    const auto all = at.answer->message.stream.bytes();
    count(requests, {.op = Op::number,
                     .status = at.status,
                     .result = Octets(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end()),
                     .current = at.current});
  }
  if (Op::idempotent && length() > at.largest) {
    at.answer->message.items.resize(items);
    shorten(at.answer->message.stream, begin);
    at.status = plain(res, at.too_large);
    out.u32(Op::number);
    xdr::encode(out, res);
  }
  return true;
}

bool ServerState::operation(Execution& at, std::uint32_t number, Encoder& out) {
  bool decoded = true;
  const OperationRow* row = find_operation(number);
  // What 4.0 alone has the others do not, and it has nothing of theirs.
  const bool there = row == nullptr || (at.minor == 0 ? row->first_minor == 0 : row->last_minor != 0);
  const bool known = there && with_op(number, [&](auto op) {
                       decoded = one<decltype(op)>(at, out);
                       return true;
                     });
  if (known) return decoded;
  out.u32(OP_ILLEGAL);
  at.status = NFS4ERR_OP_ILLEGAL;
  xdr::encode(out, at.status);
  return true;
}

/// RFC 8881 2.10.2.2: what may stand first, and what needs a session.
nfsstat4 ServerState::start(std::uint32_t minor, const std::vector<nfs_opnum4>& ops) {
  if (minor < oldest_minor || minor > newest_minor) return NFS4ERR_MINOR_VERS_MISMATCH;
  if (ops.empty() || minor == 0) return NFS4_OK;
  switch (ops.front()) {
    case OP_SEQUENCE:
      if (std::ranges::count(ops, OP_SEQUENCE) > 1) problem("SEQUENCE twice in a COMPOUND");
      return NFS4_OK;
    case OP_EXCHANGE_ID:
    case OP_CREATE_SESSION:
    case OP_BIND_CONN_TO_SESSION:
    case OP_DESTROY_SESSION:
    case OP_DESTROY_CLIENTID:
      if (ops.size() == 1) return NFS4_OK;
      problem("an operation without SEQUENCE is not alone");
      return NFS4ERR_NOT_ONLY_OP;
    default:
      problem("a COMPOUND without SEQUENCE");
      return NFS4ERR_OP_NOT_IN_SESSION;
  }
}

std::string ServerState::look(xdr::Decoder in, SeenCall& seen) {
  xdr::ConstBytes tag;
  std::uint32_t count = 0;
  if (!in.opaque(NFS4_OPAQUE_LIMIT, tag) || !in.u32(seen.minor) || !in.u32(count)) {
    return "a COMPOUND that is none";
  }
  seen.ops.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t number = 0;
    if (!in.u32(number)) return "a COMPOUND that is cut short";
    seen.ops.push_back(static_cast<nfs_opnum4>(number));
    const bool known = with_op(number, [&](auto op) {
      typename decltype(op)::Args args{};
      const bool good = xdr::decode(in, args);
      if constexpr (std::is_same_v<decltype(op), op::SEQUENCE>) seen.sequence = args;
      if constexpr (std::is_same_v<decltype(op), op::GETATTR>)
        seen.unbounded = seen.unbounded || has_bit(args.attr_request, FATTR4_ACL);
      return good;
    });
    if (!known && in.ok()) return "";  // not known here: decoding ends
    if (!known) return "arguments that cannot be decoded: " + std::string(operation_name(number));
  }
  // RFC 8267 2.6.
  const bool harmful = std::ranges::any_of(
      seen.ops, [](nfs_opnum4 number) { return find_operation(number)->repeat == Repeat::modifies; });
  if (harmful && seen.unbounded) return "a change in one COMPOUND with an answer of any length";
  return in.remaining() == 0 ? "" : "bytes after the last operation";
}

// ---- one COMPOUND ----

std::unique_ptr<Execution> ServerState::begin(xdr::ConstBytes body, std::size_t request_size,
                                              const Principal& who, SeenCall& seen) {
  std::unique_ptr<Execution> run(new Execution(body));
  look_at_time();
  run->boot = boot;
  run->losses_before = losses_;
  run->request_size = request_size;
  run->who = who;
  run->security = seen.security;
  run->connection = seen.connection;
  const std::string wrong = look(run->in, seen);
  xdr::ConstBytes tag;
  if (!wrong.empty() || !run->in.opaque(NFS4_OPAQUE_LIMIT, tag) || !run->in.u32(run->minor) ||
      !run->in.u32(run->count)) {
    problem(wrong);
    run->stage = Execution::Stage::broken;
    return run;
  }
  if (run->minor == 0 && oldest_minor == 0 && begin40(*run, seen)) return run;
  run->answer = std::make_unique<Answer>();
  Encoder out(run->answer->message);
  out.u32(0);
  out.opaque(tag);
  run->count_at = out.position();
  out.u32(0);
  run->status = start(seen.minor, seen.ops);
  if (run->status == NFS4_OK && run->count > 0 && seen.ops.front() == OP_SEQUENCE) {
    std::uint32_t number = 0;
    if (!run->in.u32(number) || !operation(*run, number, out)) {
      run->stage = Execution::Stage::broken;
    } else if (run->replay) {
      replay(*run);
    } else if (run->stage == Execution::Stage::ready) {
      run->done = 1;
    }
  }
  // What SEQUENCE has refused does not wait for anything.
  if (run->stage == Execution::Stage::ready && run->status != NFS4_OK) conclude(*run);
  return run;
}

/// Fills in the status and the number of results, which stand in front of them.
void ServerState::conclude(Execution& at) {
  xdr::store_u32(at.answer->message.stream.data(), at.status);
  xdr::store_u32(at.answer->message.stream.data() + at.count_at, at.done);
  at.stage = Execution::Stage::answered;
}

/// The answer from the reply cache.
void ServerState::replay(Execution& at) {
  const Slot& slot = sessions.at(at.session).slots[at.slot];
  auto again = std::make_unique<Answer>();
  again->replayed = true;
  Encoder out(again->message);
  if (slot.cached) {
    out.fixed(slot.reply);
  } else {
    // Linux: SEQUENCE is good, and the error stands in the place of the next operation.
    std::uint32_t next = OP_ILLEGAL;
    (void)at.in.u32(next);
    xdr::encode(out, NFS4ERR_RETRY_UNCACHED_REP);
    out.opaque({});
    out.u32(2);
    out.u32(OP_SEQUENCE);
    SEQUENCE4res first;
    first.emplace<NFS4_OK>() = slot.answer;
    xdr::encode(out, first);
    out.u32(next);
    xdr::encode(out, NFS4ERR_RETRY_UNCACHED_REP);
    if (next == OP_SETATTR) xdr::encode(out, bitmap4{});
  }
  at.answer = std::move(again);
  at.stage = Execution::Stage::answered;
}

std::unique_ptr<Answer> ServerState::finish(Execution& run) {
  if (run.stage != Execution::Stage::ready) return std::move(run.answer);
  if (run.procedure) return finish3(run);
  Encoder out(run.answer->message);
  for (; run.status == NFS4_OK && run.done < run.count; ++run.done) {
    std::uint32_t number = 0;
    if (!run.in.u32(number) || !operation(run, number, out)) {
      run.stage = Execution::Stage::broken;
      end40(run, false);
      settle(run);
      return nullptr;
    }
  }
  conclude(run);
  note_delayed(run);
  end40(run, true);
  settle(run);
  return std::move(run.answer);
}

/// A server that does away with a session gives up the requests in it: the client may make them again in
/// another one as soon as it hears of that.
bool ServerState::gives_up(Execution& run) {
  if (run.stage != Execution::Stage::ready || !run.in_session || sessions.contains(run.session)) return false;
  settle(run);
  return true;
}

/// The request has its answer: its slot is free, and keeps what a retransmission will get.
void ServerState::settle(Execution& at) {
  bury();
  if (!at.in_session) return;
  if (const auto client = clients.find(at.client); client != clients.end()) --client->second.at_work;
  const auto session = sessions.find(at.session);
  if (session == sessions.end()) return;
  Slot& slot = session->second.slots[at.slot];
  slot.at_work = false;
  // A SEQUENCE that is alone is its own result, and costs nothing to keep.
  slot.cached = (at.cachethis || at.count == 1) && at.answer != nullptr;
  slot.granted = at.granted;
  if (!slot.cached) slot.known_locks = known_locks(at.client);
  // A replay needs no chunk that the first answer had.
  if (slot.cached) slot.reply = flattened(at.answer->message);
}

}  // namespace nfsrdma::testing
