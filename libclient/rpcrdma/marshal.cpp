#include "rpcrdma/marshal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "reply_sizing/plan.h"

namespace nfsrdma::rpcrdma {
namespace {

using reply_sizing::ReplyPlan;
using reply_sizing::ResultBound;

constexpr std::size_t kPage = 4096;

enum class Form : std::uint8_t { whole, reduced, long_reduced, long_gathered, long_whole, none };

constexpr bool is_long(Form form) {
  return form == Form::long_reduced || form == Form::long_gathered || form == Form::long_whole;
}
constexpr bool is_reduced(Form form) {
  return form == Form::reduced || form == Form::long_reduced;
}

/// Checks that the items of a Message are in order, inside the stream and on XDR's boundaries, as their
/// encoder promised. Positions are 32 bits on the wire (3.4.5).
bool well_formed(const xdr::Message& message) {
  std::size_t last = 0;
  for (const xdr::Item& item : message.items) {
    if (item.stream_offset < last || item.stream_offset > message.stream.size()) return false;
    if (item.stream_offset % kWord != 0) return false;
    if (item.data.size() > std::numeric_limits<std::uint32_t>::max()) return false;
    last = item.stream_offset;
  }
  return message.stream.size() >= 2 * kWord &&  // the xid and the message type
         message.stream.size() % kWord == 0 &&
         message.unreduced_size() <= std::numeric_limits<std::uint32_t>::max();
}

/// Calls `text(bytes)` for each piece of the stream and `item(item, position)` for each item between them.
/// `position` is the item's position in the unreduced stream (3.4.5).
template <class Text, class Item>
void walk(const xdr::Message& message, const Text& text, const Item& item) {
  std::size_t at = 0;
  std::size_t removed = 0;
  for (const xdr::Item& one : message.items) {
    text(message.stream.bytes().subspan(at, one.stream_offset - at));
    item(one, one.stream_offset + removed);
    at = one.stream_offset;
    removed += xdr::padded(one.data.size());
  }
  text(message.stream.bytes().subspan(at));
}

std::byte* append(std::byte* to, ConstBytes bytes) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

constexpr reply_sizing::HeaderSizes kHeaderSizes{kMinHeader, kWriteChunkHead, kSegment};

/// Marshals one Call.
class Marshaller {
 public:
  Marshaller(Rpc& rpc, const Facts& limits, Exposer& memory, const std::string& peer)
      : rpc_(rpc), message_(&rpc.call.message), limits_(limits), memory_(memory), peer_(peer) {}

  Status run(std::uint32_t credits) {
    if (Status done = finish_message(); !done) return done;
    if (const auto chunk = simple_chunk()) return write_simple(credits, *chunk);
    plan_reply();
    if (reply_part_ > limits_.reply_threshold) {
      return failure(EMSGSIZE,
                     "the memory for the results needs more segments than the server's answer can name; use "
                     "smaller requests (rsize)");
    }
    const Form form = choose_form();
    if (form == Form::none) {
      return failure(EMSGSIZE,
                     "the request needs more memory segments than one message can name; use smaller "
                     "requests (rsize, wsize)");
    }
    begin_header(credits, is_long(form) ? rdma_proc::RDMA_NOMSG : rdma_proc::RDMA_MSG);
    if (Status done = offer_arguments(form); !done) return done;
    if (Status done = offer_results(); !done) return done;
    return write(form);
  }

 private:
  /// Fills in the xid, and protects the message if it has a Seal.
  Status finish_message() {
    xdr::Message& message = rpc_.call.message;
    if (well_formed(message)) {
      xdr::store_u32(message.stream.data(), rpc_.xid);
      if (rpc_.call.seal == nullptr) return {};
      auto sealed = rpc_.call.seal->seal(message);
      if (!sealed) return sealed.error();
      message_ = *sealed;
      if (well_formed(*message_)) return {};
    }
    return failure(EINVAL,
                   "the message to send is malformed, which is an error in this program; please report it");
  }

  // ---- most Calls: no item, at most one result, and that in one segment. For these, four comparisons give
  // the result of plan_reply() and choose_form() ----

