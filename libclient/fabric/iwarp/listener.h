// The listening side: accepts TCP connections, reads their MPA Request, and lets the owner decide.
//
// This class itself rejects Requests that cannot be served whatever the owner decides (those with markers),
// and closes connections that do not speak MPA. In addition to what fabric::Incoming offers, the owner may
// look at the MPA frame and choose how to answer it.
//
// A peer that connects and stays silent occupies a descriptor for at most `patience`. There are at most
// `max_undecided` such peers; further ones wait in the kernel's backlog.
//
// Ownership and threads are as in fabric/listener.h.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "async/loop.h"
#include "fabric/fabric.h"
#include "fabric/iwarp/handshake.h"
#include "fabric/iwarp/socket.h"
#include "fabric/listener.h"

namespace nfsrdma::fabric::iwarp {

struct AcceptOptions {
  std::vector<std::byte> private_data;  ///< at most 508 octets
  /// Automatic: CRC if the peer asks for it. off: a Request with CRC is rejected.
  CrcPolicy crc = CrcPolicy::automatic;
  Depths depths;
};

/// A peer's Request, waiting for an answer.
class Incoming final : public fabric::Incoming {
 public:
  Incoming(async::Loop& loop, Socket socket, std::string peer, Responder responder,
           std::vector<std::byte> early);
  ~Incoming() override;
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  [[nodiscard]] ConstBytes private_data() const override { return responder_.request().private_data; }
  [[nodiscard]] const MpaFrame& request() const { return responder_.request(); }
  [[nodiscard]] const std::string& peer_name() const override { return peer_; }
  /// Always possible, because nothing of an undecided request is registered with a loop.
  [[nodiscard]] bool move_to(async::Loop& loop) override {
    loop_ = &loop;
    return true;
  }

  /// Replies, and hands the connection over; on_established() follows from the loop. Returns an Error if the
  /// options and the Request do not fit together (the Request is then rejected) or if the peer has gone.
  [[nodiscard]] Result<std::unique_ptr<Connection>> accept(const AcceptOptions& options, Handler& handler);
  /// Accepts with default options, except for the private data.
  [[nodiscard]] Result<std::unique_ptr<Connection>> accept(std::vector<std::byte> private_data,
                                                           Handler& handler) override;
  void reject(ConstBytes private_data) override;

 private:
  async::Loop* loop_;
  Socket socket_;
  std::string peer_;
  Responder responder_;
  std::vector<std::byte> early_;
};

class Listener final : public fabric::Listener {
 public:
  using Callback = std::function<void(std::unique_ptr<Incoming>)>;
  static constexpr std::chrono::seconds patience{10};
  static constexpr std::size_t max_undecided = 64;

  /// Listens at `address`. If its port is 0 the system chooses one; see port().
  [[nodiscard]] static Result<std::unique_ptr<Listener>> listen(async::Loop& loop,
                                                                const sockaddr_storage& address,
                                                                Callback callback);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] std::uint16_t port() const override { return port_; }

 private:
  /// A TCP connection whose Request is not complete.
  struct Undecided {
    Socket socket;
    std::string peer;
    std::vector<std::byte> bytes;
    Responder responder;
    async::Loop::TimerId timer = 0;
  };

  Listener(async::Loop& loop, Socket socket, std::uint16_t port, Callback callback);
  void on_acceptable();
  void on_readable(int fd);
  void drop(int fd);

  async::Loop& loop_;
  Socket socket_;
  std::uint16_t port_;
  Callback callback_;
  std::map<int, Undecided> undecided_;
};

}  // namespace nfsrdma::fabric::iwarp
