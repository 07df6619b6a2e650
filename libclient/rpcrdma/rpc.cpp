#include "rpcrdma/rpc.h"

#include <algorithm>
#include <cassert>

namespace nfsrdma::rpcrdma {
namespace {

/// Empties a record that is free from now on. It keeps its call, which submit() replaces.
void reset(Rpc& rpc) {
  rpc.sends = 0;
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
  if (active_ >= buckets_.size()) grow();
  if (active_ == records_.size()) records_.push_back(std::make_unique<Rpc>());
  Rpc& rpc = *records_[active_];
  rpc.id = last_id_;
  rpc.xid = xid_of(last_id_);
  rpc.stage = Rpc::Stage::queued;
  rpc.index_ = active_++;
  link(rpc);
  return rpc;
}

void RpcTable::remove(Rpc& rpc) {
  assert(rpc.finished());
  Rpc** at = &buckets_[bucket(rpc.xid)];
  while (*at != &rpc) at = &(*at)->next_;
  *at = rpc.next_;
  reset(rpc);
  std::unique_ptr<Rpc>& place = records_[rpc.index_];
  std::swap(place, records_[--active_]);
  place->index_ = rpc.index_;
  if (records_.size() - active_ > kMostFree) records_.pop_back();
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
  std::vector<Rpc*> all;
  all.reserve(active_);
  std::ranges::copy(active(), std::back_inserter(all));
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
  for (Rpc* rpc : active()) link(*rpc);
}

}  // namespace nfsrdma::rpcrdma
