// One RDMA client and its TCP connection to the server: the bridge's I/O, around the pure parts.
//
//   RDMA Send → plan_call → RDMA Reads → TCP record ──────────→ server
//   RDMA Writes, then Send ← plan_delivery ← TCP record ←────── server
//
// Replies go back in the order in which the server gives them. A Reply's RDMA Writes are posted in front of
// its Send, on the same queue, so that they are done first. Calls of the server's (NFSv4.1 callbacks) go the
// other way as backward Calls, as many at a time as the client grants (RFC 8167 4.1).
//
// Flow control. A Receive is posted for each credit; that of a Call is posted again when its Reply goes, so a
// client that takes more than its credits finds none. Thus the Calls under way, and the memory for them, are
// bounded. While more than kPauseAt bytes wait to go to the client, nothing is read from the server.
//
// Ownership. A buffer that RDMA reads or writes is kept alive by the completion that waits for it (works_).
//
// On failure of either side both are closed, and `ended` is called once, from the loop: then the session is
// to be destroyed. Nothing is retried here: the client makes a new connection.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "async/loop.h"
#include "bridge/sabotage.h"
#include "bridge/tcp_peer.h"
#include "fabric/listener.h"
#include "fabric/verbs/connection.h"
#include "rpcrdma/private_data.h"

namespace nfsrdma::bridge {

struct SessionOptions {
  std::uint32_t credits = 64;
  std::uint32_t inline_send = 4096, inline_receive = 4096;
  bool announce = true;  ///< send private data
  bool remote_invalidation = false;
  bool reports_holes = false;               ///< holes.h
  std::size_t largest_message = 16U << 20;  ///< an RPC message, either way
};
/// For fabrics whose queues are made before the Session is.
[[nodiscard]] fabric::verbs::Queues queues_of(const SessionOptions& options);

class Session final : private fabric::Handler, private TcpPeer::Events {
 public:
  using Log = std::function<void(const std::string&)>;

  Session(async::Loop& loop, const SessionOptions& options, Faults& faults, Log log);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// False: the client was gone. `ended` is then not called.
  bool start(fabric::Incoming& incoming, const sockaddr_storage& server, std::function<void()> ended);

  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  using Ready = std::shared_ptr<Delivery>;

  // fabric::Handler
  void on_established(const fabric::Established& agreed) override;
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) override;
  void on_completed(std::uint64_t cookie) override;
  void on_closed(const Error& why) override;
  // TcpPeer::Events
  void on_record(xdr::Buffer message) override;
  void on_server_lost(const std::string& why) override;

  void take_call(CallPlan plan);
  void fetched(const std::shared_ptr<CallPlan>& plan);
  void take_backward_answer(CallPlan plan);
  void take_reply(xdr::Buffer message);
  void take_backward_call(xdr::Buffer message);
  void send_backward_calls();

  void deliver(const Ready& ready, const std::shared_ptr<xdr::Buffer>& reply);
  void deliver_now(const Ready& ready, const std::shared_ptr<xdr::Buffer>& reply);
  void cut_in_write(const Ready& ready);
  void write_late(const Ready& ready);
  void post_send(xdr::Buffer message, std::optional<std::uint32_t> invalidate = {});
  void post_write(const RemoteWrite& write, std::shared_ptr<const void> keep);
  void send_error(const rdma_msg& call, rpcrdma::rpc_rdma_errcode code);
  std::uint64_t work(std::size_t bytes, std::function<void()> done);
  void post_receives(std::uint32_t count);
  void later(std::chrono::milliseconds delay, std::function<void()> then);
  void end(const std::string& why);

  async::Loop& loop_;
  const SessionOptions options_;
  Faults& faults_;
  const Log log_;
  std::function<void()> ended_;
  std::unique_ptr<fabric::Connection> rdma_;
  std::unique_ptr<TcpPeer> tcp_;
  bool over_ = false;

  rpcrdma::Negotiated agreed_;
  std::uint32_t client_receives_ = rpcrdma::kDefaultThreshold;  // the size of the client's Receives

  struct Work {
    std::size_t bytes;
    std::function<void()> done;
  };
  std::unordered_map<std::uint64_t, Work> works_;  // by cookie
  std::uint64_t next_cookie_ = 1;
  std::size_t bytes_out_ = 0;
  bool paused_ = false;

  std::unordered_multimap<std::uint32_t, Offer> waiting_;  // Calls with the server, by xid
  std::uint64_t calls_ = 0, replies_ = 0, invalidations_ = 0, backward_calls_ = 0;
  std::set<async::Loop::TimerId> timers_;
  std::function<void()> behind_;  // a Reply that waits for the next one

  struct Backward {
    std::uint32_t granted = 1;  // until the first answer (RFC 8167 4.1, as RFC 8166 3.3.3)
    std::deque<xdr::Buffer> queue;
    std::multiset<std::uint32_t> under_way;  // xids; a server may repeat itself
  };
  Backward backward_;
};

}  // namespace nfsrdma::bridge
