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
#include "support/toy_mechanism.h"

namespace nfsrdma::testing {

class Responder {
 public:
  using Done = CallbackQueue::Done;
  using Duration = async::Clock::duration;

  explicit Responder(async::Loop& loop, std::uint64_t seed = 1);
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// Takes a connection that a fabric brings.
  void accept(std::unique_ptr<fabric::Incoming> incoming);
  void drop_connections();
  void drop_connection(unsigned number);
  /// Everything volatile is lost: connections, requests under way, clients, state, data without COMMIT.
  void restart(Duration grace);

  /// CB_RECALL of the file's delegation; where it has none, of a stateid that nobody was ever given. Nothing
  /// is revoked.
  CallbackQueue::Ticket recall(const std::string& path, Done done);
  /// Recalls a delegation as for somebody who waits for it: it is revoked when the lease time has passed.
  void demand(std::uint64_t delegation);
  /// CB_GETATTR. Who does not say has it recalled.
  void ask(std::uint64_t delegation);

  /// Ends a copy that is made beside, and says so by CB_OFFLOAD if the server does that.
  void end_copy(std::uint64_t copy);

  CallbackQueue::Ticket recall_any(nfs4::clientid4 client, std::uint32_t objects_to_keep,
                                   const nfs4::bitmap4& types, Done done);
  /// CB_RECALL_SLOT, and SEQUENCE says the same from then on.
  CallbackQueue::Ticket recall_slot(nfs4::clientid4 client, std::uint32_t target_highest_slot, Done done);

  // ---- faults ----
  enum class Trick : std::uint8_t { drop_before, drop_after, err_chunk, garbage_args };
  /// Befalls the next COMPOUND with `op` in it.
  void play(Trick trick, nfs4::nfs_opnum4 op) { tricks_.emplace_back(trick, op); }
  /// What a Reply may do against the binding, which says what is reduced (RFC 8166 6.1).
  enum class Misplacement : std::uint8_t {
    left_inline,       ///< results that have Write chunks come in the stream
    left_inline_long,  ///< the same, and all of it in the Reply chunk
    filled_for_none,   ///< the first Write chunk is filled, and the result that it is for brings nothing
  };
  /// Befalls the Reply to the next Call with `op` in it.
  void misplace(Misplacement how, nfs4::nfs_opnum4 op) { misplacements_.emplace_back(how, op); }
  /// COMPOUNDs with `op` in them (OP_ILLEGAL: all) are kept until release(): executed, and their answers
  /// kept; or not even looked at.
  void hold(nfs4::nfs_opnum4 op, bool execute);
  /// COMPOUNDs with `op` in them (OP_ILLEGAL: all) get their slots, and are executed at release(), even if
  /// their connections are gone by then.
  void stall(nfs4::nfs_opnum4 op) { stalling_ = op; }
  /// The execution of the next such COMPOUND takes that long.
  void stall(nfs4::nfs_opnum4 op, Duration time);
  /// Ends hold() and stall().
  void release();
  /// Lets the one go that was kept by hold() first. The others stay, and hold() goes on.
  void release_first();
  [[nodiscard]] std::size_t held() const { return kept_.size() + stalled_.size(); }
  /// For that time nothing is begun and nothing is finished.
  void freeze(Duration time);
  /// Ends freeze().
  void thaw();

  ServerState state;
  CallbackQueue callbacks;
  ToyGuard guard;  ///< takes what is of its flavour; the rest comes in clear
  std::uint32_t credits = 64;
  bool announce = true;  ///< whether private data (RFC 8797) is sent
  /// Announced there: the largest message that this server sends, and the largest that it takes; both at most 4096.
  std::uint32_t send_size = 4096, receive_size = 4096;
  /// Versions of NFS that are served.
  std::uint32_t lowest_version = 2, highest_version = 4;
  Duration reply_delay{0};   ///< between the execution of a request and its answer
  bool keeps_calls = false;  ///< whether `calls` is written
  /// Hears of each COMPOUND when it has been executed, or answered from the reply cache.
  std::function<void(const SeenCall&)> on_call;
  /// May change the RPC message of each Reply, from its xid on, before that is protected and sent. What goes by Write
  /// chunks is not in it.
  std::function<void(const SeenCall&, Octets&)> on_reply;

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
  void begin(const std::shared_ptr<Work>& work);
  void finish(const std::shared_ptr<Work>& work);
  void go_on(const std::shared_ptr<Work>& work);
  void deliver(const std::shared_ptr<Work>& work);
  void reply(const std::shared_ptr<Work>& work);
  void unpark(const Execution& done);
  void note(Work& work);
  static bool is_in(nfs4::nfs_opnum4 op, const SeenCall& seen);
  std::optional<Trick> next_trick(const SeenCall& seen, bool executed);
  std::optional<Misplacement> next_misplacement(const SeenCall& seen);
  Duration stall_of(const SeenCall& seen);
  [[nodiscard]] bool is_frozen() const { return loop_.now() < frozen_until_; }

  static constexpr std::chrono::seconds kRecallAgain{2};
  struct Stall {
    nfs4::nfs_opnum4 op;
    Duration time;
  };

  async::Loop& loop_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::vector<std::shared_ptr<Peer>> peers_;
  std::vector<std::pair<Trick, nfs4::nfs_opnum4>> tricks_;
  std::vector<std::pair<Misplacement, nfs4::nfs_opnum4>> misplacements_;
  std::optional<nfs4::nfs_opnum4> holding_, stalling_;
  bool hold_executes_ = true;
  std::vector<Stall> stalls_;
  std::vector<std::shared_ptr<Work>> kept_, stalled_;
  std::vector<std::shared_ptr<Work>> parked_;  // retransmissions of what is under way
  Instant frozen_until_{};
  std::vector<std::function<void()>> frozen_;
};

}  // namespace nfsrdma::testing
