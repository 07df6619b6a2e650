// Private to the network: who listens, and a dial that waits for an answer.
#pragma once

#include <memory>
#include <vector>

#include "fabric/listener.h"
#include "sim/fabric/pair.h"

namespace nfsrdma::sim::detail {

class SimListener final : public fabric::Listener {
 public:
  SimListener(Network& network, Host& host, std::uint16_t port, Callback callback);
  ~SimListener() override;
  SimListener(const SimListener&) = delete;
  SimListener& operator=(const SimListener&) = delete;
  [[nodiscard]] std::uint16_t port() const override { return port_; }
  /// A dial has arrived.
  void take(std::shared_ptr<Pair> pair, std::vector<std::byte> private_data);

 private:
  Network& network_;
  Host& host_;
  const std::uint16_t port_;
  const Callback callback_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class SimIncoming final : public fabric::Incoming {
 public:
  SimIncoming(std::shared_ptr<Pair> pair, std::vector<std::byte> private_data);
  ~SimIncoming() override;
  SimIncoming(const SimIncoming&) = delete;
  SimIncoming& operator=(const SimIncoming&) = delete;
  [[nodiscard]] fabric::ConstBytes private_data() const override { return private_data_; }
  [[nodiscard]] const std::string& peer_name() const override { return peer_; }
  [[nodiscard]] Result<std::unique_ptr<fabric::Connection>> accept(std::vector<std::byte> private_data,
                                                                   fabric::Handler& handler) override;
  void reject(fabric::ConstBytes private_data) override;

 private:
  std::shared_ptr<Pair> pair_;  // none: decided
  const std::vector<std::byte> private_data_;
  const std::string peer_;
};

}  // namespace nfsrdma::sim::detail
