// Private to the network: the two ends of a connection, and what is under way between them.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "sim/fabric/network.h"

namespace nfsrdma::sim::detail {

enum class Side : std::uint8_t { dialer = 0, listener = 1 };
constexpr Side other(Side side) {
  return side == Side::dialer ? Side::listener : Side::dialer;
}

/// What of a setup a piece is.
enum class Signal : std::uint8_t { none, request, reply, refusal, end };

struct Piece {
  Passing::Kind kind = Passing::Kind::send;
  Signal signal = Signal::none;
  bool last = true;
  bool solicits_completion = false;  ///< its sender waits until it has been received
  std::uint64_t cookie = 0;          ///< the sender's; of a read and its answer: the reader's own number
  std::uint64_t at = 0;              ///< of a read's answer: where in the destination
  std::optional<std::uint32_t> invalidate;
  fabric::RemoteSegment remote;  ///< a write's target, a read's source
  std::vector<std::byte> bytes;
  Time arrives{};
};

class Pair final : public std::enable_shared_from_this<Pair> {
 public:
  Pair(Network& network, std::uint64_t number, Host& dialer, Host& listener, std::uint16_t port);

  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] Network& network() { return network_; }
  [[nodiscard]] LinkConditions& link() { return link_; }
  [[nodiscard]] Host& host(Side side) { return *end(side).host; }
  [[nodiscard]] bool is_between(const Host& a, const Host& b) const;
  [[nodiscard]] bool has(const Host& host) const;
  [[nodiscard]] bool stands() const;
  [[nodiscard]] SimConnection* face(Side side) { return end(side).face; }

  void attach(Side side, SimConnection& face) { end(side).face = &face; }
  /// It has ended there; whoever sends something to it learns that it is not known any more.
  void detach(Side side) { end(side).face = nullptr; }
  /// Its owner has closed it. The other side is told, behind all that was sent.
  void leave(Side side);
  /// Puts it on its way from there.
  void send(Side from, Piece piece);
  /// Takes in what has come for that side.
  void drain(Side side);

  void cut(const Told& told);
  /// That host's program has gone; nobody is told.
  void vanish(const Host& host);
  /// Takes the connection away from that side, with a reason.
  void tell(Side side, const Error& why);
  [[nodiscard]] std::string peer_name(Side of);

 private:
  struct End {
    Host* host = nullptr;
    SimConnection* face = nullptr;  ///< none: not yet accepted, or its owner has left
    std::deque<Piece> coming;       // towards this end
    Time sent_until{}, last_arrival{};
    std::optional<std::size_t> left;  ///< after a cut: bytes that still arrive
    std::uint64_t arrived = 0;        // pieces
  };
  End& end(Side side) { return ends_[static_cast<std::size_t>(side)]; }
  [[nodiscard]] Simulation& simulation() { return network_.simulation_; }
  [[nodiscard]] Duration delay();
  [[nodiscard]] bool is_parted() const;
  bool ration(End& to, Piece& piece);
  void take_in(Side side, Piece& piece);
  void take_setup(Side side, Piece& piece);
  void give_up_later(Side to);
  void reset_later(Side side);

  Network& network_;
  const std::uint64_t number_;
  const std::uint16_t port_;
  LinkConditions& link_;
  std::array<End, 2> ends_;
  bool cut_ = false;
};

}  // namespace nfsrdma::sim::detail
