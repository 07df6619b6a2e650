// Kerberos V (RFC 4121) as a mechanism of RPCSEC_GSS: contexts made over TCP (RFC 8166 8.2.2.1, RFC 2203 5.2.2), with
// whoever's tickets the caller has.
//
// Whose they are:
//
//   no caller, or root for a machine with a keytab   the machine's: the keytab's
//   a caller with this process's own uid             this process's own, as `ccache` or its environment says
//   another caller                                   his own, where this process is root
//
// Kerberos blocks (files, the KDC), so it runs on a helper's thread for each context. Nothing of a key or a ticket goes
// into a message.
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
  std::string server;                   ///< its name, as in nfs@server
  std::vector<rpc::Address> addresses;  ///< where it serves NFS over TCP; the first that answers is taken
  std::uint32_t version = 4;            ///< of NFS, that it serves there
  gss::Service service = gss::Service::none;
  std::string host;         ///< this machine's name
  std::string keytab;       ///< of this machine's; empty: the process's own tickets
  std::string ccache;       ///< where the process's own tickets are; empty: where its environment says
  bool no_core = false;     ///< once there are keys in memory
  bool many_users = false;  ///< callers have tickets of their own
  std::chrono::milliseconds patience{30000};
};

/// Where the system has a machine's keytab, if this process can read it; empty otherwise.
std::string system_keytab();

std::shared_ptr<gss::Mechanism> make_kerberos(async::Loop& loop, KerberosOptions options);

}  // namespace nfsrdma::krb5
