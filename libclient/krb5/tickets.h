// Whose tickets: found where Kerberos keeps them, on a thread of their own.
//
// A user's are in a cache of his. It is looked for where the configuration says (default_ccache_name), then where login
// programs put it: /tmp/krb5cc_*, /run/user/UID, the kernel's keyring, KCM. Those of this machine's realm come first, and
// of them the one that is good for longest. The thread acts as the user for that, so that nothing is read that he could
// not read. A machine's tickets are had by
// the keys in a keytab, for the first of HOST$, root/, nfs/ and host/ in it, those with the machine's name first, as
// rpc.gssd(8) chooses.
//
// Blocks. Runs on a helper's thread (async/helper.h), which ends afterwards.
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
  /// A keytab's; empty: somebody's cache. `host`: this machine's name.
  std::string keytab, host;
  /// This process's own cache, where it is not the one that its environment names (KRB5CCNAME).
  std::string ccache;
  /// Whose cache; none: this process's own.
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

}  // namespace nfsrdma::krb5
