// The established connection as a state machine: bytes go in and come out; no socket and no clock (RFC 5040,
// 5041, 5044).
//
// Normal operation. The owner asks plan() where the next bytes of the TCP stream go, receives there, and
// calls received(n), also when n is 0. It asks fill() what to send, sends from there, and calls sent(n).
// Between plan() and its received(), and between fill() and its sent(), no other function may be called.
// Events come only from inside received(), sent() and inject(). An event may call every post function,
// expose(), revoke() and close().
//
// Many FPDUs per system call, with their payload received in place. An RDMA Write of a MiB is 720 FPDUs at an
// MTU of 1500, each with a header in front of its payload. While a tagged message is being received, its next
// FPDUs are *predicted*: they have the same length and the next offsets. plan() then lays out
//
//   rest of the payload → region | trailer + next header → scratch | payload → region | trailer + header → …
//   … | what follows → buffer
//
// A server may also send one READ as many RDMA Writes, one behind the other, each as large as its scatter
// list allows (Linux: five pages). So the stream remembers the size of a message that ended before its region
// did, and continues the prediction with messages of that size.
//
// received() checks each header before it trusts the payload behind it. If the prediction was wrong (another
// message came, the last segment was shorter), everything from that header on is copied into the buffer and
// parsed from there. A wrong prediction has then left foreign bytes in the region. Therefore predictions stay
// inside the region and above its high-water mark, where nothing was placed before: this is the memory behind
// a short result, and no user may assume anything about its contents. While large regions wait for their
// first byte, the read that is to find their header is kept short, so that little of their payload has to be
// copied.
//
// Ownership. Posted receives belong to the stream until they are delivered. Memory to send and exposed memory
// stay the caller's; the stream holds addresses only. Short Sends are the exception, because they are copied
// (post_copy()). revoke() makes the stream forget the addresses at once: a payload that is being received is
// discarded, and the Read Responses that are being sent continue from a private copy, which they share (RFC
// 8166 8.1.3).
//
// abandon() does this for memory whose owner stopped waiting, and in addition remembers the handle: the peer
// does not know, and is entitled to continue (fabric.h). RDMA Writes to an abandoned handle are checked as
// always and their payload is discarded. A Read Request for it ends the stream, without blaming the peer. The
// two other possible answers would be worse. Zeros would become the contents of a file. A copy of the memory,
// kept for this purpose, would let the server carry out a WRITE at any later time, over newer data, although
// the WRITE was reported to its caller as failed.
//
// Failure. Any input from a peer leads to events or to failure(). The stream trusts no length, number or STag
// before it is checked, and all storage is bounded: one buffer, the posted receives, and at most IRD queued
// Read Responses, with one copy of the octets that they need of each revoked region. After a violation every
// region is gone, input is ignored, and fill() yields the rest of the FPDU that was being sent and the
// Terminate message. With CRC on, a violation found in a header is reported only once the FPDU's CRC has
// shown that the header is the peer's. RFC5042.md traces the security requirements one by one.
//
// Confined to the connection's thread.
#pragma once

#include <sys/uio.h>

#include <array>
#include <boost/container/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/mpa.h"
#include "fabric/iwarp/regions.h"
#include "fabric/iwarp/terminate.h"

