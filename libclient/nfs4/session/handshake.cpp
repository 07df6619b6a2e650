#include "nfs4/session/handshake.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>
#include <utility>

#include "async/backoff.h"
#include "nfs4/compound/retries.h"
#include "nfs4/state/limits.h"
#include "nfs4/state/walk.h"
#include "wire/nfs4/attributes.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

/// Room for headers around the data of one READ or WRITE: RPC header with the largest credential (RFC
/// 5531 8.2: 400 + 400 bytes), COMPOUND, SEQUENCE, PUTFH and the operation itself.
constexpr std::uint32_t kEnvelope = 2048;
/// Smallest request and Reply that the client can work with, even if rsize and wsize are smaller.
constexpr std::uint32_t kLeastSize = 4096;
std::uint32_t with_envelope(std::uint32_t size) {
  return std::max(size + kEnvelope, kLeastSize);
}
/// Replies worth caching are those of operations that change something: OPEN with attributes is the largest.
constexpr std::uint32_t kCachedResponse = 4096;
constexpr std::uint32_t kWantedOperations = 50;
/// How often another csa_sequence is tried before EXCHANGE_ID is asked for it.
constexpr int kMostCorrections = 3;

/// Whether EXCHANGE_ID helps: the server does not know the client or its session any more, as after a
/// restart, or it counts its CREATE_SESSIONs differently.
bool is_forgotten(const Error& error) {
  return CallLayer::is_lost_session(static_cast<nfsstat4>(error.status())) ||
         error.status() == NFS4ERR_SEQ_MISORDERED;
}

bool is_too_small(const channel_attrs4& fore) {
  return fore.ca_maxrequests == 0 || fore.ca_maxoperations < 8 || fore.ca_maxrequestsize < kLeastSize ||
         fore.ca_maxresponsesize < kLeastSize;
}

/// The operations on the client's session that only the machine's own credential may execute (SP4_MACH_CRED,
/// RFC 8881 2.4.3). Linux asks for the same ones.
const bitmap4& protected_operations() {
  static const bitmap4 map = [] {
    bitmap4 out;
    out.value.resize(2);
    for (const nfs_opnum4 one : {OP_BIND_CONN_TO_SESSION, OP_EXCHANGE_ID, OP_CREATE_SESSION,
                                 OP_DESTROY_SESSION, OP_DESTROY_CLIENTID}) {
      out.value[one / 32] |= 1U << (one % 32);
    }
    return out;
  }();
  return map;
}

/// Whether the server protects no operations beyond those, because this client sends the rest with other
/// credentials than the machine's.
bool is_as_asked(const state_protect4_r& answer) {
  if (answer.tag() == SP4_NONE) return true;
  const state_protect_ops4* const ops = answer.get<SP4_MACH_CRED>();
  return ops != nullptr && union_of(ops->spo_must_enforce, protected_operations()) == protected_operations();
}

bool does_not_protect(nfsstat4 status) {
  switch (status) {
    case NFS4ERR_INVAL:
    case NFS4ERR_NOTSUPP:
    case NFS4ERR_BADXDR:
    case NFS4ERR_SERVERFAULT:
      return true;
    default:
      return false;
  }
}

}  // namespace

// ---- the beginning ----

async::Task<Status> Handshake::begin(async::TimePoint deadline) {
  const SessionOptions& options = parts_.options;
  for (facts_.minor_version = options.minor_version;; --facts_.minor_version) {
    auto done = co_await exchange_id(deadline);
    if (done) break;
    const bool older = done.error().status() == static_cast<unsigned>(NFS4ERR_MINOR_VERS_MISMATCH);
    if (!older || options.minor_version_fixed || facts_.minor_version == 1) co_return done;
  }
  async::Loop& loop = parts_.calls.loop();
  async::Backoff delay(100ms, 5s);
  for (;;) {
    auto done = co_await begin_session(deadline);
    if (done || !is_forgotten(done.error())) co_return done;
    if (loop.now() + delay.next() >= deadline) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "CREATE_SESSION", parts_.calls.server(),
                      "the server forgot this client before the session was created, as happens while it "
                      "restarts; try again");
    }
    co_await loop.sleep_for(delay.take());
    start_over_if_hopeless();
    if (auto known = co_await exchange_id(deadline); !known) co_return known;
  }
}

