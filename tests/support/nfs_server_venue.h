// Where an NfsServer runs: on a thread of its own and TCP, or on a simulated machine. Internal.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "async/loop.h"
#include "fabric/listener.h"

namespace nfsrdma::sim {
class Host;
class Network;
}  // namespace nfsrdma::sim

namespace nfsrdma::testing {

class Venue {
 public:
  Venue() = default;
  virtual ~Venue() = default;
  Venue(const Venue&) = delete;
  Venue& operator=(const Venue&) = delete;

  [[nodiscard]] virtual async::Loop& loop() = 0;
  /// Runs `fn` where the loop runs; it may be over only after this has returned.
  virtual void run(std::function<void()> fn) = 0;
  /// Where it listened before, if it has.
  [[nodiscard]] virtual std::unique_ptr<fabric::Listener> listen(fabric::Listener::Callback callback) = 0;
  /// Until it is so; false if it is not in time.
  virtual bool wait(const std::function<bool()>& so, std::chrono::milliseconds most) = 0;
  /// The last call but for the destructor: from now on the loop is the caller's.
  virtual void end() = 0;
};

[[nodiscard]] std::unique_ptr<Venue> thread_venue();
[[nodiscard]] std::unique_ptr<Venue> sim_venue(sim::Network& network, sim::Host& host);

}  // namespace nfsrdma::testing
