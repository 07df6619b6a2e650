#include "fabric/verbs/rdma_connection.h"

#include <netinet/in.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "fabric/address.h"

namespace nfsrdma::fabric::verbs {
namespace {

// Some of the reasons to reject, as ib_cm numbers them (InfiniBand 12.6.7.2).
constexpr int ib_invalid_service_id = 8;
constexpr int ib_consumer_defined = 28;

int milliseconds_until(async::TimePoint when, async::TimePoint now) {
  constexpr std::int64_t longest = 60'000;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - std::min(when, now)).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 1, longest));
}

}  // namespace

std::optional<ManagerEvent> next_event(const Library& library, rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  if (library.get_cm_event(channel, &event) != 0) return std::nullopt;
  ManagerEvent out;
  out.type = event->event;
  out.status = event->status;
  out.id = event->id;
  const rdma_conn_param& conn = event->param.conn;
  const auto* octets = static_cast<const std::byte*>(conn.private_data);
  switch (event->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED:
      if (octets != nullptr) out.private_data.assign(octets, octets + conn.private_data_len);
      out.reads_in = conn.responder_resources;
      out.reads_out = conn.initiator_depth;
      break;
    default:
      break;
  }
  library.ack_cm_event(event);
  return out;
}

Error local_failure(const Endpoint::Failure& failure, const char* operation, const std::string& peer) {
  std::string text = failure.what + ": " + std::strerror(failure.errno_value);
  if (failure.errno_value == ENOMEM) {
    text += ". Raise the limit of locked memory (ulimit -l), or use fabric=iwarp";
  } else if (failure.errno_value == EACCES || failure.errno_value == EPERM) {
    text += ". Check the permissions of /dev/infiniband, or use fabric=iwarp";
  } else {
    text += ". Check the device, or use fabric=iwarp";
  }
  return {ErrorKind::local, failure.errno_value, operation, peer, std::move(text)};
}

std::unique_ptr<Connection> connect(async::Loop& loop, ConnectOptions options, Handler& handler) {
  return std::make_unique<RdmaConnection>(loop, std::move(options), handler);
}

RdmaConnection::RdmaConnection(async::Loop& loop, ConnectOptions options, Handler& handler)
    : loop_(loop),
      handler_(handler),
      options_(std::move(options)),
      peer_(peer_text(options_.address, options_.host)) {
  start();
}

RdmaConnection::RdmaConnection(async::Loop& loop, std::shared_ptr<Endpoint> endpoint, const Queues& queues,
                               std::string peer, std::vector<std::byte> private_data,
                               const ManagerEvent& request, Handler& handler)
    : loop_(loop),
      handler_(handler),
      options_([&] {
        ConnectOptions out;
        out.queues = queues;
        return out;
      }()),
      peer_(std::move(peer)),
      state_(State::accepting),
      endpoint_(std::move(endpoint)),
      private_data_(std::move(private_data)) {
  established_.private_data = request.private_data;
  Depths& depth = endpoint_->depth;
  depth.reads_in = answered_reads(depth.reads_in, request.reads_in, endpoint_->is_iwarp());
  depth.reads_out = answered_reads(depth.reads_out, request.reads_out, endpoint_->is_iwarp());
  make_queues();
  watch_manager();
  post(&RdmaConnection::answer);
}

RdmaConnection::~RdmaConnection() {
  release();
}

/// Runs `then` from the loop, if this object still exists.
void RdmaConnection::post(void (RdmaConnection::*then)()) {
  loop_.post([this, then, token = std::weak_ptr(alive_)] {
    if (!token.expired() && state_ != State::closed) (this->*then)();
  });
}

// ---- Connecting ----

void RdmaConnection::start() {
  const auto loaded = library();
  if (!loaded)
    return fail_later(error(loaded.error().kind(), loaded.error().errno_value(), loaded.error().message()));
  endpoint_ = std::make_shared<Endpoint>(**loaded);
  if (const auto failed = endpoint_->open(); failed.errno_value != 0) return fail_later(local_error(failed));
  const auto until = std::min(options_.resolve_deadline, options_.deadline);
  if (until != async::TimePoint::max()) {
    deadline_ = loop_.at(until, [this] {
      deadline_ = 0;
      on_deadline();
    });
  }
  auto address = options_.address;  // librdmacm wants a pointer that is not const
  if (endpoint_->lib.resolve_addr(endpoint_->id, nullptr, reinterpret_cast<sockaddr*>(&address),
                                  milliseconds_until(until, loop_.now())) != 0) {
    return fail_later(resolve_error(errno));
  }
  watch_manager();
}

void RdmaConnection::watch_manager() {
  loop_.watch(endpoint_->channel->fd, EPOLLIN, [this](std::uint32_t) { on_manager(); });
}

void RdmaConnection::on_manager() {
  // While a Connector runs, its thread uses the identifier, and events have to wait.
  while (state_ != State::closed && !connector_) {
    const auto event = next_event(endpoint_->lib, endpoint_->channel);
    if (!event) return;
    on_manager_event(*event);
  }
}

void RdmaConnection::on_manager_event(const ManagerEvent& event) {
  const int status = event.status < 0 ? -event.status : event.status;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return resolve_route();
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return finish(resolve_error(status));
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return send_request();
    case RDMA_CM_EVENT_ESTABLISHED:
      return establish(event);
    case RDMA_CM_EVENT_REJECTED:
      return finish(reject_error(event.status));
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
      return finish(connect_error(status));
    case RDMA_CM_EVENT_DISCONNECTED:
      // Messages that arrived before the disconnect are still in the completion queue.
      collect();
      if (state_ == State::closed) return;
      return finish(ended("the peer closed the connection. Retry"));
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return finish(
          error(ErrorKind::connection, ENODEV,
                "the RDMA device " + endpoint_->traits.device + " went away. Retry, or use fabric=iwarp"));
    default:
      return;
  }
}

