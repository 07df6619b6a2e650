#include "trace/recording/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "fabric/address.h"
#include "trace/format/assembly.h"

namespace nfsrdma::trace {
namespace {

using fabric::Established;
using fabric::RemoteSegment;
using rpcrdma::rdma_msg;
using rpcrdma::rdma_proc;

/// Room for the blocks around a frame, and for the set-up of a connection in a new file.
constexpr std::size_t kOverhead = 4096;
/// Numbers of queue pairs begin here, because the first ones are the managers'.
constexpr std::uint32_t kFirstQueuePair = 0x100;
constexpr std::size_t kMostComment = 1024;

std::string comment(const std::string& text) {
  return "nfsrdma: " + text.substr(0, kMostComment);
}

std::string text_of(const Established& now) {
  std::string out = "connected over " + now.fabric;
  if (!now.traits.device.empty()) out += " by " + now.traits.device;
  if (!now.detail.empty()) out += ", " + now.detail;
  out += std::string(", remote invalidation ") + (now.traits.remote_invalidation ? "offered" : "not offered");
  return out + ": " + now.reason;
}

std::uint64_t total_of(std::span<const RemoteSegment> segments) {
  std::uint64_t out = 0;
  for (const RemoteSegment& segment : segments) out += segment.length;
  return out;
}

}  // namespace

// ---- one connection ----

class Recorder::Line final : public fabric::Tap {
 public:
  Line(std::shared_ptr<Recorder> recorder, const fabric::Destination& to, std::uint32_t number, Warn warn)
      : Tap(recorder->on_), recorder_(std::move(recorder)), warn_(std::move(warn)), host_(to.host) {
    server_ = fabric::peer_text(to.address, "");
    ends_.addresses[1] = gid_of(to.address);
    if (recorder_->options_.local_address)
      ends_.addresses[0] = gid_of(recorder_->options_.local_address(to.address));
    ends_.queue_pairs = {kFirstQueuePair + 2 * number, kFirstQueuePair + 2 * number + 1};
    ends_.port = fabric::port_of(to.address);
    ends_.exchange = number + 1ULL;
  }

  void announced(ConstBytes private_data) override {
    const std::lock_guard hold(recorder_->mutex_);
    private_data_.assign(private_data.begin(), private_data.end());
  }
  void established(const Established& established) override {
    const Turn turn(*this);
    established_ = established;
    if (turn.ready()) begin();
  }
  void closed(const Error* why) override {
    const Turn turn(*this);
    memory_.clear();
    if (!turn.ready()) return;
    if (file_ != recorder_->files_) begin();
    const std::string how = established_ ? "connection ended: " : "not connected: ";
    put(Setup::disconnect, {}, how + (why != nullptr ? why->message() : "closed by this side"));
  }

  void exposed(fabric::Bytes memory, std::span<const RemoteSegment> segments) override {
    const Turn turn(*this);
    if (!turn.ready()) return;
    for (const RemoteSegment& segment : segments) {
      const std::size_t size = std::min<std::size_t>(segment.length, memory.size());
      memory_[segment.handle] = {segment.offset, memory.first(size)};
      memory = memory.subspan(size);
    }
  }
  void taken_back(std::span<const RemoteSegment> segments) override {
    const std::lock_guard hold(recorder_->mutex_);
    for (const RemoteSegment& segment : segments) memory_.erase(segment.handle);
  }
  void sent(ConstBytes message) override {
    const Turn turn(*this);
    if (turn.ready()) show_sent(message);
  }
  void received(ConstBytes message, std::optional<std::uint32_t> invalidated) override {
    const Turn turn(*this);
    if (turn.ready()) show_received(message, invalidated);
    if (invalidated) memory_.erase(*invalidated);
  }

 private:
  struct Exposed {
    std::uint64_t offset = 0;
    ConstBytes memory;
  };

  /// The time of one call of the Tap. Holds the mutex, and afterwards tells the user what has failed.
  class Turn {
   public:
    explicit Turn(Line& line) : line_(line), hold_(line.recorder_->mutex_) {
      Recorder& recorder = *line.recorder_;
      // Memory that was noted before the trace was switched off and on again may have gone meanwhile.
      if (std::exchange(line.start_, recorder.starts_) != recorder.starts_) line.memory_.clear();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      const auto failure = std::exchange(line_.recorder_->failure_, std::nullopt);
      hold_.unlock();
      if (failure && line_.warn_) line_.warn_(failure->text());
    }
    [[nodiscard]] bool ready() const { return line_.on() && line_.recorder_->file_.is_open(); }

   private:
    Line& line_;
    std::unique_lock<std::mutex> hold_;
  };

