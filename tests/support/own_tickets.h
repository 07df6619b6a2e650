// Kerberos without a KDC: a service of this process's own and a client of it. Both keys are made here, and so the ticket
// can be, too (RFC 4120 5.3, 5.2.9). It serves what needs a security context between two sides, and nothing that asks a KDC.
//
// Sets up this process's environment as Realm does (support/realm.h). One of either at a time.
#pragma once

#include <string>

namespace nfsrdma::testing {

class OwnTickets {
 public:
  /// `client`, `service`: names in the realm TEST.LAB, without it.
  OwnTickets(const std::string& client, const std::string& service);
  ~OwnTickets();
  OwnTickets(const OwnTickets&) = delete;
  OwnTickets& operator=(const OwnTickets&) = delete;

 private:
  std::string directory_;
};

}  // namespace nfsrdma::testing
