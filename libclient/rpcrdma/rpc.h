// Private to the requester: one RPC, and the table that finds it by its id and by its xid.
//
// An Rpc outlives its completion while something still refers to it. The fabric reads its Send until
// on_sent(). An RPC that was given up (cancelled, timed out) holds its credit until the late Reply or the end
// of the connection, because the server still counts it (RFC 8166 3.3.1). Records are pooled together with
// their buffers, so that a steady load does not allocate here.
//
// Ids count up from 1, and xids in step with them from first_xid, so one table serves both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

#include "reply_sizing/plan.h"
#include "rpcrdma/header.h"
#include "rpcrdma/requester.h"

namespace nfsrdma::rpcrdma {

/// The credits that an answer grants (RFC 8166 3.3), and the answer's number in order of arrival.
struct Grant {
  std::uint32_t credits = 0;
  std::uint64_t arrival = 0;
};

struct Rpc {
  enum class Stage : std::uint8_t {
    queued,     ///< waits for a connection and a credit; nothing exposed
    sent,       ///< waits for its Reply
    revoking,   ///< its outcome is known; waits for on_revoked() or the end of the connection
    completed,  ///< its caller has the outcome
  };
  CallId id = 0;
  std::uint32_t xid = 0;
  Stage stage = Stage::queued;
  bool unanswered = false;   ///< sent on this connection, and holds one of its credits
  bool send_posted = false;  ///< the fabric may be reading `bytes`
  std::uint32_t sends = 0;   ///< more than one: it was also sent on earlier connections
  Call call;
  std::size_t data_size = 0;  ///< data_size() of the call when it was submitted
  TimePoint hold_until;       ///< a suspect (Call::is_suspect) is not sent before this time
  TimePoint submitted_at, sent_at;
  TimePoint revoke_until;                         ///< valid while `revoking`, if the connection is up
  std::vector<reply_sizing::ResultBound> bounds;  ///< scratch of marshal()

  rdma_msg header;                          ///< the header as sent; the Reply's chunks are checked against it
  xdr::Buffer bytes;                        ///< the bytes of the Send
  std::vector<RemoteSegment> exposed;       ///< segments that the peer can still reach
  std::vector<RemoteSegment> abandoned;     ///< segments taken back before the peer had answered
  std::unique_ptr<std::byte[]> long_call;   ///< memory that the Position Zero Read chunk names
  std::unique_ptr<std::byte[]> long_reply;  ///< memory that the Reply chunk names

  // the outcome, while `revoking`
  Failure failure = Failure::none;
  std::optional<Error> error;
  std::optional<Reply> reply;
  Grant grant;  ///< credits granted by a Long Reply

  [[nodiscard]] bool finished() const { return stage == Stage::completed && !unanswered && !send_posted; }
  /// Returns whether `handle` was exposed for this RPC when it was last sent.
  [[nodiscard]] bool offered(std::uint32_t handle) const;
  /// Clears the chunks and frees the copies behind them.
  void forget_memory();

 private:
  friend class RpcTable;
  std::size_t index_ = 0;  // in RpcTable::records_
  Rpc* next_ = nullptr;    // in its bucket
};

/// All RPCs that something refers to.
class RpcTable {
 public:
  explicit RpcTable(std::uint32_t first_xid) : first_xid_(first_xid), buckets_(kFirstBuckets) {}

  /// Adds a record with an id and an xid that no other record has.
  Rpc& add();
  void remove(Rpc& rpc);
  [[nodiscard]] Rpc* find(CallId id) const;
  [[nodiscard]] Rpc* find_xid(std::uint32_t xid) const;
  /// All records, in no particular order. add() and remove() change the list.
  [[nodiscard]] auto active() const {
    return std::span(records_).first(active_) | std::views::transform(&std::unique_ptr<Rpc>::get);
  }
  /// Returns a copy of active(), oldest first, for loops during which RPCs may end.
  [[nodiscard]] std::vector<Rpc*> in_order() const;

 private:
  static constexpr std::size_t kFirstBuckets = 256;  // a power of two, like all later sizes
  static constexpr std::size_t kMostFree = 256;      // records that are kept for later calls
  [[nodiscard]] std::uint32_t xid_of(CallId id) const {
    return first_xid_ + static_cast<std::uint32_t>(id - 1);
  }
  [[nodiscard]] std::size_t bucket(std::uint32_t xid) const { return xid & (buckets_.size() - 1); }
  void link(Rpc& rpc);
  void grow();

  const std::uint32_t first_xid_;
  CallId last_id_ = 0;
  std::vector<Rpc*> buckets_;
  // First the active records, then those that are free, the one that was freed last first.
  std::vector<std::unique_ptr<Rpc>> records_;
  std::size_t active_ = 0;  // number of the active records
};

}  // namespace nfsrdma::rpcrdma
