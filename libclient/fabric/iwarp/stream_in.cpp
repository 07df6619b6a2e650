// The receiving half of a Stream: places the bytes that arrive, and interprets them. The essay is in
// stream.h.
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fabric/iwarp/crc32c.h"
#include "fabric/iwarp/stream.h"

namespace nfsrdma::fabric::iwarp {
namespace {

std::string hex(std::uint32_t stag) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", stag);
  return text.data();
}

std::string range(std::uint64_t offset, std::uint64_t length) {
  return std::to_string(length) + " octets at offset " + std::to_string(offset);
}

// Returns the reason for a refused tagged segment. DDP reports what is wrong with its target (RFC 5041 7.2),
// except for access rights, which only RDMAP knows (RFC 5040 4.8).
Reason tagged_reason(Denial refusal) {
  switch (refusal) {
    case Denial::unknown_stag:
      return tagged_invalid_stag;
    case Denial::wrong_use:
      return remote_access;
    case Denial::offset_wraps:
      return tagged_to_wrap;
    case Denial::out_of_bounds:
      return tagged_bounds;
  }
  return tagged_invalid_stag;
}

// Returns the reason for a refused Read Request. RDMAP itself checks the source of a Read Request.
Reason source_reason(Denial refusal) {
  switch (refusal) {
    case Denial::unknown_stag:
      return remote_invalid_stag;
    case Denial::wrong_use:
      return remote_access;
    case Denial::offset_wraps:
      return remote_to_wrap;
    case Denial::out_of_bounds:
      return remote_bounds;
  }
  return remote_invalid_stag;
}

const char* describe(Denial refusal) {
  switch (refusal) {
    case Denial::unknown_stag:
      return "an STag that is not exposed";
    case Denial::wrong_use:
      return "an STag that is not exposed for this";
    case Denial::offset_wraps:
      return "an offset that wraps";
    case Denial::out_of_bounds:
      return "memory outside of what the STag exposes";
  }
  return "";
}

iovec entry(std::byte* at, std::size_t length) {
  return {.iov_base = at, .iov_len = length};
}

}  // namespace

// ---- Where the next bytes go ----

Stream::Plan Stream::plan(std::span<iovec, max_plan> out) {
  Plan plan;
  planned_payload_ = 0;
  predicted_count_ = 0;
  if (ended_) return plan;
  const auto add = [&](std::byte* at, std::size_t length) {
    out[plan.count++] = entry(at, length);
    plan.bytes += length;
  };
  // A payload without a target is read into the buffer, together with what follows; process() skips it.
  planned_payload_ = in_.active && in_.target != nullptr ? in_.payload - in_.done : 0;
  if (planned_payload_ > 0) {
    assert(begin_ == end_);
    add(in_.target + in_.done, planned_payload_);
  }
  // If the predictions end before the region does, more FPDUs of this kind follow. The next call plans them,
  // so nothing else is read now.
  if (predict(out, plan)) return plan;
  // The buffer is the last entry. It holds at most a partial header or trailer, and nothing if there are
  // predictions.
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  add(buffer_.get() + end_, (regions_.bulk_awaited() > 0 ? bulk_head_read : head_read) - end_);
  return plan;
}

/// Returns the tagged segment that is expected next, or an invalid Continuation if none can be predicted.
Stream::Continuation Stream::continuation() const {
  if (!in_.active) return next_;
  if (!in_.ddp.tagged || in_.region == nullptr) return {};
  const std::uint64_t next = in_.ddp.to + in_.payload;
  if (in_.ddp.last) {
    if (usual_size_ == 0) return {};
    return {true, in_.ddp.opcode, in_.ddp.stag, next, usual_ulpdu_, usual_size_, true};
  }
  const std::size_t done = next - run_.start;
  return {true, in_.ddp.opcode, in_.ddp.stag, next, in_.ulpdu, usual_size_ > done ? usual_size_ - done : 0,
          false};
}

