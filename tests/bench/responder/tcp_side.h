// Calls that come over TCP, with record marks (RFC 5531 11): for clients that know no RDMA.
//
// The bytes that a READ gives are sent from where the file has them.
//
// A server of several threads has a TcpSide on each, of which one listens. It reads the first Call of each connection. If that
// is one of NFS it hands the connection over, to be shared out among the threads; connections for MOUNT, which last for one
// Call, it keeps, so that they take no part in sharing out.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "async/descriptor.h"
#include "async/loop.h"
#include "nfsrdma/result.h"
#include "responder/answers.h"

namespace nfsrdma::bench {

class TcpSide {
  /// A Reply that has not left, with its mark.
  struct Outgoing {
    xdr::Buffer head;
    Reply reply;
    std::size_t sent = 0;
  };

 public:
  /// One connection.
  struct Client {
    async::Descriptor socket;
    std::vector<std::byte> input;
    std::size_t begin = 0, end = 0;  // of what has come and is not answered
    std::deque<std::unique_ptr<Outgoing>> output;
    bool waits = false;  // to send
    bool is_new = true;  // it may be handed over when its first Call has come
  };
  using HandOver = std::function<void(Client)>;

  TcpSide(async::Loop& loop, Answers& answers);
  ~TcpSide();
  TcpSide(const TcpSide&) = delete;
  TcpSide& operator=(const TcpSide&) = delete;

  /// On the loopback address. Port 0: the system chooses.
  Status listen(std::uint16_t port);
  /// From now on connections for NFS go to `to`, which may give them back by take().
  void hand_over(HandOver to) { hand_over_ = std::move(to); }
  void take(Client client);
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  void on_acceptable();
  int adopt(Client client);
  void on_ready(int fd, std::uint32_t events);
  static bool receive(int fd, Client& client);
  static bool calls_nfs(const Client& client);
  bool serve(Client& client);
  bool send(int fd, Client& client);
  void drop(int fd);

  async::Loop& loop_;
  Answers& answers_;
  HandOver hand_over_;  // null: all connections stay
  int listening_ = -1;
  std::uint16_t port_ = 0;
  std::map<int, Client> clients_;
  std::vector<std::unique_ptr<Outgoing>> spare_;
};

}  // namespace nfsrdma::bench
