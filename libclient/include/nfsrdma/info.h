// The facts about a connection and its server, as plain values.
//
// Thread-safety: plain values; each thread may have its own copies.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfsrdma/types.h"

namespace nfsrdma {

/// The negotiated parameters. Every field describes what this connection really uses.
struct Info {
  std::string server, address, fabric, fabric_detail, fabric_reason;
  std::string device;  ///< the RDMA device; empty on the iwarp fabric
  /// The device has memory windows of type 2, so no buffer is registered for remote access.
  bool memory_windows = false;
  unsigned mpa_revision = 0;
  bool crc = false;
  std::uint32_t ird = 0, ord = 0;
  /// Largest inline message to the server, and from it.
  std::uint32_t call_threshold = 0, reply_threshold = 0;
  std::string security;  ///< the flavor used for the target: "sys", "krb5", ...
  /// The number of calls with each flavor, if the client may use several flavors.
  std::vector<std::pair<std::string, std::uint64_t>> calls_by_security;
  bool private_data = false;          ///< the server sent RFC 8797 private data
  bool remote_invalidation = false;   ///< agreed on by both sides' private data
  bool invalidation_offered = false;  ///< our private data offers it: a server may invalidate our handles
  std::uint32_t credits_wanted = 0, credits_granted = 0;
  std::string version;         ///< NFS version: "4.2", "3"
  unsigned minor_version = 0;  ///< minor version of NFSv4
  std::string ping_call;       ///< what Client::ping() asks the server
  /// Which locking service is used in NFSv3 and NFSv2; empty with NFSv4, which has locks of its own.
  std::string locks;
  std::string read_plus;         ///< how the server answers READ_PLUS; empty if it was not used yet
  std::uint64_t hole_bytes = 0;  ///< bytes read so far that lay in holes and were therefore not sent
  std::uint32_t slots = 0;       ///< most calls in flight
  std::uint32_t max_request = 0, max_response = 0, max_response_cached = 0, max_operations = 0;
  std::uint32_t rsize = 0, wsize = 0;
  std::uint32_t lease_seconds = 0;
  std::string implementation_name, implementation_domain;  ///< empty if the server does not report them
  std::optional<Time> implementation_date;
  std::string server_owner, server_scope;
  std::uint64_t client_id = 0;
  std::string session_id;       ///< hexadecimal
  bool protects_state = false;  ///< only this machine may end the session (SP4_MACH_CRED)
  bool backchannel = false;     ///< the server can call back, so it can grant delegations
  /// NFSv4.0: the address at which it calls back, as a universal address (RFC 5665)
  std::string callback_address;
  std::uint32_t connections = 0;  ///< those of Options::connections that are up and belong to the session
  std::uint32_t shards = 0;       ///< those of Options::shards that work
  std::uint64_t calls = 0, retransmissions = 0, reconnects = 0;  ///< totals of all connections
};

/// The calls of one kind, such as READ. A call of NFSv4 that does several things counts as the one it is made for.
struct CallStatistics {
  std::string name;
  std::uint64_t count = 0;  ///< answered calls
  std::uint64_t refused =
      0;                     ///< those of `count` that were refused, also where the library recovered from it
  std::uint64_t failed = 0;  ///< calls that ended without an answer
  std::uint64_t sent_again = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< of RPC messages, with their data
  /// Time that calls waited for credits and connections, and the longest.
  std::chrono::microseconds waited{0}, longest_wait{0};
  /// Round trips: their sum, the bounds of half and of 99 of 100 of them, and the longest.
  std::chrono::microseconds total{0}, p50{0}, p99{0}, longest{0};
};

/// The cost of a client's calls since it was connected.
struct Statistics {
  std::uint64_t connects = 0, reconnects = 0;  ///< connections made, and those of them after a loss
  std::uint64_t sent = 0, replies = 0, retransmissions = 0;  ///< Calls, Replies, Calls that were sent again
  std::uint64_t callbacks = 0;                               ///< Calls of the server
  std::uint64_t bytes_sent = 0, bytes_received = 0;          ///< in messages and by RDMA
  std::uint64_t credit_waits = 0, slot_waits = 0;            ///< calls that waited
  std::chrono::microseconds slot_waited{0};
  std::uint64_t recoveries = 0, hole_bytes = 0;
  std::uint64_t delegations_granted = 0, delegations_recalled = 0, delegations_revoked = 0;
  std::vector<CallStatistics> calls;
};

/// A directory that the server exports by NFSv3 and NFSv2.
struct Export {
  std::string path;
  /// The clients that may mount it, as the server lists them; empty: everybody.
  std::vector<std::string> clients;
};

/// A client that has mounted an export by NFSv3 or NFSv2, as far as the server knows: a client that was
/// killed stays listed, and clients of NFSv4 do not register.
struct MountedBy {
  std::string client, path;
};

}  // namespace nfsrdma
