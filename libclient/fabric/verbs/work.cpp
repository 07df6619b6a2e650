// The part of an RdmaConnection that posts work and handles completions (rdma_connection.h).
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "fabric/verbs/rdma_connection.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr unsigned events_per_acknowledgement = 32;  // each acknowledgement takes a lock in libibverbs
constexpr int rounds_per_event = 16;                 // then other descriptors have their turn
constexpr unsigned most_skipped_spins = 64;

}  // namespace

void RdmaConnection::make_queues() {
  sends_.emplace(*endpoint_, [this](const Work& work) { on_work_done(work); });
  receives_.emplace(*endpoint_);
  exposures_.emplace(loop_, *endpoint_, *sends_);
  for (ReceiveBuffer& buffer : early_receives_) receives_->add(std::move(buffer));
  early_receives_.clear();
  hook_ = loop_.at_end_of_turn([this] { end_of_turn(); });
}

// ---- The interface ----

void RdmaConnection::post_receive(ReceiveBuffer buffer) {
  if (state_ == State::closed) return;
  if (!receives_) {
    early_receives_.push_back(std::move(buffer));
    return;
  }
  receives_->add(std::move(buffer));
  // Flush at once, because the next Send may cause a message that needs this Receive.
  if (const int failed = receives_->flush(); failed != 0) fail_later(local_error({failed, "post a Receive"}));
}

void RdmaConnection::post_send(const SendWork& work) {
  if (state_ == State::closed || broken_) return;
  if (state_ != State::established) {
    return fail_later(error(ErrorKind::usage, ENOTCONN, "a Send before the connection is established"));
  }
  if (!sends_->post_send(work)) {
    return fail_later(error(ErrorKind::usage, EMSGSIZE, "a message larger than the connection's limit"));
  }
  sent_.push_back(work.cookie);
  active_ = true;
}

Status RdmaConnection::expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) {
  if (state_ != State::established || broken_) {
    return error(ErrorKind::connection, ENOTCONN, "the connection is closed. Connect again");
  }
  Status done = exposures_->expose(memory, reach, to);
  if (done) return done;
  return error(done.error().kind(), done.error().errno_value(), done.error().message());
}

Status RdmaConnection::revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) {
  return take_back(segments, cookie, false);
}

Status RdmaConnection::take_back(std::span<const RemoteSegment> segments, std::uint64_t cookie,
                                 bool at_once) {
  if (state_ == State::closed) return {};
  switch (exposures_->revoke(segments, cookie, at_once)) {
    case Exposures::Revoked::done:
      handler_.on_completed(cookie);
      return {};
    case Exposures::Revoked::later:
      return {};
    case Exposures::Revoked::failed:
      break;
  }
  return error(ErrorKind::local, EIO, "remote access to memory cannot be revoked. Connect again");
}

Status RdmaConnection::abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) {
  for (const RemoteSegment& segment : segments) abandoned_.insert(segment.handle);
  return take_back(segments, cookie, true);
}

bool RdmaConnection::settle() {
  return !exposures_ || exposures_->invalidations() == 0;
}

void RdmaConnection::forget(std::span<const RemoteSegment> segments) {
  for (const RemoteSegment& segment : segments) abandoned_.erase(segment.handle);
}

void RdmaConnection::post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  // The registration for an RDMA Write has no right to write to the memory.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  post_rdma(Work::Kind::write, {const_cast<std::byte*>(local.data()), local.size()}, remote, cookie);
}

void RdmaConnection::post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  post_rdma(Work::Kind::read, local, remote, cookie);
}

void RdmaConnection::post_rdma(Work::Kind kind, Bytes local, const RemoteSegment& remote,
                               std::uint64_t cookie) {
  if (state_ != State::established || broken_) return;
  std::uint64_t offset = remote.offset;
  const auto pieces = split(local, endpoint_->depth.segment);
  for (const Bytes& piece : pieces) {
    Work work;
    work.kind = kind;
    work.registration = exposures_->register_local(piece, kind);
    if (work.registration == nullptr) {
      return fail_later(local_error({errno, "memory cannot be registered"}));
    }
    work.key = work.registration->lkey;
    work.memory = piece.data();
    work.length = piece.size();
    work.remote = remote.handle;
    work.offset = offset;
    work.cookie = cookie;
    work.last = &piece == &pieces.back();
    offset += piece.size();
    sends_->post(std::move(work));
  }
  active_ = true;
}

