// The requester's side of RPC-over-RDMA version 1 (RFC 8166, RFC 8797), as a state machine without I/O.
//
// Inputs: calls to make, messages received, completions, the time. Outputs: actions, taken with poll() or
// next() until none is left. The machine has no socket, no clock, no thread and no randomness of its own, so
// both fabrics drive the same code and every rule is tested on virtual time. Operations of the fabric that
// complete at once (Exposer) are not actions: memory is exposed, and on some fabrics a short Call is sent and
// memory revoked.
//
// The life of one RPC: submit() queues it → a credit comes free (3.3) → it is marshalled for the thresholds
// of this connection (3.5): inline, reduced, or as a Long Call; memory for its result is exposed → Send → its
// Reply arrives and is checked (4.3, 4.5) → Revoke what was exposed (4.4.1) → Complete. No RPC completes
// before its memory is out of the peer's reach.
//
// An RPC that is given up (cancelled, or past its deadline) while the server works on it goes through these
// steps without the Reply: its memory is revoked, and it completes (8.1.3). The server does not learn of
// this. Until its Reply has come the call holds its credit, and the fabric is asked to tolerate a use of its
// handles: Revoke has `abandoned` set, and Forget ends this. A connection that ends for this reason is
// replaced without a Notice, because neither side has done anything wrong.
//
// No wait is without end. A call waits for its Reply until Config::reply_timeout or its deadline, and its
// caller waits for the invalidation until Config::revoke_timeout. If one of them is overdue the connection is
// closed, and all handles become invalid with it (4.5.4).
//
// Ownership. A Call's message, and the memory of its items and of its results, must not change from submit()
// until Complete; Complete returns the Call's message for reuse. The bytes of a Send action belong to the
// requester and stay valid until on_sent(cookie) or on_disconnected().
//
// Failure. When a connection is lost, every RPC that has no Reply goes back to the queue and is sent again on
// the next connection with the same xid, marshalled anew (4.5.3). Deadlines are absolute, so the wait for a
// connection counts.
//
// Backward direction. The server may call, too, if Config::backward_credits is not 0 (RFC 8167): Deliver
// hands its Call to the layer above, and answer() sends the Reply. backward.h describes which messages are
// served, and what happens to the others.
//
// Thread-safety: none; confined to the thread that runs its driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fabric/fabric.h"
#include "nfsrdma/result.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace nfsrdma::rpcrdma {

using fabric::Bytes;
using fabric::ConstBytes;
using fabric::RemoteSegment;
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// A list of values that needs no allocation for a single one, because nearly every RPC has at most one
/// result that is DDP-eligible. Own code because boost::container::small_vector takes fifty instructions to
/// be moved.
template <class T>
class Few {
 public:
  Few() = default;
  Few(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  [[nodiscard]] std::size_t size() const { return more_.empty() ? one_.size() : more_.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] T* data() { return more_.empty() ? one_.data() : more_.data(); }
  [[nodiscard]] const T* data() const { return more_.empty() ? one_.data() : more_.data(); }
  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] T* end() { return data() + size(); }
  [[nodiscard]] const T* end() const { return data() + size(); }
  [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] T& back() { return data()[size() - 1]; }
  void push_back(const T& value) {
    if (empty()) return one_.set(value);
    if (more_.empty()) more_.push_back(*one_.data());
    more_.push_back(value);
  }
  void reserve(std::size_t count) {
    if (count > 1) more_.reserve(count);
  }
  void clear() {
    one_.clear();
    more_.clear();
  }
  template <class Iterator>
  void assign(Iterator from, Iterator to) {
    clear();
    for (; from != to; ++from) push_back(*from);
  }

 private:
  /// Holds a T or none. A plain struct, so that it is copied bytewise.
  class Slot {
   public:
    [[nodiscard]] std::size_t size() const { return full_ ? 1 : 0; }
    [[nodiscard]] T* data() { return &value_; }
    [[nodiscard]] const T* data() const { return &value_; }
    void set(const T& value) {
      value_ = value;
      full_ = true;
    }
    void clear() { full_ = false; }

   private:
    T value_{};
    bool full_ = false;
  };
  Slot one_;             // the value, if there is only one
  std::vector<T> more_;  // all values, if there are several
};

