// The sending half of a Stream: a queue of work, cut into FPDUs only when they are about to leave.
//
// No FPDU is stored between one fill() and the next. The stream keeps only its position in the queue: the
// offset in the first work, and how many octets of the FPDU there were sent. Octets that the socket did not
// take are laid out again. So if memory is revoked in between, only one place refers to it, and a partly sent
// FPDU keeps its size (skip_payload_) when the path's MSS changes. Only short Sends are laid out when they
// are posted, one behind the other in one buffer (packed_), so that many of them are one entry of what fill()
// returns.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "fabric/iwarp/crc32c.h"
#include "fabric/iwarp/stream.h"

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr std::size_t head_room = fpdu_length_size + ddp_untagged_size;
constexpr std::size_t trailer_room = 3 + fpdu_crc_size;
constexpr std::size_t arena_per_fpdu = head_room + trailer_room;
constexpr std::size_t fpdus_per_fill = 640;
/// The size at which a packed work is full. A work is freed only when all of it was sent, so it must not grow
/// without limit.
constexpr std::size_t packed_most = 64 * 1024;

Opcode send_opcode(const SendWork& work) {
  if (work.invalidate) return work.solicited ? Opcode::send_solicited_invalidate : Opcode::send_invalidate;
  return work.solicited ? Opcode::send_solicited : Opcode::send;
}

iovec entry(const std::byte* at, std::size_t length) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): sendmsg() only reads
  return {.iov_base = const_cast<std::byte*>(at), .iov_len = length};
}

}  // namespace

// ---- The queue ----

Stream::Work& Stream::enqueue(Opcode opcode) {
  Work& work = queue_.emplace_back();
  work.opcode = opcode;
  return work;
}

void Stream::post_send(const SendWork& send) {
  if (ended_) return;
  Work& work = enqueue(send_opcode(send));
  work.cookie = send.cookie;
  work.stag = send.invalidate.value_or(0);
  work.msn = next_send_msn_++;
  for (const ConstBytes piece : send.pieces) {
    if (piece.empty()) continue;
    work.pieces.push_back(piece);
    work.length += piece.size();
  }
}

bool Stream::post_copy(ConstBytes message) {
  // The layout depends on what the handshake agrees.
  if (!started_ || ddp_untagged_size + message.size() > config_.mulpdu) return false;
  if (ended_) return true;
  DdpHeader header;
  header.last = true;
  header.qn = queue_send;
  header.msn = next_send_msn_++;
  const std::size_t before = packed_.size();
  append_whole(header, message, packed_);
  if (queue_.empty() || !queue_.back().packed || queue_.back().length > packed_most) {
    Work& work = enqueue(Opcode::send);
    work.packed = true;
  }
  queue_.back().length += packed_.size() - before;
  return true;
}

/// Removes the first work of the queue, which is packed and has been sent.
void Stream::pop_packed() {
  const std::size_t length = queue_.front().length;
  queue_.pop_front();
  packed_.erase(packed_.begin(), packed_.begin() + static_cast<std::ptrdiff_t>(length));
}

void Stream::post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  assert(local.size() <= remote.length);
  if (ended_) return;
  Work& work = enqueue(Opcode::rdma_write);
  work.cookie = cookie;
  work.stag = remote.handle;
  work.to = remote.offset;
  if (!local.empty()) work.pieces.push_back(local);
  work.length = local.size();
}

void Stream::post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  assert(local.size() <= remote.length && local.size() <= RegionTable::max_length);
  if (ended_) return;
  const Region& sink = regions_.add(local, Use::read_sink);
  waiting_reads_.push_back({cookie, sink.stag, local.size(), 0, remote});
  release_reads();
}

/// Queues as many Read Requests as the peer has room for (ORD); the others wait.
void Stream::release_reads() {
  while (started_ && !waiting_reads_.empty() && reads_.size() < config_.ord) {
    const Read read = waiting_reads_.front();
    waiting_reads_.pop_front();
    reads_.push_back(read);
    Work& work = enqueue(Opcode::read_request);
    work.msn = next_read_msn_++;
    encode({.sink_stag = read.sink,
            .sink_to = 0,
            .size = static_cast<std::uint32_t>(read.length),
            .source_stag = read.source.handle,
            .source_to = read.source.offset},
           work.request.data());
    work.pieces.push_back(work.request);
    work.length = read_request_size;
  }
  if (started_ && config_.ord == 0 && !waiting_reads_.empty()) {
    end({ErrorKind::connection, EOPNOTSUPP, "", config_.peer,
         "an RDMA Read is needed, and the peer allows none (its IRD is 0). Raise it on the peer"});
  }
}

void Stream::queue_read_response(const ReadRequest& request, ConstBytes source) {
  Work& work = enqueue(Opcode::read_response);
  work.stag = request.sink_stag;
  work.to = request.sink_to;
  if (!source.empty()) work.pieces.push_back(source);
  work.length = source.size();
  work.source = source.empty() ? 0 : request.source_stag;
  responses_ += work.source != 0 ? 1 : 0;
  ++inbound_reads_;
}

