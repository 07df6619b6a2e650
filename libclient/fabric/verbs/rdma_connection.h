// The driver behind connect() and Listener: handles the connection manager's events, the completions, and the
// end. Internal.
//
//   resolving → routing → connecting → established → closed    connect()
//                         accepting  → established → closed    accepted by a Listener
//
// Completions. Those of the receive queue always wake the loop. Those of the send queue do so only while a
// caller waits for one (an Invalidate, an RDMA Read or Write, room in the queue); otherwise they are
// collected when another event is handled. With `busy_poll`, the end of a turn that did something polls the
// queues for that time before it arms them. If polling found nothing several times in a row, it is done less
// often.
//
// Functions posted to the loop hold a weak token, because the owner may destroy the connection before they
// run.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "fabric/verbs/connector.h"
#include "fabric/verbs/exposures.h"
#include "fabric/verbs/receives.h"
#include "fabric/verbs/send_queue.h"

namespace nfsrdma::fabric::verbs {

/// A copy of an event of the connection manager. The original must be acknowledged before its identifier can
/// be destroyed, and a handler may destroy the identifier.
struct ManagerEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::vector<std::byte> private_data;
  std::uint32_t reads_in = 0, reads_out = 0;  ///< as seen from this side
};
/// Returns the next event, if there is one.
[[nodiscard]] std::optional<ManagerEvent> next_event(const Library& library, rdma_event_channel* channel);
/// Makes an Error of an Endpoint's failure.
[[nodiscard]] Error local_failure(const Endpoint::Failure& failure, const char* operation,
                                  const std::string& peer);

class RdmaConnection final : public Connection {
 public:
  /// Constructs the connecting side.
  RdmaConnection(async::Loop& loop, ConnectOptions options, Handler& handler);
  /// Constructs the accepting side. `endpoint` is prepared. The answer is sent from the loop, after Receives
  /// have been posted.
  RdmaConnection(async::Loop& loop, std::shared_ptr<Endpoint> endpoint, const Queues& queues,
                 std::string peer, std::vector<std::byte> private_data, const ManagerEvent& request,
                 Handler& handler);
  ~RdmaConnection() override;
  RdmaConnection(const RdmaConnection&) = delete;
  RdmaConnection& operator=(const RdmaConnection&) = delete;

  void post_receive(ReceiveBuffer buffer) override;
  void post_send(const SendWork& work) override;
  Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) override;
  Status revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) override;
  Status abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) override;
  bool settle() override;
  void forget(std::span<const RemoteSegment> segments) override;
  void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) override;
  void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) override;
  void flush() override;
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override;
  void close() override;
  [[nodiscard]] std::string peer_name() const override { return peer_; }

 private:
  enum class State : std::uint8_t { resolving, routing, connecting, accepting, established, closed };
  static constexpr int poll_batch = 32;

  // rdma_connection.cpp: from nothing to established, and the end
  void start();
  void resolve_route();
  void send_request();
  void on_request_sent();
  void answer();
  void watch_manager();
  void on_manager();
  void on_manager_event(const ManagerEvent& event);
  void establish(const ManagerEvent& event);
  void on_device_event();
  void on_deadline();
  void fail_later(Error error);
  void finish(Error reason);
  void release();
  [[nodiscard]] Error error(ErrorKind kind, int errno_value, std::string message) const;
  [[nodiscard]] Error local_error(const Endpoint::Failure& failure) const;
  [[nodiscard]] Error connect_error(int errno_value) const;
  [[nodiscard]] Error resolve_error(int errno_value) const;
  [[nodiscard]] Error reject_error(int status) const;

  // work.cpp: what is posted and what completes
  void make_queues();
  Status take_back(std::span<const RemoteSegment> segments, std::uint64_t cookie, bool at_once);
  void post_rdma(Work::Kind kind, Bytes local, const RemoteSegment& remote, std::uint64_t cookie);
  void on_work_done(const Work& work);
  void report_sent();
  void on_completion_event();
  void collect();
  int poll_receives();
  int poll_sends();
  void take_receive(const ibv_wc& completion);
  void arm();
  void end_of_turn();
  bool spin();
  void broken_by(const ibv_wc& completion);
  [[nodiscard]] Error ended(std::string otherwise) const;
  void post(void (RdmaConnection::*then)());

  async::Loop& loop_;
  Handler& handler_;
  const ConnectOptions options_;
  const std::string peer_;
  State state_ = State::resolving;
  std::shared_ptr<Endpoint> endpoint_;
  std::unique_ptr<Connector> connector_;
  std::optional<SendQueue> sends_;
  std::optional<Receives> receives_;
  std::optional<Exposures> exposures_;
  std::vector<ReceiveBuffer> early_receives_;  // Receives posted before the device is known
  std::vector<std::byte> private_data_;        // set on the accepting side only
  Established established_;
  std::unordered_set<std::uint32_t> abandoned_;  // handles that the peer may still use
  std::vector<std::uint64_t> sent_;              // cookies of Sends that have been copied
  bool collecting_ = false;
  bool receives_armed_ = false, sends_armed_ = false;
  unsigned send_events_ = 0, receive_events_ = 0;  // not yet acknowledged
  bool active_ = false;                            // something was sent or received in this turn
  unsigned idle_spins_ = 0, spins_to_skip_ = 0;
  std::optional<Error> broken_;  // an error that waits for the loop to report it
  async::Loop::TimerId deadline_ = 0;
  std::uint64_t hook_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace nfsrdma::fabric::verbs