async::Task<Status> Handshake::begin_session(async::TimePoint deadline) {
  nfsstat4 status = NFS4_OK;
  if (auto done = co_await create_session(deadline, status); !done) co_return done;
  auto has_limits = co_await make_first_call(deadline);
  if (!has_limits) co_return has_limits.error();
  if (auto done = co_await reclaim_complete(deadline); !done) co_return done;
  if (*has_limits) co_return Status();
  co_return co_await fetch_limits(deadline);
}

/// RECLAIM_COMPLETE comes first, because the server may refuse what is asked for behind it.
Compound Handshake::first_compound(bool asks_about_target) const {
  CallLayer& calls = parts_.calls;
  Compound out = calls.begin("RECLAIM_COMPLETE", nullptr, calls.root_mark());
  if (reclaim_pending_) out.add<op::RECLAIM_COMPLETE>({false});
  add_limits(out);
  if (asks_about_target) ask_about_target(out, *parts_.options.target);
  return out;
}

/// Returns whether the server has reported its limits. If it has not executed RECLAIM_COMPLETE,
/// reclaim_pending_ stays true.
async::Task<Result<bool>> Handshake::make_first_call(async::TimePoint deadline) {
  CallLayer& calls = parts_.calls;
  const SessionOptions& options = parts_.options;
  bool asks_about_target = options.target && options.flavor && options.flavor->has_choice();
  std::optional<Compound> compound(first_compound(asks_about_target));
  // A long path is asked about by negotiate(), in as many COMPOUNDs as it takes.
  if (!fits(facts_, *compound)) {
    asks_about_target = false;
    compound.emplace(first_compound(asks_about_target));
  }
  auto reply = co_await calls.call_in_recovery(*std::move(compound), deadline);
  if (!reply) co_return reply.error();
  if (reclaim_pending_ && !reply->take<op::RECLAIM_COMPLETE>()) co_return false;
  reclaim_pending_ = false;
  auto has_limits = take_limits(*reply, calls.server(), facts_);
  if (has_limits && *has_limits && asks_about_target)
    take_about_target(*reply, *options.target, parts_.crossings);
  co_return has_limits;
}

// ---- the client id ----

Compound Handshake::exchange_id_compound() const {
  const std::string& owner = parts_.options.owner_id;
  EXCHANGE_ID4args args;
  args.eia_clientowner.co_verifier = verifier_;
  const auto id = std::as_bytes(std::span(owner.data(), owner.size()));
  args.eia_clientowner.co_ownerid.value.assign(id.begin(), id.end());
  nfs_impl_id4 implementation;
  implementation.nii_domain.value = "nfsrdma";  // knfsd refuses an empty one
  implementation.nii_name.value = "nfsrdma " NFSRDMA_VERSION;
  args.eia_client_impl_id.value.push_back(std::move(implementation));
  if (protects_state_)
    args.eia_state_protect.emplace<SP4_MACH_CRED>().spo_must_enforce = protected_operations();
  Compound compound = parts_.calls.begin_alone("EXCHANGE_ID");
  compound.add<op::EXCHANGE_ID>(args);
  return compound;
}

async::Task<Status> Handshake::exchange_id(async::TimePoint deadline) {
  CallLayer& calls = parts_.calls;
  for (Retries retries(calls.loop(), deadline);;) {
    rpc::Channel* over = nullptr;
    auto reply = co_await parts_.lanes.call_alone(exchange_id_compound(), deadline, &over);
    if (!reply) co_return reply.error();
    EXCHANGE_ID4res res;
    const bool known = reply->take<op::EXCHANGE_ID>(res);
    const bool again = co_await retries.again(reply->failed_status());
    if (again) continue;
    // If the server rejects SP4_MACH_CRED for any reason, the client continues with SP4_NONE.
    const bool protects_too_much = known ? !is_as_asked(res.get<NFS4_OK>()->eir_state_protect)
                                         : does_not_protect(reply->failed_status());
    if (protects_state_ && protects_too_much) {
      protects_state_ = false;
      continue;
    }
    if (!known) co_return calls.error_of(*reply, "EXCHANGE_ID", calls.server());
    take_client(*res.get<NFS4_OK>());
    known_over_ = over;
    co_return Status();
  }
}

