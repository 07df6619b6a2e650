// The resources of the device that one connection holds: identifiers, queues, and the two slabs. Internal.
//
// open() makes the resources that need no device: the event channel and the identifier. prepare() makes the
// rest once an address has been resolved to a device. The destructor releases everything, in the order that
// the kernel asks for. It may run on the thread that was left behind in rdma_connect() (connector.h).
//
// A second context of the device is opened for its asynchronous events. All connections of the process share
// librdmacm's context and therefore its queue of events, but an event of the device as a whole is reported to
// every context.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "fabric/verbs/library.h"
#include "fabric/verbs/limits.h"

namespace nfsrdma::fabric::verbs {

/// Registered memory, divided into pieces of one size.
class Slab {
 public:
  Slab() = default;
  ~Slab() { reset(); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// Allocates and registers the memory. Returns 0, or an errno.
  int make(const Library& library, ibv_pd* pd, std::size_t piece, std::size_t count, int access);
  void reset();
  [[nodiscard]] std::byte* at(std::size_t index) const { return octets_ + index * piece_; }
  [[nodiscard]] std::size_t piece() const { return piece_; }
  [[nodiscard]] std::uint32_t key() const { return mr_->lkey; }

 private:
  const Library* library_ = nullptr;
  std::byte* octets_ = nullptr;
  std::size_t piece_ = 0, size_ = 0;
  ibv_mr* mr_ = nullptr;
};

class Endpoint {
 public:
  /// The errno and the operation that failed; the caller makes a message of both.
  struct Failure {
    int errno_value = 0;
    std::string what;
  };

  explicit Endpoint(const Library& library) : lib(library) {}
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Makes an identifier with a channel of its own.
  [[nodiscard]] Failure open();
  /// Takes over an identifier that a listener received, and moves it to a channel of its own.
  [[nodiscard]] Failure adopt(rdma_cm_id* incoming);
  /// Makes everything that needs the device.
  [[nodiscard]] Failure prepare(const Queues& wanted);

  [[nodiscard]] std::string device_name() const { return lib.get_device_name(id->verbs->device); }
  [[nodiscard]] bool is_iwarp() const { return id->verbs->device->transport_type == IBV_TRANSPORT_IWARP; }
  [[nodiscard]] ibv_qp* qp() const { return id->qp; }
  /// Returns the parameters of the connection request, or of its answer.
  [[nodiscard]] rdma_conn_param parameters(const std::vector<std::byte>& private_data) const;

  const Library& lib;
  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;
  ibv_context* watched = nullptr;  // the second context, for asynchronous events
  ibv_pd* pd = nullptr;
  ibv_comp_channel* completions = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* receive_cq = nullptr;
  Slab send_slab, receive_slab;
  Depths depth;
  std::uint32_t inline_limit = 0;
  /// True on rxe, which (in Linux 6.1 at least) follows a null pointer in the kernel when a window is
  /// invalidated that is not bound (any more). A Reply with an Invalidate that arrives after our own
  /// Invalidate would cause this.
  bool invalidate_is_unsafe = false;
  Traits traits;

 private:
  [[nodiscard]] Failure query(const Queues& wanted);
  [[nodiscard]] Failure make_qp();
};

/// Makes the descriptor non-blocking and close-on-exec. Returns 0, or the errno of fcntl().
[[nodiscard]] int make_nonblocking(int fd);

}  // namespace nfsrdma::fabric::verbs
