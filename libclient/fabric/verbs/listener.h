// The listening side: takes requests from the RDMA connection manager and lets the owner decide. The tests
// and the bridge use it.
//
// The queues of an Incoming are made when it is accepted. Its connection answers the peer from the loop,
// after the owner has had the chance to post Receives, because a message that finds no Receive may end the
// connection.
//
// Ownership and threads are as in fabric/listener.h.
#pragma once

#include <memory>
#include <string>

#include "async/loop.h"
#include "fabric/listener.h"
#include "fabric/verbs/connection.h"

struct rdma_cm_id;
struct rdma_event_channel;

namespace nfsrdma::fabric::verbs {

struct Library;

class Listener final : public fabric::Listener {
 public:
  /// Listens on every device that the address belongs to. If its port is 0 the system chooses one; see
  /// port(). Call it only if missing_device() (library.h) is empty.
  [[nodiscard]] static Result<std::unique_ptr<Listener>> listen(async::Loop& loop,
                                                                const sockaddr_storage& address,
                                                                const Queues& queues, Callback callback);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] std::uint16_t port() const override;

 private:
  Listener(async::Loop& loop, const Library& library, const Queues& queues, Callback callback);
  void on_request();

  async::Loop& loop_;
  const Library& library_;
  const Queues queues_;
  const Callback callback_;
  // Shared, because the identifier of an undecided Incoming needs it too.
  std::shared_ptr<rdma_event_channel> channel_;
  rdma_cm_id* id_ = nullptr;
};

}  // namespace nfsrdma::fabric::verbs