/// Appends the predicted FPDUs to the plan. Returns whether still more of them are to be expected.
bool Stream::predict(std::span<iovec, max_plan> out, Plan& plan) {
  Continuation expected = continuation();
  if (!expected.valid) return false;
  Region* region = regions_.find(expected.stag);
  if (region == nullptr || expected.to < region->high_water || expected.to >= region->memory.size())
    return false;
  std::size_t trailer = in_.active ? in_.trailer : 0;
  std::size_t preload = end_ - begin_;
  if (preload >= trailer + fpdu_length_size + ddp_tagged_size)
    return false;  // the octets are a whole header already, and not one that continues

  const std::size_t full = expected.ulpdu - ddp_tagged_size;
  if (full == 0) return false;
  std::size_t at = expected.to;
  std::size_t total = 0;
  std::size_t left = expected.left;
  while (predicted_count_ < max_predicted && at < region->memory.size()) {
    if (left == 0) left = expected.left == 0 ? std::numeric_limits<std::size_t>::max() : usual_size_;
    const std::size_t payload = std::min({full, left, region->memory.size() - at});
    left -= payload;
    if (total + payload > max_predicted_bytes) break;
    auto& gap = gaps_[predicted_count_];
    Predicted& next = predicted_[predicted_count_];
    expected.to = at;
    expected.ulpdu = payload + ddp_tagged_size;
    next = {trailer, preload, payload, region->memory.data() + at, expected};
    if (preload > 0) std::memcpy(gap.data(), buffer_.get() + begin_, preload);
    const std::size_t gap_left = trailer + fpdu_length_size + ddp_tagged_size - preload;
    out[plan.count++] = entry(gap.data() + preload, gap_left);
    out[plan.count++] = entry(next.target, payload);
    plan.bytes += gap_left + payload;
    ++predicted_count_;
    total += payload;
    at += payload;
    trailer = fpdu_trailer(expected.ulpdu);
    preload = 0;
  }
  begin_ = end_ = 0;
  return at < region->memory.size();
}

// ---- What has arrived ----

void Stream::received(std::size_t count) {
  if (ended_) return;
  if (planned_payload_ > 0) {
    const std::size_t here = std::min(count, planned_payload_);
    placed(in_.target + in_.done, here);
    count -= here;
    if (here < planned_payload_) {
      assert(count == 0);
      return;
    }
  }
  if (predicted_count_ > 0) return received_predicted(count);
  end_ += count;
  process();
}

void Stream::received_predicted(std::size_t count) {
  for (std::size_t i = 0; i < predicted_count_; ++i) {
    const Predicted& predicted = predicted_[i];
    const std::byte* gap = gaps_[i].data();
    const std::size_t gap_left = predicted.trailer + fpdu_length_size + ddp_tagged_size - predicted.preload;
    if (count < gap_left || !matches(predicted, gap)) {
      linearize(i, count);
      return process();
    }
    count -= gap_left;
    if (in_.active) finish_fpdu(gap);
    if (ended_) return;
    begin_fpdu(gap + predicted.trailer);
    // Finishing the FPDU before may have called back, and the callback may have revoked the region.
    if (ended_ || in_.target != predicted.target) {
      if (ended_) return;
      const std::size_t here = std::min(count, in_.payload);
      placed(predicted.target, here);
      count -= here;
      if (here < in_.payload) return;
      linearize(i + 1, count);
      return process();
    }
    const std::size_t here = std::min(count, predicted.payload);
    placed(predicted.target, here);
    count -= here;
    if (here < predicted.payload) return;
  }
  end_ = count;
  process();
}

bool Stream::matches(const Predicted& predicted, const std::byte* gap) const {
  const std::byte* head = gap + predicted.trailer;
  if (load_be<std::uint16_t>(head) != predicted.expected.ulpdu) return false;
  DdpHeader found = decode_ddp(head + fpdu_length_size);
  // L does not matter for the placement: with and without it the payload goes to the predicted place.
  found.last = false;
  DdpHeader wanted;
  wanted.tagged = true;
  wanted.opcode = predicted.expected.opcode;
  wanted.stag = predicted.expected.stag;
  wanted.to = predicted.expected.to;
  return found == wanted;
}

