// The bridge: a listener, and a Session for each client. Confined to the loop's thread.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bridge/listen.h"
#include "bridge/session.h"

namespace nfsrdma::bridge {

struct BridgeOptions {
  sockaddr_storage listen{}, server{};
  ListenOptions fabric;
  SessionOptions session;
  std::vector<FaultSpec> faults;
  std::uint64_t seed = 1;
};

class Bridge {
 public:
  using Log = std::function<void(const std::string&)>;

  Bridge(async::Loop& loop, const BridgeOptions& options, Log log);

  [[nodiscard]] Status start();
  [[nodiscard]] std::uint16_t port() const { return listener_->port(); }
  [[nodiscard]] std::size_t sessions() const { return sessions_.size(); }
  /// One line: connections, Calls, and how often each fault struck.
  [[nodiscard]] std::string summary() const;

 private:
  void take(std::unique_ptr<fabric::Incoming> incoming);

  async::Loop& loop_;
  const BridgeOptions options_;
  const Log log_;
  Faults faults_;
  std::map<unsigned, std::unique_ptr<Session>> sessions_;
  unsigned connections_ = 0;
  std::uint64_t calls_ = 0;                     // of the sessions that have ended
  std::unique_ptr<fabric::Listener> listener_;  // last: goes first
};

}  // namespace nfsrdma::bridge
