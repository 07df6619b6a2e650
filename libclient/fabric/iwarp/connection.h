// A fabric::Connection over iWARP on an ordinary TCP socket: connects, and moves bytes between the socket and
// a Stream.
//
// connect() returns at once; the outcome is on_established() or on_closed(), never from inside connect().
// Requests may be posted before the outcome; they leave when the connection is established. The deadline
// covers everything until on_established(): TCP, the MPA frames, and every further attempt after a refusal
// (handshake.h).
//
// One readable event is answered with few recvmsg() calls, each of which takes many FPDUs (stream.h). Sends
// are collected and leave in one sendmsg() at flush() or at the end of the loop's turn. on_completed() may
// come from inside flush(), revoke() and abandon(). on_closed() comes from the loop only, never from inside a
// call.
//
// Failure. If the peer violates the protocol, this side sends a Terminate, as far as the socket takes it at
// once. If the socket breaks, the connection first reads everything that is left in it, because a Terminate
// in there says more than the socket's own error. TCP's keepalive finds a peer that vanished after half a
// minute.
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
  sockaddr_storage address{};  ///< the server's address, with the port
  /// The server's name as the user gave it, for messages; empty: the address.
  std::string host;
  std::vector<std::byte> private_data;  ///< at most 508 octets (512 less MPA's own 4)
  CrcPolicy crc = CrcPolicy::automatic;
  Depths depths;       ///< RDMA Reads in flight at once, towards us and from us
  std::string reason;  ///< why this fabric was chosen, for Established
  async::TimePoint deadline = async::TimePoint::max();
};

[[nodiscard]] std::unique_ptr<Connection> connect(async::Loop& loop, ConnectOptions options,
                                                  Handler& handler);

}  // namespace nfsrdma::fabric::iwarp