/// Copies what was received from the gap `from` on, `count` octets, to the start of the buffer.
void Stream::linearize(std::size_t from, std::size_t count) {
  struct Part {
    const std::byte* at;
    std::size_t length;
  };
  std::array<Part, 2 * max_predicted> parts;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  std::size_t part_count = 0;
  std::size_t head = 0;
  for (std::size_t i = from; i < predicted_count_ && (count > 0 || i == from); ++i) {
    const Predicted& predicted = predicted_[i];
    const std::size_t gap_left = predicted.trailer + fpdu_length_size + ddp_tagged_size - predicted.preload;
    const std::size_t gap = std::min(count, gap_left);
    count -= gap;
    const std::size_t payload = std::min(count, predicted.payload);
    count -= payload;
    parts[part_count++] = {gaps_[i].data(), predicted.preload + gap};
    parts[part_count++] = {predicted.target, payload};
    head += predicted.preload + gap + payload;
  }
  assert(head + count <= buffer_size);
  std::memmove(buffer_.get() + head, buffer_.get(), count);  // octets received behind the predictions
  std::byte* to = buffer_.get();
  for (std::size_t i = 0; i < part_count; ++i) {
    std::memcpy(to, parts[i].at, parts[i].length);
    to += parts[i].length;
  }
  begin_ = 0;
  end_ = head + count;
}

void Stream::inject(ConstBytes bytes) {
  while (!bytes.empty() && !ended_) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const std::size_t part = std::min(bytes.size(), buffer_size - end_);
    std::memcpy(buffer_.get() + end_, bytes.data(), part);
    end_ += part;
    bytes = bytes.subspan(part);
    process();
  }
}

/// Parses the contents of the buffer, as far as complete parts have arrived.
void Stream::process() {
  while (!ended_) {
    const std::size_t available = end_ - begin_;
    std::byte* at = buffer_.get() + begin_;
    if (!in_.active) {
      if (take_whole()) continue;
      if (!parse_header()) return;
    } else if (in_.done < in_.payload) {
      const std::size_t part = std::min(available, in_.payload - in_.done);
      if (part == 0) return;
      if (in_.target != nullptr) std::memcpy(in_.target + in_.done, at, part);
      begin_ += part;
      placed(at, part);
    } else {
      if (available < in_.trailer) return;
      begin_ += in_.trailer;  // before the call, because it may call back into the stream
      finish_fpdu(at);
    }
  }
}

/// Takes the FPDU at the start of the buffer in one step if all of it has arrived and it is of a kind that
/// answers small requests: a Send in one segment, or an RDMA Write that fills its region. For these the
/// effect is the same as that of begin_fpdu() to finish_fpdu(). Returns false, and does nothing, for any
/// other FPDU.
bool Stream::take_whole() {
  constexpr std::byte whole_tagged{0x80 | 0x40 | ddp_version}, whole_untagged{0x40 | ddp_version};
  const std::byte* fpdu = buffer_.get() + begin_;
  const std::size_t available = end_ - begin_;
  if (config_.crc || available < fpdu_length_size + ddp_untagged_size) return false;
  const std::size_t ulpdu = load_be<std::uint16_t>(fpdu);
  if (available < fpdu_size(ulpdu)) return false;
  const std::byte control = fpdu[fpdu_length_size];
  if (control == whole_tagged) return take_whole_write(fpdu, ulpdu);
  return control == whole_untagged && take_whole_send(fpdu, ulpdu);
}

bool Stream::take_whole_write(const std::byte* fpdu, std::size_t ulpdu) {
  if (ulpdu <= ddp_tagged_size) return false;
  const DdpHeader ddp = decode_ddp(fpdu + fpdu_length_size);
  if (ddp.rdmap_version != rdmap_version || ddp.opcode != Opcode::rdma_write || ddp.to != 0) return false;
  const std::size_t payload = ulpdu - ddp_tagged_size;
  Region* const region = regions_.find(ddp.stag);
  if (region == nullptr || region->use != Use::remote_write || region->withdrawn ||
      region->memory.size() != payload)
    return false;
  std::memcpy(region->memory.data(), fpdu + fpdu_length_size + ddp_tagged_size, payload);
  regions_.placed(*region, payload);
  run_.active = false;
  next_ = {};
  first_fpdu_seen_ = true;
  begin_ += fpdu_size(ulpdu);
  return true;
}

bool Stream::take_whole_send(const std::byte* fpdu, std::size_t ulpdu) {
  if (ulpdu < ddp_untagged_size || message_.buffer || receives_.empty()) return false;
  const DdpHeader ddp = decode_ddp(fpdu + fpdu_length_size);
  if (ddp.rdmap_version != rdmap_version || !is_send(ddp.opcode) || invalidates(ddp.opcode)) return false;
  if (ddp.qn != queue_send || ddp.msn != expected_msn_[queue_send] || ddp.mo != 0) return false;
  const std::size_t payload = ulpdu - ddp_untagged_size;
  if (payload > receives_.front().storage().size()) return false;
  ReceiveBuffer buffer = std::move(receives_.front());
  receives_.pop_front();
  std::memcpy(buffer.storage().data(), fpdu + fpdu_length_size + ddp_untagged_size, payload);
  buffer.set_length(payload);
  ++expected_msn_[queue_send];
  next_ = {};
  first_fpdu_seen_ = true;
  begin_ += fpdu_size(ulpdu);
  events_.on_message(std::move(buffer), std::nullopt);
  return true;
}

