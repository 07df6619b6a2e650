// The listening side of a fabric: who asks to connect, and the owner's decision.
//
// It serves the tests and the bridge. The owner gets an Incoming for each well-formed request and accepts it,
// with private data of its own, or rejects it; one that is destroyed undecided is rejected.
//
// Thread-safety: none; confined to the loop's thread. An Incoming may outlive its Listener, and the Loop
// outlives both. The callback may destroy neither.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace nfsrdma::fabric {

/// A peer's request, waiting for an answer.
class Incoming {
 public:
  virtual ~Incoming() = default;

  /// What the peer's layer above sent, lower layers' part taken off.
  [[nodiscard]] virtual ConstBytes private_data() const = 0;
  [[nodiscard]] virtual const std::string& peer_name() const = 0;

  /// Replies and hands the connection over; on_established() follows from the loop. An Error where that is
  /// not possible (the request is then rejected) or the peer has gone.
  [[nodiscard]] virtual Result<std::unique_ptr<Connection>> accept(std::vector<std::byte> private_data,
                                                                   Handler& handler) = 0;
  virtual void reject(ConstBytes private_data) = 0;
};

class Listener {
 public:
  using Callback = std::function<void(std::unique_ptr<Incoming>)>;
  virtual ~Listener() = default;
  /// The one that the system chose where none was asked for.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace nfsrdma::fabric
