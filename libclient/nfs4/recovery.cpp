// How a session begins, and how it comes back (RFC 8881 2.4, 2.10, 8.4): EXCHANGE_ID, CREATE_SESSION, the
// reclaim of open files, RECLAIM_COMPLETE, and the end by DESTROY_SESSION and DESTROY_CLIENTID.
#include <algorithm>
#include <cerrno>

#include "async/backoff.h"
#include "async/under_way.h"
#include "nfs4/file.h"
#include "nfs4/session.h"
#include "nfs4/types/attributes.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

/// Room for headers around the data of one READ or WRITE: RPC header with the largest credential (RFC
/// 5531 8.2: 400 + 400 bytes), COMPOUND, SEQUENCE, PUTFH and the operation itself.
constexpr std::uint32_t kEnvelope = 2048;
/// Replies worth caching are those of operations that change something: OPEN with attributes is the largest.
constexpr std::uint32_t kCachedResponse = 4096;
constexpr std::uint32_t kMostOperations = 50;
/// How often another csa_sequence is tried before EXCHANGE_ID is asked for it.
constexpr int kMostCorrections = 3;
constexpr async::Clock::duration kDrainFor = 10s;

std::string text_of(const std::vector<std::byte>& bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    const auto c = static_cast<char>(b);
    out += c >= 0x20 && c < 0x7f ? c : '.';
  }
  return out;
}

Error closed_meanwhile(const std::string& path) {
  return {ErrorKind::usage, EBADF, "OPEN", path, "the file has been closed"};
}

/// The server does not know the client or its session any more, as after a restart, or counts its
/// CREATE_SESSIONs otherwise: EXCHANGE_ID helps.
bool is_forgotten(const Error& error) {
  return error.status() == NFS4ERR_STALE_CLIENTID || error.status() == NFS4ERR_BADSESSION ||
         error.status() == NFS4ERR_DEADSESSION || error.status() == NFS4ERR_SEQ_MISORDERED;
}

/// g++ 12 does not take a braced list inside a coroutine.
const bitmap4& server_limits() {
  static const bitmap4 map = bitmap_of({FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE});
  return map;
}

}  // namespace

async::Task<Status> Session::open(async::TimePoint deadline) {
  for (facts_.minor_version = options_.minor_version;; --facts_.minor_version) {
    auto done = co_await exchange_id(deadline);
    if (done) break;
    const bool older = done.error().status() == static_cast<unsigned>(NFS4ERR_MINOR_VERS_MISMATCH);
    if (!older || options_.minor_version_fixed || facts_.minor_version == 1) co_return done;
  }
  async::Backoff delay(100ms, 5s);
  for (;;) {
    auto done = co_await begin_session(deadline);
    if (done) break;
    if (!is_forgotten(done.error())) co_return done;
    if (loop().now() + delay.next() >= deadline) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "CREATE_SESSION", channel_.server(),
                      "the server forgets the session before it has begun, as while it restarts; try again");
    }
    co_await loop().sleep_for(delay.take());
    if (create_sequence_.is_hopeless()) be_another_instance();
    if (auto known = co_await exchange_id(deadline); !known) co_return known;
  }
  phase_ = Phase::open;
  lease_.arm();
  co_return Status();
}

async::Task<Status> Session::begin_session(async::TimePoint deadline) {
  nfsstat4 status = NFS4_OK;
  if (auto done = co_await create_session(deadline, status); !done) co_return done;
  if (auto done = co_await reclaim_complete(deadline); !done) co_return done;
  co_return co_await fetch_limits(deadline);
}

