// The bridge's connection to the NFS server: records out, records in, on a non-blocking socket.
//
// What is sent before the connection stands waits for it. Nothing here limits the queue: the credits that the
// client was granted do. pause() stops reading while the client's side cannot take more.
//
// On failure: one lost() with the reason, from the loop; nothing comes after it. The events may destroy the
// TcpPeer in lost() only by way of Loop::post.
#pragma once

#include <deque>
#include <string>

#include "async/loop.h"
#include "bridge/record.h"
#include "fabric/iwarp/socket.h"

struct sockaddr_storage;

namespace nfsrdma::bridge {

class TcpPeer {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_record(xdr::Buffer message) = 0;
    virtual void on_server_lost(const std::string& why) = 0;
  };

  /// Begins to connect. `largest`: of a record from the server.
  TcpPeer(async::Loop& loop, const sockaddr_storage& server, std::size_t largest, Events& events);
  ~TcpPeer();
  TcpPeer(const TcpPeer&) = delete;
  TcpPeer& operator=(const TcpPeer&) = delete;

  /// `record` has its record mark in front.
  void send(xdr::Buffer record);
  void pause(bool paused);
  /// No further event.
  void close();

 private:
  void begin(const sockaddr_storage& server);
  void on_ready(std::uint32_t events);
  void on_readable();
  void write_out();
  void set_interest();
  void lose(const std::string& why);
  void lose_errno(const char* what, int errno_value);

  async::Loop& loop_;
  Events& events_;
  fabric::iwarp::Socket socket_;
  RecordReader reader_;
  std::deque<xdr::Buffer> queue_;
  std::size_t written_ = 0;  // of the queue's first
  bool connected_ = false, paused_ = false, lost_ = false;
  std::uint32_t interest_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // what was posted to the loop holds it weakly
};

}  // namespace nfsrdma::bridge
