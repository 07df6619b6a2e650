// A second loop, on a thread of its own, that carries connections for the first: what bytes cost (sockets, framing,
// checksums, the copy out of the kernel) is done there, while everything that has state stays where it is.
//
//     the owner's loop                                     the carrier's
//     CarriedConnection (carried.h)   ── Order ──▸         Carried  ──▸ the connection itself
//          Handler                    ◂── News ──          Carried  ◂── its callbacks
//
// Orders arrive in their order, News as well; nothing is said of one with regard to the other, nor to other carriers. Both
// go in batches: Orders at the end of what the owner does in one turn, News behind a turn of the carrier's.
//
// Memory: a buffer for a message goes with its Order, and comes back with its News. All other memory is named as in fabric.h,
// and stays valid until the News that it is the owner's again, or until settle() behind an End.
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

/// Makes the connection, on the carrier's loop.
using MakeConnection = std::function<std::unique_ptr<Connection>(async::Loop&, Handler&)>;

/// What the owner wants done. As the functions of Connection that they are named after.
struct Order {
  struct Begin {
    MakeConnection make;
  };
  struct Receive {
    ReceiveBuffer buffer;
  };
  struct Send {
    SendWork work;     ///< but for its pieces
    ConstBytes first;  ///< of them: mostly there is one
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
  /// The last of a connection's.
  struct End {};
  Carried* of = nullptr;
  std::variant<Begin, Receive, Send, Expose, TakeBack, Forget, RdmaWrite, RdmaRead, End> what;
};

/// What a connection tells, as a Handler hears it.
struct News {
  struct Received {
    ReceiveBuffer buffer;
    std::optional<std::uint32_t> invalidated;
  };
  struct Completed {
    std::uint64_t cookie = 0;
  };
  std::uint64_t of = 0;  ///< Carrier::join()
  std::variant<Established, Received, Completed, Error> what;
};

class Carrier {
 public:
  Carrier() = default;
  virtual ~Carrier() = default;
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  // ---- on the owner's thread ----

  /// Leaves soon: at hand_over() at the latest, or at the end of the loop's turn.
  virtual void order(Order order) = 0;
  virtual void hand_over() = 0;
  /// Waits until all that was ordered has been done. A carrier waits for nobody, so this is short.
  virtual void settle() = 0;
  /// From now on News of that number go to the connection, until it leaves.
  std::uint64_t join(CarriedConnection& connection);
  void leave(std::uint64_t number);

  // ---- on the carrier's ----

  virtual async::Loop& loop() = 0;
  virtual void report(News news) = 0;

 protected:
  static void carry_out(Order& order);
  /// Of one that has left: nobody hears of it.
  void tell(News& news);

 private:
  struct Member {
    std::uint64_t number = 0;
    CarriedConnection* connection = nullptr;
  };
  std::vector<Member> members_;  // few
  std::uint64_t last_number_ = 0;
};

/// Gives carriers to those who have `owner` for their loop, which outlives them. Fewer where there are no threads to be had.
using MakeCarriers = std::function<std::vector<std::shared_ptr<Carrier>>(async::Loop& owner, unsigned count)>;

/// A thread for each.
[[nodiscard]] std::vector<std::shared_ptr<Carrier>> carrier_threads(async::Loop& owner, unsigned count);

}  // namespace nfsrdma::fabric
