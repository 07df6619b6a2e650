#include "fabric/verbs/endpoint.h"

#include <fcntl.h>

#include <cerrno>
#include <new>

namespace nfsrdma::fabric::verbs {
namespace {

constexpr std::align_val_t page{4096};
constexpr std::uint32_t wanted_inline = 256;
constexpr std::uint32_t rxe_vendor = 0xffffff;

}  // namespace

int make_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return errno;
  (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return 0;
}

// ---- Slab ----

int Slab::make(const Library& library, ibv_pd* pd, std::size_t piece, std::size_t count, int access) {
  library_ = &library;
  piece_ = piece;
  size_ = piece * count;
  octets_ = static_cast<std::byte*>(::operator new(size_, page, std::nothrow));
  if (octets_ == nullptr) return ENOMEM;
  mr_ = library.reg_mr(pd, octets_, size_, access);
  return mr_ != nullptr ? 0 : errno;
}

void Slab::reset() {
  if (mr_ != nullptr) library_->dereg_mr(std::exchange(mr_, nullptr));
  if (octets_ != nullptr) ::operator delete(std::exchange(octets_, nullptr), page);
}

// ---- Endpoint ----

Endpoint::~Endpoint() {
  if (id != nullptr && id->qp != nullptr) lib.destroy_qp(id);
  send_slab.reset();
  receive_slab.reset();
  if (send_cq != nullptr) lib.destroy_cq(send_cq);
  if (receive_cq != nullptr) lib.destroy_cq(receive_cq);
  if (completions != nullptr) lib.destroy_comp_channel(completions);
  if (pd != nullptr) lib.dealloc_pd(pd);
  if (watched != nullptr) lib.close_device(watched);
  if (id != nullptr) lib.destroy_id(id);
  if (channel != nullptr) lib.destroy_event_channel(channel);
}

Endpoint::Failure Endpoint::open() {
  channel = lib.create_event_channel();
  if (channel == nullptr) return {errno, "the RDMA connection manager cannot be opened"};
  if (const int failed = make_nonblocking(channel->fd); failed != 0) return {failed, "fcntl"};
  if (lib.create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
    id = nullptr;
    return {errno, "the RDMA connection manager cannot create an identifier"};
  }
  return {};
}

Endpoint::Failure Endpoint::adopt(rdma_cm_id* incoming) {
  id = incoming;
  channel = lib.create_event_channel();
  if (channel == nullptr) return {errno, "the RDMA connection manager cannot be opened"};
  if (const int failed = make_nonblocking(channel->fd); failed != 0) return {failed, "fcntl"};
  if (lib.migrate_id(id, channel) != 0)
    return {errno, "the connection request cannot be moved to its own event channel"};
  return {};
}

Endpoint::Failure Endpoint::query(const Queues& wanted) {
  ibv_device_attr device{};
  if (const int failed = lib.query_device(id->verbs, &device); failed != 0) {
    return {failed, "the device's limits cannot be queried"};
  }
  const auto count = [](int value) { return static_cast<std::uint32_t>(std::max(value, 0)); };
  constexpr unsigned type_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  Limits limits;
  limits.work_requests = count(device.max_qp_wr);
  limits.completions = count(device.max_cqe);
  limits.registration = device.max_mr_size;
  limits.windows = (device.device_cap_flags & type_2) != 0 ? count(device.max_mw) : 0;
  limits.reads_in = count(device.max_qp_rd_atom);
  limits.reads_out = count(device.max_qp_init_rd_atom);
  depth = depths(wanted, limits);
  invalidate_is_unsafe = device.vendor_id == rxe_vendor;
  traits = {device_name(), depth.windows != 0, depth.windows != 0};
  return {};
}

Endpoint::Failure Endpoint::prepare(const Queues& wanted) {
  if (Failure failed = query(wanted); failed.errno_value != 0) return failed;
  (void)lockable_memory();
  watched = lib.open_device(id->verbs->device);
  if (watched == nullptr) return {errno, "the device cannot be opened"};
  if (const int failed = make_nonblocking(watched->async_fd); failed != 0) return {failed, "fcntl"};
  pd = lib.alloc_pd(id->verbs);
  if (pd == nullptr) return {errno, "the device cannot create a protection domain"};
  completions = lib.create_comp_channel(id->verbs);
  if (completions == nullptr) return {errno, "the device cannot create a completion channel"};
  if (const int failed = make_nonblocking(completions->fd); failed != 0) return {failed, "fcntl"};
  send_cq = lib.create_cq(id->verbs, static_cast<int>(depth.sends), nullptr, completions, 0);
  receive_cq = lib.create_cq(id->verbs, static_cast<int>(depth.receives), nullptr, completions, 0);
  if (send_cq == nullptr || receive_cq == nullptr)
    return {errno, "the device cannot create a completion queue"};
  if (Failure failed = make_qp(); failed.errno_value != 0) return failed;
  int failed = receive_slab.make(lib, pd, wanted.receive_size, depth.receives, IBV_ACCESS_LOCAL_WRITE);
  if (failed == 0) failed = send_slab.make(lib, pd, wanted.send_size, depth.send_slots, 0);
  if (failed != 0) return {failed, "memory for messages cannot be registered"};
  return {};
}

Endpoint::Failure Endpoint::make_qp() {
  // Ask for room for Sends in the work request itself (inline). Some devices have less of it, or none.
  for (const std::uint32_t inline_octets : {wanted_inline, 64U, 0U}) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = send_cq;
    attributes.recv_cq = receive_cq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = depth.sends;
    attributes.cap.max_recv_wr = depth.receives;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = inline_octets;
    if (lib.create_qp(id, pd, &attributes) == 0) {
      inline_limit = attributes.cap.max_inline_data;
      return {};
    }
  }
  return {errno, "the device cannot create a queue pair"};
}

rdma_conn_param Endpoint::parameters(const std::vector<std::byte>& private_data) const {
  rdma_conn_param out{};
  out.private_data = private_data.data();
  out.private_data_len = static_cast<std::uint8_t>(private_data.size());
  out.responder_resources = static_cast<std::uint8_t>(depth.reads_in);
  out.initiator_depth = static_cast<std::uint8_t>(depth.reads_out);
  out.retry_count = transport_retries;
  out.rnr_retry_count = receiver_not_ready_retries;
  return out;
}

}  // namespace nfsrdma::fabric::verbs
