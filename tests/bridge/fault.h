// Faults that the bridge commits on purpose: their table, and the dice. Pure: no clock, no randomness but the
// seed.
//
// A fault is asked for as NAME, NAME=RATE (a share of the Replies, 0 to 1; 0.05 where none is given) or,
// where the table says so, NAME=N. Each fault throws dice of its own, so that one more fault does not change
// when the others strike: with the same seed and the same sequence of Replies the same things happen.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/result.h"

namespace nfsrdma::bridge {

enum class Fault : std::uint8_t {
  drop_reply,
  delay_reply,
  duplicate_reply,
  reorder_reply,
  disconnect_at,
  disconnect_in_write,
  lower_grant,
  zero_grant,
  wrong_xid,
  truncated_header,
  err_vers,
  err_chunk,
  fewer_chunks,
  more_chunks,
  other_handle,
  overlong_chunk,
  oversized_count,
  oversized_message,
  msgp,
  done,
  backward_call,
  private_data,
  left_inline,
  late_write,
};

struct FaultRow {
  Fault fault;
  const char* name;
  const char* text;
  bool counts = false;  ///< takes a number N instead of a rate
};

// clang-format off
inline constexpr std::array kFaults{
    FaultRow{Fault::drop_reply, "drop-reply", "the server executed the Call, and its Reply is lost"},
    FaultRow{Fault::delay_reply, "delay-reply", "a Reply is late, by 1 to 200 ms"},
    FaultRow{Fault::duplicate_reply, "duplicate-reply", "a Reply comes twice"},
    FaultRow{Fault::reorder_reply, "reorder-reply", "a Reply waits for the next one, or 50 ms, and comes after it"},
    FaultRow{Fault::disconnect_at, "disconnect-at", "the connection ends instead of its N-th Reply", true},
    FaultRow{Fault::disconnect_in_write, "disconnect-in-write", "the connection ends in the middle of an RDMA Write"},
    FaultRow{Fault::lower_grant, "lower-grant", "a Reply grants few credits, 1 to 3"},
    FaultRow{Fault::zero_grant, "zero-grant", "a Reply grants no credit"},
    FaultRow{Fault::wrong_xid, "wrong-xid", "the transport header, or the RPC header too, has another xid"},
    FaultRow{Fault::truncated_header, "truncated-header", "a Reply ends within its transport header"},
    FaultRow{Fault::err_vers, "err-vers", "RDMA_ERROR, ERR_VERS instead of a Reply"},
    FaultRow{Fault::err_chunk, "err-chunk", "RDMA_ERROR, ERR_CHUNK instead of a Reply"},
    FaultRow{Fault::fewer_chunks, "fewer-chunks", "a chunk or segment that was offered is not returned"},
    FaultRow{Fault::more_chunks, "more-chunks", "a chunk or segment is returned that was not offered"},
    FaultRow{Fault::other_handle, "other-handle", "a chunk is returned with another handle or offset"},
    FaultRow{Fault::overlong_chunk, "overlong-chunk", "a chunk is returned with more bytes than were offered"},
    FaultRow{Fault::oversized_count, "oversized-count", "a count in the Reply is larger than what it counts"},
    FaultRow{Fault::oversized_message, "oversized-message", "a Send is larger than the client's Receives"},
    FaultRow{Fault::msgp, "msgp", "an RDMA_MSGP comes before a Reply"},
    FaultRow{Fault::done, "done", "an RDMA_DONE comes before a Reply"},
    FaultRow{Fault::backward_call, "backward-call", "a backward Call of no known program comes before a Reply"},
    FaultRow{Fault::private_data, "private-data", "a connection has other private data, none, or none that is valid"},
    FaultRow{Fault::left_inline, "left-inline", "a result that had a Write chunk is left in the Reply"},
    FaultRow{Fault::late_write, "late-write", "250 ms after a Reply its chunks are written once more, with rubbish"},
};
// clang-format on

inline constexpr double kDefaultRate = 0.05;

struct FaultSpec {
  Fault fault = Fault::drop_reply;
  double rate = 0;
  std::uint64_t count = 0;
};

/// "drop-reply=0.01", "msgp", "disconnect-at=50". An Error (usage) says what would be right.
[[nodiscard]] Result<FaultSpec> parse_fault(std::string_view text);
/// One line for each fault, for --help.
[[nodiscard]] std::string fault_help();

/// The dice of one bridge.
class Faults {
 public:
  explicit Faults(const std::vector<FaultSpec>& specs = {}, std::uint64_t seed = 1);

  /// Whether it strikes now. Counts the strikes.
  bool strikes(Fault fault);
  /// For disconnect-at: N, 0 where it was not asked for.
  [[nodiscard]] std::uint64_t number(Fault fault) const { return at(fault).count; }
  void count(Fault fault) { ++at(fault).struck; }
  /// A number in [0, limit), from the fault's own dice.
  std::uint64_t pick(Fault fault, std::uint64_t limit);
  [[nodiscard]] std::uint64_t struck(Fault fault) const { return at(fault).struck; }
  /// "drop-reply 3, msgp 5": all that were asked for.
  [[nodiscard]] std::string summary() const;

 private:
  struct One {
    bool asked = false;
    double rate = 0;
    std::uint64_t count = 0, struck = 0;
    std::mt19937_64 dice;
  };
  [[nodiscard]] One& at(Fault fault) { return all_[static_cast<std::size_t>(fault)]; }
  [[nodiscard]] const One& at(Fault fault) const { return all_[static_cast<std::size_t>(fault)]; }
  std::array<One, kFaults.size()> all_;
};

namespace detail {
consteval bool faults_in_order() {
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    if (kFaults[i].fault != static_cast<Fault>(i)) return false;
  }
  return kFaults.back().fault == Fault::late_write;
}
static_assert(faults_in_order(), "a row of kFaults is missing or misplaced");
}  // namespace detail

}  // namespace nfsrdma::bridge