  /// Returns whether a Write chunk is to be offered; nothing if the Call is not of this simple kind.
  [[nodiscard]] std::optional<bool> simple_chunk() const {
    constexpr std::size_t kWithChunk = kMinHeader + kWriteChunkHead + kSegment;
    const Call& call = rpc_.call;
    if (call.seal != nullptr || !message_->items.empty()) return std::nullopt;
    const std::size_t stream = message_->stream.size();
    if (call.reply_max_inline <= limits_.reply_threshold - kMinHeader) {
      if (kMinHeader + stream > limits_.call_threshold) return std::nullopt;
      return false;
    }
    if (call.results.size() != 1 || call.results[0].wanted_inline || call.results[0].destination.empty())
      return std::nullopt;
    if (call.reply_max_reduced > limits_.reply_threshold - kWithChunk) return std::nullopt;
    if (kWithChunk + stream > limits_.call_threshold) return std::nullopt;
    if (segments_for(call.results[0].destination.size()) != 1) return std::nullopt;
    return true;
  }

  Status write_simple(std::uint32_t credits, bool chunk) {
    begin_header(credits, rdma_proc::RDMA_MSG);
    if (chunk) {
      if (Status done = expose(rpc_.call.results[0].destination, fabric::Reach::remote_write); !done)
        return done;
      if (rpc_.exposed.size() != 1) return too_many_segments();
      rpc_.header.rdma_writes.add_chunk();
      rpc_.header.rdma_writes.add_segment(rpc_.exposed[0]);
    }
    rpc_.bytes.clear();
    encode(rpc_.header, rpc_.bytes);
    append(rpc_.bytes.extend(message_->stream.size()), message_->stream.bytes());
    return {};
  }

  void begin_header(std::uint32_t credits, rdma_proc proc) {
    rpc_.header.clear();
    rpc_.header.rdma_xid = rpc_.xid;
    rpc_.header.rdma_credit = credits;
    rpc_.header.proc = proc;
  }

  // ---- any Call ----

  void plan_reply() {
    std::vector<ResultBound>& results = rpc_.bounds;
    results.clear();
    for (const ResultTarget& target : rpc_.call.results) {
      results.push_back(
          {target.destination.size(), target.wanted_inline, segments_for(target.destination.size())});
    }
    plan_ = reply_sizing::plan_reply({rpc_.call.reply_max_inline, rpc_.call.reply_max_reduced, results},
                                     limits_.reply_threshold, kHeaderSizes);
    reply_part_ = size_of_reply_part();
  }

  [[nodiscard]] std::size_t segments_for(std::uint64_t length) const {
    return length == 0 ? 0 : memory_.segments_for(static_cast<std::size_t>(length));
  }

  [[nodiscard]] std::size_t size_of_reply_part() const {
    std::size_t size = kMinHeader;
    if (plan_.write_list)
      size += static_cast<std::size_t>(reply_sizing::write_list_size(rpc_.bounds, kHeaderSizes));
    if (plan_.reply_chunk != 0) size += kReplyChunkHead + segments_for(plan_.reply_chunk) * kSegment;
    return size;
  }

  [[nodiscard]] std::size_t item_segments() const {
    std::size_t count = 0;
    for (const xdr::Item& item : message_->items) count += segments_for(item.data.size());
    return count;
  }

  [[nodiscard]] Form choose_form() const {
    const std::size_t room = limits_.call_threshold;
    const std::size_t base = reply_part_;
    const std::size_t stream = message_->stream.size();
    const std::size_t whole = message_->unreduced_size();
    const std::size_t items = item_segments() * kReadSegment;
    if (base + whole <= room) return Form::whole;
    if (is_one_piece()) {
      const std::size_t pieces = segments_for(stream) + message_->items.size();
      if (stream <= kPage && base + items + pieces * kReadSegment <= room) return Form::long_gathered;
    } else if (items != 0) {
      if (base + items + stream <= room) return Form::reduced;
      if (base + items + segments_for(stream) * kReadSegment <= room) return Form::long_reduced;
    }
    if (base + segments_for(whole) * kReadSegment <= room) return Form::long_whole;
    return Form::none;
  }

