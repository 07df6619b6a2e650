// A thread with a loop, on which one shard (engine/shard.h) makes calls for the mount's loop, and sends answers to the kernel.
//
//     the mount's loop                      the shard's
//     make(job)              ── Order ──▸   CallJob::make()
//     CallJob::has_ended()   ◂── job ───
//     send(job)              ── Order ──▸   AnswerJob::send_answer()
//     AnswerJob::has_sent()  ◂── job ───
//
// Orders and jobs are passed in batches: Orders at the end of the owner's turn, jobs at the end of the shard's. So with
// several calls under way a wake-up of the other thread serves many of them.
//
// A READ does no harm the second time. So none stays longer than `patience`, nor when the connection is lost: it is dropped and
// given back, and the shard is taken for one that has stopped working. Other calls (CallJob::may_be_dropped()) stay until their
// deadlines, and when the thread ends they end because the connection does. What becomes of a call its owner finds out by what
// the job holds.
//
// The shard's connection belongs to the thread. A shard works from when it is made until it is lost, also while nobody calls.
//
// Thread-safety: one thread, the owner's, calls all functions. The jobs say which of their functions run where.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "async/event.h"
#include "async/loop.h"
#include "async/mailbox.h"
#include "async/reused.h"
#include "engine/shard.h"
#include "fuse/connection_state.h"
#include "nfsrdma/result.h"
#include "rpc/channel.h"

namespace nfsrdma::fuse {

/// A READ or another call for a shard's thread. Between make() and has_ended() it belongs to that thread: the owner may change
/// nothing that the shard uses, nor destroy it.
class CallJob {
 public:
  CallJob() = default;
  virtual ~CallJob() = default;
  CallJob(const CallJob&) = delete;
  CallJob& operator=(const CallJob&) = delete;

  /// Called on the owner's thread when the call is back, made or not.
  virtual void has_ended() = 0;
  // On the shard's thread.
  virtual async::Task<void> make(engine::Shard& shard) = 0;
  [[nodiscard]] virtual bool may_be_dropped() const = 0;
};

/// An answer to the kernel for a shard's thread, which it belongs to between send() and has_sent().
class AnswerJob {
 public:
  AnswerJob() = default;
  virtual ~AnswerJob() = default;
  AnswerJob(const AnswerJob&) = delete;
  AnswerJob& operator=(const AnswerJob&) = delete;

  /// Called on the owner's thread.
  virtual void has_sent() = 0;
  /// Called on the shard's thread.
  virtual void send_answer() = 0;
};

class ShardThread {
 public:
  /// Starts the thread, which has no shard yet. Throws std::system_error if the system gives it none, or no descriptors.
  ShardThread(async::Loop& owner, const rpc::ChannelOptions& connection, std::chrono::milliseconds patience);
  /// Calls stop().
  ~ShardThread();
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  /// The channel for the shard (Protocol::make_shard()).
  [[nodiscard]] rpc::Channel& channel() { return channel_; }
  /// Connects the shard, and sets it in place of one that has stopped working. Ends with an Error if there is no connection.
  async::Task<Status> use(std::unique_ptr<engine::Shard> shard);
  [[nodiscard]] bool works() const { return works_.load(std::memory_order_relaxed); }

  void make(CallJob& job);
  /// Only while runs().
  void send(AnswerJob& job);
  [[nodiscard]] bool runs() const { return self_ != nullptr; }
  /// Returns how many jobs the thread has.
  [[nodiscard]] std::size_t busy() const { return busy_; }

  /// Waits until the thread has looked at its connection, which takes as long as its turn.
  ConnectionState connection();

  /// Ends the calls, sends the answers that it has been given, and ends the thread. Then has_ended() and has_sent() are
  /// called of all jobs.
  void stop();

 private:
  struct Order {
    enum class What : std::uint8_t { make, send, use, look } what;
    CallJob* call = nullptr;
    AnswerJob* answer = nullptr;
    std::unique_ptr<engine::Shard> shard = nullptr;
    ConnectionState* state = nullptr;
  };
  struct Done {
    enum class What : std::uint8_t { has_ended, has_sent, connected } what;
    CallJob* call = nullptr;
    AnswerJob* answer = nullptr;
    Status connected = {};
  };
  class Call;

  // on the owner's thread
  void order(Order order);
  void take_done();
  // on its own
  void run();
  void carry_out(Order& order);
  void begin(CallJob& job);
  async::Task<void> connect(std::shared_ptr<engine::Shard> shard);
  void drop_calls();
  // on either
  [[nodiscard]] Error ended(const char* why) const;
  void end_turn();
  void drop_shard(const engine::Shard& which);

  async::Loop& owner_;
  const std::chrono::milliseconds patience_;
  async::Loop loop_;
  async::Mailbox<Order> orders_;
  async::Mailbox<Done> done_;
  async::Wakeup wake_;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> works_ = false;
  std::atomic<bool> looked_ = false;
  // Used by the owner's thread only.
  std::vector<Order> ordered_;
  std::vector<Done> told_;
  std::size_t busy_ = 0;
  std::optional<Status> connected_;  // the result of the last attempt
  async::Event has_connected_;
  std::shared_ptr<ShardThread*> self_;  // null once it has stopped; posted functions find out by it
  // Used by the shard's thread only, once it has begun.
  rpc::Channel channel_;
  std::shared_ptr<engine::Shard> shard_;  // null: it has stopped working; calls under way hold it as well
  std::optional<async::Task<void>> connect_task_;
  bool is_lost_ = false;  // the connection, in this turn
  async::Reused<Call> calls_;
  std::vector<Call*> ended_;         // in this turn
  std::vector<AnswerJob*> answers_;  // to be sent in this turn
  std::vector<Order> taken_;
  std::vector<Done> finished_;
  std::thread thread_;
};

}  // namespace nfsrdma::fuse
