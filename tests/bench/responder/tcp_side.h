// Calls that come over TCP, with record marks (RFC 5531 11): for clients that know no RDMA.
//
// The bytes that a READ gives are sent from where the file has them.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "async/loop.h"
#include "nfsrdma/result.h"
#include "responder/answers.h"

namespace nfsrdma::bench {

class TcpSide {
 public:
  TcpSide(async::Loop& loop, Answers& answers);
  ~TcpSide();
  TcpSide(const TcpSide&) = delete;
  TcpSide& operator=(const TcpSide&) = delete;

  /// On the loopback address. Port 0: the system chooses.
  Status listen(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  /// A Reply that has not left, with its mark.
  struct Outgoing {
    xdr::Buffer head;
    Reply reply;
    std::size_t sent = 0;
  };
  struct Client {
    std::vector<std::byte> input;
    std::size_t begin = 0, end = 0;  // of what has come and is not answered
    std::deque<std::unique_ptr<Outgoing>> output;
    bool waits = false;  // to send
  };

  void on_acceptable();
  void on_ready(int fd, std::uint32_t events);
  bool receive(int fd, Client& client);
  bool serve(Client& client);
  bool send(int fd, Client& client);
  void drop(int fd);

  async::Loop& loop_;
  Answers& answers_;
  int listening_ = -1;
  std::uint16_t port_ = 0;
  std::map<int, Client> clients_;
  std::vector<std::unique_ptr<Outgoing>> spare_;
};

}  // namespace nfsrdma::bench
