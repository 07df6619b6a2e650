// One RDMA connection behind one interface, whichever fabric carries it: the requests that the layers above
// make of a fabric, and the events that the fabric reports to them.
//
// A Connection has a queue of posted Receives, a queue of work to send, and a table of exposed memory. It
// belongs to one event loop; every call and every callback happens on the thread that runs that loop.
//
// Ownership. A ReceiveBuffer belongs to the fabric from post_receive() until on_received(), then to the
// handler. Memory named in a SendWork, RDMA Write or RDMA Read stays the caller's and must not change until
// on_completed() for its cookie. Exposed memory must stay valid until revoke() has been confirmed.
//
// Failure. A connection ends with exactly one on_closed(), which carries the reason. Work that was in flight
// then gets no on_completed(), and all exposed memory is revoked before on_closed() is called (RFC 8166
// 8.1.1: no handle outlives its connection). A callback may call back into the connection, and may call
// close(). A callback must not destroy the connection.
//
// Handles that are taken back early. A caller that stops waiting for its peer (the call is cancelled, or its
// deadline has passed) wants its memory back at once. The peer does not know this and continues to use the
// handles. Neither side is at fault. The caller reports such handles by abandon():
//
//   abandon(segments) ── the memory is the caller's again, as after revoke() ── forget(segments)
//                        the peer may still use the handles                     the peer has answered
//
// Between the two calls a fabric does as little harm as it can. An RDMA Write to an abandoned handle is
// discarded, because no caller wants the bytes, and the peer's next Send carries the rest of the answer. An
// RDMA Read from an abandoned handle ends the connection, because no truthful data exists to answer it with
// (iwarp/stream.h) and the memory must not be read. In either case an RDMA device may end the connection by
// itself. Whichever way the connection ends, on_closed() then gives an Error of the kind `cancelled`, because
// the peer has done nothing wrong.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nfsrdma/result.h"

struct sockaddr_storage;

namespace nfsrdma::fabric {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;
using Clock = std::chrono::steady_clock;

/// Operations that a peer may use on exposed memory. Memory never allows both, because RFC 8166 gives each
/// chunk one direction.
enum class Reach : std::uint8_t { remote_read, remote_write };

/// A piece of memory as a peer names it.
struct RemoteSegment {
  std::uint32_t handle = 0;
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const RemoteSegment&, const RemoteSegment&) = default;
};

/// A buffer for one incoming message. Its storage is allocated once, and reused by later messages.
class ReceiveBuffer {
 public:
  explicit ReceiveBuffer(std::size_t capacity) : storage_(new std::byte[capacity]), capacity_(capacity) {}
  [[nodiscard]] Bytes storage() { return {storage_.get(), capacity_}; }
  [[nodiscard]] ConstBytes message() const { return {storage_.get(), length_}; }
  void set_length(std::size_t length) { length_ = length <= capacity_ ? length : capacity_; }

 private:
  std::unique_ptr<std::byte[]> storage_;  // constant after construction
  std::size_t capacity_;
  std::size_t length_ = 0;
};

/// An RDMA Send. The pieces are gathered in order.
struct SendWork {
  std::uint64_t cookie = 0;
  std::span<const ConstBytes> pieces;  ///< the span itself is read only during post_send()
  /// If set, send a Send with Invalidate of this handle of the peer's.
  std::optional<std::uint32_t> invalidate;
  bool solicited = false;
};

/// Properties of the path to the peer that are known before the first message to the peer.
struct Traits {
  std::string device;  ///< for example "siw0"; empty if the fabric has no device
  /// Memory windows of type 2: handles come and go without a memory registration each.
  bool memory_windows = false;
  bool remote_invalidation = false;  ///< the peer may invalidate every handle that expose() gives
};

/// Returns the private data of a connection request, which may depend on the device (RFC 8797 4.1).
using PrivateDataSource = std::function<std::vector<std::byte>(const Traits&)>;

/// Result of setting up the connection, for the `info` command and for the layer above.
struct Established {
  /// Private data that the peer's layer above sent, without the lower layers' part.
  std::vector<std::byte> private_data;
  std::string fabric;  ///< "iwarp" or "verbs"
  std::string reason;  ///< why this fabric was chosen
  Traits traits;
  std::string detail;         ///< e.g. "MPA revision 2, CRC off, markers off, IRD 16, ORD 16"
  unsigned mpa_revision = 0;  ///< 0 if the fabric does not use MPA
  bool crc = false;
  std::uint32_t ird = 0;  ///< RDMA Reads that the peer may have in flight towards us
  std::uint32_t ord = 0;  ///< RDMA Reads that we may have in flight towards the peer
};

