// Choosing the fabric: one connection, over verbs or over iwarp.
//
// `automatic` takes verbs where this machine has an RDMA device and the route to the server leads to it, else
// iwarp. If the server does not answer over the device, iwarp is tried as well: it may offer another kind of
// RDMA than the device speaks, or the device may be short of something. Why it came to be so is in
// Established::reason, and an error says what was tried and how each ended.
//
// As for any Connection: dial() returns at once and the outcome comes from the loop. Receives may be posted
// before. Thread-safety: none; confined to the loop's thread.
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

enum class Choice : std::uint8_t { automatic, verbs, iwarp };

struct DialOptions {
  Choice choice = Choice::automatic;
  sockaddr_storage address{};      ///< where to, with the port
  std::string host;                ///< how the user calls it, for messages; empty: the address
  PrivateDataSource private_data;  ///< asked for each fabric that is tried; at most 56 octets
  iwarp::CrcPolicy crc = iwarp::CrcPolicy::automatic;
  verbs::Queues queues;
  async::TimePoint deadline = async::TimePoint::max();
  /// Who does the work of it over iwarp; null: the loop itself. With verbs the device does.
  std::shared_ptr<Carrier> carrier;
};

/// What dial() chooses from; tests have their own.
struct Fabrics {
  /// Why verbs cannot be tried here, as the end of a sentence; empty if it can.
  std::function<std::string()> missing_device;
  std::function<std::unique_ptr<Connection>(async::Loop&, verbs::ConnectOptions, Handler&)> verbs;
  std::function<std::unique_ptr<Connection>(async::Loop&, iwarp::ConnectOptions, Handler&)> iwarp;
};
[[nodiscard]] const Fabrics& system_fabrics();

[[nodiscard]] std::unique_ptr<Connection> dial(async::Loop& loop, DialOptions options, Handler& handler,
                                               const Fabrics& fabrics = system_fabrics());

/// Who makes the connections of somebody who needs several, one after the other.
using Dialer = std::function<std::unique_ptr<Connection>(async::Loop&, DialOptions, Handler&)>;
/// dial() with this system's fabrics.
[[nodiscard]] Dialer system_dialer();

}  // namespace nfsrdma::fabric
