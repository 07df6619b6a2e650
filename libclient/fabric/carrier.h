// A second loop, on a thread of its own, that carries connections for the owner's loop. The work that costs
// time per byte (sockets, framing, checksums, the copy out of the kernel) is done on the carrier's thread,
// while everything that has protocol state stays on the owner's.
//
//     the owner's loop                                     the carrier's
//     CarriedConnection (carried.h)   ── Order ──▸         Carried  ──▸ the connection itself
//          Handler                    ◂── News ──          Carried  ◂── its callbacks
//
// Ordering. Orders arrive in the order in which they were given, and so do News. No order is defined between
// Orders and News, nor between different carriers. Both are passed in batches: Orders at the end of the
// owner's turn, News at the end of the carrier's turn.
//
// Memory. A buffer for a message is moved with its Order, and comes back with its News. All other memory is
// named as in fabric.h, and must stay valid until the News that gives it back to the owner, or until settle()
// after an End.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "async/loop.h"
#include "fabric/fabric.h"

namespace nfsrdma::fabric {

class Carried;
class CarriedConnection;

/// Makes the connection. Called on the carrier's loop.
using MakeConnection = std::function<std::unique_ptr<Connection>(async::Loop&, Handler&)>;

/// A request of the owner. Each kind corresponds to the function of Connection that it is named after.
struct Order {
  struct Begin {
    MakeConnection make;
  };
  struct Receive {
    ReceiveBuffer buffer;
  };
  struct Send {
    SendWork work;     ///< everything but the pieces
    ConstBytes first;  ///< the first of the pieces; most Sends have only one
    std::vector<ConstBytes> rest;
  };
  struct Expose {
    std::uint32_t handle = 0;
    Bytes memory;
    Reach reach = Reach::remote_read;
  };
  struct TakeBack {
    std::vector<RemoteSegment> segments;
    std::uint64_t cookie = 0;
    bool abandons = false;
  };
  struct Forget {
    std::vector<RemoteSegment> segments;
  };
  struct RdmaWrite {
    ConstBytes local;
    RemoteSegment remote;
    std::uint64_t cookie = 0;
  };
  struct RdmaRead {
    Bytes local;
    RemoteSegment remote;
    std::uint64_t cookie = 0;
  };
  /// The last Order of a connection.
  struct End {};
  Carried* of = nullptr;
  std::variant<Begin, Receive, Send, Expose, TakeBack, Forget, RdmaWrite, RdmaRead, End> what;
};

/// An event of a connection, as its Handler hears it.
struct News {
  struct Received {
    ReceiveBuffer buffer;
    std::optional<std::uint32_t> invalidated;
  };
  struct Completed {
    std::uint64_t cookie = 0;
  };
  std::uint64_t of = 0;  ///< the number of the connection (Carrier::join())
  std::variant<Established, Received, Completed, Error> what;
};

class Carrier {
 public:
  Carrier() = default;
  virtual ~Carrier() = default;
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  // ---- on the owner's thread ----

  /// Queues an Order. It is passed on at hand_over() at the latest, or at the end of the loop's turn.
  virtual void order(Order order) = 0;
  virtual void hand_over() = 0;
  /// Waits until all Orders so far have been carried out. A carrier never waits for another thread, so this
  /// is short.
  virtual void settle() = 0;
  /// Delivers News with the returned number to the connection, until the connection leaves.
  std::uint64_t join(CarriedConnection& connection);
  void leave(std::uint64_t number);

  // ---- on the carrier's ----

  virtual async::Loop& loop() = 0;
  virtual void report(News news) = 0;

 protected:
  static void carry_out(Order& order);
  /// Passes the News to its connection. News of a connection that has left is discarded.
  void tell(News& news);

 private:
  struct Member {
    std::uint64_t number = 0;
    CarriedConnection* connection = nullptr;
  };
  std::vector<Member> members_;  // only a few
  std::uint64_t last_number_ = 0;
};

/// Makes carriers for connections whose loop is `owner`. `owner` must outlive the carriers. Returns fewer
/// than `count` if the system cannot start more threads.
using MakeCarriers = std::function<std::vector<std::shared_ptr<Carrier>>(async::Loop& owner, unsigned count)>;

/// Makes `count` carriers, each with a thread of its own; see MakeCarriers.
[[nodiscard]] std::vector<std::shared_ptr<Carrier>> carrier_threads(async::Loop& owner, unsigned count);

}  // namespace nfsrdma::fabric