bool Stream::parse_header() {
  const std::size_t available = end_ - begin_;
  const std::byte* head = buffer_.get() + begin_;
  if (available <= fpdu_length_size) return false;
  const std::size_t header = ddp_header_size(head[fpdu_length_size]);
  if (load_be<std::uint16_t>(head) >= header && available < fpdu_length_size + header) return false;
  begin_ += std::min(available, fpdu_length_size + header);
  begin_fpdu(head);
  return !ended_;
}

// ---- One FPDU ----

void Stream::begin_fpdu(const std::byte* head) {
  const std::size_t ulpdu = load_be<std::uint16_t>(head);
  const std::size_t header = ddp_header_size(head[fpdu_length_size]);
  in_.violation.reset();
  in_.target = nullptr;
  in_.region = nullptr;
  in_.done = 0;
  if (ulpdu < header) {
    // No specification names this; the ULPDU length cannot be right, which is MPA's framing error.
    return fail(
        {mpa_framing, "an FPDU of " + std::to_string(ulpdu) + " octets has no room for its DDP header"});
  }
  in_.active = true;
  std::memcpy(in_.head.data(), head, fpdu_length_size + header);
  in_.ddp = decode_ddp(head + fpdu_length_size);
  in_.ulpdu = ulpdu;
  in_.payload = ulpdu - header;
  in_.trailer = fpdu_trailer(ulpdu);
  if (config_.crc) in_.crc = crc32c(0, {head, fpdu_length_size + header});
  next_ = {};
  in_.violation = accept_header();
  if (in_.region != nullptr) note_run();
  if (in_.violation) {
    in_.target = nullptr;
    in_.region = nullptr;
    if (!config_.crc) fail(*in_.violation);
  }
}

/// Learns how large the peer makes its messages.
void Stream::note_run() {
  if (!run_.active || run_.stag != in_.ddp.stag || run_.next != in_.ddp.to) {
    run_ = {true, in_.ddp.stag, in_.ddp.to, in_.ddp.to, in_.ulpdu};
  }
  run_.next += in_.payload;
  if (!in_.ddp.last) return;
  run_.active = false;
  if (run_.next == in_.region->memory.size()) return;  // the message ended only because the region did
  usual_size_ = run_.next - run_.start;
  usual_ulpdu_ = run_.ulpdu;
}

std::optional<Stream::Violation> Stream::accept_header() {
  const DdpHeader& ddp = in_.ddp;
  if (ddp.ddp_version != ddp_version) {
    return Violation{ddp.tagged ? tagged_version : untagged_version,
                     "DDP version " + std::to_string(ddp.ddp_version)};
  }
  if (ddp.rdmap_version != rdmap_version) {
    return Violation{operation_version, "RDMAP version " + std::to_string(ddp.rdmap_version)};
  }
  if (!ddp.tagged) return accept_untagged();
  if (ddp.opcode == Opcode::rdma_write) return accept_write();
  if (ddp.opcode == Opcode::read_response) return accept_read_response();
  return Violation{operation_opcode,
                   "opcode " + std::to_string(static_cast<unsigned>(ddp.opcode)) + " in a tagged segment"};
}

std::optional<Stream::Violation> Stream::accept_write() {
  // RFC 5041 5.1: the STag of a segment without payload is not checked. The segment may be an RTR (RFC 6581
  // 9.2).
  if (in_.payload == 0) return std::nullopt;
  const auto checked = regions_.check(in_.ddp.stag, in_.ddp.to, in_.payload, Use::remote_write);
  if (checked.refusal) {
    return Violation{tagged_reason(*checked.refusal), "an RDMA Write of " + range(in_.ddp.to, in_.payload) +
                                                          " of STag " + hex(in_.ddp.stag) + ", " +
                                                          describe(*checked.refusal)};
  }
  if (checked.region->withdrawn) return std::nullopt;  // an abandoned region: the payload is discarded
  in_.region = checked.region;
  in_.target = checked.region->memory.data() + in_.ddp.to;
  return std::nullopt;
}

