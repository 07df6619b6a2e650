// Private to the requester: its state, which four files share.
//
//   requester.cpp   calls, credits, completions
//   receiving.cpp   messages from the server
//   backward.cpp    Calls of the server's
//   connection.cpp  connecting, losing, retransmitting; time
//
// Time. Each call has its deadline, each call that was sent has a time at which silence counts as a dead
// connection, and a lost connection has the time of the next attempt. One timer, wake_at, serves all of them:
// it is never later than the earliest of these times, and often earlier. Every input lowers it if necessary.
// scan() looks at all calls, does what is due, and sets wake_at anew. If calls are answered in time, a scan
// runs only every few seconds, whatever the rate of calls.
//
// Credits (3.3). The calls in flight are those that the server counts: sent on this connection and not
// answered, whether or not their callers still wait. Before the first Reply of a connection one call may be
// in flight.
#pragma once

#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rpcrdma/backward.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"
#include "rpcrdma/requester.h"
#include "rpcrdma/rpc.h"

namespace nfsrdma::rpcrdma {

/// Returns `from` plus `by`, or TimePoint::max() if that overflows.
inline TimePoint later(TimePoint from, Duration by) {
  return from > TimePoint::max() - by ? TimePoint::max() : from + by;
}

/// A queue of actions. Each action stays at its place in memory until the next one is taken, so it is
/// constructed once and not moved. Places are reused, and so is the storage of the segments of a Revoke.
class ActionQueue {
 public:
  ActionQueue() = default;
  ActionQueue(const ActionQueue&) = delete;
  ActionQueue& operator=(const ActionQueue&) = delete;
  ~ActionQueue() {
    recycle(taken_);
    for (Place* list : {first_, free_}) {
      while (list != nullptr) delete std::exchange(list, list->next);
    }
  }

  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  template <class T>
  void push(T&& action) {
    add<std::decay_t<T>>(std::forward<T>(action));
  }
  /// Constructs an action in its place at the end of the queue.
  template <class T, class... Arguments>
  T& add(Arguments&&... arguments) {
    Place* place = free_ != nullptr ? std::exchange(free_, free_->next) : new Place;
    T& action = place->action.template emplace<T>(std::forward<Arguments>(arguments)...);
    place->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = place;
    last_ = place;
    return action;
  }
  /// Takes the first action. The pointer is valid until the next take().
  Action* take() {
    recycle(std::exchange(taken_, first_));
    if (taken_ == nullptr) return nullptr;
    first_ = taken_->next;
    return &taken_->action;
  }
  /// Calls `look(action)` for all that have not been taken.
  template <class Look>
  void look(const Look& look) {
    for (Place* place = first_; place != nullptr; place = place->next) look(place->action);
  }
  /// Drops all actions for which `drop` returns true. Returns how many were dropped.
  template <class Drop>
  std::size_t drop(const Drop& drop) {
    std::size_t dropped = 0;
    Place** at = &first_;
    last_ = nullptr;
    while (*at != nullptr) {
      Place* const place = *at;
      if (drop(place->action)) {
        *at = place->next;
        recycle(place);
        ++dropped;
      } else {
        last_ = place;
        at = &place->next;
      }
    }
    return dropped;
  }
  /// Returns empty storage for segments, reused from a Revoke that is done.
  std::vector<RemoteSegment> spare_segments() {
    if (spare_.empty()) return {};
    std::vector<RemoteSegment> out = std::move(spare_.back());
    spare_.pop_back();
    return out;
  }

 private:
  struct Place {
    Action action;
    Place* next = nullptr;
  };
  static constexpr std::size_t kSpares = 256;

  void recycle(Place* place) {
    if (place == nullptr) return;
    if (Revoke* const revoke = std::get_if<Revoke>(&place->action);
        revoke != nullptr && revoke->segments.capacity() != 0 && spare_.size() < kSpares) {
      revoke->segments.clear();
      spare_.push_back(std::move(revoke->segments));
    }
    place->action.emplace<Connect>();
    place->next = std::exchange(free_, place);
  }