  // ---- frames ----
  void write(std::uint32_t original_size, const std::string& text) {
    recorder_->put(frame_, original_size, text.empty() ? "" : comment(text));
  }
  void put(Setup kind, ConstBytes private_data, const std::string& text) {
    write(encode(ends_, kind, private_data, frame_), text);
  }
  /// Writes the set-up of the connection, as far as there has been one.
  void begin() {
    recorder_->make_room(kOverhead);
    file_ = recorder_->files_;
    put(Setup::request, private_data_, "connecting to " + host_ + " (" + server_ + ")");
    if (!established_) return;
    put(Setup::reply, std::as_bytes(std::span(established_->private_data)), text_of(*established_));
    put(Setup::ready, {}, "");
  }
  void put(const Draft& draft, const std::string& text = {}) {
    recorder_->make_room(draft.payload.size() + kOverhead);
    if (file_ != recorder_->files_) begin();
    write(encode(ends_, draft, frame_), text);
  }
  /// Returns a Draft with the next packet sequence number of the direction.
  Draft draft(bool to_server, Opcode opcode) {
    Draft out;
    out.to_server = to_server;
    out.opcode = opcode;
    out.psn = psn_[to_server ? 1 : 0]++;
    return out;
  }

  /// Writes a message, whose transport header is kept in any case.
  void put_message(Draft send, ConstBytes message, std::size_t header_size, std::uint64_t placed) {
    const std::size_t most = std::max<std::size_t>(recorder_->options_.bytes, header_size);
    send.payload = message.first(std::min(message.size(), most));
    send.cut = message.size() - send.payload.size() + placed;
    if (send.cut == 0) return put(send);
    std::string text =
        "message=" + std::to_string(message.size()) + " kept=" + std::to_string(send.payload.size());
    if (placed != 0) text += " placed=" + std::to_string(placed);
    put(send, text);
  }
  void put_whole(bool to_server, const Whole& whole, std::uint64_t placed) {
    Draft send = draft(to_server, Opcode::send);
    send.payload = whole.bytes();
    send.cut = whole.missing() + placed;
    std::string text = "put together from chunks";
    if (send.cut != 0) {
      text = "message=" + std::to_string(whole.bytes().size() + whole.missing()) +
             " kept=" + std::to_string(whole.bytes().size()) +
             (placed != 0 ? " placed=" + std::to_string(placed) : "") + " " + text;
    }
    put(send, text);
  }
  template <class Put>
  void each_piece(const RemoteSegment& segment, Put put_piece) {
    const ConstBytes memory = memory_of(segment);
    for (std::size_t at = 0; at < memory.size(); at += kPiece) {
      const ConstBytes piece = memory.subspan(at, std::min(kPiece, memory.size() - at));
      put_piece(RemoteSegment{segment.handle, static_cast<std::uint32_t>(piece.size()), segment.offset + at},
                piece);
    }
  }
  void put_writes(std::span<const RemoteSegment> segments) {
    for (const RemoteSegment& segment : segments) {
      each_piece(segment, [this](const RemoteSegment& target, ConstBytes piece) {
        Draft one = draft(false, Opcode::rdma_write);
        one.target = target;
        one.payload = piece;
        put(one);
      });
    }
  }
  void put_reads(std::span<const RemoteSegment> segments) {
    for (const RemoteSegment& segment : segments) {
      each_piece(segment, [this](const RemoteSegment& target, ConstBytes piece) {
        Draft request = draft(false, Opcode::read_request);
        request.target = target;
        put(request);
        // A response has the sequence number of its request.
        Draft response = request;
        response.to_server = true;
        response.opcode = Opcode::read_response;
        response.payload = piece;
        put(response);
      });
    }
  }

  // ---- messages ----
  [[nodiscard]] ConstBytes memory_of(const RemoteSegment& segment) const {
    const auto found = memory_.find(segment.handle);
    if (found == memory_.end() || segment.offset < found->second.offset) return {};
    const ConstBytes memory = found->second.memory;
    const std::uint64_t begin = segment.offset - found->second.offset;
    if (begin > memory.size()) return {};
    return memory.subspan(begin, std::min<std::size_t>(segment.length, memory.size() - begin));
  }
  [[nodiscard]] MemoryOf memory() const {
    return [this](const RemoteSegment& segment) { return memory_of(segment); };
  }
  /// Returns true if the segments are small enough to be kept, and their memory is known.
  [[nodiscard]] bool keeps(std::span<const RemoteSegment> segments) const {
    return total_of(segments) <= recorder_->options_.bytes &&
           std::ranges::all_of(segments, [this](const RemoteSegment& segment) {
             return memory_of(segment).size() == segment.length;
           });
  }

