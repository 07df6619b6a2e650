// The requester's side of RPC-over-RDMA version 1 (RFC 8166, RFC 8797), as a state machine without I/O.
//
// In: calls to make, messages received, completions, the time. Out: actions, taken with poll() until it gives
// none. It has no socket, no clock, no thread and no randomness of its own, so both fabrics drive the same
// code and every rule is tested on virtual time. What a fabric does at once and without an answer (Exposer) is
// no action: memory is exposed, and on some fabrics a short Call is sent and memory taken back.
//
// The life of one RPC: submit() queues it → a credit comes free (3.3) → it is marshalled for the thresholds
// of this connection (3.5): inline, reduced, or as a Long Call; memory for its result is exposed → Send → its
// Reply arrives and is checked (4.3, 4.5) → Revoke what was exposed (4.4.1) → Complete. Nothing completes
// before its memory is out of the peer's reach.
//
// An RPC that is given up (cancelled, or past its deadline) while the server works on it goes the same way,
// without the Reply: its memory is revoked, and it completes (8.1.3). The server knows nothing of that. Until
// its Reply has come the call holds its credit, and the fabric is asked to bear with a use of its handles:
// Revoke says so with `abandoned`, Forget ends it. A connection that has to go for it is replaced without a
// Notice, since nobody has done anything wrong.
//
// No wait is without end: a call waits for its Reply until Config::reply_timeout or its deadline, its caller
// for the invalidation until Config::revoke_timeout, and what is overdue costs the connection, with which all
// handles go (4.5.4).
//
// Who owns what: a Call's message, the memory of its items and of its results stay as they are from submit()
// until Complete; Complete gives the Call's message back for reuse. The bytes of a Send action belong to the
// requester and stay valid until on_sent(cookie) or on_disconnected().
//
// On connection loss every RPC that has no Reply goes back to the queue and is sent again on the next
// connection with the same xid, marshalled anew (4.5.3); its deadline runs on. Deadlines are absolute.
//
// The server may call, too, where Config::backward_credits lets it (RFC 8167): Deliver hands its Call to the
// layer above, answer() sends the Reply. What is served, and what becomes of the rest: backward.h.
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

/// A list of values that needs no allocation for one of them: nearly every RPC has one result at most that is
/// DDP-eligible. Own code because boost::container::small_vector takes fifty instructions to be moved.
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
  /// A T or none, which is copied as bytes are.
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
  Slot one_;             // the only one
  std::vector<T> more_;  // or all
};

/// Names an RPC for its caller and in cookies. Never 0, never used again.
using CallId = std::uint64_t;

/// Names a Call of the server's. Never 0, never used again, on no connection. Not a CallId: both count
/// from 1.
using BackwardId = std::uint64_t;

/// One DDP-eligible result of the Reply, in the order of the results.
struct ResultTarget {
  Bytes destination;           ///< where it is wanted; its size is the most that may come
  bool wanted_inline = false;  ///< offer no memory for it (4.3.2.3): it comes in the stream and is copied
};

/// Protects a Call on its way, as RPCSEC_GSS does (RFC 2203 5.3). It is asked at each sending, with the xid in
/// place, since a server takes no protected bytes a second time.
class Seal {
 public:
  Seal() = default;
  virtual ~Seal() = default;
  Seal(const Seal&) = delete;
  Seal& operator=(const Seal&) = delete;
  /// What goes out instead of `message`, which stays as it is. Valid until the next time.
  virtual Result<const xdr::Message*> seal(const xdr::Message& message) = 0;
  /// Whether arguments and results are changed, too. Then none of them may travel by itself (RFC 8166 8.2.2), in either
  /// direction; the items of what seal() gives are of whole words, and say only where their bytes stand.
  [[nodiscard]] virtual bool covers_data() const = 0;
};

/// Of what may travel by itself in an RPC, both ways.
[[nodiscard]] inline std::size_t data_size(const xdr::Message& message, const Few<ResultTarget>& results) {
  std::size_t out = 0;
  for (const xdr::Item& item : message.items) out += item.data.size();
  for (const ResultTarget& result : results) out += result.destination.size();
  return out;
}
/// From so much on it is bulk.
inline constexpr std::size_t kBulk = 64U << 10;

/// A call that was in flight at so many losses of connections in a row may be what breaks them (connection.cpp).
inline constexpr unsigned kLossesOfSuspect = 2;