async::Task<Result<bool>> Handshake::leads_to_server(rpc::Channel& channel, async::TimePoint deadline) {
  CallLayer& calls = parts_.calls;
  Compound compound = exchange_id_compound();
  auto reply = co_await calls.call_over(channel, compound, deadline);
  if (!reply) co_return reply.error();
  EXCHANGE_ID4res res;
  if (!reply->take<op::EXCHANGE_ID>(res)) co_return calls.error_of(*reply, "EXCHANGE_ID", channel.server());
  const auto& ok = *res.get<NFS4_OK>();
  if (std::tie(ok.eir_server_owner, ok.eir_server_scope.value) !=
      std::tie(facts_.server_owner, facts_.server_scope)) {
    co_return false;
  }
  if (ok.eir_clientid != facts_.client_id)
    co_return status_error(NFS4ERR_STALE_CLIENTID, "EXCHANGE_ID", channel.server());
  co_return true;
}

void Handshake::take_client(const EXCHANGE_ID4resok& ok) {
  // After a restart a server may count its client ids from where it began before, so the same
  // id may be a new one.
  const bool another = std::exchange(forgotten_, false) || ok.eir_clientid != facts_.client_id;
  const bool confirmed = (ok.eir_flags & EXCHGID4_FLAG_CONFIRMED_R) != 0;
  create_sequence_.told(ok.eir_sequenceid, !another && confirmed);
  if (another) unanswered_.reset();
  facts_.client_id = ok.eir_clientid;
  facts_.protects_state = ok.eir_state_protect.tag() == SP4_MACH_CRED;
  // The sessions of an earlier client id have ended with it.
  if (another) further_.clear();
  if (another) destroying_.clear();
  // The state under this client id is still there, unless the server said that it restarted.
  if (another || reclaim_wanted_) ++facts_.epoch;
  // For a client id that lives on, RECLAIM_COMPLETE was sent before. If it were sent again to a server
  // that keeps client ids through a restart, it would end the reclaim that SEQUENCE is about to ask
  // for (RFC 8881 18.46.3).
  reclaim_pending_ = reclaim_pending_ || another || reclaim_wanted_ || !confirmed;
  facts_.server_owner = ok.eir_server_owner;
  facts_.server_scope = ok.eir_server_scope.value;
  if (!ok.eir_server_impl_id.value.empty()) {
    const nfs_impl_id4& impl = ok.eir_server_impl_id.value.front();
    facts_.implementation_name = impl.nii_name.value;
    facts_.implementation_domain = impl.nii_domain.value;
    facts_.implementation_date = Time{impl.nii_date.seconds, impl.nii_date.nseconds};
  }
}

/// Changes the verifier, which makes this a new instance of the client (RFC 8881 2.4). It begins with the
/// csa_sequence that EXCHANGE_ID returns; the server drops the state of the old instance.
void Handshake::be_another_instance() {
  for (std::byte& byte : verifier_) {
    byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + 1);
    if (byte != std::byte{0}) break;
  }
  create_sequence_ = CreateSequence();
  unanswered_.reset();
}

// ---- the session ----

/// The answer to a CREATE_SESSION, and the connection that it came on.
struct Handshake::Created {
  CREATE_SESSION4resok session;
  const rpc::Channel* over = nullptr;
};

async::Task<Status> Handshake::create_session(async::TimePoint deadline, nfsstat4& status) {
  auto created = co_await create(Which::first, deadline, status);
  if (!created) co_return created.error();
  take_session(created->session, *created->over);
  co_return Status();
}

async::Task<Result<Handshake::Created>> Handshake::create(Which which, async::TimePoint deadline,
                                                          nfsstat4& status) {
  status = NFS4_OK;
  const async::Mutex::Lock turn = co_await creating_.lock(deadline);
  if (turn && unanswered_ && *unanswered_ != which) co_await settle_unanswered(deadline);
  if (!turn || (unanswered_ && *unanswered_ != which)) {
    co_return Error(ErrorKind::timeout, ETIMEDOUT, "CREATE_SESSION", parts_.calls.server(),
                    "the server has not answered the CREATE_SESSION before; check the server");
  }
  Retries retries(parts_.calls.loop(), deadline);
  for (int tries = 0;;) {
    unanswered_ = which;
    const CREATE_SESSION4args args = create_session_arguments(which);
    auto done = co_await create_once(args, deadline, status);
    if (CallLayer::was_handed_back(done)) continue;
    // The next CREATE_SESSION may have another csa_sequence, because a server may repeat the refusal from its
    // cache, or may have counted differently from this client.
    const bool corrected = status == NFS4ERR_SEQ_MISORDERED && create_sequence_.next() != args.csa_sequence;
    if (!done && corrected && ++tries < kMostCorrections) continue;
    const bool again = co_await retries.again(status);
    if (!again) co_return done;
    // A server may have counted the request that it answered by DELAY or not, so the csa_sequence
    // is to be found anew.
    tries = 0;
  }
}

