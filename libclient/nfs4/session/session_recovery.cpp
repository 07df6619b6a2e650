#include "nfs4/session/session_recovery.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr async::Clock::duration kDrainFor = 10s;
constexpr const char* kSpent = "too many requests went unanswered";

}  // namespace

SessionRecovery::SessionRecovery(const Dependencies& parts)
    : Recovery(parts.calls, "session recovered", parts.counters, parts.timeout),
      handshake_(parts.handshake),
      state_(parts.state),
      slots_(parts.slots),
      lease_(parts.lease) {
  slots_.table().on_spent = [this] { start(kSpent, true); };
}

async::Task<void> SessionRecovery::prepare(bool works) {
  // Calls under way may still be answered, on this connection or another one. They would not be on the next
  // session.
  if (works) (void)co_await slots_.drained(calls_.loop().now() + kDrainFor);
}

void SessionRecovery::finished() {
  (void)handshake_.want_reclaim(false);
  if (!handshake_.facts().backchannel) state_.delegations.return_all();
  state_.delegations.hold_connections();  // delegations may have been lost
  if (slots_.table().is_spent()) start(kSpent, true);
}

void SessionRecovery::start_destroying(sessionid4 old, bool works) {
  ++destroying_;
  calls_.background().spawn(destroy(old, works));
}

async::Task<void> SessionRecovery::destroy(sessionid4 old, bool works) {
  async::Loop& loop = calls_.loop();
  if (works) (void)co_await slots_.left_over_ended(loop.now() + timeout_);
  co_await handshake_.destroy_old_session(old, loop.now() + timeout_);
  --destroying_;
  ended_.notify_all();
}

async::Task<Status> SessionRecovery::try_once(async::TimePoint deadline, bool works) {
  nfsstat4 status = NFS4_OK;
  const sessionid4 old = handshake_.facts().session_id;
  if (handshake_.keeps_client()) {
    auto done = co_await handshake_.create_session(deadline, status);
    if (done) start_destroying(old, works);
    if (done || status == NFS4_OK) co_return done;  // without an answer nothing is known
  }
  const clientid4 old_client = handshake_.facts().client_id;
  const std::uint64_t old_epoch = handshake_.facts().epoch;
  handshake_.start_over_if_hopeless();
  if (auto done = co_await handshake_.exchange_id(deadline); !done) co_return done;
  if (auto done = co_await handshake_.create_session(deadline, status); !done) co_return done;
  // Requests from before a restart must not bring state behind the reclaim.
  const bool lives_on = works && handshake_.facts().epoch == old_epoch;
  if (handshake_.facts().client_id == old_client) start_destroying(old, lives_on);
  if (auto done = co_await state_.open_recovery.reclaim_all(deadline); !done) co_return done;
  if (auto done = co_await handshake_.reclaim_complete(deadline); !done) co_return done;
  // The server program may be another one now, with another configuration. If it does not answer this, the
  // limits stay as they were. A lost connection shows in the next call.
  (void)co_await handshake_.fetch_limits(deadline);
  lease_.arm();
  co_return Status();
}

}  // namespace nfsrdma::nfs4
