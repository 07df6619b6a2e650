// A fabric::Connection over an RDMA device, by rdma-core: InfiniBand, RoCE, iWARP, and the kernel's rxe and
// siw.
//
// connect() returns at once; the outcome is on_established() or on_closed(), never from inside connect(). The
// deadline covers everything until on_established(): address, route, and the peer's answer.
//
// Each connection has a protection domain of its own, so that no handle of one works on another (RFC 8166
// 8.1.1), and two slabs of registered memory, allocated once. An incoming message is copied from its slab
// into the ReceiveBuffer posted for it, an outgoing one from its pieces: at most some kilobytes, a fraction
// of a microsecond, and nobody above has to know what registered memory is. So a Send's memory is free as
// soon as it is queued.
//
// Bulk data is never copied: expose() registers the caller's own memory (exposures.h).
//
// On failure: a disconnect, a flushed queue, a device that goes away all end in one on_closed() from the
// loop. on_completed() may come from inside flush(), revoke() and abandon().
//
// Abandoned handles (fabric.h): the device answers a peer that uses one by ending the connection, and tells
// this side no more than that it has ended. So a connection that ends while there are some is taken to have
// ended for that reason.
//
// Thread-safety: none; everything happens on the loop's thread, except that the call which starts a
// connection has a thread of its own, since siw's driver waits in it for TCP. The Handler and the Loop
// outlive the connection.
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

/// What is wanted of a connection's queues; the device's limits lower it.
struct Queues {
  std::uint32_t receive_size = 4096;  ///< the largest message that comes
  std::uint32_t receive_count = 128;  ///< Receives that the device holds at once; more wait their turn here
  std::uint32_t send_size = 4096;     ///< the largest message that is sent
  std::uint32_t send_count = 128;     ///< Sends under way at once; more wait their turn here
  std::uint32_t reads = 16;           ///< RDMA Reads under way at once, each way
  std::chrono::microseconds busy_poll{0};  ///< look for completions so long before sleeping; 0: never
};

/// Stays below the 56 octets that InfiniBand leaves of a connection request's private data.
inline constexpr std::size_t private_data_room = 56;

struct ConnectOptions {
  sockaddr_storage address{};  ///< where to, with the port
  std::string host;            ///< how the user calls it, for messages; empty: the address
  /// Asked once the device is known, before anything is said to the peer; at most private_data_room octets.
  PrivateDataSource private_data;
  Queues queues;
  std::string reason;                                           ///< why this fabric, for Established
  async::TimePoint resolve_deadline = async::TimePoint::max();  ///< until the device is known
  async::TimePoint deadline = async::TimePoint::max();
};

/// Call it only where missing_device() (library.h) is empty.
[[nodiscard]] std::unique_ptr<Connection> connect(async::Loop& loop, ConnectOptions options,
                                                  Handler& handler);

}  // namespace nfsrdma::fabric::verbs