/// Called when the region is about to go: its Read Responses continue from a copy of the octets that they
/// have not sent yet. They share one copy, because a peer may have asked for the same octets in every Read
/// that IRD allows, and may take none of the answers.
void Stream::privatise(const Region& region) {
  const auto unsent = [](const Work& work) {
    return work.pieces[work.cursor.piece].subspan(work.cursor.offset, work.length - work.offset);
  };
  const std::byte* begin = region.memory.data() + region.memory.size();
  const std::byte* end = region.memory.data();
  for (const Work& work : queue_) {
    if (work.source != region.stag) continue;
    const ConstBytes rest = unsent(work);
    begin = std::min(begin, rest.data());
    end = std::max(end, rest.data() + rest.size());
  }
  if (begin >= end) return;  // no Response has unsent octets of the region
  const auto size = static_cast<std::size_t>(end - begin);
  const std::shared_ptr<std::byte[]> copy(new std::byte[size]);
  std::memcpy(copy.get(), begin, size);
  for (Work& work : queue_) {
    if (work.source != region.stag) continue;
    const ConstBytes rest = unsent(work);
    work.pieces.assign({copy.get() + (rest.data() - begin), rest.size()});
    work.cursor = {};
    work.copy = copy;
    work.source = 0;
    --responses_;
  }
}

// ---- FPDUs ----

Stream::Segment Stream::segment(const Work& work, std::size_t offset) const {
  const std::size_t left = work.length - offset;
  const bool partly_sent = skip_ > 0 && &work == &queue_.front() && offset == work.offset;
  const std::size_t room = config_.mulpdu - (work.tagged() ? ddp_tagged_size : ddp_untagged_size);
  const std::size_t payload = partly_sent ? skip_payload_ : std::min(left, room);
  return {payload, payload == left};
}

void Stream::advance(const Work& work, Cursor& cursor, std::size_t count) {
  while (count > 0) {
    const std::size_t part = std::min(count, work.pieces[cursor.piece].size() - cursor.offset);
    cursor.offset += part;
    count -= part;
    if (cursor.offset == work.pieces[cursor.piece].size()) cursor = {cursor.piece + 1, 0};
  }
}

/// Lays out one FPDU: calls put(address, length) for its parts in order, until put() returns false. `arena`
/// has room for the header and the trailer, next to each other, so that a trailer and the header behind it
/// form one part.
template <class Put>
bool Stream::emit(const Work& work, std::size_t offset, Cursor cursor, Segment segment, std::byte* arena,
                  Put put) const {
  const std::size_t ulpdu = segment.ulpdu(work.tagged());
  DdpHeader header;
  header.tagged = work.tagged();
  header.last = segment.last;
  header.opcode = work.opcode;
  header.stag = work.stag;
  if (header.tagged) {
    header.to = work.to + offset;
  } else {
    header.qn = work.opcode == Opcode::read_request ? queue_read_request : queue_send;
    header.msn = work.msn;
    header.mo = static_cast<std::uint32_t>(offset);
  }
  store_be(arena, static_cast<std::uint16_t>(ulpdu));
  encode(header, arena + fpdu_length_size);
  const std::size_t head = fpdu_length_size + header.size();
  std::uint32_t crc = config_.crc ? crc32c(0, {arena, head}) : 0;
  bool room = put(arena, head);

  for (std::size_t left = segment.payload; left > 0;) {
    const ConstBytes piece = work.pieces[cursor.piece].subspan(cursor.offset);
    const std::size_t part = std::min(left, piece.size());
    if (config_.crc) crc = crc32c(crc, piece.first(part));
    room = room && put(piece.data(), part);
    left -= part;
    cursor = part == piece.size() ? Cursor{cursor.piece + 1, 0} : Cursor{cursor.piece, cursor.offset + part};
  }

  std::byte* trailer = arena + head;
  const std::size_t pad = fpdu_trailer(ulpdu) - fpdu_crc_size;
  std::memset(trailer, 0, pad + fpdu_crc_size);
  if (config_.crc) store_crc(trailer + pad, crc32c(crc, {trailer, pad}));
  return room && put(trailer, pad + fpdu_crc_size);
}