/// Names an RPC for its caller and in cookies. Never 0, never reused.
using CallId = std::uint64_t;

/// Names a Call of the server's. Never 0, never reused, also not on a later connection. A CallId is another
/// type of name: both count from 1.
using BackwardId = std::uint64_t;

/// The destination of one DDP-eligible result of the Reply, in the order of the results.
struct ResultTarget {
  Bytes destination;           ///< where the result goes; its size is the largest result
  bool wanted_inline = false;  ///< offer no memory for it (4.3.2.3): it comes in the stream and is copied
};

/// Protects a Call on its way, as RPCSEC_GSS does (RFC 2203 5.3). Called at each sending, after the xid is
/// filled in, because a server does not accept protected bytes a second time.
class Seal {
 public:
  Seal() = default;
  virtual ~Seal() = default;
  Seal(const Seal&) = delete;
  Seal& operator=(const Seal&) = delete;
  /// Returns the message to send in place of `message`, which is not changed. The result is valid until the
  /// next call.
  virtual Result<const xdr::Message*> seal(const xdr::Message& message) = 0;
  /// Returns whether arguments and results are protected, too. Then none of them may travel by itself (RFC
  /// 8166 8.2.2), in either direction. The items of the message that seal() returns then consist of whole
  /// words, and only say where their bytes are in memory.
  [[nodiscard]] virtual bool covers_data() const = 0;
};

/// Returns the number of bytes that may travel by themselves in an RPC, in both directions.
[[nodiscard]] inline std::size_t data_size(const xdr::Message& message, const Few<ResultTarget>& results) {
  std::size_t out = 0;
  for (const xdr::Item& item : message.items) out += item.data.size();
  for (const ResultTarget& result : results) out += result.destination.size();
  return out;
}
/// RPCs with at least this many bytes of data count as bulk.
inline constexpr std::size_t kBulk = 64U << 10;

/// A call that was in flight at this many losses of connections in a row may be the cause of the losses
/// (connection.cpp).
inline constexpr unsigned kLossesOfSuspect = 2;

/// An RPC to make.
struct Call {
  xdr::Message message;  ///< the whole RPC Call; the requester fills in its first four bytes (the xid)
  Seal* seal = nullptr;  ///< belongs to the caller, like the message's memory
  Few<ResultTarget> results;
  std::uint64_t reply_max_inline = 0;  ///< the largest RPC Reply with all results in the stream
  /// The largest RPC Reply, without the results that are not wanted inline.
  std::uint64_t reply_max_reduced = 0;
  TimePoint deadline = TimePoint::max();
  bool health_check = false;  ///< may use the credit that is kept for health checks (RFC 8267 4.6)
  /// A health check that is sent before all others: the call that must be the first on a new connection.
  bool first = false;
  /// How many connections in a row have ended while the call was in flight on them. The requester counts on
  /// from this value, and reports the new one with Complete, for a caller that makes the call again on
  /// another connection.
  unsigned losses = 0;
  void* owner = nullptr;  ///< returned with Complete; see disown()
  [[nodiscard]] std::size_t data_size() const { return rpcrdma::data_size(message, results); }
  /// Returns whether the call is held back as a suspect. A call that a connection has to begin with is never
  /// held back, because no other call could be made before it.
  [[nodiscard]] bool is_suspect() const { return losses >= kLossesOfSuspect && !first; }
};

/// The times of one RPC, for statistics.
struct Trip {
  Duration waited{};        ///< from submit() to its last Send: the wait for a credit and a connection
  Duration round_trip{};    ///< from its last Send until its Reply arrived
  std::uint32_t sends = 0;  ///< more than one: it was sent again on another connection
};

/// The Reply to an RPC. The views are valid as long as the Reply exists.
struct Reply {
  Trip trip;
  ConstBytes message;                           ///< the RPC Reply from its xid on; reduced, if it came so
  Few<xdr::Placement> placements;               ///< for xdr::Decoder, one for each ResultTarget of the Call
  std::optional<fabric::ReceiveBuffer> buffer;  // owns the memory of `message` if it came inline
  std::unique_ptr<std::byte[]> long_reply;      // owns the memory of `message` if it came in the Reply chunk
};

