// One RDMA connection, whatever carries it: what the layers above ask of a fabric, and what it tells them.
//
// A Connection has a queue of posted Receives, a queue of work to send, and a table of exposed memory. It
// belongs to one event loop; every call and every callback happens on the thread that runs that loop.
//
// Who owns what: a ReceiveBuffer is the fabric's from post_receive() until on_received(), then the handler's.
// Memory named in a SendWork, RDMA Write or RDMA Read stays the caller's and must stay as it is until
// on_completed() for its cookie. Exposed memory stays valid until revoke() has been confirmed.
//
// On failure: whatever breaks the connection ends in one on_closed() with the reason; work that was under way
// then gets no on_completed(), and all that was exposed is revoked before on_closed() is called (RFC 8166
// 8.1.1: no handle outlives its connection). A callback may call back into the connection, and may call
// close(); it must not destroy the connection from inside a callback.
//
// Handles that are taken back too early. A caller that gives up waiting for its peer (a call is cancelled, or
// its time is over) wants its memory back at once, and the peer, who cannot know, goes on using the handles.
// That is nobody's fault, and abandon() is how the fabric hears of it:
//
//   abandon(segments) ── the memory is the caller's again, as after revoke() ── forget(segments)
//                        the peer may still use the handles                     the peer has answered
//
// In between a fabric does the least harm that it can. An RDMA Write to such a handle is thrown away: nobody
// wants the bytes, and the peer's next Send says the rest. An RDMA Read from such a handle ends the
// connection: there is nothing true to answer it with (iwarp/stream.h), and the memory must not be read. A
// device that ends the connection by itself in either case may do so. However it ends, on_closed() then gives
// an Error of the kind `cancelled`, because the peer has done nothing wrong.
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

/// What a peer may do with exposed memory. Never both: RFC 8166 gives each chunk one direction.
enum class Reach : std::uint8_t { remote_read, remote_write };

/// A piece of memory as a peer names it.
struct RemoteSegment {
  std::uint32_t handle = 0;
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const RemoteSegment&, const RemoteSegment&) = default;
};

/// A buffer for one incoming message. The storage is registered once and recycled.
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

/// One RDMA Send. The pieces are gathered in order.
struct SendWork {
  std::uint64_t cookie = 0;
  std::span<const ConstBytes> pieces;       ///< the span itself is read during post_send() only
  std::optional<std::uint32_t> invalidate;  ///< Send with Invalidate of this handle of the peer's
  bool solicited = false;
};

/// What is known of the way to the peer before anything is said to it.
struct Traits {
  std::string device;                ///< "siw0"; empty where there is none
  bool memory_windows = false;       ///< type 2: handles come and go without a registration of their own
  bool remote_invalidation = false;  ///< every handle that expose() gives may be invalidated by the peer
};

/// Gives the private data of a connection request. What it says may depend on the device (RFC 8797 4.1).
using PrivateDataSource = std::function<std::vector<std::byte>(const Traits&)>;

/// What was agreed when the connection was set up. For `info` and for the layer above.
struct Established {
  std::vector<std::byte> private_data;  ///< what the peer's layer above sent, lower layers' part taken off
  std::string fabric;                   ///< "iwarp" or "verbs"
  std::string reason;                   ///< why that one was chosen
  Traits traits;
  std::string detail;         ///< e.g. "MPA revision 2, CRC off, markers off, IRD 16, ORD 16"
  unsigned mpa_revision = 0;  ///< 0 where there is no MPA
  bool crc = false;
  std::uint32_t ird = 0;  ///< RDMA Reads that the peer may have under way towards us
  std::uint32_t ord = 0;  ///< RDMA Reads that we may have under way towards the peer
};

/// What a connection tells its owner. Called on the loop's thread.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void on_established(const Established&) = 0;
  /// A message arrived. `invalidated`: the handle of ours that the peer asked to invalidate with it, which
  /// the fabric has already done.
  virtual void on_received(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) = 0;
  /// The work with this cookie (Send, RDMA Write, RDMA Read, revoke) is done; its memory is the caller's
  /// again.
  virtual void on_completed(std::uint64_t cookie) = 0;
  /// The last call: the connection is gone, everything exposed is revoked, nothing completes any more. An
  /// Error of the kind `cancelled`: it went because of something that its owner had abandoned.
  virtual void on_closed(const Error& why) = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;

  /// Makes `buffer` available for one incoming message. Messages take them in the order posted; a message
  /// that finds none, or one too small, breaks the connection.
  virtual void post_receive(ReceiveBuffer buffer) = 0;

  /// Queues a Send; it leaves at flush() at the latest. on_completed(cookie) follows when its memory is free.
  virtual void post_send(const SendWork& work) = 0;
  /// The same for a short message that is copied before this returns, so that no completion follows. False: this fabric
  /// does not do that, or not with so long a message, and nothing was queued; post_send() does.
  virtual bool send_copy(ConstBytes /*message*/) { return false; }

  /// Exposes `memory` to the peer until revoke(), and appends what the peer is to be told: several segments where the
  /// fabric cannot do it in one. On an Error nothing is exposed or appended. The handles are unpredictable (RFC 8166
  /// 8.1.2) and mean nothing on another connection (8.1.1).
  virtual Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) = 0;
  [[nodiscard]] Result<std::vector<RemoteSegment>> expose(Bytes memory, Reach reach) {
    std::vector<RemoteSegment> out;
    if (Status done = expose(memory, reach, out); !done) return done.error();
    return out;
  }
  /// expose() of so much as one segment may have, which begins at offset 0, under a handle that the caller has made
  /// unpredictable himself (carried.h). False: it is taken, or handles are not to be chosen here, and nothing was done.
  virtual bool expose_as(std::uint32_t /*handle*/, Bytes /*memory*/, Reach /*reach*/) { return false; }

  /// Takes the exposed handles back. After on_completed(cookie), which may come from inside this call, no
  /// peer can reach that memory, nor does the fabric touch it. An error means that the memory may still be
  /// reachable: the caller must close() before it gives the memory to anybody (RFC 8166 4.5.4).
  virtual Status revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) = 0;
  /// The same where it takes no time: when this returns no peer can reach the memory any more, and no completion
  /// follows. False: it does take time here, and nothing was done; revoke() does.
  virtual bool revoke_now(std::span<const RemoteSegment> /*segments*/) { return false; }

  /// revoke() for handles that the peer was told and may go on using in good faith (see above). Call forget()
  /// once it cannot any more, so that what is kept to recognise them stays bounded; the connection's end
  /// forgets all.
  virtual Status abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) = 0;
  /// For who cannot wait for completions: what was revoked or abandoned before is out of the peer's reach, and the fabric's
  /// own, when this returns. False: that would take time; what helps then is close().
  virtual bool settle() { return true; }
  /// From now on these abandoned handles are as unknown as any that was never given out. Others are ignored.
  virtual void forget(std::span<const RemoteSegment> segments) = 0;

  /// The responder's part (tests, the bridge): moves data between local memory and the peer's.
  virtual void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) = 0;
  virtual void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) = 0;

  /// Sends what is queued now, many messages in few system calls. Without it, it goes at the end of the
  /// loop's turn.
  virtual void flush() = 0;

  /// How many segments expose() would need at most for `length` bytes.
  [[nodiscard]] virtual std::size_t segments_for(std::size_t length) const = 0;

  /// Ends the connection. Everything exposed is revoked before it returns; no callback follows.
  virtual void close() = 0;

  [[nodiscard]] virtual std::string peer_name() const = 0;
};

}  // namespace nfsrdma::fabric
