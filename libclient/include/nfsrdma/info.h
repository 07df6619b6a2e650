// The facts about a connection and its server, as plain values.
//
// Thread-safety: plain values; each thread may have its own copies.
#pragma once

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
  std::uint64_t calls = 0, retransmissions = 0, reconnects = 0;  ///< totals of all connections
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
