// How an identity is said on the wire (RFC 5531 8), and what protects Calls and Replies. One Flavor serves all
// callers of a client.
//
// Confined to the loop's thread.
#pragma once

#include <memory>
#include <vector>

#include "rpc/message.h"
#include "rpc/protection.h"
#include "security/identity.h"

namespace nfsrdma::security {

/// What one Call says of its caller.
struct Voucher {
  const rpc::Credential& credential;            ///< the flavor's, until it is asked again
  std::unique_ptr<rpc::Protection> protection;  ///< null: the Call goes out as it stands
};

class Flavor {
 public:
  Flavor() = default;
  virtual ~Flavor();
  Flavor(const Flavor&) = delete;
  Flavor& operator=(const Flavor&) = delete;

  [[nodiscard]] virtual Voucher vouch(const Caller& caller) = 0;
  /// For one Call of procedure NULL each, at the end of the client: what the server then need not keep any more.
  [[nodiscard]] virtual std::vector<Voucher> farewells();
};

}  // namespace nfsrdma::security
