#include "fabric/verbs/send_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

namespace nfsrdma::fabric::verbs {
namespace {

constexpr std::size_t batch_size = 32;

std::size_t total(std::span<const ConstBytes> pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), std::size_t{0},
                         [](std::size_t sum, ConstBytes piece) { return sum + piece.size(); });
}

void gather(std::span<const ConstBytes> pieces, std::byte* to) {
  for (const ConstBytes piece : pieces) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
}

bool awaited(const Work& work) {
  return work.kind != Work::Kind::send && work.kind != Work::Kind::bind;
}

}  // namespace

SendQueue::SendQueue(Endpoint& endpoint, Done done)
    : endpoint_(endpoint),
      done_(std::move(done)),
      free_pieces_(endpoint.depth.send_slots),
      // At least one of every quarter of the queue's entries, and of the slab's pieces, is signalled, so
      // neither runs out for good.
      most_unsignalled_(std::min(endpoint.depth.sends, endpoint.depth.send_slots) / 4),
      batch_(batch_size) {
  std::iota(free_pieces_.begin(), free_pieces_.end(), 0U);
}

bool SendQueue::post_send(const SendWork& work) {
  Work entry;
  entry.length = total(work.pieces);
  if (entry.length > endpoint_.send_slab.piece()) return false;
  entry.solicited = work.solicited;
  entry.invalidates = work.invalidate.has_value();
  entry.handle = work.invalidate.value_or(0);
  // Sends that wait for a piece leave before this one. If this one took a piece that they need, neither could
  // leave.
  if (free_pieces_.empty() || without_piece_ != 0) {
    ++without_piece_;
    entry.octets.resize(entry.length);
    gather(work.pieces, entry.octets.data());
  } else {
    entry.memory = endpoint_.send_slab.at(free_pieces_.back());
    free_pieces_.pop_back();
    gather(work.pieces, entry.memory);
  }
  waiting_.push_back(std::move(entry));
  return true;
}

bool SendQueue::retract_bind(std::uint32_t handle) {
  return std::erase_if(waiting_, [handle](const Work& work) {
           return work.kind == Work::Kind::bind && work.handle == handle;
         }) != 0;
}

/// Gives a Send a piece of the slab. Returns false if none is free.
bool SendQueue::give_slab(Work& work) {
  if (work.kind != Work::Kind::send || work.memory != nullptr) return true;
  if (free_pieces_.empty()) return false;
  --without_piece_;
  work.memory = endpoint_.send_slab.at(free_pieces_.back());
  free_pieces_.pop_back();
  const ConstBytes whole = work.octets;
  gather({&whole, 1}, work.memory);
  work.octets = {};
  return true;
}

bool SendQueue::signal(const Work& work) {
  if (!awaited(work) && unsignalled_ < most_unsignalled_) {
    ++unsignalled_;
    return false;
  }
  unsignalled_ = 0;
  return true;
}

void SendQueue::fill(Request& request, const Work& work, bool signalled) const {
  request = {};
  ibv_send_wr& wr = request.wr;
  request.sge = {reinterpret_cast<std::uintptr_t>(work.memory), static_cast<std::uint32_t>(work.length),
                 work.key};
  wr.sg_list = &request.sge;
  wr.num_sge = work.length != 0 ? 1 : 0;
  if (signalled) wr.send_flags |= IBV_SEND_SIGNALED;
  switch (work.kind) {
    case Work::Kind::send:
      request.sge.lkey = endpoint_.send_slab.key();
      wr.opcode = work.invalidates ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
      wr.invalidate_rkey = work.handle;
      // siw (rdma-core 44 and Linux 6.1): its library takes the handle from this field, and its driver
      // refuses a Send with Invalidate that is inline.
      wr.wr.rdma.rkey = work.handle;
      if (work.solicited) wr.send_flags |= IBV_SEND_SOLICITED;
      if (!work.invalidates && work.length <= endpoint_.inline_limit) wr.send_flags |= IBV_SEND_INLINE;
      return;
    case Work::Kind::bind:
      wr.opcode = IBV_WR_BIND_MW;
      wr.num_sge = 0;
      wr.bind_mw.mw = work.window;
      wr.bind_mw.rkey = work.handle;
      wr.bind_mw.bind_info = {
          work.registration, request.sge.addr, work.length,
          work.reach == Reach::remote_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE};
      return;
    case Work::Kind::invalidate:
      wr.opcode = IBV_WR_LOCAL_INV;
      wr.num_sge = 0;
      wr.invalidate_rkey = work.handle;
      return;
    case Work::Kind::write:
    case Work::Kind::read:
      wr.opcode = work.kind == Work::Kind::write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
      wr.wr.rdma.remote_addr = work.offset;
      wr.wr.rdma.rkey = work.remote;
      return;
  }
}

int SendQueue::flush() {
  while (!waiting_.empty()) {
    std::size_t count = 0;
    while (count < batch_.size() && !waiting_.empty() && under_way_.size() < endpoint_.depth.sends &&
           give_slab(waiting_.front())) {
      Work& work = under_way_.emplace_back(std::move(waiting_.front()));
      waiting_.pop_front();
      fill(batch_[count], work, signal(work));
      batch_[count].wr.wr_id = first_id_ + under_way_.size() - 1;
      if (count != 0) batch_[count - 1].wr.next = &batch_[count].wr;
      if (awaited(work)) ++awaited_;
      ++count;
    }
    if (count == 0) return 0;
    ibv_send_wr* refused = nullptr;
    if (const int failed = ibv_post_send(endpoint_.qp(), &batch_.front().wr, &refused); failed != 0) {
      return failed > 0 ? failed : errno;  // siw's library returns -1
    }
    // From here on the device knows the window by its new handle; rdma-core leaves it to the caller to update
    // the field.
    for (std::size_t i = 0; i < count; ++i) {
      const ibv_send_wr& wr = batch_[i].wr;
      if (wr.opcode == IBV_WR_BIND_MW) wr.bind_mw.mw->rkey = wr.bind_mw.rkey;
    }
  }
  return 0;
}

void SendQueue::retire(std::uint64_t id) {
  while (!under_way_.empty() && first_id_ <= id) {
    const Work work = std::move(under_way_.front());
    under_way_.pop_front();
    ++first_id_;
    if (work.kind == Work::Kind::send) {
      const auto piece =
          static_cast<std::size_t>(work.memory - endpoint_.send_slab.at(0)) / endpoint_.send_slab.piece();
      free_pieces_.push_back(static_cast<std::uint32_t>(piece));
    }
    if (!awaited(work)) continue;
    --awaited_;
    done_(work);
  }
}

std::vector<ibv_mr*> SendQueue::clear() {
  std::vector<ibv_mr*> out;
  for (const auto* list : {&under_way_, &waiting_}) {
    for (const Work& work : *list) {
      const bool own = work.kind == Work::Kind::write || work.kind == Work::Kind::read;
      if (own && work.registration != nullptr) out.push_back(work.registration);
    }
  }
  under_way_.clear();
  waiting_.clear();
  without_piece_ = 0;
  awaited_ = 0;
  return out;
}

}  // namespace nfsrdma::fabric::verbs
