// A Tap sees what one connection carries: the messages in both directions, the memory that the peer may use,
// and the beginning and the end of the connection. trace/recording writes a file from it.
//
// The owner of a connection (rpc::Channel) calls both the connection and its Tap. While on() is false, it skips
// the four functions that are called for each message, so that a Tap which is off costs a load and a branch.
// established() and closed() are always called, so that a Tap that is switched on later knows the connection.
//
// Memory. A Tap may read the memory of exposed() until taken_back(), received() with its handle as
// `invalidated`, or closed(), whichever comes first. The owner of the connection calls one of them before the
// memory goes back to its user.
//
// Thread-safety: the functions are called on the thread that runs the connection's loop. on() may change on
// any thread.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fabric/fabric.h"

namespace nfsrdma::fabric {

class Tap {
 public:
  /// `on` must outlive the Tap.
  explicit Tap(const std::atomic<bool>& on) : on_(on) {}
  virtual ~Tap() = default;
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  /// Called with the private data of the connection request, before the connection is established.
  virtual void announced(ConstBytes private_data) = 0;
  virtual void established(const Established& established) = 0;
  /// The last call. `why` is null if this side closed the connection.
  virtual void closed(const Error* why) = 0;

  // ---- called only while on() ----
  virtual void exposed(Bytes memory, std::span<const RemoteSegment> segments) = 0;
  virtual void taken_back(std::span<const RemoteSegment> segments) = 0;
  /// Called when a message is handed to the connection. Memory that the message names is exposed.
  virtual void sent(ConstBytes message) = 0;
  /// Called when a message has arrived, before its receiver gets it.
  virtual void received(ConstBytes message, std::optional<std::uint32_t> invalidated) = 0;

 private:
  const std::atomic<bool>& on_;
};

/// Where a connection leads to.
struct Destination {
  sockaddr_storage address{};  ///< with the port
  std::string host;            ///< the server's name as the user gave it
};
/// Makes the Tap of a connection that is about to be dialed.
using Tapper = std::function<std::unique_ptr<Tap>(const Destination& to)>;

}  // namespace nfsrdma::fabric