async::Task<Result<CompoundReply>> Session::call_over(rpc::Channel& channel, Compound& compound,
                                                      async::TimePoint deadline) {
  rpcrdma::Call call = compound.release(compound.reply_size().max_inline, deadline);
  call.health_check = call.first = true;  // the calls that wait for credits wait for this, too
  rpc::Outcome outcome = co_await channel.call(std::move(call));
  compound.restore(std::move(outcome.message));
  CallCounters& counted = counters_.of(compound.what());
  counted.ended(compound.message(), outcome);
  if (outcome.failure != rpcrdma::Failure::none) co_return *outcome.error;
  CompoundReply reply(channel, std::move(*outcome.reply));
  const bool begun = reply.begin();
  counted.refused += begun && reply.status() == NFS4_OK ? 0 : 1;
  if (!begun) co_return rpc::refusal_error(reply.rpc_header(), compound.what(), channel_.server());
  co_return reply;
}

async::Task<Status> Session::exchange_id(async::TimePoint deadline) {
  Compound compound = begin_alone("EXCHANGE_ID");
  EXCHANGE_ID4args args;
  args.eia_clientowner.co_verifier = options_.verifier;
  const auto id = std::as_bytes(std::span(options_.owner_id.data(), options_.owner_id.size()));
  args.eia_clientowner.co_ownerid.value.assign(id.begin(), id.end());
  nfs_impl_id4 implementation;
  implementation.nii_domain.value = "nfsrdma";  // knfsd refuses an empty one
  implementation.nii_name.value = "nfsrdma " NFSRDMA_VERSION;
  args.eia_client_impl_id.value.push_back(std::move(implementation));
  compound.add<op::EXCHANGE_ID>(args);
  auto reply = co_await lanes_.call_alone(std::move(compound), deadline);
  if (!reply) co_return reply.error();
  EXCHANGE_ID4res res;
  if (!reply->take<op::EXCHANGE_ID>(res)) co_return error_of(*reply, "EXCHANGE_ID", channel_.server());
  const auto& ok = *res.get<NFS4_OK>();
  const bool another = ok.eir_clientid != facts_.client_id;
  create_sequence_.told(ok.eir_sequenceid, !another && (ok.eir_flags & EXCHGID4_FLAG_CONFIRMED_R) != 0);
  facts_.client_id = ok.eir_clientid;
  // What was had under this client id is still had, unless the server said that it restarted.
  if (another || reclaim_needed_) ++facts_.epoch;
  reclaim_pending_ = true;
  facts_.server_owner = text_of(ok.eir_server_owner.so_major_id.value);
  facts_.server_scope = text_of(ok.eir_server_scope.value);
  if (!ok.eir_server_impl_id.value.empty()) {
    const nfs_impl_id4& impl = ok.eir_server_impl_id.value.front();
    facts_.implementation_name = impl.nii_name.value;
    facts_.implementation_domain = impl.nii_domain.value;
    facts_.implementation_date = Time{impl.nii_date.seconds, impl.nii_date.nseconds};
  }
  co_return Status();
}

/// `status`: what the server said; NFS4_OK also where it said nothing.
async::Task<Status> Session::create_session(async::TimePoint deadline, nfsstat4& status) {
  async::Backoff delay(50ms, 2s);
  for (int tries = 0;;) {
    const sequenceid4 used = create_sequence_.next();
    auto done = co_await create_session_once(deadline, status);
    if (was_handed_back(done)) continue;
    // The next one may bear another csa_sequence: a server may remember that it said so, or have counted
    // otherwise than we did.
    const bool corrected = status == NFS4ERR_SEQ_MISORDERED && create_sequence_.next() != used;
    if (!done && corrected && ++tries < kMostCorrections) continue;
    if (done || status != NFS4ERR_DELAY || loop().now() + delay.next() >= deadline) co_return done;
    co_await loop().sleep_for(delay.take());
  }
}