/// Why an RPC ended without a Reply. The caller decides by this value; the accompanying Error is for people.
enum class Failure : std::uint8_t {
  none,
  timed_out,  ///< its deadline passed
  cancelled,
  unreachable,  ///< no connection can be made, and trying again cannot help
  /// RFC 8166 4.5.4: memory cannot be exposed, or a size exceeds what the protocol can express.
  cannot_construct,
  err_vers,   ///< the peer answered RDMA_ERROR, ERR_VERS
  err_chunk,  ///< the peer answered RDMA_ERROR, ERR_CHUNK
  bad_reply,  ///< the Reply broke the protocol (4.3, 6.1)
  closed,     ///< the requester was shut down
};

struct Config {
  std::uint32_t credits_wanted = 64;  ///< asked for in every Call (3.3.1)
  std::uint32_t send_size = 4096;     ///< the largest message that we would send (RFC 8797)
  std::uint32_t receive_size = 4096;  ///< the size of the Receives that we post; 1024 at least (3.3.3)
  bool announce = true;               ///< send private data at all
  /// Let the peer invalidate handles; every handle of the Exposer must tolerate it (RFC 8797 4.1).
  bool remote_invalidation = false;
  /// How long a new connection may stay silent before any Reply; then it is replaced. Doubles up to
  /// reply_timeout while connection after connection stays silent, so that a server that is only slow can
  /// answer.
  Duration first_reply_timeout = std::chrono::seconds(3);
  /// After this time without a Reply the connection is considered dead, and replaced.
  Duration reply_timeout = std::chrono::seconds(60);
  /// If an invalidation takes longer than this, the connection is replaced (4.5.4).
  Duration revoke_timeout = std::chrono::seconds(10);
  /// A Notice "not responding" is given after this time without an answer.
  Duration notice_after = std::chrono::seconds(3);
  Duration reconnect_first = std::chrono::milliseconds(50);  ///< doubles up to reconnect_most
  Duration reconnect_most = std::chrono::seconds(5);
  /// If a suspect (Call::is_suspect) has been in flight for this time without a loss, the next suspect is
  /// sent.
  Duration trial = std::chrono::seconds(1);
  std::uint32_t reserved_credits = 1;  ///< kept for health checks if more than one is granted
  /// The number of Calls that the server may have in flight towards us: as many additional Receives are
  /// posted on every connection. 0: no backward service, the server's Calls are discarded.
  std::uint32_t backward_credits = 0;
};

/// Receives in addition to one for each call in flight and each backward credit. With them an unsolicited
/// message costs the connection nothing (3.3.1 asks only for as many Receives as there are calls).
inline constexpr std::uint32_t kSpareReceives = 2;

/// Returns the largest number of Receives that are posted at one time. If a device holds fewer of them, a
/// message may find none, which costs a pause or the connection.
[[nodiscard]] constexpr std::uint32_t most_receives(const Config& config) {
  return config.credits_wanted + config.backward_credits + kSpareReceives;
}

// ---- actions, in the order in which they must be done ----

