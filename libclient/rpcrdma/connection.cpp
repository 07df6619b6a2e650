// The requester's connection: making one when it is needed, losing it, and time.
//
// A connection is replaced when it ends, when a Reply takes longer than it may, when the peer breaks the
// rules that keep memory safe, and when memory cannot be taken back. Calls without a Reply go back to the
// head of the queue in their old order, with their xids (RFC 8166 4.5.3). Attempts are spaced by a delay that
// doubles until a call has been answered, so that a server that accepts connections and drops them is not
// hammered (wait_before_next_attempt()). The answer to a call that a connection has to begin with
// (Call::first) does not end the doubling, because such a call comes before any real work.
//
// A connection that has answered a call is a good one, however short its life was, and is replaced at once.
// If one call breaks connections (a request that the server or the path cannot take), only that call has to
// pause. A call that was in flight at two losses in a row is a suspect: it waits in a queue of its own, for a
// time that doubles with each further loss, while the other calls continue. Only one suspect is sent at a
// time, so that a loss shows which of them is the cause, and the others are cleared by their Replies. The
// count of losses stays with a call that is handed back and made again on another connection (Call::losses).
#include <algorithm>
#include <cerrno>
#include <ranges>

#include "rpcrdma/state.h"

namespace nfsrdma::rpcrdma {
namespace {

std::string seconds_text(Duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

Duration doubled(Duration first, unsigned times, Duration most) {
  for (; times != 0 && first < most; --times) first *= 2;
  return std::min(first, most);
}

/// Returns whether the action is useless once the connection is gone. A delivered Call of the server's is:
/// its answer could not be sent, and the server sends the Call again (RFC 8167 5.4).
bool needs_connection(const Action& action) {
  return std::holds_alternative<Send>(action) || std::holds_alternative<SendAnswer>(action) ||
         std::holds_alternative<Revoke>(action) || std::holds_alternative<Forget>(action) ||
         std::holds_alternative<PostReceives>(action) || std::holds_alternative<Deliver>(action);
}

}  // namespace

// ---- connecting ----

PrivateData Requester::State::announcement() const {
  return {bears_invalidation, sayable_size(config.send_size), sayable_size(config.receive_size)};
}

void Requester::State::connect(TimePoint now) {
  if (shut || link == Link::up) return;
  wanted = true;
  want_link(now);
}

/// Keeps a connection up while `on`. RFC 8167 5.4: the server cannot call without a connection, and only the
/// client can make one.
void Requester::State::hold(bool on, TimePoint now) {
  held = on;
  want_link(now);
}

void Requester::State::want_link(TimePoint now) {
  if (link != Link::down || shut || (pending == 0 && !wanted && !held)) return;
  if (now >= connect_at) {
    start_connecting();
    return;
  }
  link = Link::waiting;
  lower_wake(connect_at);
}

void Requester::State::start_connecting() {
  link = Link::connecting;
  actions.push(Connect{++attempts});
}

void Requester::State::wait_before_next_attempt(TimePoint now) {
  if (attempts != 0)
    connect_at = later(now, doubled(config.reconnect_first, attempts - 1, config.reconnect_most));
}

void Requester::State::on_connected(ConstBytes peer_private_data, TimePoint now) {
  if (link != Link::connecting) return;  // closed in the meantime
  reset_connection();
  link = Link::up;
  wanted = false;
  heard_at = now;
  lower_wake(next_health_check());
  const auto theirs = find_private_data(peer_private_data);
  const Negotiated agreed = negotiate(config.announce ? std::optional(announcement()) : std::nullopt,
                                      theirs);  // 8797 4: negotiated anew on each connection
  facts.private_data_seen = theirs.has_value();
  facts.call_threshold = agreed.call_threshold;
  facts.reply_threshold = agreed.reply_threshold;
  facts.remote_invalidation = agreed.remote_invalidation;
  ++facts.connects;
  if (ever_up) ++facts.reconnects;
  ever_up = true;
  if (told_lost && !told_reconnected) {
    told_reconnected = true;
    notice(Notice::Kind::reconnected, peer + ": reconnected");
  }
  // RFC 8167 4.3.1, 6: the Receives of the backward credits must be posted before any Call that announces
  // these.
  top_up_receives();
  pump(now);
}

void Requester::State::on_connect_failed(const Error& why, bool permanent, TimePoint now) {
  if (link != Link::connecting && link != Link::closing) return;
  link = Link::down;
  last_failure = why;
  wait_before_next_attempt(now);
  retry_or_complete_all();
  if (permanent) {
    wanted = false;
    for (Rpc* rpc : table.in_order()) {
      if (rpc->stage != Rpc::Stage::queued) continue;
      give_up(*rpc, Failure::unreachable,
              Error(why.kind(), why.errno_value(), "connect", peer, why.message()), now);
    }
  }
  want_link(now);
}

// ---- losing it ----

/// Closes the connection, which invalidates everything that the peer could still reach. Discards actions that
/// need this connection.
void Requester::State::close_link(Error why) {
  if (link != Link::up && link != Link::connecting) return;
  link = Link::closing;
  close_reason = why;
  actions.drop(needs_connection);
  actions.push(Close{std::move(why)});
}

void Requester::State::on_disconnected(const Error& why, TimePoint now) {
  if (link == Link::down || link == Link::waiting) return;
  const bool was_up = link == Link::up || (link == Link::closing && ever_up);
  actions.drop(
      [](const Action& action) { return needs_connection(action) || std::holds_alternative<Close>(action); });
  last_failure = close_reason ? *close_reason : why;
  link = Link::down;
  const bool had_trial = on_trial != 0;
  reset_connection();
  // Losses are not counted if the reason was silence, which no call causes, or if this side closed the
  // connection because of a call that it had given up.
  if (last_failure->errno_value() != ETIMEDOUT && last_failure->kind() != ErrorKind::cancelled)
    count_losses(now);
  // A suspect has broken the connection, and has a pause of its own, so the other calls need not wait long.
  if (had_trial) attempts = std::min(attempts, 1U);
  retry_or_complete_all();
  // A connection that ended because of abandoned memory is replaced without a Notice. If that fails, the
  // waiting calls will lead to Notice::not_responding.
  const bool own_doing = last_failure->kind() == ErrorKind::cancelled;
  if (was_up && !told_lost && !shut && !own_doing) {
    told_lost = true;
    notice(Notice::Kind::connection_lost,
           peer + ": connection lost (" + last_failure->message() + "); " +
               (pending != 0 || held ? "reconnecting" : "reconnecting when needed"));
  }
  wait_before_next_attempt(now);
  want_link(now);
}

/// Counts a loss for each call in flight. 4.5.3: a Call that breaks every connection that it is sent on must
/// not become a tight loop.
void Requester::State::count_losses(TimePoint now) {
  for (Rpc* rpc : table.active()) {
    if (rpc->stage != Rpc::Stage::sent) continue;
    ++rpc->call.losses;
    rpc->hold_until = end_of_hold(rpc->call, now);
  }
}

/// Returns until when a call is held back. The first loss is no reason to wait.
TimePoint Requester::State::end_of_hold(const Call& call, TimePoint now) const {
  if (call.losses < kLossesOfSuspect) return now;
  return later(now, doubled(config.reconnect_first, call.losses - kLossesOfSuspect, config.reconnect_most));
}

void Requester::State::reset_connection() {
  has_grant = zero_grant_seen = oddity_seen = overdue_abandoned = false;
  in_flight = regular_in_flight = posted = 0;
  on_trial = 0;
  checked_at = TimePoint::min();
  backward.clear();
  facts.granted = 0;
  close_reason.reset();
}

/// Called when the connection and all its handles are gone: calls whose memory was being revoked complete,
/// and calls that were sent are queued again.
void Requester::State::retry_or_complete_all() {
  std::vector<Rpc*> again;
  for (Rpc* rpc : table.in_order()) {
    rpc->unanswered = rpc->send_posted = false;
    switch (rpc->stage) {
      case Rpc::Stage::queued:
        break;
      case Rpc::Stage::sent:
        rpc->stage = Rpc::Stage::queued;
        rpc->forget_memory();  // 8.1.1: nothing of the old connection is named on the new one
        again.push_back(rpc);
        break;
      case Rpc::Stage::revoking:
        complete(*rpc);
        break;
      case Rpc::Stage::completed:
        remove_if_finished(*rpc);
        break;
    }
  }
  // The calls that a connection has to begin with are queued ahead of calls that were sent earlier on the
  // last connection.
  for (const bool first : {false, true}) {
    for (Rpc* rpc : again | std::views::reverse) {
      if (rpc->call.first == first) queue_of(*rpc).push_front(rpc);
    }
  }
}

// ---- time ----

void Requester::State::on_time(TimePoint now) {
  if (now >= wake_at) scan(now);
}

void Requester::State::scan(TimePoint now) {
  wake_at = TimePoint::max();
  scan_deadlines(now);
  if (link == Link::waiting) {
    link = Link::down;
    want_link(now);
  }
  scan_revocations(now);
  scan_silence(now);
  scan_notices(now);
  lower_wake(std::max(next_health_check(), now));
  pump(now);
}

/// Closes the connection if an invalidation is overdue. A device that is stuck behind a Send that the peer
/// does not take completes nothing. The end of the connection invalidates all handles (4.5.4), and
/// on_disconnected() completes their calls.
void Requester::State::scan_revocations(TimePoint now) {
  if (link != Link::up) return;
  bool overdue = false;
  for (const Rpc* rpc : table.active()) {
    if (rpc->stage != Rpc::Stage::revoking) continue;
    if (rpc->revoke_until <= now) {
      overdue = true;
    } else {
      lower_wake(rpc->revoke_until);
    }
  }
  if (overdue) {
    close_link(
        error(ErrorKind::local, EIO,
              "the server's access to memory was not revoked within " + seconds_text(config.revoke_timeout)));
  }
}

void Requester::State::scan_deadlines(TimePoint now) {
  std::vector<Rpc*> over;
  for (Rpc* rpc : table.active()) {
    if (rpc->stage > Rpc::Stage::sent) continue;
    if (rpc->call.deadline <= now) {
      over.push_back(rpc);
    } else {
      lower_wake(rpc->call.deadline);
    }
  }
  std::ranges::sort(over, std::less<>(), &Rpc::id);
  for (Rpc* rpc : over) give_up(*rpc, Failure::timed_out, timed_out(*rpc, now), now);
}

/// Returns how long a call may be unanswered before the connection counts as dead.
Duration Requester::State::patience() const {
  if (has_grant) return config.reply_timeout;
  return doubled(config.first_reply_timeout, silent_connections, config.reply_timeout);
}

/// Returns the time at which a missing answer to the RPC shows that the peer is dead. A health check is
/// answered in less time than a call that has work to do. While the peer answers other calls, an unanswered
/// health check is no sign of death.
TimePoint Requester::State::silent_from(const Rpc& rpc) const {
  const bool checks = rpc.call.health_check && !rpc.call.first && has_grant;
  if (!checks || check_every >= patience()) return later(rpc.sent_at, patience());
  return later(std::max(rpc.sent_at, heard_at), check_every);
}

TimePoint Requester::State::next_health_check() const {
  if (link != Link::up) return TimePoint::max();
  return later(std::max(heard_at, checked_at), check_every);
}

bool Requester::State::wants_health_check(TimePoint now) {
  if (now < next_health_check()) return false;
  checked_at = now;
  lower_wake(next_health_check());
  return true;
}

void Requester::State::scan_silence(TimePoint now) {
  if (link != Link::up) return;
  overdue_abandoned = false;
  bool overdue = false, checked = false;
  for (const Rpc* rpc : table.active()) {
    if (!rpc->unanswered) continue;
    const TimePoint until = silent_from(*rpc);
    if (until > now) {
      lower_wake(until);
    } else if (rpc->stage == Rpc::Stage::sent) {
      overdue = true;
      checked = checked || later(rpc->sent_at, patience()) > now;
    } else {
      overdue_abandoned = true;  // matters only when another call needs its credit: pump()
    }
  }
  if (!overdue) return;
  if (checked) {
    return close_link(error(
        ErrorKind::connection, ETIMEDOUT,
        "nothing was heard for " + seconds_text(now - heard_at) + ", and a health check was not answered"));
  }
  const std::string waited = seconds_text(patience());
  if (!has_grant) {
    ++silent_connections;
    attempts = 0;  // the wait was long enough: connect at once
    connect_at = now;
    close_link(error(ErrorKind::connection, ETIMEDOUT,
                     "the first call on a new connection was not answered within " + waited));
  } else {
    close_link(error(ErrorKind::connection, ETIMEDOUT, "a call was not answered within " + waited));
  }
}

void Requester::State::scan_notices(TimePoint now) {
  if (pending == 0 || told_silent) return;
  if (link != Link::up && told_lost) return;  // known already
  const TimePoint at = later(std::max(last_heard, busy_since), config.notice_after);
  if (at > now) {
    lower_wake(at);
    return;
  }
  told_silent = true;
  notice(Notice::Kind::not_responding,
         peer + ": not responding; still trying" +
             (link != Link::up && last_failure ? " (" + last_failure->message() + ")" : std::string()));
}

Error Requester::State::timed_out(const Rpc& rpc, TimePoint now) const {
  constexpr const char* kCheck =
      "; check that the server runs NFS/RDMA on this port (20049 by default) and that no firewall blocks it";
  const std::string last = last_failure ? "; last: " + last_failure->message() : std::string();
  if (rpc.stage == Rpc::Stage::sent) {
    if (!has_grant) {
      // The connection is up, and the server has never sent anything on it.
      return error(ErrorKind::timeout, ETIMEDOUT,
                   "the server accepts the connection, but answers no call" + last +
                       "; check that its NFS service runs and that this is the port of NFS over RDMA");
    }
    return error(ErrorKind::timeout, ETIMEDOUT,
                 "no answer within " + seconds_text(now - rpc.sent_at) +
                     " of sending; check that the server is up and not overloaded, or allow more time");
  }
  if (link == Link::up) {
    return error(
        ErrorKind::timeout, ETIMEDOUT,
        "the server left " + std::to_string(in_flight) +
            " calls unanswered and granted no credit for another; check its load, or allow more time");
  }
  return error(ErrorKind::timeout, ETIMEDOUT,
               std::string(ever_up ? "the connection was lost and could not be re-established in time"
                                   : "no connection could be established in time") +
                   last + kCheck);
}

}  // namespace nfsrdma::rpcrdma
