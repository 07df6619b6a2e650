// The fabric that the bridge listens on, by name. Everything behind it knows fabric::Incoming only.
#pragma once

#include <memory>
#include <string>

#include "async/loop.h"
#include "fabric/iwarp/handshake.h"
#include "fabric/listener.h"
#include "fabric/verbs/connection.h"

struct sockaddr_storage;

namespace nfsrdma::bridge {

struct ListenOptions {
  std::string fabric = "iwarp";
  fabric::iwarp::CrcPolicy crc = fabric::iwarp::CrcPolicy::automatic;  ///< iwarp only
  fabric::verbs::Queues queues;                                        ///< verbs only
};

[[nodiscard]] Result<std::unique_ptr<fabric::Listener>> listen(async::Loop& loop,
                                                               const ListenOptions& options,
                                                               const sockaddr_storage& address,
                                                               fabric::Listener::Callback callback);

}  // namespace nfsrdma::bridge
