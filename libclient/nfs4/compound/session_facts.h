// Options that this client asks for in a session, and facts that the server agreed to. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/read_plus.h"
#include "nfsrdma/info.h"
#include "security/flavor.h"
#include "wire/nfs4/types.h"

namespace nfsrdma::nfs4 {

struct SessionOptions {
  unsigned minor_version = 2;
  bool minor_version_fixed = false;
  std::uint32_t rsize = 1U << 20, wsize = 1U << 20;
  ReadPlus read_plus = ReadPlus::automatic;
  std::uint32_t slots = 64;
  std::uint32_t callback_slots = 0;  // at most the channels' backward credits; 0: no backchannel
  std::shared_ptr<security::Flavor> flavor;
  std::string owner_id;  // co_ownerid: unique to this client instance
  verifier4 verifier{};  // new for every instance (RFC 8881 18.35.3)
  std::chrono::milliseconds timeout{60000};
  /// Time for which a call without a deadline of its own is tried. If it is not set, that is `timeout`.
  std::optional<std::chrono::milliseconds> patience;
  /// Whether locks of an expired lease are claimed again, although another client may have held them in the
  /// meantime and changed what they protect. If false, they are lost at once, as with Linux.
  bool recover_expired_locks = false;
  /// NFSv4.0: address at which the server may call back, in the form of SETCLIENTID (RFC 5665). Empty: the
  /// server does not call back.
  struct Callback {
    std::string netid, address;
    std::uint32_t ident = 0;  ///< the server repeats it in each callback
  };
  Callback callback = {};
  /// Names that lead to the client's target. If they are set, the first call of a session asks which flavours
  /// the server takes there (state/crossing.h), provided that there is a choice.
  std::optional<std::vector<std::string>> target = {};
};

/// Properties of the client id and the session, as the server agreed to them.
struct SessionFacts {
  unsigned minor_version = 0;
  clientid4 client_id = 0;
  /// Counter that increases with each new client id, and with each restart of the server under the same
  /// client id. State of an older epoch is lost.
  std::uint64_t epoch = 0;
  sessionid4 session_id{};
  std::uint32_t slots = 0;
  std::uint32_t max_request = 0, max_response = 0, max_response_cached = 0, max_operations = 0;
  std::uint32_t lease_seconds = 0;
  /// The most bytes in one READ and in one WRITE, as the server says.
  std::uint64_t max_read = ~0ULL, max_write = ~0ULL;
  bool backchannel = false;     // the server accepted a backchannel
  bool protects_state = false;  // the server accepted SP4_MACH_CRED
  std::string implementation_name, implementation_domain;
  std::optional<Time> implementation_date;
  server_owner4 server_owner;
  std::vector<std::byte> server_scope;
};

}  // namespace nfsrdma::nfs4