async::Task<Status> Session::create_session_once(async::TimePoint deadline, nfsstat4& status) {
  status = NFS4_OK;
  Compound compound = begin_alone("CREATE_SESSION");
  CREATE_SESSION4args args;
  args.csa_clientid = facts_.client_id;
  args.csa_sequence = create_sequence_.next();
  args.csa_flags = lanes_.wants_backchannel() ? CREATE_SESSION4_FLAG_CONN_BACK_CHAN : 0;
  // Sizes that this client can take: its buffers are those of rsize and wsize with their envelope.
  args.csa_fore_chan_attrs = {0,
                              options_.wsize + kEnvelope,
                              options_.rsize + kEnvelope,
                              kCachedResponse,
                              kMostOperations,
                              options_.slots,
                              {}};
  callbacks_.announce(lanes_.backchannel_attributes());
  args.csa_back_chan_attrs = callbacks_.announced();
  args.csa_cb_program = NFS4_CALLBACK;
  args.csa_sec_parms.value.emplace_back();  // AUTH_NONE
  compound.add<op::CREATE_SESSION>(args);
  rpc::Channel& over = lanes_.route();
  auto reply = co_await call_over(over, compound, deadline);
  if (!reply) co_return reply.error();
  CREATE_SESSION4res res;
  const bool created = reply->take<op::CREATE_SESSION>(res);
  status = reply->failed_status();
  if (created || status != NFS4_OK) create_sequence_.answered(status);
  if (!created) {
    co_return error_of(*reply, "CREATE_SESSION", channel_.server());
  }
  const auto& ok = *res.get<NFS4_OK>();
  const auto& fore = ok.csr_fore_chan_attrs;
  if (fore.ca_maxrequests == 0 || fore.ca_maxoperations < 8 || fore.ca_maxrequestsize < 4096 ||
      fore.ca_maxresponsesize < 4096) {
    co_return Error(ErrorKind::protocol, EPROTO, "CREATE_SESSION", channel_.server(),
                    "the server offers a session too small to work with; raise its session limits");
  }
  facts_.session_id = ok.csr_sessionid;
  facts_.slots = std::min(fore.ca_maxrequests, options_.slots);
  facts_.max_request = fore.ca_maxrequestsize;
  facts_.max_response = std::min(fore.ca_maxresponsesize, options_.rsize + kEnvelope);
  facts_.max_response_cached = fore.ca_maxresponsesize_cached;
  facts_.max_operations = fore.ca_maxoperations;
  slots_.reset(facts_.slots);
  facts_.backchannel =
      (ok.csr_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN) != 0 && lanes_.wants_backchannel();
  callbacks_.reset(ok.csr_sessionid, facts_.minor_version, ok.csr_back_chan_attrs);
  lanes_.rebind_all(over);
  co_return Status();
}

async::Task<Status> Session::reclaim_complete(async::TimePoint deadline) {
  Compound compound = begin("RECLAIM_COMPLETE");
  compound.add<op::RECLAIM_COMPLETE>({false});
  auto reply = co_await call_in_recovery(std::move(compound), deadline);
  if (!reply) co_return reply.error();
  // A server that was told already has what it wants (RFC 8881 18.51.3).
  if (reply->take<op::RECLAIM_COMPLETE>() || reply->failed_status() == NFS4ERR_COMPLETE_ALREADY) {
    reclaim_pending_ = false;
    co_return Status();
  }
  co_return error_of(*reply, "RECLAIM_COMPLETE", channel_.server());
}

async::Task<Status> Session::fetch_limits(async::TimePoint deadline) {
  Compound compound = begin("GETATTR");
  compound.add<op::PUTROOTFH>();
  compound.add<op::GETATTR>({server_limits()});
  auto reply = co_await call_in_recovery(std::move(compound), deadline);
  if (!reply) co_return reply.error();
  GETATTR4res res;
  WireAttributes attributes;
  if (!reply->take<op::PUTROOTFH>() || !reply->take<op::GETATTR>(res)) {
    co_return error_of(*reply, "GETATTR", channel_.server());
  }
  if (!decode_attributes(res.get<NFS4_OK>()->obj_attributes, attributes) ||
      attributes.lease_time.value_or(0) == 0) {
    co_return Error(ErrorKind::protocol, EPROTO, "GETATTR", channel_.server(),
                    "the server does not tell its lease time");
  }
  facts_.lease_seconds = *attributes.lease_time;
  facts_.max_read = attributes.maxread.value_or(~0ULL);
  facts_.max_write = attributes.maxwrite.value_or(~0ULL);
  co_return Status();
}

