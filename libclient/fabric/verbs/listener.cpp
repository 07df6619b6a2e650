#include "fabric/verbs/listener.h"

#include <netinet/in.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "fabric/address.h"
#include "fabric/verbs/rdma_connection.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr int backlog = 128;

class Incoming final : public fabric::Incoming {
 public:
  Incoming(async::Loop& loop, const Library& library, const Queues& queues,
           std::shared_ptr<rdma_event_channel> channel, ManagerEvent request, std::string peer)
      : loop_(loop),
        library_(library),
        queues_(queues),
        channel_(std::move(channel)),
        request_(std::move(request)),
        peer_(std::move(peer)) {}
  ~Incoming() override { reject({}); }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  [[nodiscard]] ConstBytes private_data() const override { return request_.private_data; }
  [[nodiscard]] const std::string& peer_name() const override { return peer_; }

  Result<std::unique_ptr<Connection>> accept(std::vector<std::byte> private_data, Handler& handler) override {
    if (private_data.size() > private_data_room) {
      return Error{ErrorKind::usage, EINVAL, "accept", peer_, "more than 56 octets of private data"};
    }
    if (request_.id == nullptr) {
      return Error{ErrorKind::usage, EINVAL, "accept", peer_,
                   "the connection request has already been answered"};
    }
    auto endpoint = std::make_shared<Endpoint>(library_);
    auto failed = endpoint->adopt(std::exchange(request_.id, nullptr));
    if (failed.errno_value == 0) failed = endpoint->prepare(queues_);
    if (failed.errno_value != 0) {
      library_.reject(endpoint->id, nullptr, 0);
      return local_failure(failed, "accept", peer_);
    }
    return std::unique_ptr<Connection>(std::make_unique<RdmaConnection>(
        loop_, std::move(endpoint), queues_, peer_, std::move(private_data), request_, handler));
  }

  void reject(ConstBytes private_data) override {
    if (request_.id == nullptr) return;
    const auto size = static_cast<std::uint8_t>(std::min(private_data.size(), private_data_room));
    library_.reject(request_.id, private_data.data(), size);
    library_.destroy_id(std::exchange(request_.id, nullptr));
  }

 private:
  async::Loop& loop_;
  const Library& library_;
  const Queues queues_;
  const std::shared_ptr<rdma_event_channel> channel_;
  ManagerEvent request_;
  const std::string peer_;
};

std::string name_of_peer(rdma_cm_id* id) {
  sockaddr_storage address{};
  const sockaddr* from = rdma_get_peer_addr(id);
  std::memcpy(&address, from, from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return peer_text(address, "");
}

Error listen_failure(int errno_value, const char* what, const std::string& address) {
  switch (errno_value) {
    case EADDRINUSE:
      return {ErrorKind::local, errno_value, "listen", address,
              "another program already listens on this port. Choose another one"};
    case EADDRNOTAVAIL:
    case ENODEV:
      return {ErrorKind::local, errno_value, "listen", address,
              "no RDMA device of this machine has that address. Choose another one, or use fabric=iwarp"};
    default:
      return local_failure({errno_value, what}, "listen", address);
  }
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::listen(async::Loop& loop, const sockaddr_storage& address,
                                                   const Queues& queues, Callback callback) {
  const auto loaded = library();
  if (!loaded) return loaded.error();
  const Library& lib = **loaded;
  std::unique_ptr<Listener> out(new Listener(loop, lib, queues, std::move(callback)));
  const auto failed = [&](const char* what) { return listen_failure(errno, what, peer_text(address, "")); };
  rdma_event_channel* const channel = lib.create_event_channel();
  if (channel == nullptr) return failed("the RDMA connection manager cannot be opened");
  out->channel_ = {channel, lib.destroy_event_channel};
  if (make_nonblocking(channel->fd) != 0) return failed("fcntl");
  if (lib.create_id(channel, &out->id_, nullptr, RDMA_PS_TCP) != 0) {
    out->id_ = nullptr;
    return failed("the RDMA connection manager cannot create an identifier");
  }
  auto where = address;  // librdmacm wants a pointer that is not const
  if (lib.bind_addr(out->id_, reinterpret_cast<sockaddr*>(&where)) != 0) {
    return failed("the address cannot be used");
  }
  if (lib.listen(out->id_, backlog) != 0) return failed("listening failed");
  loop.watch(channel->fd, EPOLLIN, [listener = out.get()](std::uint32_t) { listener->on_request(); });
  return out;
}

Listener::Listener(async::Loop& loop, const Library& library, const Queues& queues, Callback callback)
    : loop_(loop), library_(library), queues_(queues), callback_(std::move(callback)) {}

Listener::~Listener() {
  if (channel_) loop_.unwatch(channel_->fd);
  if (id_ != nullptr) library_.destroy_id(id_);
}

std::uint16_t Listener::port() const {
  return ntohs(library_.get_src_port(id_));
}

void Listener::on_request() {
  // The callback must not destroy the listener.
  while (auto event = next_event(library_, channel_.get())) {
    // An event of a request that was not taken over.
    if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    std::string peer = name_of_peer(event->id);
    callback_(
        std::make_unique<Incoming>(loop_, library_, queues_, channel_, std::move(*event), std::move(peer)));
  }
}

}  // namespace nfsrdma::fabric::verbs