void RdmaConnection::resolve_route() {
  state_ = State::routing;
  if (endpoint_->id->verbs == nullptr) return finish(resolve_error(ENODEV));
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  if (options_.deadline != async::TimePoint::max()) {
    deadline_ = loop_.at(options_.deadline, [this] {
      deadline_ = 0;
      on_deadline();
    });
  }
  if (endpoint_->lib.resolve_route(endpoint_->id, milliseconds_until(options_.deadline, loop_.now())) != 0) {
    finish(resolve_error(errno));
  }
}

void RdmaConnection::send_request() {
  if (const auto failed = endpoint_->prepare(options_.queues); failed.errno_value != 0) {
    return finish(local_error(failed));
  }
  loop_.watch(endpoint_->watched->async_fd, EPOLLIN, [this](std::uint32_t) { on_device_event(); });
  make_queues();
  if (const int failed = receives_->flush(); failed != 0)
    return finish(local_error({failed, "post a Receive"}));
  auto private_data =
      options_.private_data ? options_.private_data(endpoint_->traits) : std::vector<std::byte>();
  if (private_data.size() > private_data_room) {
    return finish(error(ErrorKind::usage, EINVAL, "more than 56 octets of private data"));
  }
  state_ = State::connecting;
  // The thread uses the identifier until rdma_connect() has returned.
  loop_.unwatch(endpoint_->channel->fd);
  connector_ = Connector::start(endpoint_, std::move(private_data));
  if (!connector_) {
    const int failed = errno;
    watch_manager();
    return finish(local_error({failed, "no thread or file descriptor is available"}));
  }
  loop_.watch(connector_->descriptor(), EPOLLIN, [this](std::uint32_t) { on_request_sent(); });
}

void RdmaConnection::on_request_sent() {
  loop_.unwatch(connector_->descriptor());
  const int failed = connector_->result();
  connector_.reset();
  watch_manager();
  if (failed != 0) finish(connect_error(failed));
}