  /// Returns whether no part of the message may travel by itself.
  [[nodiscard]] bool is_one_piece() const {
    return rpc_.call.seal != nullptr && rpc_.call.seal->covers_data();
  }

  Status offer_arguments(Form form) {
    if (form == Form::long_gathered) return offer_pieces();
    if (is_long(form)) {
      const std::size_t size =
          form == Form::long_whole ? message_->unreduced_size() : message_->stream.size();
      if (Status done = allocate(rpc_.long_call, size, "request"); !done) return done;
      if (form == Form::long_whole) {
        write_whole(*message_, rpc_.long_call.get());
      } else {
        append(rpc_.long_call.get(), message_->stream.bytes());
      }
      if (Status done = read_chunk(0, {rpc_.long_call.get(), size}); !done) return done;
    }
    return is_reduced(form) ? offer_items() : Status();
  }

  /// Removes the const that Exposer::expose() does not take. With Reach::remote_read nothing writes to the
  /// memory.
  static Bytes for_reading(ConstBytes bytes) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  /// Offers the items as Read chunks. 3.4.4.4, 3.4.5.2: an item's chunk has its bytes and no padding.
  Status offer_items() {
    Status all;
    walk(
        *message_, [](ConstBytes) {},
        [&](const xdr::Item& item, std::size_t position) {
          if (all && !item.data.empty()) all = read_chunk(position, for_reading(item.data));
        });
    return all;
  }

  /// Offers the whole message as one chunk, with the data where it is in memory (3.4.4: segments of one
  /// position are one chunk). The text is copied into one page, because if a segment of a few octets crosses
  /// a page boundary, Linux's siw sends wrong octets (6.1, siw_try_1seg).
  Status offer_pieces() {
    const ConstBytes text_there = message_->stream.bytes();
    std::size_t room = text_there.size() + kPage;
    if (Status done = allocate(rpc_.long_call, room, "request"); !done) return done;
    void* at = rpc_.long_call.get();
    auto* const begin = static_cast<std::byte*>(std::align(kPage, text_there.size(), at, room));
    std::copy(text_there.begin(), text_there.end(), begin);
    const Bytes stream(begin, text_there.size());
    const std::size_t before = rpc_.exposed.size();
    if (Status done = expose(stream, fabric::Reach::remote_read); !done) return done;
    const std::size_t behind = rpc_.exposed.size();
    Status all;
    walk(
        *message_,
        [&](ConstBytes text) {
          const auto segments = std::span(rpc_.exposed).first(behind).subspan(before);
          name_part(segments, static_cast<std::size_t>(text.data() - text_there.data()), text.size());
        },
        [&](const xdr::Item& item, std::size_t) {
          if (all && !item.data.empty()) all = read_chunk(0, for_reading(item.data));
        });
    return all;
  }
  /// Names `length` bytes, from `begin` on, of the memory that was exposed in these segments.
  void name_part(std::span<const RemoteSegment> segments, std::size_t begin, std::size_t length) {
    for (RemoteSegment one : segments) {
      const std::size_t skipped = std::min<std::size_t>(begin, one.length);
      begin -= skipped;
      one.offset += skipped;
      one.length = static_cast<std::uint32_t>(std::min<std::size_t>(one.length - skipped, length));
      length -= one.length;
      if (one.length != 0) rpc_.header.rdma_reads.push_back({0, one});
    }
  }

  Status read_chunk(std::size_t position, Bytes bytes) {
    const std::size_t before = rpc_.exposed.size();
    if (Status done = expose(bytes, fabric::Reach::remote_read); !done) return done;
    for (const RemoteSegment& one : std::span(rpc_.exposed).subspan(before)) {
      rpc_.header.rdma_reads.push_back({static_cast<std::uint32_t>(position), one});
    }
    return {};
  }

  Status offer_results() {
    if (plan_.write_list) {
      for (const ResultTarget& target : rpc_.call.results) {
        rpc_.header.rdma_writes.add_chunk();
        // 4.3.2.3: an empty chunk keeps the result in the stream.
        if (target.wanted_inline || target.destination.empty()) continue;
        // 3.4.6.2: the chunk has no room for padding.
        const std::size_t before = rpc_.exposed.size();
        if (Status done = expose(target.destination, fabric::Reach::remote_write); !done) return done;
        for (const RemoteSegment& one : std::span(rpc_.exposed).subspan(before))
          rpc_.header.rdma_writes.add_segment(one);
      }
    }
    return plan_.reply_chunk != 0 ? offer_reply_chunk() : Status();
  }