// ---- recovery ----

void Session::start_recovery(const char* why, bool works) {
  if (recovering_ || phase_ != Phase::open) return;
  recovering_ = true;
  ++counters_.recoveries;
  notices_(channel_.server() + ": " + why + ", recovering");
  beside_.spawn(recover(works));
}

async::Task<void> Session::recover(bool works) {
  // What is under way may still be answered, here or on another connection, which it would not be on the next
  // session. Others wait meanwhile.
  if (works) (void)co_await slots_.drained(loop().now() + kDrainFor);
  async::Backoff delay(100ms, 5s);
  for (;;) {
    const auto done = co_await recover_once(loop().now() + options_.timeout);
    if (done) break;
    last_recovery_error_ = done.error();
    co_await loop().sleep_for(delay.take());
  }
  last_recovery_error_.reset();
  recovering_ = false;
  reclaim_needed_ = false;
  hold_connections();  // delegations may have been lost
  notices_(channel_.server() + ": session recovered");
  recovered_.notify_all();
  if (slots_.table().is_spent()) start_recovery("too many requests went unanswered", true);
}

async::Task<Status> Session::recover_once(async::TimePoint deadline) {
  nfsstat4 status = NFS4_OK;
  const sessionid4 old = facts_.session_id;
  const bool same_client = !reclaim_needed_ && !reclaim_pending_;
  if (same_client) {
    auto done = co_await create_session(deadline, status);
    if (done) co_await destroy_old_session(old, deadline);
    if (done) co_return done;
    if (status == NFS4_OK) co_return done;  // no answer: nothing was learnt
  }
  const clientid4 old_client = facts_.client_id;
  if (create_sequence_.is_hopeless()) be_another_instance();
  if (auto done = co_await exchange_id(deadline); !done) co_return done;
  if (auto done = co_await create_session(deadline, status); !done) co_return done;
  if (facts_.client_id == old_client) co_await destroy_old_session(old, deadline);
  if (auto done = co_await reclaim_opens(deadline); !done) co_return done;
  if (auto done = co_await reclaim_complete(deadline); !done) co_return done;
  // Another server program may have come up, with another configuration. One that does not say keeps what it
  // had; a lost connection shows in the next call.
  (void)co_await fetch_limits(deadline);
  lease_.arm();
  co_return Status();
}

/// The server and this client do not agree on the next csa_sequence, whatever was tried. With another
/// verifier this is a new instance of the client (RFC 8881 2.4), which begins from what EXCHANGE_ID tells;
/// the server drops the state of the old one.
void Session::be_another_instance() {
  for (std::byte& byte : options_.verifier) {
    byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + 1);
    if (byte != std::byte{0}) break;
  }
  create_sequence_ = CreateSequence();
}

/// An operation that is alone in its COMPOUND, and so needs no SEQUENCE (RFC 8881 18.37.3, 18.50.3).
/// `status`: what the server said, NFS4_OK also where it said nothing.
template <class Op>
async::Task<Status> Session::call_alone(typename Op::Args args, async::TimePoint deadline, nfsstat4& status) {
  status = NFS4_OK;
  Compound compound = begin_alone(Op::name);
  compound.add<Op>(args);
  auto reply = co_await lanes_.call_alone(std::move(compound), deadline);
  if (!reply) co_return reply.error();
  if (reply->template take<Op>()) co_return Status();
  status = reply->failed_status();
  co_return error_of(*reply, Op::name, channel_.server());
}

/// The one that was given up, where the server still has it: the client id could not be destroyed otherwise.
async::Task<void> Session::destroy_old_session(sessionid4 session, async::TimePoint deadline) {
  nfsstat4 status = NFS4_OK;
  const DESTROY_SESSION4args args{session};
  (void)co_await call_alone<op::DESTROY_SESSION>(args, deadline, status);
}

