// The established connection as a state machine: bytes in, bytes out, no socket, no clock (RFC 5040, 5041,
// 5044).
//
// Normal operation. The owner asks plan() where the next bytes of the TCP stream go, receives there, and says
// received(n), also when n is 0; it asks fill() what to send, sends from there, and says sent(n). Between
// plan() and its received(), and between fill() and its sent(), nothing else may be called. Events come only
// from inside received(), sent() and inject(); an event may call every post function, expose(), revoke() and
// close().
//
// Many FPDUs per system call, and their payload in place. An RDMA Write of a MiB is 720 FPDUs at an MTU of
// 1500, each with a header in front of its payload. While a tagged message is under way its next FPDUs are
// *predicted*: the same length, the next offsets. plan() then lays out
//
//   rest of the payload → region | trailer + next header → scratch | payload → region | trailer + header → …
//   … | what follows → buffer
//
// A server may also send one READ as many RDMA Writes, each as large as its scatter list allows (Linux: five
// pages), one behind the other. So the size of a message that ended before its region did is remembered, and
// the prediction goes on with messages of that size.
//
// received() checks each header before it believes what lies behind. Where the prediction was wrong
// (another message came, the last segment was shorter), everything from that header on is copied into the
// buffer and parsed from there. A wrong prediction has then left foreign bytes in the region; therefore
// predictions stay inside the region and above its high-water mark, where nothing was placed before: the
// memory behind a short result, of which nobody may assume anything. When large regions wait for their first
// byte, the read that is to find their header is kept short, so that little of them has to be copied.
//
// Who owns what. Posted receives are the stream's until delivered. Memory to send and memory exposed is
// the caller's, but for short Sends, which are copied (post_copy()); the stream holds addresses only.
// revoke() makes it forget them at once: a payload that is being received goes nowhere, and the Read
// Responses that are being sent continue from a private copy, which they share (RFC 8166 8.1.3).
//
// abandon() does the same for memory whose owner gave up waiting, and remembers the handle: the peer, which
// cannot know, is in the right when it goes on (fabric.h). RDMA Writes to it are checked as ever and their
// payload goes nowhere. A Read Request for it ends the stream, without a word against the peer. The other two
// answers would be worse: zeros become the contents of somebody's file; a copy of the memory, kept for the
// purpose, lets the server carry out a WRITE at any later time, over newer data, whose caller has been told
// that it failed.
//
// Failure. Whatever a peer sends leads to events or to failure(); nothing here trusts a length, a number or
// an STag before it was checked, and all storage is bounded: one buffer, the posted receives, and for Read
// Responses at most IRD queued, with one copy of what they need of each region that was revoked. After a
// violation every region is gone, input is ignored, and fill() yields the rest of the FPDU that was under way
// and the Terminate message. With CRC on, a violation found in a header is reported only once the FPDU's CRC
// has shown that the header is the peer's. RFC5042.md traces the security requirements one by one.
//
// Confined to the connection's thread.
#pragma once

#include <sys/uio.h>

