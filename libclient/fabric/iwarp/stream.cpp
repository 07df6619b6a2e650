// The part of a Stream that both directions share: its memory, and its end.
#include "fabric/iwarp/stream.h"

#include <algorithm>
#include <cassert>

namespace nfsrdma::fabric::iwarp {
namespace {

Use use_for(Reach reach) {
  return reach == Reach::remote_read ? Use::remote_read : Use::remote_write;
}

}  // namespace

Stream::Stream(Events& events, RegionTable::Random random)
    : events_(events), regions_(std::move(random)), buffer_(new std::byte[buffer_size]) {}

void Stream::start(Config config) {
  config_ = std::move(config);
  started_ = true;
  release_reads();
}

std::size_t Stream::segments_for(std::size_t length) {
  return length == 0 ? 1 : (length + RegionTable::max_length - 1) / RegionTable::max_length;
}

void Stream::expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) {
  assert(!ended_);
  do {
    const Bytes part = memory.first(std::min(memory.size(), RegionTable::max_length));
    const Region& region = regions_.add(part, use_for(reach));
    to.push_back({.handle = region.stag, .length = static_cast<std::uint32_t>(part.size()), .offset = 0});
    memory = memory.subspan(part.size());
  } while (!memory.empty());
}

bool Stream::expose_as(std::uint32_t handle, Bytes memory, Reach reach) {
  if (handle == 0 || regions_.find(handle) != nullptr) return false;
  regions_.add(handle, memory, use_for(reach));
  return true;
}

void Stream::revoke(std::uint32_t handle) {
  const Region* region = regions_.find(handle);
  if (region == nullptr) return;  // the peer has invalidated it before
  let_go(*region);
  regions_.remove(handle);
}

void Stream::abandon(std::uint32_t handle) {
  Region* region = regions_.find(handle);
  if (region == nullptr || region->withdrawn) return;
  let_go(*region);
  regions_.withdraw(*region);
}

void Stream::forget(std::uint32_t handle) {
  const Region* region = regions_.find(handle);
  if (region != nullptr && region->withdrawn) regions_.remove(handle);
}

/// Detaches everything that is being received or sent from the region's memory.
void Stream::let_go(const Region& region) {
  if (in_.region == &region) {
    in_.region = nullptr;
    in_.target = nullptr;
  }
  if (next_.valid && next_.stag == region.stag) next_ = {};
  if (responses_ > 0) privatise(region);
}

bool Stream::mid_message() const {
  return in_.active || begin_ != end_ || message_.buffer.has_value() || (next_.valid && !next_.fresh);
}

void Stream::fail(const Violation& violation) {
  Terminate terminate{.reason = violation.reason, .segment_length = 0, .ddp_header = {}, .rdma_header = {}};
  // RFC 5040 4.8: DDP's and RDMAP's reasons carry the header of the segment in error, and those about a Read
  // Request carry the request too.
  if (in_.active && violation.reason.layer != 2) {
    terminate.segment_length = static_cast<std::uint16_t>(in_.ulpdu);
    terminate.ddp_header = std::span(in_.head).subspan(fpdu_length_size, in_.ddp.size());
    const bool request = in_.ddp.opcode == Opcode::read_request && !in_.ddp.tagged;
    // A request that was refused because of its header was not stored: control_ holds another one.
    if (request && violation.reason.layer == 0 && in_.target == control_.data()) {
      terminate.rdma_header = std::span(control_).first(read_request_size);
    }
  }
  prepare_last_words(&terminate);
  if (!violation.by_peer) {
    return end({ErrorKind::cancelled, ECANCELED, "", config_.peer,
                "the peer was still fetching the data of a call that was given up"});
  }
  end({ErrorKind::protocol, EPROTO, "", config_.peer,
       "the peer broke the RDMA protocol: " + violation.what + "; the connection was ended with \"" +
           text(violation.reason) +
           "\". If it happens again, report it to the maker of the peer's RDMA stack"});
}

void Stream::end(Error error) {
  close();
  failure_ = std::move(error);
}

void Stream::close() {
  ended_ = true;
  regions_.clear();
  in_.region = nullptr;
  in_.target = nullptr;
  in_.active = false;
  next_ = {};
  message_ = {};
  receives_.clear();
  queue_.clear();
  packed_.clear();
  responses_ = 0;
  skip_ = 0;
  waiting_reads_.clear();
  reads_.clear();
  begin_ = end_ = 0;
}

}  // namespace nfsrdma::fabric::iwarp