  Place* first_ = nullptr;
  Place* last_ = nullptr;  // valid if first_ is not null
  Place* taken_ = nullptr;
  Place* free_ = nullptr;
  std::vector<std::vector<RemoteSegment>> spare_;
};

struct Requester::State {
  enum class Link : std::uint8_t {
    down,     ///< no connection; one is started when there is something to do
    waiting,  ///< no connection; the next attempt is at connect_at
    connecting,
    up,
    closing,  ///< Close was given out
  };

  State(const Config& config_in, Exposer& memory_in, std::uint32_t first_xid, std::string peer_in);

  // ---- constant after construction ----
  const Config config;
  Exposer& memory;
  const std::string peer;

  // ---- calls ----
  RpcTable table;
  std::deque<Rpc*> queue;         // in the order in which they were submitted
  std::deque<Rpc*> health_queue;  // is served before `queue`
  // Calls that may be the cause of lost connections, held back (connection.cpp).
  std::deque<Rpc*> suspects;
  std::size_t pending = 0;
  std::size_t pending_data = 0, pending_bulk = 0;  // their bytes, and how many of them are bulk
  bool shut = false;
  ActionQueue actions;
  Facts facts;
  BackwardTable backward;  // backward Calls of this connection; see backward.h

  // ---- this connection ----
  Link link = Link::down;
  // Whether remote invalidation was announced for this connection (RFC 8797 4.1).
  bool bears_invalidation = config.remote_invalidation;
  // A valid Reply arrived on this connection, so the grant is known.
  bool has_grant = false;
  std::uint64_t arrivals = 0;      // number of the newest answer
  std::uint64_t newest_grant = 0;  // number of the answer whose grant is in force
  // Time of the last message on this connection; before the first one, of the connection's beginning.
  TimePoint heard_at = TimePoint::min();
  TimePoint checked_at = TimePoint::min();  // when a health check was last asked for
  bool zero_grant_seen = false;
  bool oddity_seen = false;
  std::uint32_t in_flight = 0;  // calls that hold a credit
  std::uint32_t regular_in_flight = 0;
  std::uint32_t posted = 0;        // Receives that are still empty
  bool overdue_abandoned = false;  // a call that was given up has held its credit for too long
  CallId on_trial = 0;             // the suspect that was sent last, until its Reply or until trial_until
  TimePoint trial_until = TimePoint::min();
  std::optional<Error> close_reason;
  rdma_msg incoming;  // scratch, so that decoding does not allocate

  // ---- from connection to connection ----
  bool wanted = false;                     // connect() asked for a connection
  bool held = false;                       // hold() asks for a connection
  Duration check_every = Duration::max();  // set by check_health()
  bool ever_up = false;
  unsigned attempts = 0;  // attempts since a call was answered
  // Connections since the last Reply that were replaced because their first Call was not answered.
  unsigned silent_connections = 0;
  TimePoint connect_at = TimePoint::min();  // no attempt before this time
  std::optional<Error> last_failure;        // why connecting failed, or why the last connection ended

  // ---- time and notices ----
  TimePoint wake_at = TimePoint::max();
  TimePoint last_heard = TimePoint::min();
  TimePoint busy_since = TimePoint::min();  // since when there have been pending calls
  // The Notice connection_lost was given, and no Reply has come since.
  bool told_lost = false;
  bool told_reconnected = false;
  bool told_silent = false;  // the Notice not_responding was given

