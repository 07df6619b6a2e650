// Computes the sizes of a connection's queues from the device's limits and from the wanted sizes. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fabric/verbs/connection.h"
#include "fabric/verbs/segments.h"

namespace nfsrdma::fabric::verbs {

/// How often a message that the network lost is sent again: the largest value of the field.
inline constexpr std::uint8_t transport_retries = 7;
/// How often a message is sent again if the peer had no Receive for it. The field's largest value, 7, means
/// "without end"; work that is posted behind such a message, for example an Invalidate that a caller waits
/// for, would then never complete. Credits ensure that the peer has a Receive (RFC 8166 3.3.1). A peer that
/// is late in posting one has six times its own timer, which is 0.66 s at most.
inline constexpr std::uint8_t receiver_not_ready_retries = 6;

/// The device's limits, from ibv_query_device().
struct Limits {
  std::uint32_t work_requests = 0;  ///< work requests of one queue
  std::uint32_t completions = 0;    ///< entries of one completion queue
  std::uint64_t registration = 0;   ///< octets of one registration
  std::uint32_t windows = 0;        ///< type 2 memory windows; 0: the device has none
  std::uint32_t reads_in = 0, reads_out = 0;
};

/// The queues of one connection.
struct Depths {
  std::uint32_t receives = 0;    ///< work requests of the receive queue, and entries of its completion queue
  std::uint32_t send_slots = 0;  ///< Sends whose octets the slab holds
  std::uint32_t sends = 0;       ///< work requests of the send queue, and entries of its completion queue
  std::uint32_t windows = 0;     ///< the largest number of memory windows
  std::uint32_t reads_in = 0, reads_out = 0;
  std::size_t segment = 0;  ///< the largest number of octets that one handle covers
};

/// The work requests of one Send: the Send itself, and a bind and an invalidate for each window that its RPC
/// exposes. An RPC seldom has more than a Write chunk, a Read chunk and a Reply chunk.
inline constexpr std::uint32_t windows_per_send = 3;
inline constexpr std::uint32_t work_per_send = 1 + 2 * windows_per_send;

[[nodiscard]] constexpr Depths depths(const Queues& wanted, const Limits& limits) {
  const std::uint32_t most = std::max(1U, std::min(limits.work_requests, limits.completions));
  const auto at_most = [](std::uint64_t value, std::uint32_t bound) {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(value, 1, bound));
  };
  const std::uint32_t per_send = limits.windows != 0 ? work_per_send : 1 + windows_per_send;
  Depths out;
  out.receives = at_most(wanted.receive_count, most);
  out.sends = at_most(std::uint64_t{wanted.send_count} * per_send, most);
  out.send_slots = std::min(std::max(1U, wanted.send_count), out.sends);
  out.windows = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(limits.windows, std::uint64_t{wanted.send_count} * 4 * windows_per_send));
  out.reads_in = std::min(wanted.reads, limits.reads_in);
  out.reads_out = std::min(wanted.reads, limits.reads_out);
  out.segment = segment_limit(limits.registration);
  return out;
}

/// Returns the number of RDMA Reads in flight, in one direction, for the answer to a request that allows
/// `asked`. On InfiniBand the answer must not exceed `asked`. On iWARP a 0 may also mean that the peer did
/// not say (MPA revision 1), so our own number is used.
[[nodiscard]] constexpr std::uint32_t answered_reads(std::uint32_t own, std::uint32_t asked, bool is_iwarp) {
  return is_iwarp && asked == 0 ? own : std::min(own, asked);
}

}  // namespace nfsrdma::fabric::verbs
