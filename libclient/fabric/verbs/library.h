// librdmacm and libibverbs, loaded only when the machine has a device.
//
// The program must run on machines without these libraries and without a device, and must not print anything
// on stderr there. So the libraries are not linked, and none of their code runs before the kernel shows a
// device: on a machine without one, libibverbs would print warnings of its own.
//
// Functions that the headers define inline (posting, polling, memory windows) go through the device's own
// table and need no symbol; everything else is called through `Library`. `ibv_reg_mr` is both a macro and a
// function: the pointer is the function, and its flags are never optional ones.
//
// Thread-safety: everything here may be called from any thread.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>

#include "nfsrdma/result.h"

namespace nfsrdma::fabric::verbs {

struct Library {
  // librdmacm
  decltype(&::rdma_create_event_channel) create_event_channel = nullptr;
  decltype(&::rdma_destroy_event_channel) destroy_event_channel = nullptr;
  decltype(&::rdma_create_id) create_id = nullptr;
  decltype(&::rdma_destroy_id) destroy_id = nullptr;
  decltype(&::rdma_bind_addr) bind_addr = nullptr;
  decltype(&::rdma_resolve_addr) resolve_addr = nullptr;
  decltype(&::rdma_resolve_route) resolve_route = nullptr;
  decltype(&::rdma_create_qp) create_qp = nullptr;
  decltype(&::rdma_destroy_qp) destroy_qp = nullptr;
  decltype(&::rdma_connect) connect = nullptr;
  decltype(&::rdma_listen) listen = nullptr;
  decltype(&::rdma_accept) accept = nullptr;
  decltype(&::rdma_reject) reject = nullptr;
  decltype(&::rdma_disconnect) disconnect = nullptr;
  decltype(&::rdma_migrate_id) migrate_id = nullptr;
  decltype(&::rdma_get_src_port) get_src_port = nullptr;
  decltype(&::rdma_get_cm_event) get_cm_event = nullptr;
  decltype(&::rdma_ack_cm_event) ack_cm_event = nullptr;
  // libibverbs
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::ibv_get_async_event) get_async_event = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr) reg_mr = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_wc_status_str) wc_status_str = nullptr;
};

/// Returns why no RDMA device can be used on this machine, as the end of a sentence; empty if one can. Cheap,
/// because it looks only at the kernel's files.
[[nodiscard]] std::string missing_device();

/// Loads both libraries at the first call. Call it only if missing_device() is empty.
[[nodiscard]] Result<const Library*> library();

/// Raises this process's limit of locked memory as far as the process may, because the usual 8 MiB are less
/// than a few calls need. Returns how many octets the process may register at once; all ones: no limit.
[[nodiscard]] std::uint64_t lockable_memory();

}  // namespace nfsrdma::fabric::verbs