/// An RPC to make.
struct Call {
  xdr::Message
      message;  ///< the whole RPC Call; its first four bytes (the xid) are filled in by the requester
  Seal* seal = nullptr;  ///< the caller's, as the message's memory is
  Few<ResultTarget> results;
  std::uint64_t reply_max_inline = 0;   ///< the largest RPC Reply with all results in the stream
  std::uint64_t reply_max_reduced = 0;  ///< the same, with the results that are not wanted inline taken out
  TimePoint deadline = TimePoint::max();
  bool health_check = false;  ///< may use the credit that is kept for such (RFC 8267 4.6)
  /// A health check that goes before all others: what has to be said first on a new connection.
  bool first = false;
  /// How many connections in a row have ended while the call was in flight on them. The requester counts on from there,
  /// and says with Complete where it has come to, for whoever makes the call again on another connection.
  unsigned losses = 0;
  void* owner = nullptr;  ///< comes back with Complete; see disown()
  [[nodiscard]] std::size_t data_size() const { return rpcrdma::data_size(message, results); }
  /// Nothing could go on where what a connection has to begin with was held back.
  [[nodiscard]] bool is_suspect() const { return losses >= kLossesOfSuspect && !first; }
};

/// How long one RPC took, for statistics.
struct Trip {
  Duration waited{};        ///< from submit() to its last Send: for a credit, for a connection
  Duration round_trip{};    ///< from there until its Reply arrived
  std::uint32_t sends = 0;  ///< more than one: it was sent again on another connection
};

/// What came back. The views live as long as the Reply does.
struct Reply {
  Trip trip;
  ConstBytes message;                           ///< the RPC Reply, from its xid on, reduced as it came
  Few<xdr::Placement> placements;               ///< for xdr::Decoder, one for each ResultTarget of the Call
  std::optional<fabric::ReceiveBuffer> buffer;  // keeps `message` alive: inline
  std::unique_ptr<std::byte[]> long_reply;      // keeps `message` alive: from the Reply chunk
};

/// Why an RPC ended without a Reply: what the caller decides on. The Error beside it is for people.
enum class Failure : std::uint8_t {
  none,
  timed_out,  ///< its deadline passed
  cancelled,
  unreachable,       ///< no connection can be had, and trying again cannot help
  cannot_construct,  ///< RFC 8166 4.5.4: no memory to expose, or larger than the protocol can say
  err_vers,          ///< the peer answered RDMA_ERROR, ERR_VERS
  err_chunk,         ///< the peer answered RDMA_ERROR, ERR_CHUNK
  bad_reply,         ///< the Reply broke the protocol (4.3, 6.1)
  closed,            ///< the requester was shut down
};

struct Config {
  std::uint32_t credits_wanted = 64;  ///< asked for in every Call (3.3.1)
  std::uint32_t send_size = 4096;     ///< the largest message that we would send (RFC 8797)
  std::uint32_t receive_size = 4096;  ///< the size of the Receives that we post; 1024 at least (3.3.3)
  bool announce = true;               ///< send private data at all
  bool remote_invalidation = false;  ///< let the peer invalidate handles: all of Exposer's bear it (8797 4.1)
  /// On a new connection, before any Reply: then it is replaced. Doubles up to reply_timeout while connection
  /// after connection stays silent, so that a server that is merely slow gets to answer.
  Duration first_reply_timeout = std::chrono::seconds(3);
  Duration reply_timeout = std::chrono::seconds(60);  ///< then the connection is taken for dead, and replaced
  /// An invalidation takes longer: then the connection is replaced (4.5.4).
  Duration revoke_timeout = std::chrono::seconds(10);
  Duration notice_after = std::chrono::seconds(3);           ///< unanswered this long: "not responding"
  Duration reconnect_first = std::chrono::milliseconds(50);  ///< doubles up to the next
  Duration reconnect_most = std::chrono::seconds(5);
  /// A suspect (Call::is_suspect) that has been in flight for so long without a loss lets the next one be sent.
  Duration trial = std::chrono::seconds(1);
  std::uint32_t reserved_credits = 1;  ///< kept for health checks where more than one is granted
  /// Calls that the server may have under way towards us: that many Receives more are posted on every
  /// connection. 0: no backward service, its Calls are discarded.
  std::uint32_t backward_credits = 0;
};

/// Receives beyond one for each call in flight and each backward credit: a message that nobody asked for then costs the
/// connection nothing (3.3.1 asks for as many as there are calls).
inline constexpr std::uint32_t kSpareReceives = 2;