/// Opens and locks, before anything else is done under the new client id (RFC 8881 8.4.2.1). A file may be
/// closed, and others be opened, while one is asked for: each is held on to for that time, and the registry
/// is read anew for the next.
async::Task<Status> Session::reclaim_opens(async::TimePoint deadline) {
  for (auto at = opens_.all().begin(); at != opens_.all().end();) {
    const std::shared_ptr<Open> open = at->second;
    const std::uint64_t number = at->first;
    if (!open->lost && open->reclaimable) {
      Status done;
      if (open->epoch != facts_.epoch) {
        done = co_await reclaim_open(open, deadline);
      } else if (open->claiming_locks) {
        // The session went in the middle of it.
        done = co_await claim_locks(open, true, true, deadline);
      }
      if (!done) co_return done;
    }
    at = opens_.all().upper_bound(number);
  }
  co_return Status();
}

/// An Error is about the session or the connection, and reclaiming begins anew. What the server refuses is
/// the file's: it is reported where the file is used.
async::Task<Status> Session::reclaim_open(std::shared_ptr<Open> open, async::TimePoint deadline) {
  if (open->parked) {
    // Nobody would miss it.
    open->lost = Error(ErrorKind::server, EIO, "OPEN", open->path, "the server has restarted");
    end_delegation(*open);
    co_return Status();
  }
  nfsstat4 status = NFS4_OK;
  auto done = co_await claim(open, true, true, deadline, status);
  if (done) co_return co_await claim_locks(open, true, true, deadline);
  const bool undecodable = done.error().kind() == ErrorKind::protocol;
  if (status == NFS4_OK && !undecodable) co_return done;
  if (status == NFS4ERR_DELAY) co_return done;
  end_delegation_of_before(*open);
  // Had again by its file handle when it is used (reopen), after RECLAIM_COMPLETE.
  const bool later =
      status == NFS4ERR_NO_GRACE || status == NFS4ERR_RECLAIM_BAD || status == NFS4ERR_RECLAIM_CONFLICT;
  if (!later) open->lost = done.error();
  // Nor must it be reclaimed after another restart, since the server does not have it now (8.4.3).
  open->reclaimable = false;
  co_return Status();
}

/// What it promised does not hold any more. The server that granted it under this client id is told.
void Session::end_delegation_of_before(Open& open) {
  if (!open.delegation) return;
  if (open.delegation->client == facts_.client_id) {
    start_return(open);
  } else {
    end_delegation(open);
  }
}

async::Task<Status> Session::renew_open(std::shared_ptr<Open> open) {
  nfsstat4 status = NFS4_OK;
  co_return co_await claim(open, false, false, default_deadline(), status);
}

/// OPEN by file handle: CLAIM_PREVIOUS in the grace period, else CLAIM_FH (RFC 8881 18.16). `status`: what
/// the server said to it, NFS4_OK also where there was no answer.
async::Task<Status> Session::claim(std::shared_ptr<Open> open, bool previous, bool recovering,
                                   async::TimePoint deadline, nfsstat4& status) {
  const Openings::Guard opening(openings_);
  const std::uint32_t asked = open->access;
  Compound compound = begin_on(open->file, "OPEN", open->caller);
  compound.add<op::OPEN>(previous ? open_previous(*this, *open) : open_by_handle(*this, *open));
  auto pending =
      recovering ? call_in_recovery(std::move(compound), deadline) : call(std::move(compound), deadline);
  auto reply = co_await pending;
  if (!reply) co_return reply.error();
  OPEN4res res;
  if (!reply->take<op::PUTFH>() || !reply->take<op::OPEN>(res)) {
    status = reply->failed_status();
    co_return error_of(*reply, "OPEN", open->path);
  }
  const OPEN4resok& ok = *res.get<NFS4_OK>();
  if (!open->held) {
    // Closed while it was asked for: nobody else would give back what has just been had.
    leftovers_.close_beside(open->file, ok.stateid);
    return_stray(open->file, ok.delegation);
    if (recovering) co_return Status();
    co_return closed_meanwhile(open->path);
  }
  if (opening.is_over(ok.stateid, *reply)) {
    if (reply->epoch() == facts_.epoch) take_delegation(*open, ok.delegation);
    co_return co_await claim(open, previous, recovering, deadline, status);
  }
  const bool another = ok.stateid.other != open->stateid.other;
  open->opened(ok.stateid, asked);
  // One from before is gone unless this brought it back.
  if (previous || open->epoch != facts_.epoch) {
    if (ok.delegation.tag() == OPEN_DELEGATE_READ) {
      end_delegation(*open);
    } else {
      end_delegation_of_before(*open);
    }
  }
  take_delegation(*open, ok.delegation);
  open->epoch = facts_.epoch;
  open->reclaimable = true;
  if (!another || recovering) co_return Status();
  Status locked;
  if (options_.recover_expired_locks) locked = co_await claim_locks(open, false, false, deadline);
  if (!options_.recover_expired_locks || !locked) lose_locks(*open);
  co_return locked;
}

