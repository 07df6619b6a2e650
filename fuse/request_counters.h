// The kernel's requests, counted by their operation: how many, how many were refused, how long each took from
// its arrival until it was answered, as the loop tells the time: in turns.
//
// A request is handled in one go or answered later. Whoever answers later takes the Ticket while the request
// is being handled; for one whose Ticket nobody has taken by the end of that, that was all.
//
// Needs nothing of libfuse. Confined to the loop's thread.
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
  /// By the kernel's number of it (FUSE_LOOKUP and so on); 0 is for those that are not known here.
  static constexpr unsigned kOperations = 64;
  struct Operation {
    std::uint64_t errors = 0;  ///< of those below: answered with an errno
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
  /// Of them: those that are not the kernel's own goodbyes.
  [[nodiscard]] std::uint64_t waited_for() const { return waited_for_; }
  [[nodiscard]] std::uint64_t writes_under_way() const;
  /// Whether a process may wait for the answer.
  static bool is_waited_for(unsigned operation);

 private:
  std::array<Operation, kOperations> operations_{};
  std::uint64_t under_way_ = 0, waited_for_ = 0;
  Ticket current_;
  bool taken_ = true;
};

/// "LOOKUP", or its number where it has no name here.
std::string operation_name(unsigned operation);

}  // namespace nfsrdma::fuse
