// The flavors of RPC security as a user names them (`sec=`).
//
// Thread-safety: plain values.
#pragma once

#include <string_view>

namespace nfsrdma {

/// How callers prove who they are, and what is protected (`sec=`).
enum class Security : unsigned char {
  sys,    ///< numbers that the server believes (AUTH_SYS)
  krb5,   ///< Kerberos tickets
  krb5i,  ///< Kerberos, and messages cannot be altered unnoticed (integrity)
  krb5p,  ///< Kerberos, and messages cannot be read by others either (privacy)
};
/// Returns the name of the flavor as `sec=` takes it.
constexpr std::string_view security_name(Security security) {
  switch (security) {
    case Security::sys:
      return "sys";
    case Security::krb5:
      return "krb5";
    case Security::krb5i:
      return "krb5i";
    case Security::krb5p:
      return "krb5p";
  }
  return "";
}

}  // namespace nfsrdma