/// Has the server answer the CREATE_SESSION whose answer was lost, and gives up the session that it may have made. If that
/// is not answered either, unanswered_ stays.
async::Task<void> Handshake::settle_unanswered(async::TimePoint deadline) {
  nfsstat4 status = NFS4_OK;
  for (bool again = true; again;) {
    const CREATE_SESSION4args args = create_session_arguments(*unanswered_);
    auto created = co_await create_once(args, deadline, status);
    again = CallLayer::was_handed_back(created) && unanswered_;
    if (created) give_up(created->session.csr_sessionid);
  }
}

/// Destroys a session in the background, or at the end.
void Handshake::give_up(const sessionid4& session) {
  destroying_.push_back(session);
  // The server refuses this while a request hangs there.
  if (!parts_.calls.ending())
    parts_.calls.background().spawn(destroy_further(session, parts_.calls.default_deadline()));
}

CREATE_SESSION4args Handshake::create_session_arguments(Which which) {
  const SessionOptions& options = parts_.options;
  CREATE_SESSION4args args;
  args.csa_clientid = facts_.client_id;
  args.csa_sequence = create_sequence_.next();
  // Sizes that this client can take: its buffers are those of rsize and wsize with their envelope.
  args.csa_fore_chan_attrs = {0,
                              with_envelope(options.wsize),
                              with_envelope(options.rsize),
                              kCachedResponse,
                              kWantedOperations,
                              options.slots,
                              {}};
  if (which == Which::first) {
    args.csa_flags = parts_.lanes.wants_backchannel() ? CREATE_SESSION4_FLAG_CONN_BACK_CHAN : 0;
    parts_.backchannel.announce(parts_.lanes.backchannel_attributes());
  }
  args.csa_back_chan_attrs = parts_.backchannel.announced();
  args.csa_cb_program = NFS4_CALLBACK;
  // The server may call back with root's credential, as in Linux, or with AUTH_NONE.
  auto& flavors = args.csa_sec_parms.value;
  flavors.emplace_back().emplace<kAuthSys>().machinename.value = "nfsrdma";
  flavors.emplace_back();  // AUTH_NONE
  return args;
}

async::Task<Result<Handshake::Created>> Handshake::create_once(const CREATE_SESSION4args& args,
                                                               async::TimePoint deadline, nfsstat4& status) {
  CallLayer& calls = parts_.calls;
  status = NFS4_OK;
  Compound compound = calls.begin_alone("CREATE_SESSION");
  compound.add<op::CREATE_SESSION>(args);
  rpc::Channel& over = parts_.lanes.route_alone(known_over_);
  auto reply = co_await calls.call_over(over, compound, deadline);
  if (!reply) co_return reply.error();
  CREATE_SESSION4res res;
  const bool created = reply->take<op::CREATE_SESSION>(res);
  status = reply->failed_status();
  // EXCHANGE_ID may have changed the client id meanwhile, and what is next.
  const bool is_answer = created || status != NFS4_OK;
  if (is_answer && args.csa_clientid == facts_.client_id && args.csa_sequence == create_sequence_.next()) {
    create_sequence_.answered(status);
    unanswered_.reset();
    forgotten_ = forgotten_ || status == NFS4ERR_STALE_CLIENTID;
  }
  if (!created) co_return calls.error_of(*reply, "CREATE_SESSION", calls.server());
  const auto& ok = *res.get<NFS4_OK>();
  if (is_too_small(ok.csr_fore_chan_attrs)) {
    // The server has created the session all the same, and would create one more with each try.
    co_await destroy_old_session(ok.csr_sessionid, deadline);
    co_return Error(ErrorKind::protocol, EPROTO, "CREATE_SESSION", calls.server(),
                    "the server offers a session too small to work with; raise its session limits");
  }
  Created out{ok, &over};
  co_return out;
}

