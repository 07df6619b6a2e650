// What an engine counts, for people to look at. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "async/latencies.h"
#include "rpc/channel.h"

namespace nfsrdma::engine {

/// The calls of one kind, as the engine names them.
struct CallCounters {
  const char* what = "";
  std::uint64_t refused = 0;     ///< answered with a refusal, those included that were overcome
  std::uint64_t failed = 0;      ///< ended without an answer that could be used
  std::uint64_t sent_again = 0;  ///< how often, since a connection was lost
  /// RPC messages with their data, however it travelled; once for each call that was answered.
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  async::Latencies waited;      ///< from the call until it was sent (for the last time): credits, connection
  async::Latencies round_trip;  ///< from there until its Reply was there

  void ended(const xdr::Message& call, const rpc::Outcome& outcome);
  void answered(std::size_t sent, std::size_t received, const rpcrdma::Trip& trip);
  void add(const CallCounters& other);
};

struct ServerCounters {
  /// Those of the name, which is known by its address: it must live as long as this does. The reference is
  /// good until the next one is asked for.
  CallCounters& of(const char* what);

  std::vector<CallCounters> calls;
  std::vector<const char*> names;  ///< of `calls`, close together for of()
  std::uint64_t slot_waits = 0;
  std::uint64_t slot_waited_us = 0;
  std::uint32_t highest_slot = 0;
  std::uint64_t recoveries = 0;
  std::uint64_t hole_bytes = 0;  ///< bytes read in holes that the server reported and did not send
  std::uint64_t delegations_granted = 0, delegations_recalled = 0, delegations_revoked = 0;
};

/// What an engine has of the server's state, and of the slots of its session, at the moment. Zero: its version
/// has none.
struct ServerHoldings {
  std::uint32_t slots = 0, slots_busy = 0, slots_retired = 0;
  std::size_t opens = 0, delegations = 0;
  std::size_t locks = 0;  ///< ranges
};

}  // namespace nfsrdma::engine
