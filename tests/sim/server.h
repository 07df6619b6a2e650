// The model server on a simulated machine.
//
// Thread-safety: none. The Network and the Host outlive it.
#pragma once

#include <memory>

#include "sim/fabric/network.h"
#include "support/nfs_responder.h"

namespace nfsrdma::sim {

class SimServer {
 public:
  static constexpr std::uint16_t kPort = 20049;

  SimServer(Network& network, Host& host) : network_(network), host_(host), responder_(host.loop()) {
    responder_.on_call = [this](const testing::SeenCall& call) { trace(call); };
    listener_ = network_.listen(host_, kPort, [this](std::unique_ptr<fabric::Incoming> incoming) {
      responder_.accept(std::move(incoming));
    });
  }
  SimServer(const SimServer&) = delete;
  SimServer& operator=(const SimServer&) = delete;

  [[nodiscard]] testing::Responder& responder() { return responder_; }
  [[nodiscard]] testing::ServerState& state() { return responder_.state; }

  /// Everything volatile is lost, and nobody is told.
  void crash(Duration grace) {
    host_.simulation().note(host_.number(), "crashes");
    network_.vanish(host_);
    responder_.restart(grace);
  }

 private:
  void trace(const testing::SeenCall& call);

  Network& network_;
  Host& host_;
  testing::Responder responder_;
  std::size_t told_ = 0;  // of the problems, in octets
  std::unique_ptr<fabric::Listener> listener_;
};

}  // namespace nfsrdma::sim