  // ---- requester.cpp ----
  CallId submit(Call&& call, TimePoint now);
  void cancel(CallId id, TimePoint now);
  void disown(CallId id);
  Memory want_back(CallId id, std::optional<Revoke>& revoke);
  void on_sent(CallId cookie);
  void on_revoked(CallId cookie, bool ok, TimePoint now);
  void shut_down(TimePoint now);
  /// Sends as many queued calls as credits allow.
  void pump(TimePoint now);
  void send(Rpc& rpc, TimePoint now);
  void send_later(Rpc& rpc, Error why);
  void count_form(const Rpc& rpc);
  Rpc* next_to_send(TimePoint now);
  Rpc* next_suspect(TimePoint now);
  [[nodiscard]] bool nothing_queued() const {
    return queue.empty() && health_queue.empty() && suspects.empty();
  }
  [[nodiscard]] std::uint32_t limit() const;
  [[nodiscard]] std::uint32_t most_regular() const;
  [[nodiscard]] bool has_credit(const Rpc& rpc) const;
  void top_up_receives();
  [[nodiscard]] std::deque<Rpc*>& queue_of(const Rpc& rpc) {
    if (rpc.call.is_suspect()) return suspects;
    return rpc.call.health_check ? health_queue : queue;
  }
  void enqueue(Rpc& rpc);
  void take_from_queue(Rpc& rpc);
  /// Ends an RPC that has no Reply. Its memory is taken back first.
  void give_up(Rpc& rpc, Failure failure, Error error, TimePoint now);
  /// Called when the outcome is in the record: takes back what is exposed, then completes.
  void settle(Rpc& rpc, TimePoint now);
  void complete(Rpc& rpc);
  void remove_if_finished(Rpc& rpc);
  bool retract_send(Rpc& rpc);
  void give_credit_back(Rpc& rpc);
  void notice(Notice::Kind kind, std::string text);
  void oddity(const std::string& text);
  [[nodiscard]] Error error(ErrorKind kind, int errno_value, std::string text) const;

  // ---- receiving.cpp ----
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated, TimePoint now);
  void take_message(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated, TimePoint now);
  bool take_invalidated(Rpc* rpc, std::uint32_t handle);
  void take_reply(Rpc& rpc, fabric::ReceiveBuffer buffer, std::size_t header_size, TimePoint now);
  void take_error(Rpc& rpc);
  void take_bad_reply(Rpc& rpc, const char* fault);
  void answered(Rpc& rpc, TimePoint now);
  void take_late_answer(Rpc& rpc, TimePoint now);
  /// Takes over the grant of an answer that was checked, unless the grant of a later answer is in force
  /// already.
  void take_grant(Grant grant);
  void heard(const Rpc& rpc, TimePoint now);

  // ---- backward.cpp ----
  void take_other(fabric::ReceiveBuffer buffer, std::size_t header_size, BackwardForm form);
  void deliver(fabric::ReceiveBuffer buffer, std::size_t header_size);
  void refuse(std::uint32_t xid, rpc_rdma_errcode err, BackwardId id = 0);
  void answer(BackwardId id, const xdr::Message& reply);
  void decline(BackwardId id);
  void end_unanswered(const char* why);

  // ---- connection.cpp ----
  void connect(TimePoint now);
  void hold(bool on, TimePoint now);
  void on_connected(ConstBytes peer_private_data, TimePoint now);
  void on_connect_failed(const Error& why, bool permanent, TimePoint now);
  void on_disconnected(const Error& why, TimePoint now);
  void on_time(TimePoint now);
  void want_link(TimePoint now);
  void start_connecting();
  void close_link(Error why);
  void wait_before_next_attempt(TimePoint now);
  void retry_or_complete_all();
  void reset_connection();
  void count_losses(TimePoint now);
  [[nodiscard]] TimePoint end_of_hold(const Call& call, TimePoint now) const;
  void lower_wake(TimePoint when) {
    if (when < wake_at) wake_at = when;
  }
  void scan(TimePoint now);
  void scan_deadlines(TimePoint now);
  void scan_revocations(TimePoint now);
  void scan_silence(TimePoint now);
  void scan_notices(TimePoint now);
  [[nodiscard]] Duration patience() const;
  [[nodiscard]] TimePoint silent_from(const Rpc& rpc) const;
  [[nodiscard]] TimePoint next_health_check() const;
  bool wants_health_check(TimePoint now);
  [[nodiscard]] Error timed_out(const Rpc& rpc, TimePoint now) const;
  [[nodiscard]] PrivateData announcement() const;
};

}  // namespace nfsrdma::rpcrdma
