#include "nfs4/recovery.h"

#include "async/backoff.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr async::Clock::duration kDrainFor = 10s;
constexpr const char* kSpent = "too many requests went unanswered";

}  // namespace

Recovery::Recovery(const Around& around) : around_(around), ended_(around.calls.loop()) {
  around_.slots.table().on_spent = [this] { start(kSpent, true); };
}

void Recovery::start(const char* why, bool works) {
  Calls& calls = around_.calls;
  if (under_way_ || calls.phase() != Calls::Phase::open) return;
  under_way_ = true;
  ++around_.counters.recoveries;
  calls.notice(calls.server() + ": " + why + ", recovering");
  calls.beside().spawn(run(works));
}

async::Task<void> Recovery::run(bool works) {
  Calls& calls = around_.calls;
  // Calls under way may still be answered, on this connection or another one. They would not be on the next
  // session.
  if (works) (void)co_await around_.slots.drained(calls.loop().now() + kDrainFor);
  async::Backoff delay(100ms, 5s);
  for (;;) {
    const auto done = co_await try_once(calls.loop().now() + around_.timeout, works);
    if (done) break;
    last_error_ = done.error();
    co_await calls.loop().sleep_for(delay.take());
  }
  last_error_.reset();
  under_way_ = false;
  (void)around_.handshake.want_reclaim(false);
  around_.state.delegations.hold_connections();  // delegations may have been lost
  calls.notice(calls.server() + ": session recovered");
  ended_.notify_all();
  if (around_.slots.table().is_spent()) start(kSpent, true);
}

void Recovery::start_destroying(sessionid4 old, bool works) {
  ++destroying_;
  around_.calls.beside().spawn(destroy(old, works));
}

async::Task<void> Recovery::destroy(sessionid4 old, bool works) {
  async::Loop& loop = around_.calls.loop();
  if (works) (void)co_await around_.slots.left_over_ended(loop.now() + around_.timeout);
  co_await around_.handshake.destroy_old_session(old, loop.now() + around_.timeout);
  --destroying_;
  ended_.notify_all();
}

async::Task<Status> Recovery::try_once(async::TimePoint deadline, bool works) {
  Handshake& handshake = around_.handshake;
  nfsstat4 status = NFS4_OK;
  const sessionid4 old = handshake.facts().session_id;
  if (handshake.keeps_client()) {
    auto done = co_await handshake.create_session(deadline, status);
    if (done) start_destroying(old, works);
    if (done || status == NFS4_OK) co_return done;  // without an answer nothing is known
  }
  const clientid4 old_client = handshake.facts().client_id;
  const std::uint64_t old_epoch = handshake.facts().epoch;
  handshake.start_over_if_hopeless();
  if (auto done = co_await handshake.exchange_id(deadline); !done) co_return done;
  if (auto done = co_await handshake.create_session(deadline, status); !done) co_return done;
  // Requests from before a restart must not bring state behind the reclaim.
  const bool lives_on = works && handshake.facts().epoch == old_epoch;
  if (handshake.facts().client_id == old_client) start_destroying(old, lives_on);
  if (auto done = co_await around_.state.open_recovery.reclaim_all(deadline); !done) co_return done;
  if (auto done = co_await handshake.reclaim_complete(deadline); !done) co_return done;
  // The server program may be another one now, with another configuration. If it does not answer this, the
  // limits stay as they were. A lost connection shows in the next call.
  (void)co_await handshake.fetch_limits(deadline);
  around_.lease.arm();
  co_return Status();
}

}  // namespace nfsrdma::nfs4
