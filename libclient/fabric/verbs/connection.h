// A fabric::Connection over an RDMA device, by rdma-core: InfiniBand, RoCE, iWARP, and the kernel's rxe and
// siw.
//
// connect() returns at once; the outcome is on_established() or on_closed(), never from inside connect(). The
// deadline covers everything until on_established(): address, route, and the peer's answer.
//
// Each connection has a protection domain of its own, so that no handle of one connection works on another
// (RFC 8166 8.1.1), and two slabs of registered memory, allocated once. An incoming message is copied from
// its slab into the ReceiveBuffer posted for it, an outgoing one from its pieces into a slab. Messages have
// at most some kilobytes, so the copy takes a fraction of a microsecond, and the layers above need not know
// about registered memory. A Send's memory is therefore free as soon as the Send is queued.
//
// Bulk data is never copied: expose() registers the caller's own memory (exposures.h).
//
// Failure. A disconnect, a flushed queue and a device that goes away all end in one on_closed() from the
// loop. on_completed() may come from inside flush(), revoke() and abandon().
//
// Abandoned handles (fabric.h). If a peer uses one, the device ends the connection, and reports to this side
// only that the connection has ended. So if a connection ends while some handles are abandoned, this is
// assumed to be the reason.
//
// Thread-safety: none; everything happens on the loop's thread. The exception is the call that starts a
// connection: it runs on a thread of its own, because siw's driver waits in it for TCP. The Handler and the
// Loop outlive the connection.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/loop.h"
#include "fabric/fabric.h"

namespace nfsrdma::fabric::verbs {

/// The wanted sizes of a connection's queues. The device's limits may lower them.
struct Queues {
  std::uint32_t receive_size = 4096;  ///< the largest message that arrives
  std::uint32_t receive_count = 128;  ///< Receives that the device holds at once; more wait in this library
  std::uint32_t send_size = 4096;     ///< the largest message that is sent
  std::uint32_t send_count = 128;     ///< Sends in flight at once; more wait in this library
  std::uint32_t reads = 16;           ///< RDMA Reads in flight at once, in each direction
  std::chrono::microseconds busy_poll{0};  ///< time to poll for completions before sleeping; 0: never poll
};

/// The room for private data. InfiniBand leaves 56 octets of a connection request for it.
inline constexpr std::size_t private_data_room = 56;

struct ConnectOptions {
  sockaddr_storage address{};  ///< the server's address, with the port
  std::string host;            ///< the server's name as the user gave it, for messages; empty: the address
  /// Called once the device is known, before anything is sent to the peer. Returns at most private_data_room
  /// octets.
  PrivateDataSource private_data;
  Queues queues;
  /// Why this fabric was chosen, for Established.
  std::string reason;
  /// Ends the wait for the address to be resolved to a device.
  async::TimePoint resolve_deadline = async::TimePoint::max();
  async::TimePoint deadline = async::TimePoint::max();
};

/// Connects. Call it only if missing_device() (library.h) is empty.
[[nodiscard]] std::unique_ptr<Connection> connect(async::Loop& loop, ConnectOptions options,
                                                  Handler& handler);

}  // namespace nfsrdma::fabric::verbs