Stream::Plan Stream::fill(std::span<iovec> out, std::size_t max_bytes) {
  Plan plan;
  if (!last_words_.empty()) {
    const auto rest = std::span(last_words_).subspan(last_words_sent_);
    if (rest.empty() || out.empty()) return plan;
    out[0] = entry(rest.data(), rest.size());
    return {1, rest.size()};
  }
  if (!wants_to_send()) return plan;
  if (arena_.empty()) arena_.resize(fpdus_per_fill * arena_per_fpdu);
  std::size_t arena_used = 0, packed_used = 0;
  std::size_t skip = skip_;
  const auto put = [&](const std::byte* at, std::size_t length) {
    const std::size_t skipped = std::min(skip, length);
    skip -= skipped;
    at += skipped;
    length -= skipped;
    if (length == 0) return true;
    iovec* before = plan.count > 0 ? &out[plan.count - 1] : nullptr;
    if (before != nullptr && static_cast<const std::byte*>(before->iov_base) + before->iov_len == at) {
      before->iov_len += length;
    } else if (plan.count == out.size()) {
      return false;
    } else {
      out[plan.count++] = entry(at, length);
    }
    plan.bytes += length;
    return true;
  };
  for (const Work& work : queue_) {
    if (work.packed) {
      if (plan.bytes >= max_bytes || !put(packed_.data() + packed_used, work.length)) return plan;
      packed_used += work.length;
      continue;
    }
    std::size_t offset = work.offset;
    Cursor cursor = work.cursor;
    for (;;) {
      if (plan.bytes >= max_bytes || arena_used + arena_per_fpdu > arena_.size()) return plan;
      const Segment next = segment(work, offset);
      std::byte* arena = arena_.data() + arena_used;
      arena_used += fpdu_size(next.ulpdu(work.tagged())) - next.payload;
      if (!emit(work, offset, cursor, next, arena, put)) return plan;
      if (next.last) break;
      offset += next.payload;
      advance(work, cursor, next.payload);
    }
  }
  return plan;
}

void Stream::sent(std::size_t count) {
  if (!last_words_.empty()) {
    last_words_sent_ += count;
    return;
  }
  std::vector<std::uint64_t> completed = std::move(completed_);
  completed.clear();
  while (count > 0) {
    Work& work = queue_.front();
    if (work.packed) {
      const std::size_t left = work.length - skip_;
      if (count < left) {
        skip_ += count;
        break;
      }
      count -= left;
      skip_ = 0;
      pop_packed();
      continue;
    }
    const Segment current = segment(work, work.offset);
    const std::size_t left = fpdu_size(current.ulpdu(work.tagged())) - skip_;
    if (count < left) {
      skip_ += count;
      skip_payload_ = current.payload;
      break;
    }
    count -= left;
    skip_ = 0;
    advance(work, work.cursor, current.payload);
    work.offset += current.payload;
    if (!current.last) continue;
    if (work.cookie) completed.push_back(*work.cookie);
    if (work.opcode == Opcode::read_response) --inbound_reads_;
    responses_ -= work.source != 0 ? 1 : 0;
    queue_.pop_front();
  }
  for (const std::uint64_t cookie : completed) {
    if (ended_) return;  // an event closed the stream
    events_.on_completed(cookie);
  }
  completed_ = std::move(completed);
}

bool Stream::wants_to_send() const {
  if (!last_words_.empty()) return last_words_sent_ < last_words_.size();
  return started_ && !ended_ && !queue_.empty() && (!config_.responder || first_fpdu_seen_);
}

/// Prepares what still has to be sent when the stream ends: the rest of the FPDU that is being sent, copied
/// because its memory goes back to its owner, and the Terminate. With null, nothing is sent.
void Stream::prepare_last_words(const Terminate* terminate) {
  last_words_.clear();
  last_words_sent_ = 0;
  const auto append = [this](const std::byte* at, std::size_t length) {
    last_words_.insert(last_words_.end(), at, at + length);
    return true;
  };
  std::array<std::byte, arena_per_fpdu>
      arena;  // NOLINT(cppcoreguidelines-pro-type-member-init): emit() fills it
  if (skip_ > 0 && queue_.front().packed) {
    std::size_t end = 0;
    while (end < skip_) end += fpdu_size(load_be<std::uint16_t>(packed_.data() + end));
    append(packed_.data() + skip_, end - skip_);
  } else if (skip_ > 0) {
    const Work& work = queue_.front();
    emit(work, work.offset, work.cursor, segment(work, work.offset), arena.data(), append);
    last_words_.erase(last_words_.begin(), last_words_.begin() + static_cast<std::ptrdiff_t>(skip_));
  }
  if (terminate == nullptr) {
    last_words_.clear();  // the peer has said that it reads no more
    return;
  }
  const std::vector<std::byte> payload = encode(*terminate);
  DdpHeader header;
  header.last = true;
  header.opcode = Opcode::terminate;
  header.qn = queue_terminate;
  header.msn = 1;  // RFC 5040 5.1: the queue's only message
  append_whole(header, payload, last_words_);
}

/// Appends the FPDU of a message that fits one FPDU.
void Stream::append_whole(const DdpHeader& header, ConstBytes payload, Octets& to) const {
  const std::size_t ulpdu = header.size() + payload.size();
  const std::size_t size = fpdu_size(ulpdu);
  to.resize(to.size() + size, boost::container::default_init);
  const Bytes fpdu = std::span(to).last(size);
  std::memset(fpdu.last<trailer_room>().data(), 0, trailer_room);  // the pad, and a CRC that is not used
  store_be(fpdu.data(), static_cast<std::uint16_t>(ulpdu));
  encode(header, fpdu.data() + fpdu_length_size);
  if (!payload.empty())
    std::memcpy(fpdu.data() + fpdu_length_size + header.size(), payload.data(), payload.size());
  const std::size_t crc_at = size - fpdu_crc_size;
  if (config_.crc) store_crc(fpdu.data() + crc_at, crc32c(0, fpdu.first(crc_at)));
}

}  // namespace nfsrdma::fabric::iwarp
