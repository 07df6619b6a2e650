// OPENs under way, and what happens meanwhile to the state and the delegations that they return.
//
//     const Openings::Guard guard(openings);            // before the OPEN is sent
//     … the Reply brings a stateid and perhaps a delegation …
//     if (guard.is_over(stateid, reply)) …the server has closed that state already
//
// The server executes calls in another order than their answers come in. If a CLOSE overtakes the answer to
// an OPEN of the same state, closed() notes that for every OPEN under way. The recall of a delegation may
// likewise overtake the answer to the OPEN that grants it (delegations.h).
//
// An OPEN whose answer was lost, with its session or because the server had not cached it, may have granted a
// delegation that this client does not know. in_doubt() then holds until there is another client id, because the
// delegation belongs to the client id, not to the session.
//
// Confined to the loop's thread. A Guard must not outlive its Openings.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs4/compound/call_layer.h"
#include "nfs4/state/outstanding.h"

namespace nfsrdma::nfs4 {

class Openings {
 public:
  Openings(const CallLayer& calls, Outstanding& outstanding) : calls_(calls), outstanding_(outstanding) {}
  Openings(const Openings&) = delete;
  Openings& operator=(const Openings&) = delete;

  class Guard {
   public:
    explicit Guard(Openings& all) : all_(all), number_(++all.last_), counted_(all.outstanding_) {
      all_.guards_.push_back(this);
    }
    ~Guard() {
      std::erase(all_.guards_, this);
      if (all_.on_ended) all_.on_ended();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    /// Whether the state that the OPEN returned is gone: it has been closed, or belongs to an earlier client
    /// id. Seqids cannot tell this, because they order the changes of one state only (RFC 8881 8.2.2).
    [[nodiscard]] bool is_over(const stateid4& stateid, const CompoundReply& reply) const {
      return reply.epoch() != all_.calls_.epoch() || closed_.size() == kMostClosed ||
             std::ranges::find(closed_, stateid.other) != closed_.end();
    }

   private:
    friend class Openings;
    /// If this many states were closed meanwhile, is_over() returns true: one more OPEN costs less than a
    /// longer list.
    static constexpr std::size_t kMostClosed = 1000;
    Openings& all_;
    const std::uint64_t number_;
    const Outstanding::One counted_;
    std::vector<decltype(stateid4::other)> closed_;
  };

  [[nodiscard]] bool empty() const { return guards_.empty(); }
  /// Returns a number for the OPENs under way now. have_ended() later says whether they have ended, whatever
  /// other OPENs have begun since.
  [[nodiscard]] std::uint64_t now() const { return last_; }
  [[nodiscard]] bool have_ended(std::uint64_t until) const {
    return guards_.empty() || guards_.front()->number_ > until;
  }
  /// Called when the server has closed the state.
  void closed(const stateid4& stateid) {
    for (Guard* guard : guards_) {
      if (guard->closed_.size() < Guard::kMostClosed) guard->closed_.push_back(stateid.other);
    }
  }
  /// Called when the answer to a call was lost for good: it may have been the answer to an OPEN under way.
  void doubt() {
    if (!empty()) doubted_epoch_ = calls_.epoch();
  }
  [[nodiscard]] bool in_doubt() const { return doubted_epoch_ == calls_.epoch(); }

  /// Called when an OPEN that was under way has ended.
  std::function<void()> on_ended;

 private:
  const CallLayer& calls_;
  Outstanding& outstanding_;
  std::vector<Guard*> guards_;  // in the order in which they began
  std::uint64_t last_ = 0;      // number of OPENs that have begun
  std::optional<std::uint64_t> doubted_epoch_;
};

/// Returned by settle_owner() if the server has answered an OPEN with its answer to an earlier one. The OPEN
/// must be sent again, because the file and the stateid in that answer belong to the earlier one.
inline Error repeated_answer(std::string server) {
  return {ErrorKind::connection,
          EAGAIN,
          NFS4ERR_BAD_SEQID,
          "OPEN",
          std::move(server),
          "the server has repeated its answer to an earlier OPEN; please report this with a capture of the "
          "traffic"};
}
inline bool is_repeated_answer(const Status& settled) {
  return !settled && settled.error().kind() == ErrorKind::connection &&
         settled.error().status() == NFS4ERR_BAD_SEQID;
}

}  // namespace nfsrdma::nfs4