namespace nfsrdma::fabric::iwarp {

class Stream {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) = 0;
    virtual void on_completed(std::uint64_t cookie) = 0;
  };

  /// The parameters that the handshake agreed on.
  struct Config {
    bool crc = false;
    bool responder = false;  ///< sends nothing before the first FPDU has arrived (RFC 5044 7.1.2)
    std::uint32_t ird = 16;  ///< the peer's RDMA Reads that may be waiting for their answer
    std::uint32_t ord = 16;  ///< our RDMA Reads that may be waiting for their answer
    std::size_t mulpdu = 1442;
    std::string peer;  ///< for messages
  };

  static constexpr std::size_t max_plan = 2 + 2 * 128;

  Stream(Events& events, RegionTable::Random random);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Called when the handshake is over. Everything posted before is sent from now on.
  void start(Config config);

  void post_receive(ReceiveBuffer buffer) { receives_.push_back(std::move(buffer)); }
  void post_send(const SendWork& work);
  /// Queues a Send that fits one FPDU. The message is copied at once, so its memory is the caller's again and
  /// no completion follows. Returns false, and queues nothing, if the message is too long for one FPDU.
  bool post_copy(ConstBytes message);
  void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie);
  void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie);
  /// Queues an RDMA Write without payload and without a target, which every peer accepts (RFC 5041 5.1). No
  /// completion follows.
  void post_nudge() {
    if (!ended_) (void)enqueue(Opcode::rdma_write);
  }
  void expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to);
  [[nodiscard]] std::vector<RemoteSegment> expose(Bytes memory, Reach reach) {
    std::vector<RemoteSegment> out;
    expose(memory, reach, out);
    return out;
  }
  /// Exposes memory that fits one region, under a handle that was made elsewhere. Returns false if the handle
  /// is taken.
  [[nodiscard]] bool expose_as(std::uint32_t handle, Bytes memory, Reach reach);
  void revoke(std::uint32_t handle);
  void abandon(std::uint32_t handle);
  /// Removes an abandoned handle. Other handles are ignored.
  void forget(std::uint32_t handle);
  [[nodiscard]] static std::size_t segments_for(std::size_t length);

  /// The places for the next bytes. Never empty while the stream has not failed. At most max_plan entries are
  /// used.
  struct Plan {
    std::size_t count = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Plan plan(std::span<iovec, max_plan> out);
  void received(std::size_t count);
  /// Takes bytes that have arrived already, together with the frame of the handshake.
  void inject(ConstBytes bytes);
  /// The most that the peer may still place in the memory that is exposed to it.
  [[nodiscard]] std::size_t awaited() const { return regions_.awaited(); }
  /// True in the middle of an FPDU or of a message: a peer that closes the connection now has not finished.
  [[nodiscard]] bool mid_message() const;

  /// Lays out what to send next, about `max_bytes`. The Plan is empty if there is nothing to send.
  [[nodiscard]] Plan fill(std::span<iovec> out, std::size_t max_bytes);
  void sent(std::size_t count);
  [[nodiscard]] bool wants_to_send() const;
  /// The path's segment size changed. FPDUs under way keep their size.
  void set_mulpdu(std::size_t mulpdu) { config_.mulpdu = mulpdu; }

  /// Why the stream ended, if it did.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  /// Forgets all memory and all work. No event follows.
  void close();

 private:
  struct Violation {
    Reason reason;
    std::string what;
    /// False: the peer used memory that we had abandoned; the Terminate says that the STag is invalid.
    bool by_peer = true;
  };

  // Incoming: stream_in.cpp.

  /// The FPDU whose header has been read and whose trailer has not.
  struct Incoming {
    bool active = false;
    std::array<std::byte, fpdu_length_size + ddp_untagged_size> head{};  ///< the header as it came
    DdpHeader ddp;
    std::size_t ulpdu = 0;
    std::size_t payload = 0;
    std::size_t done = 0;
    std::size_t trailer = 0;
    std::byte* target = nullptr;  ///< where the payload's first octet goes; null: the payload is discarded
    Region* region = nullptr;     ///< the region that `target` is in, if it is in registered memory
    std::uint32_t crc = 0;
    std::optional<Violation> violation;
  };
  /// The untagged message on queue 0 of which some segments have arrived.
  struct Message {
    std::optional<ReceiveBuffer> buffer;
    Opcode opcode = Opcode::send;
    std::uint32_t stag = 0;
    std::size_t length = 0;
  };
  /// The tagged message of which more segments follow.
  struct Continuation {
    bool valid = false;
    Opcode opcode = Opcode::rdma_write;
    std::uint32_t stag = 0;
    std::uint64_t to = 0;
    std::size_t ulpdu = 0;
    std::size_t left = 0;  ///< payload of the message that is still to come; 0: unknown
    bool fresh = false;    ///< the message before has ended; the predicted segment would begin another
  };
  /// The tagged message that is being received. Its size helps to predict the next ones.
  struct Run {
    bool active = false;
    std::uint32_t stag = 0;
    std::uint64_t start = 0;
    std::uint64_t next = 0;
    std::size_t ulpdu = 0;  ///< ULPDU length of its first FPDU
  };
  struct Predicted {
    std::size_t trailer = 0;  ///< size of the trailer of the FPDU before, at the start of the gap
    std::size_t preload = 0;  ///< octets of the gap that had arrived before the plan was made
    std::size_t payload = 0;
    std::byte* target = nullptr;
    Continuation expected;
  };
  static constexpr std::size_t max_predicted = 128;
  static constexpr std::size_t max_predicted_bytes = 512 * 1024;
  static constexpr std::size_t bulk_head_read = 8 * 1024;
  static constexpr std::size_t head_read = 128 * 1024;
  static constexpr std::size_t gap_size = fpdu_length_size + ddp_tagged_size + 3 + fpdu_crc_size + 1;
  static constexpr std::size_t buffer_size =
      max_predicted_bytes + max_predicted * gap_size + head_read + 4096;

  /// Octets that need not be zero when they are added, because they are written next.
  using Octets = boost::container::vector<std::byte>;

  void process();
  bool take_whole();
  bool take_whole_write(const std::byte* fpdu, std::size_t ulpdu);
  bool take_whole_send(const std::byte* fpdu, std::size_t ulpdu);
  bool parse_header();
  void note_run();
  void begin_fpdu(const std::byte* head);
  [[nodiscard]] std::optional<Violation> accept_header();
  [[nodiscard]] std::optional<Violation> accept_write();
  [[nodiscard]] std::optional<Violation> accept_read_response();
  [[nodiscard]] std::optional<Violation> accept_untagged();
  [[nodiscard]] std::optional<Violation> accept_send();
  [[nodiscard]] std::optional<Violation> accept_control();
  void placed(const std::byte* bytes, std::size_t count);
  void finish_fpdu(const std::byte* trailer);
  void finish_read_response();
  void finish_send();
  void finish_read_request();
  void finish_terminate();
  [[nodiscard]] std::optional<Violation> check_read_request(const ReadRequest& request);
  [[nodiscard]] Continuation continuation() const;
  [[nodiscard]] bool predict(std::span<iovec, max_plan> out, Plan& plan);
  [[nodiscard]] bool matches(const Predicted& predicted, const std::byte* gap) const;
  void received_predicted(std::size_t count);
  void linearize(std::size_t from, std::size_t count);
  void fail(const Violation& violation);
  void end(Error error);

  // Outgoing: stream_out.cpp.

  /// The pieces of a message, in order. There is nearly always one, which needs no allocation.
  class Pieces {
   public:
    [[nodiscard]] const ConstBytes& operator[](std::size_t i) const { return i == 0 ? first_ : more_[i - 1]; }
    void push_back(ConstBytes piece) {
      if (count_++ == 0)
        first_ = piece;
      else
        more_.push_back(piece);
    }
    void assign(ConstBytes piece) {
      more_.clear();
      first_ = piece;
      count_ = 1;
    }

   private:
    ConstBytes first_;
    std::vector<ConstBytes> more_;
    std::size_t count_ = 0;
  };
  /// A place in a list of pieces.
  struct Cursor {
    std::size_t piece = 0;
    std::size_t offset = 0;
  };
  struct Work {
    /// True for whole FPDUs of short Sends: the next `length` octets of packed_, behind those of the packed
    /// work before it. Only `length` has a meaning then, and no other field.
    bool packed = false;
    Opcode opcode = Opcode::send;
    std::optional<std::uint64_t> cookie;  ///< to report when the last octet was sent
    /// With a tagged opcode: the target. Send with Invalidate: the STag to invalidate.
    std::uint32_t stag = 0;
    std::uint64_t to = 0;  ///< tagged offset of the payload's first octet
    std::uint32_t msn = 0;
    Pieces pieces;
    std::size_t length = 0;
    std::size_t offset = 0;    ///< position in the payload of the FPDU that is being sent
    Cursor cursor;             ///< position in the pieces that corresponds to `offset`
    std::uint32_t source = 0;  ///< a Read Response's region; 0: its bytes are not in a region
    /// The octets that are still to be sent, after the region was revoked.
    std::shared_ptr<const std::byte[]> copy;
    std::array<std::byte, read_request_size> request{};  ///< a Read Request's payload
    [[nodiscard]] bool tagged() const {
      return opcode == Opcode::rdma_write || opcode == Opcode::read_response;
    }
  };
  struct Segment {
    std::size_t payload = 0;
    bool last = false;
    [[nodiscard]] std::size_t ulpdu(bool tagged) const {
      return payload + (tagged ? ddp_tagged_size : ddp_untagged_size);
    }
  };
  /// An RDMA Read of ours that waits for its turn (ORD) or for its answer.
  struct Read {
    std::uint64_t cookie = 0;
    std::uint32_t sink = 0;
    std::size_t length = 0;
    std::size_t done = 0;
    RemoteSegment source;
  };

  [[nodiscard]] Segment segment(const Work& work, std::size_t offset) const;
  static void advance(const Work& work, Cursor& cursor, std::size_t count);
  template <class Put>
  bool emit(const Work& work, std::size_t offset, Cursor cursor, Segment segment, std::byte* arena,
            Put put) const;
  [[nodiscard]] Work& enqueue(Opcode opcode);
  void append_whole(const DdpHeader& header, ConstBytes payload, Octets& to) const;
  void pop_packed();
  void let_go(const Region& region);
  void release_reads();
  void queue_read_response(const ReadRequest& request, ConstBytes source);
  void privatise(const Region& region);
  void prepare_last_words(const Terminate* terminate);

  Events& events_;
  Config config_;
  RegionTable regions_;
  bool started_ = false;
  bool ended_ = false;
  std::optional<Error> failure_;

  // The bytes that could not be received in place; [begin_, end_) is unparsed.
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  Incoming in_;
  Continuation next_;
  Run run_;
  std::size_t usual_size_ = 0;   // size of a message that ended before its region did; 0: none yet
  std::size_t usual_ulpdu_ = 0;  // ULPDU length of that message's full FPDUs
  Message message_;
  std::deque<ReceiveBuffer> receives_;
  std::array<std::uint32_t, queue_count> expected_msn_{1, 1, 1};
  std::array<std::byte, 256> control_{};  // the payload of a Read Request or Terminate
  std::array<Predicted, max_predicted> predicted_{};
  std::size_t predicted_count_ = 0;
  std::size_t planned_payload_ = 0;  // payload of the current FPDU, in the plan's first entry
  std::array<std::array<std::byte, gap_size>, max_predicted> gaps_{};
  bool first_fpdu_seen_ = false;

  std::deque<Work> queue_;
  std::size_t responses_ = 0;             // queued Read Responses whose bytes are in a region
  std::vector<std::uint64_t> completed_;  // scratch of sent()
  std::size_t skip_ = 0;          // octets of the first FPDU, or of the first packed work, that were sent
  std::size_t skip_payload_ = 0;  // payload of that FPDU, whose size may not change any more
  std::uint32_t next_send_msn_ = 1;
  std::uint32_t next_read_msn_ = 1;
  std::deque<Read> waiting_reads_;
  std::deque<Read> reads_;  // in flight, in the order of their requests
  std::uint32_t inbound_reads_ = 0;
  std::vector<std::byte> arena_;  // headers and trailers of what fill() returned
  Octets packed_;                 // the octets of all packed work, in the queue's order
  Octets last_words_;
  std::size_t last_words_sent_ = 0;
};

}  // namespace nfsrdma::fabric::iwarp