/// Start a connection; answer with on_connected() or on_connect_failed(). Its private data is private_data().
struct Connect {
  unsigned attempt = 0;  ///< 1 for the first of a series; a series ends when a call has been answered
};
/// Post this many Receives of Config::receive_size, before any Send that follows.
struct PostReceives {
  std::uint32_t count = 0;
};
struct Send {
  CallId cookie = 0;
  ConstBytes bytes;
};
/// Send this answer to a Call of the server's; report on_answer_sent(cookie) when done. The bytes stay valid
/// until then, or until on_disconnected().
struct SendAnswer {
  BackwardId cookie = 0;
  ConstBytes bytes;
};
/// A Call of the server's: answer it with answer() or decline(), now or later.
struct Deliver {
  BackwardId id = 0;
  ConstBytes message;  ///< the RPC Call, from its xid on; valid as long as the buffer
  fabric::ReceiveBuffer buffer;
};
/// Revoke these segments; report on_revoked(cookie) when done.
struct Revoke {
  CallId cookie = 0;
  std::vector<RemoteSegment> segments;
  /// True if the server has not answered the call that the segments were for, and may continue to use them
  /// (fabric::Connection::abandon). Forget follows when the server has answered.
  bool abandoned = false;
};
/// The server has finished with these segments, which were abandoned. No report follows.
struct Forget {
  std::vector<RemoteSegment> segments;
};
/// Close the connection now; report on_disconnected() when done.
struct Close {
  Error why;
};
struct Complete {
  CallId id = 0;
  Failure failure = Failure::none;
  std::optional<Error> error;  ///< set unless failure is none
  std::optional<Reply> reply;  ///< set if failure is none
  xdr::Message message;        ///< the Call's own message, for reuse
  /// How often the call was sent, on any connection; 0: the peer cannot know of it.
  std::uint32_t sends = 0;
  unsigned losses = 0;    ///< the updated Call::losses
  void* owner = nullptr;  ///< the Call's owner
};
/// A condition that the user should hear of. Given at most once for each occasion.
struct Notice {
  enum class Kind : std::uint8_t {
    connection_lost,
    reconnected,
    not_responding,
    responding_again,
    protocol_oddity,  ///< the peer violated the protocol, and the connection could continue
  } kind = Kind::protocol_oddity;
  std::string text;
};
using Action =
    std::variant<Connect, PostReceives, Send, SendAnswer, Revoke, Forget, Close, Complete, Deliver, Notice>;

/// Exposes memory on the current connection, and performs the operations that need no action.
/// fabric::Connection does this in the product; tests have their own.
class Exposer {
 public:
  virtual ~Exposer() = default;
  virtual Status expose(Bytes memory, fabric::Reach reach, std::vector<RemoteSegment>& to) = 0;
  [[nodiscard]] virtual std::size_t segments_for(std::size_t length) const = 0;
  /// These two work as in fabric::Connection: an operation that completes at once needs no action and no
  /// report.
  virtual bool send_copy(ConstBytes /*message*/) { return false; }
  virtual bool revoke_now(std::span<const RemoteSegment> /*segments*/) { return false; }
};

/// Counters, and the negotiated values, for the `info` command and for tests.
struct Facts {
  std::uint32_t call_threshold = 1024;   ///< inline limit towards the server (3.3.2, RFC 8797 5.2)
  std::uint32_t reply_threshold = 1024;  ///< inline limit from the server
  bool private_data_seen = false;
  bool remote_invalidation = false;
  std::uint32_t granted = 0;  ///< credits that the last Reply granted; 0 before the first Reply
  std::uint64_t calls = 0, replies = 0, retransmissions = 0, connects = 0, reconnects = 0, discarded = 0;
  std::uint64_t credit_waits = 0;    ///< calls that found a connection but no credit
  std::uint32_t most_in_flight = 0;  ///< the largest number of credits in use at once
  /// Numbers of Calls sent: with a Read chunk for the whole Call, with Read chunks for its items, with no
  /// chunk.
  std::uint64_t long_calls = 0, reduced_calls = 0, plain_calls = 0;
  std::uint64_t write_chunks_offered = 0, reply_chunks_offered = 0, long_replies = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< moved by Sends: calls, and their Replies
  /// Bytes moved by RDMA: offered to the server in Read chunks, and placed by it into Write and Reply chunks.
  std::uint64_t bytes_exposed = 0, bytes_placed = 0;
  /// Numbers of Calls of the server's that were delivered, of answers to them, and of RDMA_ERRORs sent
  /// instead.
  std::uint64_t backward_calls = 0, backward_replies = 0, backward_refused = 0;
};

class Requester {
 public:
  /// `first_xid` must be unpredictable. `peer` names the server in messages. `memory` must outlive the
  /// requester.
  Requester(const Config& config, Exposer& memory, std::uint32_t first_xid, std::string peer);
  ~Requester();

