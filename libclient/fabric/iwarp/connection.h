// A fabric::Connection over iWARP on an ordinary TCP socket: connecting, and the socket under a Stream.
//
// connect() returns at once; the outcome is on_established() or on_closed(), never from inside connect().
// Requests may be posted before; they leave when the connection stands. The deadline covers everything until
// on_established(): TCP, the MPA frames, and every further attempt that a refusal leads to (handshake.h).
//
// One readable event is answered with few recvmsg() calls, each of which takes many FPDUs (stream.h); sends
// are collected and go out in one sendmsg() at flush() or at the end of the loop's turn. on_completed() may
// come from inside flush(), revoke() and abandon(); on_closed() comes from the loop only, never from inside a
// call.
//
// On failure: a violation of the peer's is answered with a Terminate, as far as the socket takes it at once.
// A broken socket is read empty first, because a Terminate in it says more than the socket's own error. A
// peer that vanished is found by TCP's keepalive after half a minute.
//
// Thread-safety: none; everything happens on the loop's thread. The Handler and the Loop outlive the
// connection.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "async/loop.h"
#include "fabric/fabric.h"
#include "fabric/iwarp/handshake.h"

namespace nfsrdma::fabric::iwarp {

struct ConnectOptions {
  sockaddr_storage address{};           ///< where to, with the port
  std::string host;                     ///< how the user calls it, for messages; empty: the address
  std::vector<std::byte> private_data;  ///< at most 508 octets (512 less MPA's own 4)
  CrcPolicy crc = CrcPolicy::automatic;
  Depths depths;       ///< RDMA Reads at once, towards us and from us
  std::string reason;  ///< why this fabric, for Established
  async::TimePoint deadline = async::TimePoint::max();
};

[[nodiscard]] std::unique_ptr<Connection> connect(async::Loop& loop, ConnectOptions options,
                                                  Handler& handler);

}  // namespace nfsrdma::fabric::iwarp