  void show_sent(ConstBytes message) {
    const rpcrdma::Decoded decoded = rpcrdma::decode(message, header_);
    put_message(draft(true, Opcode::send), message, decoded.size, 0);
    if (decoded.fault != rpcrdma::HeaderFault::none || header_.rdma_reads.empty()) return;
    const std::vector<RemoteSegment> segments = segments_of(header_.rdma_reads);
    if (keeps(segments)) return put_reads(segments);
    put_whole(true, whole_call(header_, message.subspan(decoded.size), recorder_->options_.bytes, memory()),
              0);
  }
  void show_received(ConstBytes message, std::optional<std::uint32_t> invalidated) {
    const rpcrdma::Decoded decoded = rpcrdma::decode(message, header_);
    const auto put_reply = [&](std::uint64_t placed) {
      Draft send = draft(false, invalidated ? Opcode::send_invalidate : Opcode::send);
      send.invalidated = invalidated.value_or(0);
      put_message(send, message, decoded.size, placed);
    };
    if (decoded.fault != rpcrdma::HeaderFault::none) return put_reply(0);
    const auto results = header_.rdma_writes.segments();
    const std::uint64_t placed = total_of(results);
    const bool is_long = header_.proc == rdma_proc::RDMA_NOMSG && total_of(header_.rdma_reply) != 0;
    if (!is_long) {
      const bool kept = keeps(results);
      if (kept) put_writes(results);
      return put_reply(kept ? 0 : placed);
    }
    // tshark puts a Reply together from its Reply chunk or from Write chunks, and not from both.
    const bool kept = placed == 0 && keeps(header_.rdma_reply);
    if (kept) put_writes(header_.rdma_reply);
    put_reply(0);
    if (!kept) put_whole(false, whole_reply(header_, recorder_->options_.bytes, memory()), placed);
  }

  const std::shared_ptr<Recorder> recorder_;
  const Warn warn_;
  const std::string host_;
  std::string server_;
  Ends ends_;
  // The Recorder's mutex guards what follows.
  Octets private_data_;
  std::optional<Established> established_;
  std::uint64_t file_ = 0;                             // the file that has the set-up of this connection
  std::uint64_t start_ = 0;                            // Recorder::starts_ when memory_ was noted
  std::unordered_map<std::uint32_t, Exposed> memory_;  // by handle
  std::array<std::uint32_t, 2> psn_{};                 // to the client, to the server
  rdma_msg header_;
  Octets frame_;
};

// ---- the file ----

Recorder::Recorder(Options options) : options_(std::move(options)) {}
Recorder::~Recorder() = default;

Status Recorder::start(const std::string& name) {
  std::error_code ignored;
  const std::filesystem::path full = std::filesystem::absolute(name, ignored);
  const std::lock_guard hold(mutex_);
  on_ = false;
  file_.close();
  if (auto done = file_.open(full.empty() ? name : full.string(), options_.size); !done) return done;
  failure_.reset();
  written_ = 0;
  ++starts_;
  begin_file();
  if (failure_) return *std::exchange(failure_, std::nullopt);
  on_ = true;
  return {};
}

void Recorder::stop() {
  const std::lock_guard hold(mutex_);
  on_ = false;
  file_.close();
}

std::string Recorder::name() const {
  const std::lock_guard hold(mutex_);
  return file_.name();
}
std::uint64_t Recorder::written() const {
  const std::lock_guard hold(mutex_);
  return written_;
}

void Recorder::fail(const Error& why) {
  on_ = false;
  file_.close();
  failure_ = why;
}

void Recorder::begin_file() {
  ++files_;
  block_.clear();
  append_section(block_, "nfsrdma " NFSRDMA_VERSION);
  append_interface(block_, "nfsrdma",
                   "messages of NFS over RDMA, as frames of RoCE that no wire has carried; data may be cut");
  append(block_);
}

/// Begins the next file if the current one has no room for `count` bytes.
void Recorder::make_room(std::size_t count) {
  if (!file_.is_open() || !file_.is_full(count)) return;
  if (auto done = file_.rotate(); !done) return fail(done.error());
  begin_file();
}

void Recorder::put(const Octets& frame, std::uint32_t original_size, const std::string& text) {
  block_.clear();
  append_packet(block_, {options_.now(), frame, original_size, text});
  append(block_);
}

void Recorder::append(const Octets& blocks) {
  if (!file_.is_open()) return;
  if (auto done = file_.write(blocks); !done) return fail(done.error());
  written_ += blocks.size();
}

std::unique_ptr<fabric::Tap> Recorder::tap(const fabric::Destination& to, const Warn& warn) {
  std::uint32_t number = 0;
  {
    const std::lock_guard hold(mutex_);
    number = connections_++;
  }
  return std::make_unique<Line>(shared_from_this(), to, number, warn);
}

fabric::Tapper Recorder::tapper(Warn warn) {
  return [self = shared_from_this(), warn = std::move(warn)](const fabric::Destination& to) {
    return self->tap(to, warn);
  };
}

std::shared_ptr<Recorder> recorder_of(const std::string& name, Options options, const Warn& warn) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Recorder>> all;
  std::error_code ignored;
  const std::string full = std::filesystem::absolute(name, ignored).lexically_normal().string();
  const std::lock_guard hold(mutex);
  if (auto there = all[full].lock()) return there;
  auto made = std::make_shared<Recorder>(std::move(options));
  if (auto started = made->start(full); !started && warn) warn(started.error().text());
  all[full] = made;
  return made;
}

}  // namespace nfsrdma::trace