  // inputs
  CallId submit(Call&& call, TimePoint now);
  /// Ends an RPC early; Complete with Failure::cancelled follows once its memory is out of the server's
  /// reach.
  void cancel(CallId id, TimePoint now);
  /// Clears the owner of a call whose owner goes away. Complete will then have none, also a Complete that is
  /// queued already.
  void disown(CallId id);
  /// The state of the memory of an RPC that its owner has cancelled, and whose end has not been reported yet.
  enum class Memory : std::uint8_t {
    free,         ///< out of the server's reach
    taken_back,   ///< its Revoke has been performed or is with the caller, and has not been confirmed
    out_of_hand,  ///< only the end of the connection takes it back
  };
  /// Returns the state of a cancelled RPC's memory. If its Revoke has not been performed yet, it is moved to
  /// `revoke`, and the caller has to perform it now.
  Memory want_back(CallId id, std::optional<Revoke>& revoke);
  /// Returns the RPCs that have an owner and no outcome yet, in the order in which they were submitted.
  [[nodiscard]] std::vector<CallId> owned() const;
  /// Asks for a connection even if there is no RPC to send (at start-up).
  void connect(TimePoint now);
  /// While on, a lost connection is replaced even if there is no RPC to send, without end. Used while the
  /// layer above holds state that the server may recall by a Call of its own (RFC 8167 5.4).
  void hold(bool on, TimePoint now);
  /// Turns on health checks (RFC 8267 4.6). From now on wants_health_check() asks for one on each connection
  /// that was silent for the time `every`. If a health check is not answered for that time, and nothing else
  /// was heard meanwhile, the connection is closed. Duration::max(): no health checks.
  void check_health(Duration every, TimePoint now);
  /// Returns true if a health check is due; then the caller submits one (Call::health_check). Call this after
  /// on_time().
  bool wants_health_check(TimePoint now);
  /// Returns when the next health check may be due; TimePoint::max(): never.
  [[nodiscard]] TimePoint next_health_check() const;
  /// Answers a Call of the server's. `reply` is the whole RPC Reply; the requester fills in its first four
  /// bytes (the xid). Its items are sent inline; everything is copied. A Reply that is too large for this
  /// connection (28 bytes of header and the Reply over Facts::call_threshold) becomes ERR_CHUNK. No answer is
  /// sent to a Call of an earlier connection.
  void answer(BackwardId id, const xdr::Message& reply);
  /// Refuses a Call of the server's by RDMA_ERROR, because no RPC Reply is possible.
  void decline(BackwardId id);
  void on_answer_sent(BackwardId cookie);
  void on_connected(ConstBytes peer_private_data, TimePoint now);
  /// `permanent`: trying again cannot help (wrong address family, permanently rejected).
  void on_connect_failed(const Error& why, bool permanent, TimePoint now);
  /// If `why` is of the kind ErrorKind::cancelled, the connection ended because of abandoned memory
  /// (fabric.h), and no Notice is given.
  void on_disconnected(const Error& why, TimePoint now);
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated, TimePoint now);
  void on_sent(CallId cookie, TimePoint now);
  void on_revoked(CallId cookie, bool ok, TimePoint now);
  void on_time(TimePoint now);
  /// Ends every RPC (Failure::closed) and the connection. Nothing may be submitted afterwards.
  void shut_down(TimePoint now);

  // outputs
  /// Returns the next action, which the caller may modify; nullptr if there is none. The action stays in
  /// place until next() is called again, whatever inputs are given meanwhile.
  Action* next();
  /// Like next(), but moves the action out.
  std::optional<Action> poll();
  /// Returns the latest time at which on_time() must be called.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// Returns the private data for the connection request (RFC 8797 4); empty if Config::announce is off.
  [[nodiscard]] std::vector<std::byte> private_data() const;
  /// Like private_data(), and sets whether the peer may invalidate the handles of this connection, in place
  /// of Config's value.
  [[nodiscard]] std::vector<std::byte> private_data(bool remote_invalidation);
  [[nodiscard]] const Facts& facts() const;
  [[nodiscard]] bool connected() const;
  /// The number of calls submitted and not yet completed.
  [[nodiscard]] std::size_t pending() const;
  /// The bytes of the pending calls, plus a fixed amount for each call; and how many of the calls are bulk.
  [[nodiscard]] std::size_t load() const;
  [[nodiscard]] std::size_t bulk_calls() const;
  /// The number of credits in use.
  [[nodiscard]] std::uint32_t in_flight() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nfsrdma::rpcrdma
