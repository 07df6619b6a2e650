#include "fabric/iwarp/listener.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "fabric/address.h"
#include "fabric/iwarp/tcp_connection.h"

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr int backlog = 128;

/// Sends a frame. A frame has at most 532 octets and the socket is empty, so the socket takes all of it, or
/// the peer is gone.
bool send_frame(const Socket& socket, std::vector<std::byte> frame) {
  iovec whole{.iov_base = frame.data(), .iov_len = frame.size()};
  return socket.send({&whole, 1}) == static_cast<ssize_t>(frame.size());
}

void reject_and_close(Socket& socket, const Responder& responder, ConstBytes private_data) {
  if (send_frame(socket, responder.reject(private_data))) ::shutdown(socket.fd(), SHUT_WR);
  socket.reset();
}

}  // namespace

// ---- Incoming ----

Incoming::Incoming(async::Loop& loop, Socket socket, std::string peer, Responder responder,
                   std::vector<std::byte> early)
    : loop_(&loop),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      responder_(std::move(responder)),
      early_(std::move(early)) {}

Incoming::~Incoming() {
  reject({});
}

Result<std::unique_ptr<Connection>> Incoming::accept(const AcceptOptions& options, Handler& handler) {
  if (options.private_data.size() > mpa_private_data_room(true)) {
    return Error{ErrorKind::usage, EINVAL, "accept", peer_, "more than 508 octets of private data"};
  }
  const auto agreement = responder_.agree(options.crc, options.depths);
  if (!agreement) {
    reject({});
    return Error{ErrorKind::connection, EPROTONOSUPPORT, "accept", peer_,
                 "the peer demands CRC and crc=off forbids it"};
  }
  if (!send_frame(socket_, responder_.accept(*agreement, options.private_data))) {
    socket_.reset();
    return Error{ErrorKind::connection, ECONNRESET, "accept", peer_, "the peer closed the connection"};
  }
  return std::unique_ptr<Connection>(std::make_unique<TcpConnection>(*loop_, std::move(socket_), peer_,
                                                                     *agreement, std::move(early_), handler));
}

Result<std::unique_ptr<Connection>> Incoming::accept(std::vector<std::byte> private_data, Handler& handler) {
  AcceptOptions options;
  options.private_data = std::move(private_data);
  return accept(options, handler);
}

void Incoming::reject(ConstBytes private_data) {
  if (socket_.valid()) reject_and_close(socket_, responder_, private_data);
}

// ---- Listener ----

Result<std::unique_ptr<Listener>> Listener::listen(async::Loop& loop, const sockaddr_storage& address,
                                                   Callback callback) {
  const auto failed = [&](const char* what) {
    return Error{ErrorKind::local, errno, "listen", peer_text(address, ""),
                 std::string(what) + ": " + std::strerror(errno)};
  };
  Socket socket = Socket::open(address.ss_family);
  if (!socket.valid()) return failed("cannot create a socket");
  const int yes = 1;
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), address_size(address)) != 0) {
    return failed("the address cannot be used");
  }
  if (::listen(socket.fd(), backlog) != 0) return failed("listening failed");
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return failed("getsockname");
  return std::unique_ptr<Listener>(
      new Listener(loop, std::move(socket), port_of(bound), std::move(callback)));
}

Listener::Listener(async::Loop& loop, Socket socket, std::uint16_t port, Callback callback)
    : loop_(loop), socket_(std::move(socket)), port_(port), callback_(std::move(callback)) {
  loop_.watch(socket_.fd(), EPOLLIN, [this](std::uint32_t) { on_acceptable(); });
}

Listener::~Listener() {
  while (!undecided_.empty()) drop(undecided_.begin()->first);
  loop_.unwatch(socket_.fd());  // after drop(), which changes the events that this socket is watched for
}

void Listener::on_acceptable() {
  while (undecided_.size() < max_undecided) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    Socket accepted(
        ::accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted.valid()) return;
    accepted.set_options();
    const int fd = accepted.fd();
    Undecided& entry = undecided_[fd];
    entry.socket = std::move(accepted);
    entry.peer = peer_text(address, "");
    entry.timer = loop_.at(loop_.now() + patience, [this, fd] {
      undecided_.at(fd).timer = 0;
      drop(fd);
    });
    loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { on_readable(fd); });
  }
  loop_.change(socket_.fd(), 0);  // the table is full; drop() watches the socket again
}

void Listener::on_readable(int fd) {
  Undecided& entry = undecided_.at(fd);
  std::array<std::byte, mpa_max_frame> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  iovec whole{.iov_base = bytes.data(), .iov_len = bytes.size()};
  const ssize_t count = entry.socket.receive({&whole, 1});
  if (count < 0 && errno == EAGAIN) return;
  if (count <= 0) return drop(fd);
  entry.bytes.insert(entry.bytes.end(), bytes.begin(), bytes.begin() + count);
  switch (entry.responder.received(entry.bytes)) {
    case Responder::Verdict::more:
      return;
    case Responder::Verdict::drop:
      return drop(fd);
    case Responder::Verdict::refuse:
      send_frame(entry.socket, entry.responder.reject({}));
      return drop(fd);
    case Responder::Verdict::request:
      break;
  }
  loop_.unwatch(fd);
  std::vector<std::byte> early(entry.bytes.begin() + static_cast<std::ptrdiff_t>(entry.responder.consumed()),
                               entry.bytes.end());
  auto incoming = std::make_unique<Incoming>(loop_, std::move(entry.socket), entry.peer,
                                             std::move(entry.responder), std::move(early));
  drop(fd);
  callback_(std::move(incoming));
}

void Listener::drop(int fd) {
  const auto entry = undecided_.find(fd);
  if (entry->second.timer != 0) loop_.cancel(entry->second.timer);
  if (entry->second.socket.valid()) loop_.unwatch(fd);
  undecided_.erase(entry);
  if (undecided_.size() == max_undecided - 1) loop_.change(socket_.fd(), EPOLLIN);
}

}  // namespace nfsrdma::fabric::iwarp
