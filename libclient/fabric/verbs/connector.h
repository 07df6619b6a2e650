// rdma_connect() on a thread of its own. Internal.
//
// Most drivers only send a packet in it, but siw's waits for TCP: with a silent peer, for minutes. The
// connection must keep its deadline and be closed meanwhile, so the thread shares the Endpoint and, when
// nobody waits for it any more, is the last to hold it. It touches nothing else.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "fabric/verbs/endpoint.h"

namespace nfsrdma::fabric::verbs {

class Connector {
 public:
  /// Starts. An error: no descriptor or thread is to be had.
  [[nodiscard]] static std::unique_ptr<Connector> start(std::shared_ptr<Endpoint> endpoint,
                                                        std::vector<std::byte> private_data);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Readable when the call has returned.
  [[nodiscard]] int descriptor() const;
  /// Then: 0, or its errno.
  [[nodiscard]] int result() const;

 private:
  struct Shared;
  explicit Connector(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

}  // namespace nfsrdma::fabric::verbs
