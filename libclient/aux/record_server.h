// A server for RPC over TCP on the loop: it takes whole Calls from its connections, and sends the Replies.
//
//     auto server = RecordServer::listen(loop, options, [&](xdr::ConstBytes call, xdr::Message& reply) {
//       return callbacks.answer(call, reply);
//     });
//     ...announce universal_address((*server)->address())
//
// It serves callbacks of NFSv4.0, whose servers call their clients over TCP (RFC 8267 4.4.1). Anybody can
// connect, so everything is bounded:
//
//   connections   at most `most_connections`. One more replaces one on which no Call has come yet, or else
//                 the one that has been without a Call for longest: a stranger cannot keep the server out by
//                 holding connections, and a server whose connection is replaced connects again.
//   a record      at most `largest_record` bytes, and `patience` from its first byte to its last
//   a Reply       `patience` for the peer to take it; until then no further Call is read from its connection
//   silence       connections stay open without limit; keepalive ends those whose peer has gone
//
// A connection is closed if one of these bounds is exceeded, or if the handler says that a record is not a
// Call.
//
// This is own code, because libtirpc's server blocks a thread and keeps its state for the whole process.
//
// Confined to the loop's thread. The handler is called from the loop, and must not destroy the server. The
// destructor closes all connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "async/loop.h"
#include "aux/record_reader.h"
#include "fabric/iwarp/socket.h"
#include "nfsrdma/result.h"
#include "rpc/channel.h"
#include "xdr/encoder.h"

namespace nfsrdma::aux {

struct RecordServerOptions {
  rpc::Address local;  ///< the address to listen on; port 0: the system chooses one
  std::size_t most_connections = 16;
  std::size_t largest_record = 65536;
  std::chrono::milliseconds patience{20000};
};

class RecordServer {
 public:
  /// Fills in `reply`, all of it in the stream. Returns false if this is not a Call; then its connection is
  /// closed.
  using Handler = std::function<bool(xdr::ConstBytes call, xdr::Message& reply)>;

  /// Listens at options.local. If this machine does not have that address (it may be that of a NAT in front
  /// of it), the server listens on all addresses of the same family.
  [[nodiscard]] static Result<std::unique_ptr<RecordServer>> listen(async::Loop& loop,
                                                                    const RecordServerOptions& options,
                                                                    Handler handler);
  ~RecordServer();
  RecordServer(const RecordServer&) = delete;
  RecordServer& operator=(const RecordServer&) = delete;

  /// Returns the address for callers: that of the options, with the port that is listened on.
  [[nodiscard]] const rpc::Address& address() const { return options_.local; }
  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

 private:
  using Socket = fabric::iwarp::Socket;
  struct Connection {
    Connection(Socket from, std::size_t largest) : socket(std::move(from)), reader(largest) {}
    Socket socket;
    RecordReader reader;
    std::vector<std::byte> input;   // received after a Call whose Reply is not sent yet
    std::vector<std::byte> output;  // a Reply, with its record mark
    std::size_t sent = 0;           // bytes of `output` that are sent
    // The value of uses_ when this connection was accepted or had a Call last.
    std::uint64_t last_use = 0;
    std::uint64_t steps = 0;  // how many Calls were read whole, and how many Replies were taken whole
    async::Loop::TimerId timer = 0;
    /// Returns true while a record or a Reply is in progress, which `patience` bounds.
    [[nodiscard]] bool busy() const { return reader.in_the_middle() || !output.empty(); }
  };
  using Place = std::map<int, Connection>::iterator;

  RecordServer(async::Loop& loop, const RecordServerOptions& options, Handler handler, Socket socket);
  void on_acceptable();
  void rest();
  void make_room();
  void add(Socket socket);
  void on_ready(int fd);
  [[nodiscard]] bool go_on(Connection& connection);
  [[nodiscard]] bool receive(Connection& connection);
  [[nodiscard]] bool serve(Connection& connection, xdr::ConstBytes bytes);
  [[nodiscard]] bool answer(Connection& connection);
  [[nodiscard]] static bool send(Connection& connection);
  void start_time(int fd, Connection& connection);
  void drop(Place place);

  async::Loop& loop_;
  RecordServerOptions options_;  // constant once listen() has returned
  const Handler handler_;
  const Socket socket_;
  xdr::Message reply_;
  std::uint64_t uses_ = 0;
  std::map<int, Connection> connections_;  // by descriptor
  async::Loop::TimerId resting_ = 0;
};

}  // namespace nfsrdma::aux
