// Counts the kernel's requests by operation: how many there were, how many were refused, and how long each
// took from its arrival to its answer. Times are the loop's, which stand still during a turn.
//
// A request is answered while it is handled, or later. Code that answers later takes the Ticket while the
// request is being handled. If the Ticket was not taken by the end of the handling, the request counts as
// answered.
//
// Does not depend on libfuse. Confined to the loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "async/latencies.h"
#include "async/loop.h"

namespace nfsrdma::fuse {

class RequestCounters {
 public:
  /// Operations have the kernel's numbers (FUSE_LOOKUP and so on); 0 stands for those that are not known
  /// here.
  static constexpr unsigned kOperations = 64;
  struct Operation {
    std::uint64_t errors = 0;  ///< requests of `took` that were answered with an errno
    std::uint64_t under_way = 0;
    async::Latencies took;
  };
  struct Ticket {
    unsigned operation = 0;
    async::TimePoint arrived;
  };

  void arrived(std::uint32_t operation, async::TimePoint now) {
    current_ = {operation < kOperations ? operation : 0, now};
    taken_ = false;
    ++under_way_;
    ++operations_[current_.operation].under_way;
    waited_for_ += is_waited_for(current_.operation) ? 1 : 0;
  }
  Ticket take() {
    taken_ = true;
    return current_;
  }
  void handled(async::Loop& loop) {
    if (!taken_) answered(take(), false, loop.now());
  }
  void answered(const Ticket& ticket, bool refused, async::TimePoint now) {
    Operation& of = operations_[ticket.operation];
    of.errors += refused ? 1 : 0;
    of.took.add(now - ticket.arrived);
    --under_way_;
    --of.under_way;
    waited_for_ -= is_waited_for(ticket.operation) ? 1 : 0;
  }

  [[nodiscard]] const Operation& operator[](unsigned operation) const { return operations_[operation]; }
  [[nodiscard]] std::uint64_t under_way() const { return under_way_; }
  /// Number of requests under way that a process may wait for.
  [[nodiscard]] std::uint64_t waited_for() const { return waited_for_; }
  [[nodiscard]] std::uint64_t writes_under_way() const;
  /// Returns true if a process may wait for the answer.
  static bool is_waited_for(unsigned operation);

 private:
  std::array<Operation, kOperations> operations_{};
  std::uint64_t under_way_ = 0, waited_for_ = 0;
  Ticket current_;
  bool taken_ = true;
};

/// Returns "LOOKUP" and so on, or the number of an operation that has no name here.
std::string operation_name(unsigned operation);

}  // namespace nfsrdma::fuse
