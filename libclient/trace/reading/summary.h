// Sums over the calls of a trace: by kind their number, times, bytes and failures.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/reading/event.h"

namespace nfsrdma::trace {

class Summary {
 public:
  struct Row {
    std::string kind;
    std::uint64_t count = 0, failed = 0, bytes = 0;
    /// Times of the calls whose Replies are in the trace.
    std::chrono::nanoseconds mean{}, p50{}, p99{}, most{};
  };
  /// Counts a Reply. Other events are only looked at for retransmissions and lost connections.
  void add(const Event& event, const std::string& kind);
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t replies() const { return replies_; }
  [[nodiscard]] std::uint64_t retransmissions() const { return retransmissions_; }
  [[nodiscard]] std::uint64_t connections() const { return connections_; }
  [[nodiscard]] std::uint64_t strange() const { return strange_; }

 private:
  /// Kinds of calls in a hostile file are counted together from this number on.
  static constexpr std::size_t kMostKinds = 1000;
  struct Sum {
    std::uint64_t count = 0, failed = 0, bytes = 0;
    std::vector<std::uint64_t> times;  // nanoseconds
  };
  std::map<std::string, Sum> kinds_;
  std::uint64_t calls_ = 0, replies_ = 0, retransmissions_ = 0, connections_ = 0, strange_ = 0;
};

}  // namespace nfsrdma::trace