/// Accepts the next segment of a Read Response. RFC 5040 5.2.2: Read Responses come in the order of the
/// requests, each in order and complete.
std::optional<Stream::Violation> Stream::accept_read_response() {
  if (reads_.empty()) return Violation{operation_opcode, "a Read Response to no Read Request"};
  const Read& read = reads_.front();
  if (in_.ddp.stag != read.sink && (in_.payload > 0 || read.length > 0)) {
    return Violation{tagged_invalid_stag,
                     "a Read Response to STag " + hex(in_.ddp.stag) + ", not " + hex(read.sink)};
  }
  if (in_.payload > read.length - read.done || (in_.payload > 0 && in_.ddp.to != read.done) ||
      (in_.ddp.last && read.done + in_.payload != read.length)) {
    return Violation{tagged_bounds, "a Read Response with " + range(in_.ddp.to, in_.payload) + " where " +
                                        range(read.done, read.length - read.done) + " were missing"};
  }
  if (in_.payload == 0) return std::nullopt;
  in_.region = regions_.find(read.sink);
  assert(in_.region != nullptr);
  in_.target = in_.region->memory.data() + read.done;
  return std::nullopt;
}

std::optional<Stream::Violation> Stream::accept_untagged() {
  const DdpHeader& ddp = in_.ddp;
  if (ddp.qn >= queue_count) return Violation{untagged_invalid_qn, "queue number " + std::to_string(ddp.qn)};
  const bool fits = ddp.qn == queue_send           ? is_send(ddp.opcode)
                    : ddp.qn == queue_read_request ? ddp.opcode == Opcode::read_request
                                                   : ddp.opcode == Opcode::terminate;
  if (!fits) {
    return Violation{operation_opcode, "opcode " + std::to_string(static_cast<unsigned>(ddp.opcode)) +
                                           " on queue " + std::to_string(ddp.qn)};
  }
  if (ddp.msn != expected_msn_[ddp.qn]) {
    return Violation{untagged_msn_range, "message number " + std::to_string(ddp.msn) + " on queue " +
                                             std::to_string(ddp.qn) + " where " +
                                             std::to_string(expected_msn_[ddp.qn]) + " was due"};
  }
  return ddp.qn == queue_send ? accept_send() : accept_control();
}

std::optional<Stream::Violation> Stream::accept_send() {
  const DdpHeader& ddp = in_.ddp;
  if (ddp.mo != message_.length) {
    return Violation{untagged_mo, "message offset " + std::to_string(ddp.mo) + " where " +
                                      std::to_string(message_.length) + " was due"};
  }
  if (!message_.buffer) {
    if (receives_.empty()) return Violation{untagged_no_buffer, "a Send that no Receive was posted for"};
    message_.buffer.emplace(std::move(receives_.front()));
    receives_.pop_front();
    message_.opcode = ddp.opcode;
    message_.stag = ddp.stag;
  } else if (ddp.opcode != message_.opcode || (invalidates(ddp.opcode) && ddp.stag != message_.stag)) {
    return Violation{operation_opcode, "another kind of Send in the middle of a Send"};
  }
  const Bytes storage = message_.buffer->storage();
  if (in_.payload > storage.size() - message_.length) {
    return Violation{untagged_too_long, "a Send of at least " +
                                            std::to_string(message_.length + in_.payload) +
                                            " octets to a Receive of " + std::to_string(storage.size())};
  }
  in_.target = storage.data() + message_.length;
  return std::nullopt;
}

std::optional<Stream::Violation> Stream::accept_control() {
  const bool request = in_.ddp.opcode == Opcode::read_request;
  if (in_.ddp.mo != 0) return Violation{untagged_mo, "a control message that begins in its middle"};
  if (in_.payload > (request ? read_request_size : control_.size()) || !in_.ddp.last) {
    return Violation{untagged_too_long, "a control message of " + std::to_string(in_.payload) + " octets"};
  }
  if (request && in_.payload < read_request_size) {
    return Violation{operation_unspecified, "a Read Request of " + std::to_string(in_.payload) + " octets"};
  }
  if (request && inbound_reads_ >= config_.ird) {
    return Violation{untagged_no_buffer,
                     "more Read Requests at once than the " + std::to_string(config_.ird) + " agreed (IRD)"};
  }
  in_.target = control_.data();
  return std::nullopt;
}

