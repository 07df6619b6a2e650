// What GSSAPI and Kerberos say of a failure, in a sentence that names what to do about it.
//
// Any thread.
#pragma once

#include <gssapi/gssapi.h>

#include <string>

#include "nfsrdma/result.h"

namespace nfsrdma::krb5 {

struct Status {
  OM_uint32 major = GSS_S_COMPLETE, minor = 0;
  [[nodiscard]] bool ok() const { return GSS_ERROR(major) == 0; }
};

/// For whom, with what, and towards whom.
struct About {
  std::string who;     ///< "user 1000", "this machine"
  std::string server;  ///< its name, as in nfs@server
  std::string keytab;  ///< empty: by a cache of tickets
  std::string ccache;  ///< which one; empty: the usual
};

/// This machine, or the KDC, could not do it. An Error of kind connection where that may pass.
Error client_failure(Status status, const About& about);
/// The server says it, of a ticket that it was shown.
Error server_failure(Status status, const About& about);
/// All that GSSAPI has for it, without a newline.
std::string text_of(Status status);

}  // namespace nfsrdma::krb5