void RdmaConnection::answer() {
  if (const int failed = receives_->flush(); failed != 0)
    return finish(local_error({failed, "post a Receive"}));
  loop_.watch(endpoint_->watched->async_fd, EPOLLIN, [this](std::uint32_t) { on_device_event(); });
  rdma_conn_param parameters = endpoint_->parameters(private_data_);
  if (endpoint_->lib.accept(endpoint_->id, &parameters) != 0) {
    finish(local_error({errno, "the request cannot be answered"}));
  }
}

void RdmaConnection::establish(const ManagerEvent& event) {
  if (state_ != State::connecting && state_ != State::accepting) return;
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  const bool connected = state_ == State::connecting;
  state_ = State::established;
  const Endpoint& endpoint = *endpoint_;
  const auto agreed = [](std::uint32_t own, std::uint32_t told) {
    return told != 0 ? std::min(own, told) : own;
  };
  if (connected) established_.private_data = event.private_data;
  established_.fabric = "verbs";
  established_.reason = options_.reason;
  established_.traits = endpoint.traits;
  established_.ird = agreed(endpoint.depth.reads_in, event.reads_in);
  established_.ord = agreed(endpoint.depth.reads_out, event.reads_out);
  established_.detail = endpoint.traits.device + " (" +
                        (endpoint.is_iwarp() ? "iWARP" : "InfiniBand or RoCE") + "), " +
                        (endpoint.traits.memory_windows ? "memory windows" : "registration for each call") +
                        ", " + std::to_string(endpoint.depth.sends) + " work requests, " +
                        std::to_string(endpoint.inline_limit) + " bytes inline";
  loop_.watch(endpoint.completions->fd, EPOLLIN, [this](std::uint32_t) { on_completion_event(); });
  post(&RdmaConnection::collect);
  handler_.on_established(established_);
}

/// Handles events of the device as a whole. Errors of this connection's own queues show in their completions.
void RdmaConnection::on_device_event() {
  ibv_async_event event{};
  while (state_ != State::closed && endpoint_->lib.get_async_event(endpoint_->watched, &event) == 0) {
    endpoint_->lib.ack_async_event(&event);
    const bool port =
        event.event_type == IBV_EVENT_PORT_ERR && event.element.port_num == endpoint_->id->port_num;
    if (port) {
      return finish(
          error(ErrorKind::connection, ENETDOWN,
                "the link of " + endpoint_->traits.device + " went down. Retry, and check the network"));
    }
    if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
      return finish(
          error(ErrorKind::connection, EIO,
                "the RDMA device " + endpoint_->traits.device + " failed. Retry, or use fabric=iwarp"));
    }
  }
}

void RdmaConnection::on_deadline() {
  if (state_ == State::resolving) return finish(resolve_error(ETIMEDOUT));
  finish(connect_error(ETIMEDOUT));
}

// ---- The end ----

void RdmaConnection::close() {
  release();
}

/// Records a failure that is found inside one of the owner's calls. The owner hears of it from the loop.
void RdmaConnection::fail_later(Error reason) {
  if (broken_) return;
  broken_ = std::move(reason);
  loop_.post([this, token = std::weak_ptr(alive_)] {
    if (!token.expired() && state_ != State::closed) finish(*broken_);
  });
}

// By value: `reason` may be part of a member that release() resets.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void RdmaConnection::finish(Error reason) {
  if (state_ == State::closed) return;
  release();
  handler_.on_closed(reason);
}

