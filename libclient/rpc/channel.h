// Channel: RPCs to one server over one RDMA connection at a time. It drives the requester (rpcrdma/), which
// does no I/O, with a fabric's connection, the loop's timers and the clock.
//
//   co_await channel.call(...)  →  Requester::submit → actions → fabric::Connection → bytes
//   bytes → fabric::Handler callbacks → Requester inputs → Complete → the awaiting task is resumed
//
// The connection of a Channel may end and be replaced; calls wait for the next one until their deadlines. If
// a task is destroyed while it awaits a call, the call ends by itself.
//
// The server's Calls (RFC 8167) go to the BackwardService, if ChannelOptions.rdma.backward_credits is not 0:
//
//   bytes → Requester → Deliver → BackwardService::on_backward_call … Channel::answer → SendAnswer → bytes
//
// Confined to the thread that runs the loop. A Channel must not be destroyed from inside a task that it
// resumed.
#pragma once

#include <sys/socket.h>

#include <coroutine>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/loop.h"
#include "fabric/choices.h"
#include "fabric/dial.h"
#include "fabric/tap.h"
#include "rpcrdma/requester.h"

namespace nfsrdma::rpc {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

struct ChannelOptions {
  std::string server;              ///< the server's name as the user gave it, for messages
  std::vector<Address> addresses;  ///< tried in order
  bool elsewhere = false;          ///< the addresses are not those that the user gave for the server
  Fabric fabric = Fabric::automatic;
  Crc crc = Crc::automatic;
  std::chrono::microseconds busy_poll{0};
  std::chrono::milliseconds connect_timeout{10000};
  fabric::Dialer dial = fabric::system_dialer();  ///< makes the connections
  fabric::Tapper tap;                             ///< makes the Taps of the connections; null: none
  /// The thread that does the connections' work; null: the loop itself.
  std::shared_ptr<fabric::Carrier> carrier;
  rpcrdma::Config rdma;
};

/// The end of a call. On success `reply` is set. `message` is the Call's own message, for reuse.
struct Outcome {
  rpcrdma::Failure failure = rpcrdma::Failure::none;
  std::optional<Error> error;
  std::optional<rpcrdma::Reply> reply;
  xdr::Message message;
  std::uint32_t sends = 0;  ///< how often the call was sent; 0: the server cannot know of it
  unsigned losses = 0;      ///< rpcrdma::Call::losses, for making the call again on another connection
};

/// Serves the Calls that the server makes over the Channel's connection.
class BackwardService {
 public:
  virtual ~BackwardService() = default;
  /// Called for each Call of the server's. `message` is the RPC Call from its xid on, as it came, and is
  /// valid until this returns. Each Call must be answered once, by Channel::answer() or decline(), from
  /// inside this function or later. Calls of a connection that has ended need no answer. Must not destroy the
  /// Channel.
  virtual void on_backward_call(rpcrdma::BackwardId id, fabric::ConstBytes message) = 0;
};

class Channel final : private fabric::Handler, private rpcrdma::Exposer {
 public:
  using NoticeSink = std::function<void(const rpcrdma::Notice&)>;

  Channel(async::Loop& loop, ChannelOptions options, NoticeSink notices);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Makes the first connection; returns at once if there is one. Later connections are made as calls need
  /// them.
  async::Task<Status> connect(async::TimePoint deadline);

  /// A party that waits for the end of a call. If it is destroyed before the end, it must call leave() first.
  class Waiter {
   public:
    Waiter() = default;
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    [[nodiscard]] bool waits() const { return id_ != 0; }

   protected:
    ~Waiter() = default;

   private:
    friend class Channel;
    /// Called when the call has ended. Parts of `how` may be moved out. May destroy the Waiter.
    virtual void on_complete(rpcrdma::Complete& how) = 0;
    rpcrdma::CallId id_ = 0;
  };
  /// Makes a call. The waiter may be called from inside this function.
  void begin(rpcrdma::Call&& call, Waiter& waiter);
  /// Detaches the waiter. Its call ends by itself, and the memory of the call is out of the server's reach
  /// when this returns.
  void leave(Waiter& waiter);

  /// co_await channel.call(std::move(call)) gives an Outcome.
  class Awaiter final : private Waiter {
   public:
    Awaiter(Channel& channel, rpcrdma::Call&& call) : channel_(channel), call_(std::move(call)) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    ~Awaiter() { channel_.leave(*this); }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting);
    Outcome await_resume() { return std::move(outcome_); }

   private:
    void on_complete(rpcrdma::Complete& how) override;
    Channel& channel_;
    rpcrdma::Call call_;
    std::coroutine_handle<> waiting_;
    Outcome outcome_;
  };
  Awaiter call(rpcrdma::Call&& call) { return {*this, std::move(call)}; }

  /// Sets the service for the server's Calls. The service must outlive the Channel, or be replaced by nullptr
  /// before it is destroyed. Without a service the server's Calls are declined.
  void set_backward(BackwardService* service) { backward_ = service; }
  /// Answers a Call of the server's. `reply` is the whole RPC Reply; its xid (the first four bytes) is filled
  /// in here. take_message() returns a message to encode into. Nothing is sent if the Call's connection has
  /// ended in the meantime.
  void answer(rpcrdma::BackwardId id, xdr::Message reply);
  void decline(rpcrdma::BackwardId id);
  /// While on, a lost connection is replaced even if no call needs it (RFC 8167 5.4). Used as long as there
  /// is state that the server may recall.
  void hold(bool on);