void RdmaConnection::flush() {
  if (state_ != State::established || broken_) return;
  if (const int failed = sends_->flush(); failed != 0) {
    return fail_later(local_error({failed, "the device refuses work"}));
  }
  report_sent();
  if (state_ != State::established || collecting_ || sends_armed_ || !sends_->awaits()) return;
  arm();
  post(&RdmaConnection::collect);  // work that completed before the queue was armed makes no event
}

std::size_t RdmaConnection::segments_for(std::size_t length) const {
  return verbs::segments_for(
      length, sends_ && endpoint_ ? endpoint_->depth.segment : static_cast<std::size_t>(largest_segment));
}

// ---- Completions ----

/// Reports the Sends posted since the last call as completed, because their octets were copied when they were
/// posted.
void RdmaConnection::report_sent() {
  for (const std::uint64_t cookie : std::exchange(sent_, {})) {
    if (state_ != State::established) return;
    handler_.on_completed(cookie);
  }
}

void RdmaConnection::on_work_done(const Work& work) {
  switch (work.kind) {
    case Work::Kind::invalidate:
      if (const auto cookie = exposures_->invalidated(work)) handler_.on_completed(*cookie);
      return;
    case Work::Kind::write:
    case Work::Kind::read:
      endpoint_->lib.dereg_mr(work.registration);
      if (work.last) handler_.on_completed(work.cookie);
      return;
    case Work::Kind::send:
    case Work::Kind::bind:
      return;
  }
}

void RdmaConnection::on_completion_event() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  // A queue makes at most one event each time that it is armed.
  while ((receives_armed_ || sends_armed_) &&
         endpoint_->lib.get_cq_event(endpoint_->completions, &queue, &context) == 0) {
    const bool sends = queue == endpoint_->send_cq;
    (sends ? sends_armed_ : receives_armed_) = false;
    unsigned& events = sends ? send_events_ : receive_events_;
    if (++events < events_per_acknowledgement) continue;
    endpoint_->lib.ack_cq_events(queue, std::exchange(events, 0U));
  }
  collect();
}

/// Handles all completions, then asks to be woken for the next. After arming it polls once more, because
/// something may have completed in between.
void RdmaConnection::collect() {
  if (collecting_ || state_ != State::established) return;
  for (int round = 0; round < rounds_per_event; ++round) {
    collecting_ = true;
    const int count = poll_sends() + poll_receives();
    collecting_ = false;
    if (broken_) return finish(*broken_);
    if (state_ != State::established) return;
    if (count != 0) {
      active_ = true;
      continue;
    }
    const bool armed = receives_armed_ && (sends_armed_ || !sends_->awaits());
    if (armed) return;
    if (options_.queues.busy_poll.count() != 0 && active_ && spins_to_skip_ == 0) return;  // spin() arms
    arm();
  }
  post(&RdmaConnection::collect);
}

void RdmaConnection::arm() {
  if (!receives_armed_) receives_armed_ = ibv_req_notify_cq(endpoint_->receive_cq, 0) == 0;
  if (!sends_armed_ && sends_->awaits()) {
    sends_armed_ = ibv_req_notify_cq(endpoint_->send_cq, 0) == 0;
  }
}

int RdmaConnection::poll_sends() {
  int total = 0;
  std::array<ibv_wc, poll_batch> batch;  // NOLINT(cppcoreguidelines-pro-type-member-init): as far as filled
  for (;;) {
    const int count = ibv_poll_cq(endpoint_->send_cq, poll_batch, batch.data());
    for (int i = 0; i < count && state_ == State::established; ++i) {
      const ibv_wc& completion = batch[static_cast<std::size_t>(i)];
      if (completion.status != IBV_WC_SUCCESS) {
        broken_by(completion);
        return total + 1;
      }
      sends_->retire(completion.wr_id);
    }
    if (count > 0) total += count;
    if (count < poll_batch || state_ != State::established) return total;
  }
}