#include <array>
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

  /// What the handshake agreed.
  struct Config {
    bool crc = false;
    bool responder = false;  ///< sends nothing before the first FPDU arrived (RFC 5044 7.1.2)
    std::uint32_t ird = 16;  ///< the peer's RDMA Reads that may wait for their answer
    std::uint32_t ord = 16;  ///< ours
    std::size_t mulpdu = 1442;
    std::string peer;  ///< for messages
  };

  static constexpr std::size_t max_plan = 2 + 2 * 128;

  Stream(Events& events, RegionTable::Random random);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The handshake is over. Everything posted before leaves from now on.
  void start(Config config);

  void post_receive(ReceiveBuffer buffer) { receives_.push_back(std::move(buffer)); }
  void post_send(const SendWork& work);
  /// A Send that fits one FPDU, laid out at once: its memory is the caller's again, and nothing is completed. False: it is
  /// too long for that, and nothing was queued.
  bool post_copy(ConstBytes message);
  void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie);
  void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie);
  /// Queues a RDMA Write of nothing to nowhere, which every peer takes (RFC 5041 5.1) and nobody hears of.
  void post_nudge() {
    if (!ended_) (void)enqueue(Opcode::rdma_write);
  }
  void expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to);
  [[nodiscard]] std::vector<RemoteSegment> expose(Bytes memory, Reach reach) {
    std::vector<RemoteSegment> out;
    expose(memory, reach, out);
    return out;
  }
  /// So much as one region may have, under a handle that was made elsewhere. False: it is taken.
  [[nodiscard]] bool expose_as(std::uint32_t handle, Bytes memory, Reach reach);
  void revoke(std::uint32_t handle);
  void abandon(std::uint32_t handle);
  /// Only what was abandoned can be forgotten.
  void forget(std::uint32_t handle);
  [[nodiscard]] static std::size_t segments_for(std::size_t length);

  /// Where the next bytes go. Never empty while the stream has not failed. At most max_plan entries are used.
  struct Plan {
    std::size_t count = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Plan plan(std::span<iovec, max_plan> out);
  void received(std::size_t count);
  /// Takes bytes that are already here: those that came along with the handshake's frame.
  void inject(ConstBytes bytes);
  /// The most that the peer may still place in the memory that it was given.
  [[nodiscard]] std::size_t awaited() const { return regions_.awaited(); }
  /// In the middle of an FPDU or of a message: a peer that closes now has not finished.
  [[nodiscard]] bool mid_message() const;

  /// What to send next, about `max_bytes`. Empty when there is nothing.
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
    bool by_peer = true;  ///< false: the peer used what we had abandoned, and is told that it is gone
  };

  // Incoming: stream_in.cpp.

  /// The FPDU whose header has been read and whose trailer has not.
  struct Incoming {
    bool active = false;
    std::array<std::byte, fpdu_length_size + ddp_untagged_size> head{};  ///< as it came
    DdpHeader ddp;
    std::size_t ulpdu = 0;
    std::size_t payload = 0;
    std::size_t done = 0;
    std::size_t trailer = 0;
    std::byte* target = nullptr;  ///< of the payload's first octet; null: nowhere
    Region* region = nullptr;     ///< behind a target in registered memory
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
    std::size_t left = 0;  ///< payload of the message that is still to come; 0: not known
    bool fresh = false;    ///< the message before ended; this would be another
  };
  /// The tagged message under way, for what its size will tell about the next ones.
  struct Run {
    bool active = false;
    std::uint32_t stag = 0;
    std::uint64_t start = 0;
    std::uint64_t next = 0;
    std::size_t ulpdu = 0;  ///< of its first FPDU
  };
  struct Predicted {
    std::size_t trailer = 0;  ///< of the FPDU before, at the start of the gap
    std::size_t preload = 0;  ///< octets of the gap that had arrived before
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

  /// What a message is gathered from: one piece nearly always.
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
    /// Whole FPDUs of Sends: the next `length` octets of packed_, behind those of the packed work before it. Nothing else
    /// counts.
    bool packed = false;
    Opcode opcode = Opcode::send;
    std::optional<std::uint64_t> cookie;  ///< to report when the last octet was sent
    std::uint32_t stag = 0;               ///< tagged: the target. Send with Invalidate: its STag
    std::uint64_t to = 0;                 ///< of the payload's first octet
    std::uint32_t msn = 0;
    Pieces pieces;
    std::size_t length = 0;
    std::size_t offset = 0;                   ///< of the FPDU being sent, in the payload
    Cursor cursor;                            ///< the same place in the pieces
    std::uint32_t source = 0;                 ///< a Read Response's region, 0: private
    std::shared_ptr<const std::byte[]> copy;  ///< holds what is still to be sent, once the region was revoked
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
  /// A RDMA Read of ours that waits for its turn (ORD) or for its answer.
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
  void append_whole(const DdpHeader& header, ConstBytes payload, std::vector<std::byte>& to) const;
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

  std::unique_ptr<std::byte[]> buffer_;  // what could not be received in place; [begin_, end_) is unparsed
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  Incoming in_;
  Continuation next_;
  Run run_;
  std::size_t usual_size_ = 0;   // of a message that ended before its region did; 0: none yet
  std::size_t usual_ulpdu_ = 0;  // of its full FPDUs
  Message message_;
  std::deque<ReceiveBuffer> receives_;
  std::array<std::uint32_t, queue_count> expected_msn_{1, 1, 1};
  std::array<std::byte, 256> control_{};  // the payload of a Read Request or Terminate
  std::array<Predicted, max_predicted> predicted_{};
  std::size_t predicted_count_ = 0;
  std::size_t planned_payload_ = 0;  // of the FPDU under way, in the plan's first entry
  std::array<std::array<std::byte, gap_size>, max_predicted> gaps_{};
  bool first_fpdu_seen_ = false;

  std::deque<Work> queue_;
  std::size_t responses_ = 0;             // of the queue: Read Responses whose bytes are in a region
  std::vector<std::uint64_t> completed_;  // scratch of sent()
  std::size_t skip_ = 0;          // octets of the first FPDU, or of the first packed work, that were sent
  std::size_t skip_payload_ = 0;  // that FPDU's payload, which may not change any more
  std::uint32_t next_send_msn_ = 1;
  std::uint32_t next_read_msn_ = 1;
  std::deque<Read> waiting_reads_;
  std::deque<Read> reads_;  // under way, in the order of their requests
  std::uint32_t inbound_reads_ = 0;
  std::vector<std::byte> arena_;   // headers and trailers of what fill() returned
  std::vector<std::byte> packed_;  // the octets of all packed work, in the queue's order
  std::vector<std::byte> last_words_;
  std::size_t last_words_sent_ = 0;
};

}  // namespace nfsrdma::fabric::iwarp
