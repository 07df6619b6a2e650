// One thread of the responder: a loop with the connections that it was given, for RDMA and for TCP, which it answers from the
// Tree of all threads.
//
//     Worker first(server, 0), second(server, 1);
//     second.start();                              // a thread of its own
//     first.loop().turn(…);                        // the caller's thread
//     second.give(std::move(incoming));            // a request that came to the loop of the first
//
// Thread-safety: the object belongs to the thread that made it, which is also the only one that calls its functions. Once
// started, everything on its loop belongs to the new thread, until stop() has returned. A Worker that is not started
// runs on the thread that made it, by turns of loop().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "async/loop.h"
#include "async/mailbox.h"
#include "async/wakeup.h"
#include "fabric/listener.h"
#include "responder/answers.h"
#include "responder/rdma_side.h"
#include "responder/tcp_side.h"

namespace nfsrdma::bench {

class Worker {
 public:
  Worker(const Answers::Server& server, unsigned number);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start();
  /// Waits for the thread to end. Its connections stay until this object is destroyed. Does nothing if there is no thread.
  void stop();

  /// Accepts the connection, on this Worker's thread. It is rejected if its fabric cannot change the loop.
  void give(std::unique_ptr<fabric::Incoming> incoming);
  void give(TcpSide::Client client);

  // ---- of one that is not started ----

  [[nodiscard]] async::Loop& loop() { return loop_; }
  [[nodiscard]] TcpSide& tcp() { return tcp_; }
  /// Also after stop().
  [[nodiscard]] std::uint64_t calls() const { return answers_.calls(); }

 private:
  using Arrival = std::variant<std::unique_ptr<fabric::Incoming>, TcpSide::Client>;
  void run();
  void take_all();
  void send(Arrival arrival);

  async::Loop loop_;
  Answers answers_;
  RdmaSide rdma_;
  TcpSide tcp_;
  async::Mailbox<Arrival> arrivals_;
  async::Wakeup wake_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace nfsrdma::bench
