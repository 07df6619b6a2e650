// Turns a failure of GSSAPI or Kerberos into a sentence that names what to do about it.
//
// For use from any thread.
#pragma once

#include <gssapi/gssapi.h>

#include <string>

#include "nfsrdma/result.h"

namespace nfsrdma::krb5 {

struct Status {
  OM_uint32 major = GSS_S_COMPLETE, minor = 0;
  [[nodiscard]] bool ok() const { return GSS_ERROR(major) == 0; }
};

/// The context of a failure: the user, the server, and the source of the tickets.
struct About {
  std::string who;     ///< "user 1000", "this machine"
  std::string server;  ///< the server's name, as in nfs@server
  std::string keytab;  ///< empty: tickets come from a cache
  std::string ccache;  ///< the cache; empty: the default one
};

/// The Error of a step that this machine or the KDC could not do. Its kind is connection if the reason may be
/// temporary.
Error client_failure(Status status, const About& about);
/// The Error of a server that refused the ticket it was shown.
Error server_failure(Status status, const About& about);
/// Returns all that GSSAPI says about the status, without newlines.
std::string text_of(Status status);

}  // namespace nfsrdma::krb5