/// Handles at most one batch, so that its messages are answered before more are taken.
int RdmaConnection::poll_receives() {
  if (state_ != State::established || broken_) return 0;
  std::array<ibv_wc, poll_batch> batch;  // NOLINT(cppcoreguidelines-pro-type-member-init): as far as filled
  const int count = ibv_poll_cq(endpoint_->receive_cq, poll_batch, batch.data());
  for (int i = 0; i < count && state_ == State::established && !broken_; ++i) {
    take_receive(batch[static_cast<std::size_t>(i)]);
  }
  if (count > 0 && state_ == State::established && !broken_) {
    // Post buffers that waited for room in the device's queue.
    if (const int failed = receives_->flush(); failed != 0) broken_ = local_error({failed, "post a Receive"});
  }
  return std::max(count, 0);
}

void RdmaConnection::take_receive(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) return broken_by(completion);
  ReceiveBuffer buffer = receives_->take(completion);
  std::optional<std::uint32_t> invalidated;
  // rxe passes on the kernel's flags. In these, "with Invalidate" is the bit that rdma-core calls "checksum
  // good", which means nothing on a reliable connection.
  const bool misnamed =
      (completion.wc_flags & IBV_WC_IP_CSUM_OK) != 0 && exposures_->knows(completion.invalidated_rkey);
  if ((completion.wc_flags & IBV_WC_WITH_INV) != 0 || misnamed) {
    invalidated = completion.invalidated_rkey;
    exposures_->invalidated_remotely(*invalidated);
  }
  handler_.on_received(std::move(buffer), invalidated);
}

/// Returns the Error for a connection that ended without a reason from the device: `otherwise`, unless
/// handles are abandoned.
Error RdmaConnection::ended(std::string otherwise) const {
  if (abandoned_.empty()) return error(ErrorKind::connection, ECONNRESET, std::move(otherwise));
  return error(ErrorKind::cancelled, ECANCELED,
               "the peer was still using the memory of a call that was given up");
}

/// Records the first failed completion, which says what happened. The rest of the queue follows as "flushed".
void RdmaConnection::broken_by(const ibv_wc& completion) {
  if (broken_) return;
  switch (completion.status) {
    case IBV_WC_WR_FLUSH_ERR:
      broken_ = ended("the connection was closed. Retry");
      return;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      broken_ = error(ErrorKind::connection, ETIMEDOUT,
                      std::string("the peer no longer answers (") +
                          endpoint_->lib.wc_status_str(completion.status) +
                          "); the connection was given up. Retry, and check the network");
      return;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      broken_ = error(ErrorKind::connection, ETIMEDOUT,
                      "the peer has had no Receive for a message for too long; the connection was given up. "
                      "Retry, and check the peer's load");
      return;
    default:
      broken_ = error(ErrorKind::connection, EIO,
                      endpoint_->traits.device + " ended the connection: " +
                          endpoint_->lib.wc_status_str(completion.status) + ". Retry");
  }
}

// ---- The end of a turn ----

void RdmaConnection::end_of_turn() {
  if (state_ != State::established) return;
  flush();
  if (state_ != State::established || broken_ || !std::exchange(active_, false)) return;
  if (options_.queues.busy_poll.count() == 0) return;
  if (spins_to_skip_ != 0) {
    --spins_to_skip_;
  } else if (spin()) {
    idle_spins_ = 0;
    post(&RdmaConnection::flush);  // take another turn at once
    return;
  } else if (state_ == State::established) {
    idle_spins_ = std::min(idle_spins_ + 1, 6U);
    spins_to_skip_ = std::min((1U << idle_spins_) - 1, most_skipped_spins);
  }
  if (state_ == State::established && !broken_) {
    arm();
    post(&RdmaConnection::collect);
  }
}

/// Polls until something completes or the time is over. Returns whether something completed.
bool RdmaConnection::spin() {
  loop_.time_passed();
  const auto until = loop_.now() + options_.queues.busy_poll;
  do {
    collecting_ = true;
    const int count = poll_sends() + poll_receives();
    collecting_ = false;
    if (broken_) {
      fail_later(*std::exchange(broken_, std::nullopt));
      return false;
    }
    if (state_ != State::established) return false;
    if (count != 0) {
      active_ = true;
      flush();
      return true;
    }
    loop_.time_passed();
  } while (loop_.now() < until);
  return false;
}

}  // namespace nfsrdma::fabric::verbs
