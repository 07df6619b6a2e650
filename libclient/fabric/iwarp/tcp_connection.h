// The socket driver behind connect() and Listener: moves bytes between a TCP socket and a Stream. Internal.
//
//   connecting → handshaking → established → closed      connect(); a refusal goes back to connecting
//                              established → closed      accepted by a Listener
//
// The object owns the socket, its registration with the loop and its timers. release() gives all of them
// back, and every path to the end goes through release(). Functions posted to the loop hold a weak token,
// because the owner may destroy the connection before they run.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/iwarp/connection.h"
#include "fabric/iwarp/gathering.h"
#include "fabric/iwarp/socket.h"
#include "fabric/iwarp/stream.h"

namespace nfsrdma::fabric::iwarp {

class TcpConnection final : public Connection, private Stream::Events {
 public:
  /// Constructs the connecting side.
  TcpConnection(async::Loop& loop, ConnectOptions options, Handler& handler);
  /// Constructs the accepting side, after its Reply was sent. `early` has the octets that arrived behind the
  /// Request.
  TcpConnection(async::Loop& loop, Socket socket, std::string peer, const Agreement& agreement,
                std::vector<std::byte> early, Handler& handler);
  ~TcpConnection() override;
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  void post_receive(ReceiveBuffer buffer) override;
  void post_send(const SendWork& work) override;
  bool send_copy(ConstBytes message) override;
  Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) override;
  bool expose_as(std::uint32_t handle, Bytes memory, Reach reach) override;
  Status revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) override;
  bool revoke_now(std::span<const RemoteSegment> segments) override;
  Status abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) override;
  void forget(std::span<const RemoteSegment> segments) override;
  void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) override;
  void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) override;
  void flush() override;
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override;
  void close() override;
  [[nodiscard]] std::string peer_name() const override { return peer_; }

 private:
  enum class State : std::uint8_t { connecting, handshaking, established, closed };

  void on_message(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) override;
  void on_completed(std::uint64_t cookie) override;

  void post(void (TcpConnection::*then)());
  void start_attempt();
  void on_event(std::uint32_t events);
  void on_connected();
  void on_handshake();
  void handshake_outcome(Initiator::Outcome outcome);
  void on_deadline();
  void establish(const Agreement& agreement, bool responder, ConstBytes early);
  void announce();
  std::size_t receive();
  void take_kept();
  void gather();
  void stop_gathering();
  void wait_for_the_rest(async::TimePoint until);
  void on_gather_timer();
  void set_low_water();
  void nudge_later(async::Clock::duration pause);
  void send_pending();
  void refresh_segment_size();
  void want_writable(bool wanted);
  void set_interest();
  void fail_later(Error error);
  void finish_broken();
  void finish_failed();
  void finish(Error reason);
  void release();
  [[nodiscard]] Error error(ErrorKind kind, int errno_value, std::string message) const;
  [[nodiscard]] Error connect_error(int errno_value) const;
  [[nodiscard]] Error socket_error(int errno_value) const;

  async::Loop& loop_;
  Handler& handler_;
  const ConnectOptions options_;
  const std::string peer_;
  State state_ = State::connecting;
  Socket socket_;
  std::optional<Initiator> initiator_;  // set on the connecting side only
  std::vector<std::byte> reply_;        // the octets of the Reply frame that have arrived
  Established established_;
  std::vector<std::byte> early_;
  Stream stream_;
  std::optional<Error> broken_;  // an error that waits for the loop to report it
  bool sending_ = false;
  bool writable_wanted_ = false;
  std::size_t send_budget_;
  unsigned sends_until_refresh_ = 0;
  std::size_t kept_ = 0;       // octets that were read and are still in the socket
  bool message_seen_ = false;  // a message was delivered in this turn
  Gathering gathering_;
  async::Loop::TimerId gather_timer_ = 0;
  async::TimePoint gathering_since_;  // valid while gathering_.waits()
  bool heard_ = false;                // an octet of the stream has arrived
  async::Loop::TimerId nudge_timer_ = 0;
  async::Loop::TimerId deadline_ = 0;
  std::uint64_t hook_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::array<iovec, 1024> send_iov_;  // NOLINT: filled by Stream::fill()
};

}  // namespace nfsrdma::fabric::iwarp