/// Called when `count` more octets of the payload have arrived, which can be read at `bytes`.
void Stream::placed(const std::byte* bytes, std::size_t count) {
  if (config_.crc) in_.crc = crc32c(in_.crc, {bytes, count});
  in_.done += count;
  if (in_.region != nullptr) regions_.placed(*in_.region, in_.ddp.to + in_.done);
}

void Stream::finish_fpdu(const std::byte* trailer) {
  if (config_.crc) {
    const std::size_t pad = in_.trailer - fpdu_crc_size;
    in_.crc = crc32c(in_.crc, {trailer, pad});
    if (in_.crc != load_crc(trailer + pad)) {
      return fail({mpa_crc_error, "an FPDU whose CRC is wrong"});
    }
    if (in_.violation) return fail(*in_.violation);
  }
  first_fpdu_seen_ = true;
  next_ = continuation();
  // Each branch marks the FPDU as finished before it reports an event, because the event may call back into
  // the stream. A branch that finds a violation reports it first, because the Terminate names the FPDU.
  switch (in_.ddp.opcode) {
    case Opcode::rdma_write:
      in_.active = false;
      return;
    case Opcode::read_response:
      return finish_read_response();
    case Opcode::read_request:
      return finish_read_request();
    case Opcode::terminate:
      return finish_terminate();
    default:
      return finish_send();
  }
}

void Stream::finish_read_response() {
  in_.active = false;
  Read& read = reads_.front();
  read.done += in_.payload;
  if (!in_.ddp.last) return;
  const std::uint64_t cookie = read.cookie;
  regions_.remove(read.sink);
  reads_.pop_front();
  release_reads();
  events_.on_completed(cookie);
}

void Stream::finish_send() {
  message_.length += in_.payload;
  if (!in_.ddp.last) {
    in_.active = false;
    return;
  }
  std::optional<std::uint32_t> invalidated;
  if (invalidates(message_.opcode)) {
    const Region* region = regions_.find(message_.stag);
    if (region == nullptr) {
      return fail(
          {remote_invalid_stag, "a Send that invalidates " + hex(message_.stag) + ", which is not exposed"});
    }
    if (region->use == Use::read_sink) {
      return fail({remote_cannot_invalidate, "a Send that invalidates the sink of an RDMA Read"});
    }
    invalidated = message_.stag;
    revoke(message_.stag);
  }
  in_.active = false;
  ++expected_msn_[queue_send];
  ReceiveBuffer buffer = std::move(*message_.buffer);
  buffer.set_length(message_.length);
  message_ = {};
  events_.on_message(std::move(buffer), invalidated);
}

std::optional<Stream::Violation> Stream::check_read_request(const ReadRequest& request) {
  if (request.size > std::numeric_limits<std::uint64_t>::max() - request.sink_to) {
    return Violation{remote_to_wrap, "a Read Request whose sink offset wraps"};
  }
  if (request.size == 0) return std::nullopt;  // RFC 5040 5.2.1: without payload the source is not checked
  const auto checked = regions_.check(request.source_stag, request.source_to, request.size, Use::remote_read);
  if (!checked.refusal) {
    if (!checked.region->withdrawn) return std::nullopt;
    return Violation{remote_invalid_stag, "", false};
  }
  return Violation{source_reason(*checked.refusal),
                   "an RDMA Read of " + range(request.source_to, request.size) + " of STag " +
                       hex(request.source_stag) + ", " + describe(*checked.refusal)};
}

void Stream::finish_read_request() {
  const ReadRequest request = decode_read_request(control_.data());
  if (const auto violation = check_read_request(request)) return fail(*violation);
  in_.active = false;
  ++expected_msn_[queue_read_request];
  ConstBytes source;
  if (request.size > 0)
    source = regions_.find(request.source_stag)->memory.subspan(request.source_to, request.size);
  queue_read_response(request, source);
}

void Stream::finish_terminate() {
  const auto reason = decode_terminate({control_.data(), in_.payload});
  prepare_last_words(nullptr);  // RFC 5040 5.4: a Terminate is not answered
  end({ErrorKind::connection, ECONNABORTED, "", config_.peer,
       "the peer ended the connection with a Terminate message: " +
           (reason ? text(*reason) : std::string("without a reason")) +
           ". Retry; if it happens again, look for the cause in the peer's log"});
}

}  // namespace nfsrdma::fabric::iwarp
