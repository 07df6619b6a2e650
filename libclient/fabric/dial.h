// Choosing the fabric: makes one connection, over verbs or over iwarp.
//
// `automatic` takes verbs if this machine has an RDMA device and the route to the server leads to that
// device, else iwarp. If the server does not answer over the device, iwarp is tried as well: the server may
// offer another kind of RDMA than the device speaks, or the device may lack a resource. Established::reason
// says why the fabric was chosen, and an error says which fabrics were tried and how each attempt ended.
//
// As for any Connection, dial() returns at once and the outcome is reported from the loop. Receives may be
// posted before the outcome. Thread-safety: none; confined to the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "async/loop.h"
#include "fabric/fabric.h"
#include "fabric/iwarp/connection.h"
#include "fabric/verbs/connection.h"

namespace nfsrdma::fabric {

class Carrier;

using Choice = nfsrdma::Fabric;
using verbs::Queues;

struct DialOptions {
  Choice choice = Choice::automatic;
  sockaddr_storage address{};  ///< the server's address, with the port
  /// The server's name as the user gave it, for messages; empty: the address.
  std::string host;
  PrivateDataSource private_data;  ///< called for each fabric that is tried; returns at most 56 octets
  iwarp::CrcPolicy crc = iwarp::CrcPolicy::automatic;
  Queues queues;
  async::TimePoint deadline = async::TimePoint::max();
  /// The thread that does the socket work of a connection over iwarp; null: the loop itself. A connection
  /// over verbs does not use it, because the device does the work.
  std::shared_ptr<Carrier> carrier;
};

/// The fabrics that dial() chooses from. Tests supply their own.
struct Fabrics {
  /// Returns why verbs cannot be tried on this machine, as the end of a sentence; empty if it can.
  std::function<std::string()> missing_device;
  std::function<std::unique_ptr<Connection>(async::Loop&, verbs::ConnectOptions, Handler&)> verbs;
  std::function<std::unique_ptr<Connection>(async::Loop&, iwarp::ConnectOptions, Handler&)> iwarp;
};
[[nodiscard]] const Fabrics& system_fabrics();

[[nodiscard]] std::unique_ptr<Connection> dial(async::Loop& loop, DialOptions options, Handler& handler,
                                               const Fabrics& fabrics = system_fabrics());

/// Makes connections for a user that needs several, one after the other.
using Dialer = std::function<std::unique_ptr<Connection>(async::Loop&, DialOptions, Handler&)>;
/// Returns a Dialer that calls dial() with this system's fabrics.
[[nodiscard]] Dialer system_dialer();

}  // namespace nfsrdma::fabric