async::Task<Status> Session::reopen(std::shared_ptr<Open> held, stateid4 used, nfsstat4 why,
                                    async::TimePoint deadline) {
  Open& open = *held;
  if (why == NFS4ERR_STALE_CLIENTID) start_recovery("the server forgot this client");
  bool in_time = co_await ready(deadline);
  if (in_time) in_time = co_await async::until(reopened_, deadline, [&open] { return !open.reopening; });
  if (!in_time) {
    co_return Error(ErrorKind::timeout, ETIMEDOUT, "OPEN", open.path,
                    "the file could not be opened again in time");
  }
  if (open.lost) co_return *open.lost;
  // What was read ahead of a file may be under way when it is closed.
  if (!open.held) co_return closed_meanwhile(open.path);
  if (open.stateid != used) co_return Status();
  const async::Flagged reopening(open.reopening, reopened_);
  nfsstat4 status = NFS4_OK;
  auto done = co_await claim(held, false, false, deadline, status);
  const bool passes = status == NFS4_OK || status == NFS4ERR_DELAY || status == NFS4ERR_GRACE;
  if (is_revoked(why) && (!done || open.stateid.other != used.other)) leftovers_.free_beside(used);
  if (!done && !passes) {
    open.lost = done.error();
    lose_locks(open);
  }
  co_return done;
}

async::Task<Status> Session::close(async::TimePoint deadline) {
  phase_ = Phase::ending;
  hold_connections();
  // A recovery that is under way makes a session, which has to go, too.
  (void)co_await ready(deadline);
  // What an OPEN that is under way brings has to be given back, too.
  (void)co_await outstanding_.none(deadline);
  lease_.stop();
  nfsstat4 status = NFS4_OK;
  auto done = co_await destroy(deadline, status);
  // It still has state of ours that nobody here knows of: what an OPEN brought whose answer was lost with its
  // session. It drops the state of an instance of the client that another one follows (2.4), and the other
  // one can go, since it never had any.
  if (status != NFS4ERR_CLIENTID_BUSY) co_return done;
  be_another_instance();
  if (auto known = co_await exchange_id(deadline); !known) co_return known;
  if (auto created = co_await create_session(deadline, status); !created) co_return created;
  co_return co_await destroy(deadline, status);
}

/// The session and the client id. `status`: what the server said to the one that failed.
async::Task<Status> Session::destroy(async::TimePoint deadline, nfsstat4& status) {
  const DESTROY_SESSION4args session{facts_.session_id};
  auto destroyed = co_await call_alone<op::DESTROY_SESSION>(session, deadline, status);
  // It is gone, which is what was wanted.
  const bool gone = status == NFS4ERR_BADSESSION || status == NFS4ERR_DEADSESSION;
  if (!destroyed && !gone) co_return destroyed;
  const DESTROY_CLIENTID4args client{facts_.client_id};
  auto forgotten = co_await call_alone<op::DESTROY_CLIENTID>(client, deadline, status);
  if (status == NFS4ERR_STALE_CLIENTID) co_return Status();
  co_return forgotten;
}

}  // namespace nfsrdma::nfs4
