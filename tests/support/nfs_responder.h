// The test server on one event loop: RPC-over-RDMA (RFC 8166) and its backward direction (RFC 8167) around a
// ServerState, over whatever fabric hands connections to it.
//
//     Responder server(loop);
//     listener = fabric.listen([&](auto incoming) { server.accept(std::move(incoming)); });
//     server.state.make("/a", NF4REG);
//
// All time is the loop's and all chance the state's, so that on a virtual loop the same inputs give the same
// outputs. NfsServer runs one on a thread of its own.
//
// Ownership and threads: it owns its connections and its state, and is confined to the loop's thread. The
// loop outlives it, and it may be destroyed at any time, except from inside a callback of the loop that it
// caused itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/loop.h"
#include "fabric/listener.h"
#include "support/nfs_server_callbacks.h"
#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

class Responder {
 public:
  using Done = CallbackQueue::Done;
  using Duration = async::Clock::duration;

  explicit Responder(async::Loop& loop);
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// Takes a connection that a fabric brings.
  void accept(std::unique_ptr<fabric::Incoming> incoming);
  void drop_connections();
  void drop_connection(unsigned number);
  /// Everything volatile is lost: connections, requests under way, clients, state, data without COMMIT.
  void restart(Duration grace);

  /// CB_RECALL of the file's delegation; of one that never was where there is none.
  CallbackQueue::Ticket recall(const std::string& path, Done done);

  // ---- faults ----
  enum class Trick : std::uint8_t { drop_before, drop_after, err_chunk, garbage_args };
  /// Befalls the next COMPOUND with `op` in it.
  void play(Trick trick, nfs4::nfs_opnum4 op) { tricks_.emplace_back(trick, op); }
  /// COMPOUNDs with `op` in them (OP_ILLEGAL: all) are kept until release(), executed or not.
  void hold(nfs4::nfs_opnum4 op, bool execute);
  void release();
  [[nodiscard]] std::size_t held() const { return kept_.size(); }

  ServerState state;
  CallbackQueue callbacks;
  std::uint32_t credits = 64;
  bool announce = true;      ///< whether private data (RFC 8797) is sent
  Duration reply_delay{0};   ///< between the execution of a request and its answer
  bool keeps_calls = false;  ///< whether `calls` is written

  // ---- what it saw ----
  std::vector<SeenCall> calls;
  Octets credential;         ///< of the last Call, encoded
  unsigned connections = 0;  ///< ever
  [[nodiscard]] std::size_t open_connections() const { return peers_.size(); }

 private:
  struct Peer;
  struct Work;

  /// Runs `fn` when the time has come, unless this server is gone by then.
  void after(Duration delay, std::function<void()> fn);
  void post(std::function<void()> fn);
  bool call(unsigned connection, std::uint32_t xid, const Octets& message);
  void note(const SeenCall& seen);

  async::Loop& loop_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::vector<std::shared_ptr<Peer>> peers_;
  std::vector<std::pair<Trick, nfs4::nfs_opnum4>> tricks_;
  std::optional<nfs4::nfs_opnum4> holding_;
  bool hold_executes_ = true;
  std::vector<std::pair<std::weak_ptr<Peer>, std::shared_ptr<Work>>> kept_;
};

}  // namespace nfsrdma::testing
