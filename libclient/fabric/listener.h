// The listening side of a fabric: reports each peer that asks to connect, and lets the owner decide.
//
// The tests and the bridge use it. The owner gets an Incoming for each well-formed request, and accepts the
// request with private data of its own or rejects it. Destroying an undecided Incoming rejects the request.
//
// Thread-safety: none; confined to the loop's thread, except that move_to() gives an Incoming to the thread of
// another loop. An Incoming may outlive its Listener, and the Loop outlives both. The callback may destroy
// neither.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace nfsrdma::async {
class Loop;
}

namespace nfsrdma::fabric {

/// A peer's request, waiting for an answer.
class Incoming {
 public:
  virtual ~Incoming() = default;

  /// The private data that the peer's layer above sent, without the lower layers' part.
  [[nodiscard]] virtual ConstBytes private_data() const = 0;
  [[nodiscard]] virtual const std::string& peer_name() const = 0;

  /// Chooses the loop that the connection will live on; until then it is the Listener's. After this call the Incoming
  /// is confined to the thread of `loop`: there it is accepted, rejected or destroyed. Returns false if the fabric
  /// cannot change the loop; then nothing has changed.
  [[nodiscard]] virtual bool move_to(async::Loop& /*loop*/) { return false; }
  /// Replies, and hands the connection over; on_established() follows from the loop. Returns an Error if this
  /// is not possible (the request is then rejected) or if the peer has gone.
  [[nodiscard]] virtual Result<std::unique_ptr<Connection>> accept(std::vector<std::byte> private_data,
                                                                   Handler& handler) = 0;
  virtual void reject(ConstBytes private_data) = 0;
};

class Listener {
 public:
  using Callback = std::function<void(std::unique_ptr<Incoming>)>;
  virtual ~Listener() = default;
  /// Returns the port that the Listener is bound to: the one that the system chose if the owner asked for
  /// port 0.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace nfsrdma::fabric
