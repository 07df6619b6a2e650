// A network in memory, with RDMA semantics, for the simulation: fabric.h over virtual time.
//
//     Network network(simulation);
//     auto listener = network.listen(server, 20049, [&](auto incoming) { ... });
//     channel_options.addresses = {network.address(server, 20049)};
//     channel_options.dial = network.dialer(client);
//
// What it has in common with real networks. A message travels in pieces, in order within one direction of a
// connection, each with the delay of its link: so a Send never overtakes the RDMA Writes before it, and a
// connection may end between any two pieces, or within one. An RDMA Write is placed and an RDMA Read is
// answered while the peer's loop does something else, as a device does it. Completions come in order, from
// the loop, and may be late. A Send that finds no Receive, one that is too large for it, and an access to
// memory that was not exposed break the connection. Whoever is told of its end is told once, and some are not
// told at all until they send something (a half-open connection).
//
// What may go wrong, all of it drawn from the simulation's generator or asked for by a test:
//   - a link is slow, is cut (the connections over it end, with a word to both sides, one, or none), or is
//     parted: nothing passes until it is healed, and whoever waits for too long gives up;
//   - a machine's connections vanish without a word, as when its power goes;
//   - a dial is refused, hangs until its deadline, or ends in the middle;
//   - revoking completes at once, late, or never (DeviceHabits).
//
// Ownership: connections and listeners may outlive neither the Network nor the Simulation. Thread-safety:
// none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fabric/carrier.h"
#include "fabric/dial.h"
#include "fabric/listener.h"
#include "rpc/channel.h"
#include "sim/simulation.h"

namespace nfsrdma::sim {

/// How it is on the way between two hosts, in both directions.
struct LinkConditions {
  Duration latency = std::chrono::microseconds(20);
  Duration jitter = std::chrono::microseconds(10);  ///< more than the latency, at most
  std::uint64_t bytes_per_second = 1'000'000'000;
  std::uint32_t piece = 8192;  ///< what is larger travels in several
  /// A side whose bytes do not get through gives the connection up after this time.
  Duration gives_up_after = std::chrono::seconds(20);
  // Of 1000 dials so many end so.
  unsigned dials_refused = 0;
  unsigned dials_lost = 0;   ///< nobody answers, until the deadline
  unsigned dials_reset = 0;  ///< in the middle of it
};

/// What a host's device is like; for connections made from then on.
struct DeviceHabits {
  std::size_t largest_segment = std::size_t{1} << 30U;  ///< expose() makes more than one of what is larger
  bool remote_invalidation = false;
  /// A Send's completion waits until the peer has it; otherwise until it has left.
  bool completes_when_received = false;
  // Of 1000 revocations that take something back so many end so; the others are done when revoke() returns.
  unsigned revokes_late = 0;
  unsigned revokes_never = 0;  ///< the handles work until the connection ends
  unsigned revokes_failed = 0;
  Duration longest_revoke = std::chrono::milliseconds(5);
  /// Short Sends are copied and memory is taken back at once, as iwarp does it; then nothing above counts for these.
  bool at_once = false;
  /// How much later than it might a loop hears of what has come or is done.
  Duration longest_wakeup{};
};

/// What is under way between two hosts, for whoever wants to interfere (Network::set_watch).
struct Passing {
  enum class Kind : std::uint8_t { send, write, read_request, read_answer, setup };
  unsigned from = 0, to = 0;  ///< numbers of hosts
  std::uint64_t connection = 0;
  Kind kind = Kind::send;
  fabric::ConstBytes bytes;  ///< the piece's
  bool last = true;          ///< of its message
};
/// What becomes of it: it arrives; the connection ends just before it does, or just behind it; nobody ever hears of it, and
/// the connection stands.
enum class Fate : std::uint8_t { arrives, cut_before, cut_after, vanishes };

/// Who is told that a connection has ended, and when. One who is not hears of it when it sends something:
/// the other side's machine knows of no such connection.
struct Told {
  std::optional<Duration> dialer = Duration{};
  std::optional<Duration> listener = Duration{};
};

namespace detail {
class Pair;
class SimConnection;
class SimListener;
}  // namespace detail

class Network {
 public:
  explicit Network(Simulation& simulation);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  [[nodiscard]] static rpc::Address address(const Host& host, std::uint16_t port);
  [[nodiscard]] fabric::Dialer dialer(Host& from);
  /// Connections of the host may be carried by these (DialOptions::carrier).
  [[nodiscard]] fabric::MakeCarriers carriers(Host& host);
  /// `callback` is called from the host's loop.
  [[nodiscard]] std::unique_ptr<fabric::Listener> listen(Host& host, std::uint16_t port,
                                                         fabric::Listener::Callback callback);

  [[nodiscard]] LinkConditions& between(const Host& a, const Host& b);
  [[nodiscard]] DeviceHabits& habits(const Host& host);

  /// Ends the connections between them; of what is under way a part, to a random byte, still arrives.
  void cut(const Host& a, const Host& b, const Told& told = {});
  void cut(std::uint64_t connection, const Told& told = {});
  /// Nothing passes between them any more; connections stand.
  void part(const Host& a, const Host& b);
  [[nodiscard]] bool parted(const Host& a, const Host& b) const;
  /// Everybody reaches everybody.
  void heal();
  /// The host's program ends without a word: nobody is told, its own side included.
  void vanish(const Host& host);

  /// Sees each piece as it arrives.
  using Watch = std::function<Fate(const Passing&)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  /// Of connections that both sides have established and neither has closed.
  [[nodiscard]] std::vector<std::uint64_t> connections(const Host& a, const Host& b) const;
  /// Every connection object that is there, open or not.
  [[nodiscard]] std::size_t open() const;
  /// What made a device end a connection, one per line: a Send without a Receive, memory that was not
  /// exposed.
  [[nodiscard]] const std::string& problems() const { return problems_; }

 private:
  friend class detail::Pair;
  friend class detail::SimConnection;
  friend class detail::SimListener;
  using Key = std::pair<unsigned, unsigned>;
  [[nodiscard]] static Key key(const Host& a, const Host& b);
  [[nodiscard]] Host* host_of(const sockaddr_storage& address) const;
  [[nodiscard]] detail::SimListener* listener_of(const Host& host, std::uint16_t port) const;
  /// Those that are left of pairs_.
  [[nodiscard]] std::vector<std::shared_ptr<detail::Pair>> pairs() const;
  void hear(Host& host);
  void forget_dead();
  std::unique_ptr<fabric::Connection> dial(Host& from, const fabric::DialOptions& options,
                                           fabric::Handler& handler);

  Simulation& simulation_;
  std::map<Key, LinkConditions> links_;
  std::map<unsigned, DeviceHabits> habits_;
  std::set<Key> parted_;
  std::map<std::pair<unsigned, std::uint16_t>, detail::SimListener*> listeners_;
  std::vector<std::weak_ptr<detail::Pair>> pairs_;
  std::vector<bool> heard_;  // by a host's number: its on_wake() has been called
  std::uint64_t last_ = 0;
  Watch watch_;
  std::string problems_;
};

}  // namespace nfsrdma::sim