void Handshake::take_session(const CREATE_SESSION4resok& ok, const rpc::Channel& over) {
  const SessionOptions& options = parts_.options;
  const channel_attrs4& fore = ok.csr_fore_chan_attrs;
  facts_.session_id = ok.csr_sessionid;
  facts_.slots = std::min(fore.ca_maxrequests, options.slots);
  facts_.max_request = fore.ca_maxrequestsize;
  facts_.max_response = std::min(fore.ca_maxresponsesize, with_envelope(options.rsize));
  facts_.max_response_cached = fore.ca_maxresponsesize_cached;
  facts_.max_operations = fore.ca_maxoperations;
  parts_.slots.reset(facts_.slots);
  facts_.backchannel =
      (ok.csr_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN) != 0 && parts_.lanes.wants_backchannel();
  parts_.backchannel.reset(ok.csr_sessionid, facts_.minor_version, ok.csr_back_chan_attrs);
  known_over_ = nullptr;
  parts_.lanes.rebind_all(over);
}

async::Task<Result<Handshake::FurtherSession>> Handshake::create_further(std::size_t number,
                                                                         async::TimePoint deadline) {
  const std::uint64_t epoch = facts_.epoch;
  nfsstat4 status = NFS4_OK;
  auto created = co_await create(Which::further, deadline, status);
  if (!created) co_return created.error();
  const CREATE_SESSION4resok& ok = created->session;
  if (facts_.epoch != epoch || parts_.calls.ending()) {
    // A recovery has begun since, or the end. If the client id is another one now, the session has ended with the old one.
    if (ok.csr_sessionid != facts_.session_id) give_up(ok.csr_sessionid);
    co_return status_error(NFS4ERR_STALE_CLIENTID, "CREATE_SESSION", parts_.calls.server());
  }
  if (further_.size() <= number) further_.resize(number + 1);
  const sessionid4 old = std::exchange(further_[number], ok.csr_sessionid);
  if (old != sessionid4{} && old != ok.csr_sessionid) give_up(old);
  FurtherSession out;
  out.id = ok.csr_sessionid;
  out.slots = std::min(ok.csr_fore_chan_attrs.ca_maxrequests, parts_.options.slots);
  out.max_response = std::min(ok.csr_fore_chan_attrs.ca_maxresponsesize, with_envelope(parts_.options.rsize));
  out.epoch = epoch;
  co_return out;
}

async::Task<bool> Handshake::end_further(sessionid4 session, async::TimePoint deadline) {
  const auto in_use = std::ranges::find(further_, session);
  if (in_use != further_.end()) {
    *in_use = {};
    destroying_.push_back(session);
  }
  // A session that is not there has ended with its client id, or has been destroyed already.
  const auto exists = [&] { return std::ranges::find(destroying_, session) != destroying_.end(); };
  async::Loop& loop = parts_.calls.loop();
  for (async::Backoff pause(kFirstDelay, kMostDelay); exists();) {
    co_await destroy_further(session, deadline);
    if (!exists()) break;
    if (loop.now() + pause.next() >= deadline) co_return false;
    co_await loop.sleep_for(pause.take());
  }
  co_return true;
}

async::Task<void> Handshake::destroy_further(sessionid4 session, async::TimePoint deadline) {
  const bool gone = co_await destroy_old_session(session, deadline);
  if (gone) std::erase(destroying_, session);
}

async::Task<Status> Handshake::reclaim_complete(async::TimePoint deadline) {
  if (!reclaim_pending_) co_return Status();
  CallLayer& calls = parts_.calls;
  for (Retries retries(calls.loop(), deadline);;) {
    Compound compound = calls.begin("RECLAIM_COMPLETE");
    compound.add<op::RECLAIM_COMPLETE>({false});
    auto reply = co_await calls.call_in_recovery(std::move(compound), deadline);
    if (!reply) co_return reply.error();
    // COMPLETE_ALREADY: an earlier RECLAIM_COMPLETE has been executed (RFC 8881 18.51.3).
    if (reply->take<op::RECLAIM_COMPLETE>() || reply->failed_status() == NFS4ERR_COMPLETE_ALREADY) {
      reclaim_pending_ = false;
      co_return Status();
    }
    const bool again = co_await retries.again(reply->failed_status());
    if (!again) co_return calls.error_of(*reply, "RECLAIM_COMPLETE", calls.server());
  }
}

