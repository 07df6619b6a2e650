// Private to the network: one end of a connection, as its owner sees it (fabric.h).
//
// The device is what happens in place_…() and answer_read(): they run when something arrives, whatever the
// owner's loop does. What the owner is to hear of is queued, and told from its loop.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/fabric/pair.h"

namespace nfsrdma::sim::detail {

class SimConnection final : public fabric::Connection {
 public:
  /// Dials. A null `pair`: there is no machine with that address.
  SimConnection(Host& host, std::shared_ptr<Pair> pair, fabric::DialOptions options,
                const DeviceHabits& habits, fabric::Handler& handler);
  /// Accepts.
  SimConnection(Host& host, std::shared_ptr<Pair> pair, std::vector<std::byte> peers_private_data,
                const DeviceHabits& habits, fabric::Handler& handler);
  ~SimConnection() override;
  SimConnection(const SimConnection&) = delete;
  SimConnection& operator=(const SimConnection&) = delete;

  void post_receive(fabric::ReceiveBuffer buffer) override;
  void post_send(const fabric::SendWork& work) override;
  bool send_copy(fabric::ConstBytes message) override;
  Status expose(fabric::Bytes memory, fabric::Reach reach, std::vector<fabric::RemoteSegment>& to) override;
  bool expose_as(std::uint32_t handle, fabric::Bytes memory, fabric::Reach reach) override;
  Status revoke(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie) override;
  bool revoke_now(std::span<const fabric::RemoteSegment> segments) override;
  Status abandon(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie) override;
  void forget(std::span<const fabric::RemoteSegment> segments) override;
  void post_rdma_write(fabric::ConstBytes local, const fabric::RemoteSegment& remote,
                       std::uint64_t cookie) override;
  void post_rdma_read(fabric::Bytes local, const fabric::RemoteSegment& remote,
                      std::uint64_t cookie) override;
  void flush() override;
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override;
  void close() override;
  [[nodiscard]] std::string peer_name() const override { return peer_; }

  // ---- the device ----
  void place_send(Piece& piece);
  void place_write(const Piece& piece);
  void place_read_answer(const Piece& piece);
  void answer_read(const Piece& piece);
  void set_up(std::vector<std::byte> peers_private_data);
  /// Something of its own has been received by the peer.
  void received_there(std::uint64_t cookie);
  /// The connection has ended; its owner is told from the loop.
  void end(const Error& why);
  /// The program has gone: nobody is told.
  void fall_silent();
  [[nodiscard]] bool established() const { return state_ == State::established; }

 private:
  enum class State : std::uint8_t { connecting, established, ended, closed };
  struct Exposed {
    fabric::Bytes memory;
    std::uint64_t base = 0;
    std::size_t length = 0;
    fabric::Reach reach = fabric::Reach::remote_read;
    bool abandoned = false;
  };
  struct Work {
    Passing::Kind kind = Passing::Kind::send;
    bool completes = true;
    std::uint64_t cookie = 0;
    std::vector<std::byte> bytes;
    fabric::ConstBytes local;  ///< an RDMA Write's
    fabric::RemoteSegment remote;
    std::optional<std::uint32_t> invalidate;
  };
  struct Read {
    fabric::Bytes into;
    std::uint64_t cookie = 0;
  };
  /// What the owner is to be told, from its loop.
  struct News {
    enum class Kind : std::uint8_t { established, received, completed, ended } kind = Kind::completed;
    std::uint64_t cookie = 0;
    std::optional<fabric::ReceiveBuffer> buffer;
    std::optional<std::uint32_t> invalidated;
    std::optional<Error> why;
  };

  void begin();
  void queue(News news);
  void wake_owner();
  void tell();
  void tell(News& news);
  void transmit(Work& work);
  void send_pieces(Piece head, fabric::ConstBytes bytes);
  void completed_later(std::uint64_t cookie, Duration delay);
  /// What the peer may do with these bytes of ours; ends the connection where it may not.
  enum class Allowed : std::uint8_t { yes, thrown_away, no };
  Allowed allow(const fabric::RemoteSegment& remote, std::size_t length, fabric::Reach reach,
                fabric::Bytes& memory);
  void refuse(const std::string& what);
  Status take_back(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie, bool keeps_names);
  void withdraw(std::span<const fabric::RemoteSegment> segments, bool keeps_names);
  [[nodiscard]] fabric::Traits traits() const { return {"", false, habits_.remote_invalidation}; }
  [[nodiscard]] Error error(ErrorKind kind, int errno_value, std::string text) const;
  void let_go();
  [[nodiscard]] Simulation& simulation() const { return host_.simulation(); }

  Host& host_;
  async::Loop& loop_;
  const std::shared_ptr<Pair> pair_;
  const Side side_;
  const DeviceHabits habits_;
  fabric::Handler& handler_;
  const std::string peer_;
  State state_ = State::connecting;
  std::deque<fabric::ReceiveBuffer> receives_;
  std::vector<std::byte> arriving_;  // of a Send in several pieces
  std::unordered_map<std::uint32_t, Exposed> exposed_;
  std::vector<Work> outbox_;
  std::unordered_map<std::uint64_t, Read> reads_;
  std::uint64_t next_read_ = 1;
  std::deque<News> news_;
  bool waking_ = false;
  fabric::Established established_;
  async::Loop::TimerId deadline_ = 0;
  std::uint64_t hook_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace nfsrdma::sim::detail
