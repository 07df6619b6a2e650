// The counters of an engine, for display. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "async/latencies.h"
#include "rpc/channel.h"

namespace nfsrdma::engine {

/// Counters of the calls of one kind, by the name that the engine gives it.
struct CallCounters {
  const char* what = "";
  std::uint64_t refused = 0;     ///< answered with a refusal, including those that the engine recovered from
  std::uint64_t failed = 0;      ///< calls that ended without a usable answer
  std::uint64_t sent_again = 0;  ///< times that a call was sent again because a connection was lost
  /// Size of the RPC messages including their data, however it was transferred; counted once for each
  /// answered call.
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  /// Time from the call until it was last sent, spent waiting for credits and a connection.
  async::Latencies waited;
  async::Latencies round_trip;  ///< time from then until its Reply arrived

  void ended(const xdr::Message& call, const rpc::Outcome& outcome);
  void answered(std::size_t sent, std::size_t received, const rpcrdma::Trip& trip);
  void add(const CallCounters& other);
};

struct ServerCounters {
  /// Returns the counters for the name, which is identified by its address and must live as long as this. The
  /// reference is valid until the next call of this function.
  CallCounters& of(const char* what);
  CallCounters& add(const char* what);  ///< for of(), if the name is new

  std::vector<CallCounters> calls;
  /// A hash table of the addresses of the names, with open addressing. Its size is a power of two, and half of it at
  /// least is empty.
  struct Place {
    const char* what = nullptr;
    std::size_t index = 0;  ///< in `calls`
  };
  std::vector<Place> places = std::vector<Place>(64);
  std::uint64_t slot_waits = 0;
  std::uint64_t slot_waited_us = 0;
  std::uint32_t highest_slot = 0;
  std::uint64_t recoveries = 0;
  /// Bytes of holes that were read without being transferred, because the server reported the holes.
  std::uint64_t hole_bytes = 0;
  std::uint64_t delegations_granted = 0, delegations_recalled = 0, delegations_revoked = 0;
};

/// Returns the counters of the calls by their names, in capitals. Several counters may have one name, because they
/// are kept by the address of the name; they are added up.
std::map<std::string, CallCounters> calls_by_name(const ServerCounters& server);

/// The state that an engine holds on the server, and the slots of its session, at the moment. Zero if its
/// version has none.
struct ServerHoldings {
  std::uint32_t slots = 0, slots_busy = 0, slots_retired = 0;
  std::size_t opens = 0, delegations = 0;
  std::size_t locks = 0;  ///< number of ranges
};

}  // namespace nfsrdma::engine