  Status offer_reply_chunk() {
    if (Status done = allocate(rpc_.long_reply, plan_.reply_chunk, "reply"); !done) return done;
    const auto before = static_cast<std::ptrdiff_t>(rpc_.exposed.size());
    if (Status done = expose({rpc_.long_reply.get(), static_cast<std::size_t>(plan_.reply_chunk)},
                             fabric::Reach::remote_write);
        !done)
      return done;
    rpc_.header.has_rdma_reply = true;
    rpc_.header.rdma_reply.assign(rpc_.exposed.begin() + before, rpc_.exposed.end());
    return {};
  }

  Status write(Form form) {
    const std::size_t header = encoded_size(rpc_.header);
    const std::size_t payload = is_long(form)           ? 0
                                : form == Form::reduced ? message_->stream.size()
                                                        : message_->unreduced_size();
    const std::size_t returned = header - rpc_.header.rdma_reads.size() * kReadSegment;
    if (header + payload > limits_.call_threshold || returned > reply_part_) return too_many_segments();
    rpc_.bytes.clear();
    encode(rpc_.header, rpc_.bytes);
    if (payload == 0) return {};
    std::byte* const to = rpc_.bytes.extend(payload);
    if (form == Form::reduced) {
      append(to, message_->stream.bytes());
    } else {
      write_whole(*message_, to);
    }
    return {};
  }

  /// Exposes memory, and appends its segments to those of the RPC.
  Status expose(Bytes bytes, fabric::Reach reach) {
    if (bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
      return failure(EMSGSIZE, "a transfer of 4 GiB or more cannot be described; use smaller requests");
    }
    Status done = memory_.expose(bytes, reach, rpc_.exposed);
    // The connection has ended, which is not this call's fault.
    if (done || done.error().kind() == ErrorKind::connection) return done;
    return failure(ENOMEM,
                   "memory could not be made available to the server (" + done.error().message() +
                       "); lower the number or size of requests, or raise the limit on locked memory");
  }

  Status allocate(std::unique_ptr<std::byte[]>& to, std::uint64_t size, const char* what) {
    if (size > kLargestCopy) {
      return failure(EMSGSIZE, std::string("the ") + what + " may have " + std::to_string(size) +
                                   " bytes, too large for one message; use smaller requests");
    }
    to.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(size)]);
    if (to) return {};
    return failure(ENOMEM, std::string("no memory for a ") + what + " of " + std::to_string(size) +
                               " bytes; use smaller requests or free some memory");
  }

  [[nodiscard]] Error too_many_segments() const {
    return failure(EMSGSIZE,
                   "the memory came in more segments than the fabric had promised, which is an error in "
                   "this program; please report it");
  }
  [[nodiscard]] Error failure(int errno_value, std::string text) const {
    return {ErrorKind::local, errno_value, "RPC", peer_, std::move(text)};
  }

  Rpc& rpc_;
  const xdr::Message* message_;  // the message to send, sealed or not
  const Facts& limits_;
  Exposer& memory_;
  const std::string& peer_;
  ReplyPlan plan_;
  std::size_t reply_part_ =
      0;  // largest size of the header without a Read list; a Reply returns this part, too (3.3.2)
};

}  // namespace

void write_whole(const xdr::Message& message, std::byte* to) {
  walk(
      message, [&](ConstBytes bytes) { to = append(to, bytes); },
      [&](const xdr::Item& item, std::size_t) {
        to = append(to, item.data);
        const std::size_t pad = xdr::padding(item.data.size());
        std::memset(to, 0, pad);
        to += pad;
      });
}

Status marshal(Rpc& rpc, const Facts& limits, std::uint32_t credits, Exposer& memory,
               const std::string& peer) {
  return Marshaller(rpc, limits, memory, peer).run(credits);
}

}  // namespace nfsrdma::rpcrdma