/// So many Receives are posted at the same time, at the most. With a device that holds fewer of them a message may find
/// none, which costs a pause or the connection.
[[nodiscard]] constexpr std::uint32_t most_receives(const Config& config) {
  return config.credits_wanted + config.backward_credits + kSpareReceives;
}

// ---- actions, in the order in which they must be done ----

/// Start a connection; answer with on_connected() or on_connect_failed(). Its private data: private_data().
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
/// An answer to a Call of the server's; on_answer_sent(cookie) follows. The bytes stay valid until then, or
/// until on_disconnected().
struct SendAnswer {
  BackwardId cookie = 0;
  ConstBytes bytes;
};
/// A Call of the server's: answer it with answer() or decline(), now or later.
struct Deliver {
  BackwardId id = 0;
  ConstBytes message;  ///< the RPC Call, from its xid on; lives as long as the buffer
  fabric::ReceiveBuffer buffer;
};
/// Take these back; answer with on_revoked(cookie).
struct Revoke {
  CallId cookie = 0;
  std::vector<RemoteSegment> segments;
  /// The server has not answered the call that they were for, and may go on using them
  /// (fabric::Connection::abandon); Forget follows when it has.
  bool abandoned = false;
};
/// The server is done with these, which were abandoned. No answer.
struct Forget {
  std::vector<RemoteSegment> segments;
};
/// Close the connection now; answer with on_disconnected().
struct Close {
  Error why;
};
struct Complete {
  CallId id = 0;
  Failure failure = Failure::none;
  std::optional<Error> error;  ///< set unless failure is none
  std::optional<Reply> reply;  ///< set if failure is none
  xdr::Message message;        ///< the Call's own, for reuse
  std::uint32_t sends = 0;     ///< how often it left, on whatever connection; 0: the peer cannot know of it
  unsigned losses = 0;         ///< as Call has it
  void* owner = nullptr;       ///< the Call's
};
/// Something its user should hear of, at most once for each occasion.
struct Notice {
  enum class Kind : std::uint8_t {
    connection_lost,
    reconnected,
    not_responding,
    responding_again,
    protocol_oddity,  ///< the peer did something it should not, and it was survived
  } kind = Kind::protocol_oddity;
  std::string text;
};
using Action =
    std::variant<Connect, PostReceives, Send, SendAnswer, Revoke, Forget, Close, Complete, Deliver, Notice>;

/// Exposes memory on the connection of the moment, and does what else needs no action. fabric::Connection does; tests
/// have their own.
class Exposer {
 public:
  virtual ~Exposer() = default;
  virtual Status expose(Bytes memory, fabric::Reach reach, std::vector<RemoteSegment>& to) = 0;
  [[nodiscard]] virtual std::size_t segments_for(std::size_t length) const = 0;
  /// As fabric::Connection has them: what can be done at once needs no action, and no answer to it.
  virtual bool send_copy(ConstBytes /*message*/) { return false; }
  virtual bool revoke_now(std::span<const RemoteSegment> /*segments*/) { return false; }
};

/// Counters, and what was negotiated, for `info` and for tests.
struct Facts {
  std::uint32_t call_threshold = 1024;   ///< inline, towards the server (3.3.2, RFC 8797 5.2)
  std::uint32_t reply_threshold = 1024;  ///< inline, from the server
  bool private_data_seen = false;
  bool remote_invalidation = false;
  std::uint32_t granted = 0;  ///< credits, by the last Reply; 0 before the first
  std::uint64_t calls = 0, replies = 0, retransmissions = 0, connects = 0, reconnects = 0, discarded = 0;
  std::uint64_t credit_waits = 0;    ///< calls that found a connection and no credit
  std::uint32_t most_in_flight = 0;  ///< credits that were in use at once
  /// Of what was sent: with a Read chunk for the whole Call, with Read chunks for its items, with no chunk.
  std::uint64_t long_calls = 0, reduced_calls = 0, plain_calls = 0;
  std::uint64_t write_chunks_offered = 0, reply_chunks_offered = 0, long_replies = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< by Sends: calls, and their Replies
  /// By RDMA: what Read chunks had for the server to fetch, what it put into Write and Reply chunks.
  std::uint64_t bytes_exposed = 0, bytes_placed = 0;
  /// Calls of the server's that were delivered; answers to them; RDMA_ERRORs sent instead.
  std::uint64_t backward_calls = 0, backward_replies = 0, backward_refused = 0;
};

