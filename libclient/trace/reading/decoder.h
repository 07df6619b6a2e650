// The decoder of a trace: bytes of the file go in, as they come, and Events come out, one for each message,
// in the order of the file.
//
//     Decoder decoder([](const Event& event) { … });
//     decoder.add(bytes);   // again and again, also of a file that is still growing
//     decoder.finish();
//
// A connection is known by the frames of its set-up. In a file whose beginning is gone, or that another
// program has written, it is known by its addresses alone.
//
// A message whose chunks come in frames of their own (trace/recording/recorder.h) is held until they have
// come: RDMA Reads and the frame that puts a Call together follow it, RDMA Writes precede a Reply.
//
// A Reply is matched with its Call by connection and xid. Calls of a connection that has ended are kept, and a
// Call with the same xid on a later connection of the same peers counts as their retransmission.
//
// Nothing in the file is trusted. What is kept of it is bounded: frames by trace/format/pcapng.h, pieces of
// messages by kMostPieces, Calls without Replies by kMostPending.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "rpcrdma/header.h"
#include "trace/format/frames.h"
#include "trace/format/pcapng.h"
#include "trace/reading/body.h"
#include "trace/reading/event.h"

namespace nfsrdma::trace {

class Decoder {
 public:
  using Sink = std::function<void(const Event&)>;
  explicit Decoder(Sink sink) : sink_(std::move(sink)) {}

  /// Called before the bytes of another file, which continues the trace.
  void begin_file() { blocks_.begin_file(); }
  /// Takes the bytes that follow in the file.
  void add(ConstBytes bytes);
  /// Called at the end of the file: the messages that were held come out as far as they are known.
  void finish();
  /// Why the file cannot be read any further; empty if it can.
  [[nodiscard]] const std::string& fault() const { return blocks_.fault(); }
  /// The number of bytes at the end that are no complete block.
  [[nodiscard]] std::size_t pending_bytes() const { return blocks_.pending(); }
  /// The number of Calls without a Reply.
  [[nodiscard]] std::size_t unanswered() const { return pending_.size() + orphans_.size(); }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }

 private:
  static constexpr std::size_t kMostPieces = 4U << 20;  // bytes, of a connection
  static constexpr std::size_t kMostPending = 65536;
  static constexpr std::size_t kMostConnections = 65536;

  /// A message whose chunks have not come yet.
  struct Held {
    Event event;
    rpcrdma::rdma_msg header;
    Octets inline_part;
  };
  /// The known bytes of a segment, from `offset` on.
  struct Piece {
    std::uint64_t offset = 0;
    Octets bytes;
  };
  struct Connection {
    std::uint32_t number = 0;
    std::uint64_t exchange = 0;  // of its set-up
    std::pair<Gid, Gid> peers;
    std::array<std::optional<Held>, 2> held;  // to the client, to the server
    std::unordered_map<std::uint32_t, Piece> pieces;
    std::size_t piece_bytes = 0;
    fabric::RemoteSegment reading;  // of the last RDMA Read
  };
  /// An end of a connection, as the receiver of frames.
  struct End {
    std::shared_ptr<Connection> connection;
    bool is_server = false;
    bool is_certain = true;  // false: guessed, as there was no set-up
  };
  struct PendingCall {
    Called called;
    std::string protocol;
    std::uint64_t time_ns = 0;
    std::uint32_t sends = 1;
    std::uint32_t protection = 0;  // the service of RPCSEC_GSS
    std::pair<Gid, Gid> peers;
  };
  using Key = std::tuple<std::uint32_t, std::uint32_t, bool>;  // connection, xid, backward

  void take(const Packet& packet);
  void take_setup(const Packet& packet, const Frame& frame, const SetupMessage& setup);
  [[nodiscard]] std::shared_ptr<Connection> find_connection(const Frame& frame,
                                                            const SetupMessage& setup) const;
  void tell_connected(const Packet& packet, const Connection& connection, const SetupMessage& setup);
  void begin_connection(const Packet& packet, const Frame& frame, const SetupMessage& setup);
  void end_connection(const Packet& packet, const std::shared_ptr<Connection>& connection);
  void take_send(const Packet& packet, const Frame& frame, const End& end);
  void take_piece(Connection& connection, const fabric::RemoteSegment& target, ConstBytes bytes);
  void take_response(Connection& connection, const Frame& frame);
  bool completes_held(Connection& connection, bool to_server, const Frame& frame,
                      const rpcrdma::rdma_msg& header, std::size_t header_size);
  void flush(Connection& connection, bool to_server);
  void tell(Connection& connection, Event& event, const rpcrdma::rdma_msg& header, ConstBytes body);
  void tell_call(Connection& connection, Event& event, xdr::Decoder& in);
  void tell_reply(Connection& connection, Event& event, const rpcrdma::rdma_msg& header, xdr::Decoder& in);
  std::optional<PendingCall> take_pending(const Connection& connection, Event& event);
  void keep_pending(const Connection& connection, Event& event, PendingCall call);
  [[nodiscard]] End end_of(const Frame& frame, bool is_call);
  [[nodiscard]] std::shared_ptr<Connection> make_connection(const Frame& frame);
  [[nodiscard]] std::span<const xdr::Placement> placements(const rpcrdma::rdma_msg& header);

  const Sink sink_;
  BlockReader blocks_;
  std::uint64_t packets_ = 0;
  std::uint32_t connections_ = 0;
  std::map<std::pair<Gid, std::uint32_t>, End> ends_;  // by address and queue pair of the receiver
  std::map<Key, PendingCall> pending_;
  std::map<std::pair<std::uint32_t, bool>, PendingCall> orphans_;  // of connections that have ended
  Octets scratch_;
  std::vector<xdr::Placement> placements_;
};

}  // namespace nfsrdma::trace