async::Task<Status> Handshake::fetch_limits(async::TimePoint deadline) {
  return nfs4::fetch_limits(parts_.calls, facts_, deadline);
}

// ---- the end ----

/// Makes the call of an operation that is alone in its COMPOUND, and so needs no SEQUENCE (RFC 8881 18.37.3,
/// 18.50.3). `status`: the server's answer; NFS4_OK also if there was none. `over`: see Lanes::call_alone().
template <class Op>
async::Task<Status> Handshake::call_alone(typename Op::Args args, async::TimePoint deadline, nfsstat4& status,
                                          rpc::Channel** over) {
  for (Retries retries(parts_.calls.loop(), deadline);;) {
    status = NFS4_OK;
    Compound compound = parts_.calls.begin_alone(Op::name);
    compound.add<Op>(args);
    auto reply = co_await parts_.lanes.call_alone(std::move(compound), deadline, over);
    if (!reply) co_return reply.error();
    if (reply->template take<Op>()) co_return Status();
    status = reply->failed_status();
    const bool again = co_await retries.again(status);
    if (!again) co_return parts_.calls.error_of(*reply, Op::name, parts_.calls.server());
  }
}

async::Task<bool> Handshake::destroy_old_session(sessionid4 session, async::TimePoint deadline) {
  // If the first session has its id now, the server has begun to count its sessions anew, and has this one no more.
  if (session == facts_.session_id) co_return true;
  nfsstat4 status = NFS4_OK;
  const Status done = co_await destroy_session(session, deadline, status);
  co_return done.has_value();
}

/// A session that is gone is what was wanted.
async::Task<Status> Handshake::destroy_session(sessionid4 session, async::TimePoint deadline,
                                               nfsstat4& status) {
  const DESTROY_SESSION4args args{session};
  async::Loop& loop = parts_.calls.loop();
  async::Backoff pause(kFirstDelay, kMostDelay);
  for (int binds = 0;;) {
    rpc::Channel* over = nullptr;
    auto done = co_await call_alone<op::DESTROY_SESSION>(args, deadline, status, &over);
    if (CallLayer::is_lost_session(status)) co_return Status();
    // RFC 8881 18.37.3: a server may want DESTROY_SESSION on a connection of that session.
    if (status != NFS4ERR_CONN_NOT_BOUND_TO_SESSION || loop.now() + pause.next() >= deadline) co_return done;
    if (++binds > kQuickTries) co_await loop.sleep_for(pause.take());
    if (!co_await parts_.lanes.bind_to(*over, session, deadline)) co_return done;
  }
}

async::Task<Status> Handshake::end(async::TimePoint deadline) {
  nfsstat4 status = NFS4_OK;
  auto done = co_await destroy(deadline, status);
  // The server still has state of this client that is not known here, from an OPEN whose answer was lost.
  // The server drops the state of a client instance when another instance follows (RFC 8881
  // 2.4). The new instance can then be destroyed, because it never had any state.
  if (status != NFS4ERR_CLIENTID_BUSY) co_return done;
  be_another_instance();
  if (auto known = co_await exchange_id(deadline); !known) co_return known;
  if (auto created = co_await create_session(deadline, status); !created) co_return created;
  co_return co_await destroy(deadline, status);
}

/// Destroys the sessions and the client id. `status`: the server's answer to the operation that failed.
async::Task<Status> Handshake::destroy(async::TimePoint deadline, nfsstat4& status) {
  // The server keeps the client id for as long as it has any of them. One in which a request hangs gets some of the time.
  async::Loop& loop = parts_.calls.loop();
  const async::TimePoint soon = loop.now() + (deadline - loop.now()) / 2;
  if (unanswered_ == Which::further) co_await settle_unanswered(soon);
  for (const auto* const some : {&further_, &destroying_}) {
    const std::vector<sessionid4> all = *some;
    for (const sessionid4& one : all) {
      if (one != sessionid4{}) co_await destroy_old_session(one, soon);
    }
  }
  auto destroyed = co_await destroy_session(facts_.session_id, deadline, status);
  if (!destroyed) co_return destroyed;
  const DESTROY_CLIENTID4args client{facts_.client_id};
  auto forgotten = co_await call_alone<op::DESTROY_CLIENTID>(client, deadline, status);
  if (status == NFS4ERR_STALE_CLIENTID) co_return Status();
  co_return forgotten;
}

}  // namespace nfsrdma::nfs4
