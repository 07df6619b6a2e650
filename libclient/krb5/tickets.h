// Finds the tickets with which a context is made.
//
// A user's tickets are in a cache of that user. The cache is looked for where the configuration says
// (default_ccache_name), then where login programs put it: /tmp/krb5cc_*, /run/user/UID, the kernel's
// keyring, KCM. Among several, tickets of this machine's realm are preferred, and of these the ones that are
// valid for longest. The thread acts as the user during the search, so that it reads nothing that the user
// could not read.
//
// A machine's tickets are obtained with a key from a keytab: for the first of HOST$, root/, nfs/ and host/ in
// it, principals with the machine's name first, as rpc.gssd(8) chooses.
//
// Blocks. Runs on a helper thread (async/helper.h), which ends afterwards.
#pragma once

#include <gssapi/gssapi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "krb5/status.h"
#include "nfsrdma/result.h"

namespace nfsrdma::krb5 {

struct Whose {
  /// `keytab`: file with the keys to use; empty: a cache is used. `host`: this machine's name.
  std::string keytab, host;
  /// This process's own cache, if it is not the one that the environment names (KRB5CCNAME).
  std::string ccache;
  /// The user whose cache is searched; none: this process's own cache is used.
  struct User {
    std::uint32_t uid = 0, gid = 0;
  };
  std::optional<User> user;

  [[nodiscard]] std::string name() const;
};

struct ReleaseTicket {
  void operator()(gss_cred_id_t ticket) const;
};
using Ticket = std::unique_ptr<gss_cred_id_struct, ReleaseTicket>;

Result<Ticket> find_ticket(const Whose& whose, const About& about);

/// Whom a ticket is for, and for how long it is still valid.
struct TicketFacts {
  std::string principal;
  std::uint32_t seconds = 0;
};
/// Describes the ticket that find_ticket() finds.
Result<TicketFacts> ticket_facts(const Whose& whose);

}  // namespace nfsrdma::krb5
