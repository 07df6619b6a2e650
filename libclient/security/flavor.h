// How an identity is said on the wire (RFC 5531 8). One Flavor serves all callers of a client.
//
// Confined to the loop's thread.
#pragma once

#include <memory>

#include "rpc/message.h"
#include "security/identity.h"

namespace nfsrdma::security {

class Flavor {
 public:
  Flavor() = default;
  virtual ~Flavor();
  Flavor(const Flavor&) = delete;
  Flavor& operator=(const Flavor&) = delete;

  /// What stands in a Call of the caller.
  [[nodiscard]] virtual const rpc::Credential& credential(const Caller& caller) = 0;
};

}  // namespace nfsrdma::security
