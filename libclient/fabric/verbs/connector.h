// Runs rdma_connect() on a thread of its own. Internal.
//
// Most drivers only send a packet in this call, but siw's driver waits for TCP: with a silent peer, for
// minutes. Meanwhile the connection must keep its deadline and may be closed. Therefore the thread shares
// ownership of the Endpoint, and is its last owner if the connection is closed first. The thread uses nothing
// else.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "fabric/verbs/endpoint.h"

namespace nfsrdma::fabric::verbs {

class Connector {
 public:
  /// Starts the thread. Returns null, with errno set, if there is no descriptor or no thread.
  [[nodiscard]] static std::unique_ptr<Connector> start(std::shared_ptr<Endpoint> endpoint,
                                                        std::vector<std::byte> private_data);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// The descriptor becomes readable when the call has returned.
  [[nodiscard]] int descriptor() const;
  /// Valid once the descriptor is readable: 0, or the errno of the call.
  [[nodiscard]] int result() const;

 private:
  struct Shared;
  explicit Connector(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

}  // namespace nfsrdma::fabric::verbs