class Requester {
 public:
  /// `first_xid`: unpredictable, from the caller. `peer`: for messages. `memory` must outlive the requester.
  Requester(const Config& config, Exposer& memory, std::uint32_t first_xid, std::string peer);
  ~Requester();

  // inputs
  CallId submit(Call&& call, TimePoint now);
  /// Ends an RPC early; Complete(cancelled) follows once its memory is out of reach.
  void cancel(CallId id, TimePoint now);
  /// Its owner goes: Complete will have none, also one that is in the queue already.
  void disown(CallId id);
  /// Where the memory of an RPC is that its owner has cancelled and wants back before its end is told.
  enum class Memory : std::uint8_t {
    free,         ///< out of the server's reach
    taken_back,   ///< its Revoke has been performed, and nothing has been heard of that
    out_of_hand,  ///< only the connection's end takes it back
  };
  /// Its Revoke, if that has not been performed yet, is the caller's to perform now.
  Memory want_back(CallId id, std::optional<Revoke>& revoke);
  /// Those that have an owner and no outcome yet, in the order in which they were submitted.
  [[nodiscard]] std::vector<CallId> owned() const;
  /// Wants a connection even if there is no RPC to send (at start-up).
  void connect(TimePoint now);
  /// While on, a lost connection is made anew even if there is no RPC to send, without end: the layer above
  /// holds state that the server may recall by a Call of its own (RFC 8167 5.4).
  void hold(bool on, TimePoint now);
  /// From now on each connection on which nothing was heard for the time `every` needs a health check (RFC 8267 4.6):
  /// wants_health_check() says so. A health check that is not answered for so long ends the connection, if nothing else was
  /// heard meanwhile. Duration::max(): never.
  void check_health(Duration every, TimePoint now);
  /// True if it is time for one, which the caller submits (Call::health_check). To be asked after on_time().
  bool wants_health_check(TimePoint now);
  /// When the next one may be due; TimePoint::max(): never.
  [[nodiscard]] TimePoint next_health_check() const;
  /// Answers a Call of the server's. `reply`: the whole RPC Reply; its first four bytes (the xid) are the
  /// requester's to fill in, its items go inline; it is copied. One that is too large for this connection
  /// (28 bytes of header and the Reply over Facts::call_threshold) becomes ERR_CHUNK. Nothing is sent to a
  /// Call of an earlier connection.
  void answer(BackwardId id, const xdr::Message& reply);
  /// No RPC Reply is possible for a Call of the server's: it gets RDMA_ERROR.
  void decline(BackwardId id);
  void on_answer_sent(BackwardId cookie);
  void on_connected(ConstBytes peer_private_data, TimePoint now);
  /// `permanent`: trying again cannot help (wrong address family, rejected for good).
  void on_connect_failed(const Error& why, bool permanent, TimePoint now);
  /// `why` of the kind ErrorKind::cancelled: for the sake of something abandoned (fabric.h), so no Notice.
  void on_disconnected(const Error& why, TimePoint now);
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated, TimePoint now);
  void on_sent(CallId cookie, TimePoint now);
  void on_revoked(CallId cookie, bool ok, TimePoint now);
  void on_time(TimePoint now);
  /// Ends every RPC (Failure::closed) and the connection. Nothing may be submitted afterwards.
  void shut_down(TimePoint now);

  // outputs
  /// The next action, for the caller to change as it likes. It stays where it is until next() is called again, whatever
  /// inputs are given meanwhile. nullptr: there is none.
  Action* next();
  /// The same, moved out.
  std::optional<Action> poll();
  /// When on_time() is wanted at the latest.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// What to put into the connection request (RFC 8797 4); empty if Config::announce is off.
  [[nodiscard]] std::vector<std::byte> private_data() const;
  /// The same for a connection whose handles may be invalidated remotely, or not, whatever Config says.
  [[nodiscard]] std::vector<std::byte> private_data(bool remote_invalidation);
  [[nodiscard]] const Facts& facts() const;
  [[nodiscard]] bool connected() const;
  /// Calls submitted and not yet completed.
  [[nodiscard]] std::size_t pending() const;
  /// Their bytes, with something for each call, and how many of them are bulk.
  [[nodiscard]] std::size_t load() const;
  [[nodiscard]] std::size_t bulk_calls() const;
  /// Credits in use.
  [[nodiscard]] std::uint32_t in_flight() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nfsrdma::rpcrdma
