// Kerberos V (RFC 4121) as a mechanism of RPCSEC_GSS: contexts are made over TCP (RFC 8166 8.2.2.1, RFC 2203
// 5.2.2), with the caller's tickets.
//
// Whose tickets are used:
//
//   no caller, or one with this process's uid: with a keytab     the machine's, got with the keytab's key
//                                              without a keytab  this process's own: in `ccache`, or where
//                                                                its environment says
//   another caller, if many_users is set                         the caller's own (needs root)
//
// Kerberos blocks (on files and on the KDC), so each context is made on a helper thread. No key or ticket
// appears in a message.
//
// Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gss/flavor.h"
#include "rpc/channel.h"

namespace nfsrdma::krb5 {

struct KerberosOptions {
  std::string server;  ///< the server's name, as in nfs@server
  /// Where the server has NFS over TCP; the first address that answers is used.
  std::vector<rpc::Address> addresses;
  std::uint32_t version = 4;  ///< a version of NFS that the server has there
  gss::Service service = gss::Service::none;
  std::string host;         ///< this machine's name
  std::string keytab;       ///< file with this machine's keys; empty: use the process's own tickets
  std::string ccache;       ///< cache of the process's own tickets; empty: the one that its environment names
  bool no_core = false;     ///< leave no core file once there are keys in memory
  bool many_users = false;  ///< callers are users with tickets of their own
  std::chrono::milliseconds patience{30000};
};

/// Returns the path of the system's keytab if this process can read it, else an empty string.
std::string system_keytab();

std::shared_ptr<gss::Mechanism> make_kerberos(async::Loop& loop, KerberosOptions options);

}  // namespace nfsrdma::krb5