/// Events that a connection reports to its owner. All are called on the loop's thread.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void on_established(const Established&) = 0;
  /// Called when a message has arrived. `invalidated` is the handle of ours that the peer asked to invalidate
  /// with this message; the fabric has already invalidated it.
  virtual void on_received(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) = 0;
  /// Called when the work with this cookie (Send, RDMA Write, RDMA Read, revoke) is done. The memory of that
  /// work belongs to the caller again.
  virtual void on_completed(std::uint64_t cookie) = 0;
  /// The last call: the connection is gone, everything exposed is revoked, and no more work completes. If the
  /// Error is of the kind `cancelled`, the connection ended because of handles that its owner had abandoned.
  virtual void on_closed(const Error& why) = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;

  /// Makes `buffer` available for one incoming message. Messages take buffers in the order in which these
  /// were posted. A message that finds no buffer, or one that is too small, breaks the connection.
  virtual void post_receive(ReceiveBuffer buffer) = 0;

  /// Queues a Send, which leaves at flush() at the latest. on_completed(cookie) follows when its memory is
  /// free.
  virtual void post_send(const SendWork& work) = 0;
  /// Queues a Send of a short message. The message is copied before this returns, so no completion follows.
  /// Returns false if this fabric does not copy messages, or not messages of this length; then nothing was
  /// queued, and the caller uses post_send().
  virtual bool send_copy(ConstBytes /*message*/) { return false; }

  /// Exposes `memory` to the peer until revoke(), and appends the segments to send to the peer: several if
  /// the fabric cannot describe the memory by one. On an Error nothing is exposed or appended. The handles
  /// are unpredictable (RFC 8166 8.1.2) and mean nothing on another connection (8.1.1).
  virtual Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) = 0;
  [[nodiscard]] Result<std::vector<RemoteSegment>> expose(Bytes memory, Reach reach) {
    std::vector<RemoteSegment> out;
    if (Status done = expose(memory, reach, out); !done) return done.error();
    return out;
  }
  /// Exposes memory that fits one segment, at offset 0, under a handle that the caller chose. The caller must
  /// make the handle unpredictable (carried.h). Returns false, and does nothing, if the handle is taken or
  /// this fabric does not let the caller choose handles.
  virtual bool expose_as(std::uint32_t /*handle*/, Bytes /*memory*/, Reach /*reach*/) { return false; }

  /// Takes the exposed handles back. After on_completed(cookie), which may come from inside this call,
  /// neither the peer nor the fabric accesses that memory. An Error means that the memory may still be
  /// reachable: the caller must close() the connection before it gives the memory to another user (RFC 8166
  /// 4.5.4).
  virtual Status revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) = 0;
  /// Revokes at once: when this returns, no peer can reach the memory any more, and no completion follows.
  /// Returns false, and does nothing, if revoking takes time on this fabric; the caller then uses revoke().
  virtual bool revoke_now(std::span<const RemoteSegment> /*segments*/) { return false; }

  /// Like revoke(), for handles that the peer has received and may continue to use in good faith (see above).
  /// Call forget() once the peer can use them no longer, so that the record of abandoned handles stays
  /// bounded. The end of the connection forgets all of them.
  virtual Status abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) = 0;
  /// For a caller that cannot wait for completions: returns true once neither the peer nor the fabric can
  /// access memory that was revoked or abandoned before this call. Returns false if this would take time; the
  /// caller then has to close() the connection.
  virtual bool settle() { return true; }
  /// Treats these abandoned handles from now on like handles that were never given out. Ignores other
  /// handles.
  virtual void forget(std::span<const RemoteSegment> segments) = 0;

  /// Operations of the responder (the tests and the bridge use them): move data between local memory and the
  /// peer's.
  virtual void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) = 0;
  virtual void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) = 0;

  /// Sends everything that is queued, many messages in few system calls. Without this call the queue is sent
  /// at the end of the loop's turn.
  virtual void flush() = 0;

  /// Returns the largest number of segments that expose() may need for `length` bytes.
  [[nodiscard]] virtual std::size_t segments_for(std::size_t length) const = 0;

  /// Ends the connection. Everything exposed is revoked before this returns; no callback follows.
  virtual void close() = 0;

  [[nodiscard]] virtual std::string peer_name() const = 0;
};

}  // namespace nfsrdma::fabric