void RdmaConnection::release() {
  if (state_ == State::closed) return;
  const bool asking = connector_ != nullptr;
  state_ = State::closed;
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  if (hook_ != 0) loop_.remove_end_of_turn(std::exchange(hook_, 0));
  if (asking) {
    loop_.unwatch(connector_->descriptor());
    connector_.reset();
  }
  if (!endpoint_) return;
  if (endpoint_->channel != nullptr) loop_.unwatch(endpoint_->channel->fd);  // null if open() failed
  if (endpoint_->completions != nullptr) loop_.unwatch(endpoint_->completions->fd);
  if (endpoint_->watched != nullptr) loop_.unwatch(endpoint_->watched->async_fd);
  if (asking) {
    // The thread in rdma_connect() releases the rest. Nothing was exposed yet.
    sends_.reset();
    exposures_.reset();
    endpoint_.reset();
    return;
  }
  const Library& lib = endpoint_->lib;
  if (endpoint_->id != nullptr && endpoint_->qp() != nullptr) {
    // Disconnecting informs the peer. Destroying the queue pair stops the device, so that no peer can reach
    // our memory any more.
    lib.disconnect(endpoint_->id);
    lib.destroy_qp(endpoint_->id);
  }
  if (send_events_ != 0) lib.ack_cq_events(endpoint_->send_cq, std::exchange(send_events_, 0U));
  if (receive_events_ != 0) lib.ack_cq_events(endpoint_->receive_cq, std::exchange(receive_events_, 0U));
  if (exposures_) exposures_->clear();
  if (sends_) {
    for (ibv_mr* left : sends_->clear()) lib.dereg_mr(left);
  }
  exposures_.reset();
  // A call on the stack may still use the queues, so the rest is released after it has returned.
  loop_.post([old = std::move(endpoint_)] {});
}

Error RdmaConnection::error(ErrorKind kind, int errno_value, std::string message) const {
  return {kind, errno_value, state_ == State::established ? "" : "connect", peer_, std::move(message)};
}

Error RdmaConnection::local_error(const Endpoint::Failure& failure) const {
  return local_failure(failure, state_ == State::established ? "" : "connect", peer_);
}

Error RdmaConnection::resolve_error(int errno_value) const {
  switch (errno_value) {
    case ENODEV:
    case EADDRNOTAVAIL:
      return error(
          ErrorKind::connection, errno_value,
          "no RDMA device of this machine leads to this address. Use fabric=iwarp, or check the routes");
    case ETIMEDOUT:
      return error(ErrorKind::timeout, errno_value,
                   "the address was not resolved in time. Check the address and the network");
    default:
      return error(ErrorKind::connection, errno_value,
                   std::string("the address cannot be reached: ") + std::strerror(errno_value) +
                       ". Check the address and the routes");
  }
}

Error RdmaConnection::connect_error(int errno_value) const {
  const std::string port = std::to_string(port_of(options_.address));
  const std::string device = endpoint_ ? endpoint_->traits.device : "";
  switch (errno_value) {
    case ECONNREFUSED:
      return error(ErrorKind::connection, errno_value,
                   "connection refused over " + device + ": nothing listens for RDMA on port " + port +
                       ". Check the port, and that the server offers NFS over this kind of RDMA");
    case EHOSTUNREACH:
    case ENETUNREACH:
      return error(ErrorKind::connection, errno_value,
                   "the address cannot be reached over " + device + ": " + std::strerror(errno_value) +
                       ". Check the address and the routes");
    case ETIMEDOUT:
      return error(ErrorKind::timeout, errno_value,
                   "no answer over " + device +
                       ". Check the address, the network, the firewalls, and that the "
                       "server offers NFS over this kind of RDMA on port " +
                       port);
    default:
      return error(
          ErrorKind::connection, errno_value,
          "the connection over " + device + " failed: " + std::strerror(errno_value) + ". Check the network");
  }
}

/// `status` is an errno on iWARP, and InfiniBand's own reason on other fabrics.
Error RdmaConnection::reject_error(int status) const {
  if (status < 0 || endpoint_->is_iwarp()) return connect_error(status < 0 ? -status : ECONNREFUSED);
  if (status == ib_invalid_service_id) return connect_error(ECONNREFUSED);
  if (status == ib_consumer_defined) {
    return error(ErrorKind::connection, ECONNREFUSED,
                 "the peer rejected the connection over " + endpoint_->traits.device +
                     ". Check that its NFS service runs and takes this client");
  }
  return error(ErrorKind::connection, ECONNREFUSED,
               "the peer rejected the connection over " + endpoint_->traits.device + " (reason " +
                   std::to_string(status) + "). Check the server");
}

}  // namespace nfsrdma::fabric::verbs
