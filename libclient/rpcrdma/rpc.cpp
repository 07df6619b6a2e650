#include "rpcrdma/rpc.h"

#include <algorithm>
#include <cassert>

namespace nfsrdma::rpcrdma {
namespace {

void reset(Rpc& rpc) {
  rpc.sends = 0;
  rpc.call = {};
  rpc.failure = Failure::none;
  rpc.error.reset();
  rpc.reply.reset();
  rpc.bytes.clear();
  rpc.forget_memory();
}

}  // namespace

bool Rpc::offered(std::uint32_t handle) const {
  const auto names = [handle](const RemoteSegment& segment) { return segment.handle == handle; };
  return std::ranges::any_of(header.rdma_reads, names, &xdr_read_chunk::target) ||
         std::ranges::any_of(header.rdma_writes.segments(), names) ||
         std::ranges::any_of(header.rdma_reply, names);
}

void Rpc::forget_memory() {
  header.clear();
  exposed.clear();
  abandoned.clear();
  long_call.reset();
  long_reply.reset();
}

Rpc& RpcTable::add() {
  // Skip an id whose xid still belongs to an RPC of 2^32 calls ago.
  do {
    ++last_id_;
  } while (find_xid(xid_of(last_id_)) != nullptr);
  if (active_.size() >= buckets_.size()) grow();
  std::unique_ptr<Rpc> rpc;
  if (free_.empty()) {
    rpc = std::make_unique<Rpc>();
  } else {
    rpc = std::move(free_.back());
    free_.pop_back();
  }
  rpc->id = last_id_;
  rpc->xid = xid_of(last_id_);
  rpc->stage = Rpc::Stage::queued;
  rpc->index_ = active_.size();
  active_.push_back(rpc.get());
  owned_.push_back(std::move(rpc));
  link(*active_.back());
  return *active_.back();
}

void RpcTable::remove(Rpc& rpc) {
  assert(rpc.finished());
  Rpc** at = &buckets_[bucket(rpc.xid)];
  while (*at != &rpc) at = &(*at)->next_;
  *at = rpc.next_;
  const std::size_t index = rpc.index_;
  std::swap(owned_[index], owned_.back());
  active_[index] = owned_[index].get();
  active_[index]->index_ = index;
  std::unique_ptr<Rpc> done = std::move(owned_.back());
  owned_.pop_back();
  active_.pop_back();
  reset(*done);
  if (free_.size() < kMostFree) free_.push_back(std::move(done));
}

Rpc* RpcTable::find(CallId id) const {
  Rpc* rpc = find_xid(xid_of(id));
  return rpc != nullptr && rpc->id == id ? rpc : nullptr;
}

Rpc* RpcTable::find_xid(std::uint32_t xid) const {
  Rpc* rpc = buckets_[bucket(xid)];
  while (rpc != nullptr && rpc->xid != xid) rpc = rpc->next_;
  return rpc;
}

std::vector<Rpc*> RpcTable::in_order() const {
  std::vector<Rpc*> all = active_;
  std::ranges::sort(all, std::less<>(), &Rpc::id);
  return all;
}

void RpcTable::link(Rpc& rpc) {
  Rpc*& head = buckets_[bucket(rpc.xid)];
  rpc.next_ = head;
  head = &rpc;
}

void RpcTable::grow() {
  buckets_.assign(buckets_.size() * 2, nullptr);
  for (Rpc* rpc : active_) link(*rpc);
}

}  // namespace nfsrdma::rpcrdma