  /// Makes a health check of the connection in its own way, or returns false.
  using HealthCheck = std::function<bool()>;
  /// Turns on health checks (RFC 8267 4.6). If nothing was heard on a connection for the time `every`, a
  /// health check is made, on every kind of fabric; if nothing is heard for that time again, the connection
  /// is replaced. `by` makes the check. If there is none, or it returns false, the NULL procedure of NFS's
  /// `version` is called, which needs only a credit.
  void check_health(std::chrono::milliseconds every, std::uint32_t version, HealthCheck by = nullptr);
  void end_health_checks();

  /// Returns a message to encode a Call into. give_back() puts messages into the store, for example
  /// Outcome::message.
  xdr::Message take_message();
  void give_back(xdr::Message message);
  void give_back(rpcrdma::Reply reply);

  /// Called whenever the connection begins (true) and ends (false).
  using LinkSink = std::function<void(bool up)>;
  void set_link_sink(LinkSink sink) { link_sink_ = std::move(sink); }
  [[nodiscard]] bool up() const { return up_; }
  /// The number of calls in progress; their bytes, plus a fixed amount for each call; and how many of them
  /// are bulk (route.h).
  [[nodiscard]] std::size_t calls() const { return requester_.pending(); }
  [[nodiscard]] std::size_t load() const { return requester_.load(); }
  [[nodiscard]] std::size_t bulk_calls() const { return requester_.bulk_calls(); }
  [[nodiscard]] std::uint32_t credits_in_use() const { return requester_.in_flight(); }
  /// Ends every call in progress with Failure::cancelled, so that its caller makes it on another connection.
  void hand_calls_back();

  /// Ends every call, and connect(), with an error, and closes the connection.
  void shut_down();

  [[nodiscard]] const rpcrdma::Facts& facts() const { return requester_.facts(); }
  [[nodiscard]] const fabric::Established& established() const { return established_; }
  [[nodiscard]] std::string address() const { return address_; }
  [[nodiscard]] const std::string& server() const { return options_.server; }
  [[nodiscard]] bool elsewhere() const { return options_.elsewhere; }
  [[nodiscard]] async::Loop& loop() { return loop_; }
  /// A count of the connections made so far.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  /// When the last of them was made.
  [[nodiscard]] async::TimePoint made_at() const { return made_at_; }

 private:
  // fabric::Handler
  void on_established(const fabric::Established& established) override;
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) override;
  void on_completed(std::uint64_t cookie) override;
  void on_closed(const Error& why) override;
  // rpcrdma::Exposer
  Status expose(fabric::Bytes memory, fabric::Reach reach, std::vector<rpcrdma::RemoteSegment>& to) override;
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override;
  bool send_copy(fabric::ConstBytes message) override {
    if (!connection_ || !connection_->send_copy(message)) return false;
    if (is_tapped()) [[unlikely]]
      tap_->sent(message);
    return true;
  }
  bool revoke_now(std::span<const rpcrdma::RemoteSegment> segments) override {
    if (!connection_ || !connection_->revoke_now(segments)) return false;
    if (is_tapped()) [[unlikely]]
      tap_->taken_back(segments);
    return true;
  }
  [[nodiscard]] bool is_tapped() const { return tap_ && tap_->on(); }
  void end_tap(const Error* why);

  void take_memory_back(rpcrdma::CallId id);
  void pump();
  void check_now();
  void perform(rpcrdma::Connect&);
  void perform(rpcrdma::PostReceives& action);
  void perform(rpcrdma::Send& action);
  void perform(rpcrdma::SendAnswer& action);
  void perform(rpcrdma::Deliver& action);
  void perform(rpcrdma::Revoke& action);
  void perform(rpcrdma::Forget& action);
  void perform(rpcrdma::Close& action);
  void perform(rpcrdma::Complete& action);
  void perform(rpcrdma::Notice& action);
  void post_send(fabric::ConstBytes bytes, std::uint64_t cookie);
  void keep_buffer(fabric::ReceiveBuffer buffer);
  void dial();
  void drop_connection();
  void arm_timer();
  void set_timer(async::TimePoint when);
  void connect_settled(Status status);
  [[nodiscard]] Error shut_error() const;

  async::Loop& loop_;
  const ChannelOptions options_;
  const NoticeSink notices_;
  LinkSink link_sink_;
  BackwardService* backward_ = nullptr;
  rpcrdma::Requester requester_;
  std::unique_ptr<fabric::Connection> connection_;
  std::unique_ptr<fabric::Tap> tap_;  // the Tap of connection_; may be null
  bool dialing_ = false;
  bool up_ = false;
  bool shut_ = false;
  std::size_t address_index_ = 0;
  async::TimePoint first_deadline_ = async::TimePoint::max();
  std::uint64_t generation_ = 0;
  async::TimePoint made_at_{};
  std::string address_;
  fabric::Established established_;
  std::vector<fabric::ReceiveBuffer> spare_buffers_;
  std::vector<xdr::Message> spare_messages_;
  bool pumping_ = false;
  std::chrono::milliseconds check_every_{};
  std::uint32_t check_version_ = 0;
  HealthCheck check_;
  async::Loop::TimerId timer_ = 0;
  async::TimePoint timer_at_ = async::TimePoint::max();
  async::TimePoint armed_at_{};
  std::uint64_t calls_when_armed_ = 0;
  bool lonely_ = false;  // calls come one at a time, and seldom
  std::coroutine_handle<> connect_waiter_;
  std::optional<Status> connect_result_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace nfsrdma::rpc
