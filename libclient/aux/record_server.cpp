#include "aux/record_server.h"

#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "aux/rpcbind.h"
#include "fabric/address.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 64;
constexpr int kMostAtOnce = 8;         // connections accepted in one turn
constexpr std::size_t kPiece = 16384;  // bytes of one receive
/// Pause when accepting fails for lack of descriptors or memory, because the listening socket stays ready.
constexpr auto kRest = 1s;

rpc::Address any_of(const rpc::Address& address) {
  rpc::Address out;
  out.storage.ss_family = address.storage.ss_family;
  out.length = address.length;
  return with_port(out, fabric::port_of(address.storage));
}

bool bind_to(const fabric::iwarp::Socket& socket, const rpc::Address& address) {
  return ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0;
}

/// Binds and listens. Returns 0 and sets `port`, or returns an errno.
int listen_on(const fabric::iwarp::Socket& socket, const rpc::Address& address, std::uint16_t& port) {
  const int yes = 1;
  // After a restart a given port can be bound again at once.
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.storage.ss_family == AF_INET6)
    (void)::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  if (!bind_to(socket, address) && (errno != EADDRNOTAVAIL || !bind_to(socket, any_of(address))))
    return errno;
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::listen(socket.fd(), kBacklog) != 0) return errno;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) return errno;
  port = fabric::port_of(bound);
  return 0;
}

}  // namespace

Result<std::unique_ptr<RecordServer>> RecordServer::listen(async::Loop& loop,
                                                           const RecordServerOptions& options,
                                                           Handler handler) {
  Socket socket = Socket::open(options.local.storage.ss_family);
  std::uint16_t port = 0;
  const int why = socket.valid() ? listen_on(socket, options.local, port) : errno;
  if (why != 0) {
    return Error(ErrorKind::local, why, "listen", fabric::peer_text(options.local.storage, ""),
                 std::string("cannot listen on this address: ") + std::strerror(why));
  }
  RecordServerOptions bound = options;
  bound.local = with_port(options.local, port);
  return std::unique_ptr<RecordServer>(new RecordServer(loop, bound, std::move(handler), std::move(socket)));
}

RecordServer::RecordServer(async::Loop& loop, const RecordServerOptions& options, Handler handler,
                           Socket socket)
    : loop_(loop), options_(options), handler_(std::move(handler)), socket_(std::move(socket)) {
  loop_.watch(socket_.fd(), EPOLLIN, [this](std::uint32_t) { on_acceptable(); });
}

RecordServer::~RecordServer() {
  if (resting_ != 0) loop_.cancel(resting_);
  loop_.unwatch(socket_.fd());
  while (!connections_.empty()) drop(connections_.begin());
}

// ---- connections come and go ----

void RecordServer::on_acceptable() {
  // Only some are accepted in one turn, so that new connections do not delay those that exist.
  for (int i = 0; i < kMostAtOnce; ++i) {
    Socket socket(::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      add(std::move(socket));
      continue;
    }
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (is_short) rest();
    return;
  }
}

void RecordServer::rest() {
  loop_.change(socket_.fd(), 0);
  resting_ = loop_.at(loop_.now() + kRest, [this] {
    resting_ = 0;
    loop_.change(socket_.fd(), EPOLLIN);
  });
}

void RecordServer::make_room() {
  if (connections_.empty() || connections_.size() < options_.most_connections) return;
  const auto worth = [](const auto& one) { return std::pair(one.second.steps != 0, one.second.last_use); };
  drop(std::ranges::min_element(connections_, {}, worth));
}

void RecordServer::add(Socket socket) {
  make_room();
  socket.set_options();
  const int fd = socket.fd();
  const auto place = connections_.try_emplace(fd, std::move(socket), options_.largest_record).first;
  place->second.last_use = ++uses_;
  loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { on_ready(fd); });
}

void RecordServer::drop(Place place) {
  if (place->second.timer != 0) loop_.cancel(place->second.timer);
  loop_.unwatch(place->first);
  connections_.erase(place);
}

// ---- Calls and Replies ----

void RecordServer::on_ready(int fd) {
  const Place place = connections_.find(fd);
  Connection& connection = place->second;
  const std::uint64_t before = connection.steps;
  if (!go_on(connection)) return drop(place);
  // Each record and each Reply has a time limit of its own.
  const bool is_over = connection.steps != before || !connection.busy();
  if (is_over && connection.timer != 0) loop_.cancel(std::exchange(connection.timer, 0));
  if (connection.busy() && connection.timer == 0) start_time(fd, connection);
  loop_.change(fd, connection.output.empty() ? EPOLLIN : EPOLLOUT);
}

void RecordServer::start_time(int fd, Connection& connection) {
  connection.timer = loop_.at(loop_.now() + options_.patience, [this, fd] {
    const Place place = connections_.find(fd);
    place->second.timer = 0;
    drop(place);
  });
}

/// Returns false if the connection is to be closed.
bool RecordServer::go_on(Connection& connection) {
  if (connection.output.empty()) return receive(connection);
  if (!send(connection)) return false;
  if (!connection.output.empty()) return true;
  const auto input = std::exchange(connection.input, {});
  return serve(connection, input);
}

bool RecordServer::receive(Connection& connection) {
  std::array<std::byte, kPiece> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  iovec whole{.iov_base = piece.data(), .iov_len = piece.size()};
  const ssize_t count = connection.socket.receive({&whole, 1});
  if (count < 0 && errno == EAGAIN) return true;
  if (count <= 0) return false;
  return serve(connection, xdr::ConstBytes(piece).first(static_cast<std::size_t>(count)));
}

/// Answers the Calls in `bytes`, up to one whose Reply the peer does not take at once. The bytes after that
/// Call are kept in `input`.
bool RecordServer::serve(Connection& connection, xdr::ConstBytes bytes) {
  while (!bytes.empty()) {
    switch (connection.reader.take(bytes)) {
      case RecordReader::Found::nothing:
        break;
      case RecordReader::Found::too_large:
        return false;
      case RecordReader::Found::record:
        if (!answer(connection) || !send(connection)) return false;
        break;
    }
    if (!connection.output.empty()) break;
  }
  connection.input.assign(bytes.begin(), bytes.end());
  return true;
}

bool RecordServer::answer(Connection& connection) {
  connection.last_use = ++uses_;
  ++connection.steps;
  reply_.clear();
  const bool is_call = handler_(connection.reader.record(), reply_);
  connection.reader.next();
  const std::size_t size = reply_.stream.size();
  if (!is_call || size == 0 || size >= kLastFragment) return false;
  connection.output.resize(kRecordMark + size);
  xdr::store_u32(connection.output.data(), kLastFragment | static_cast<std::uint32_t>(size));
  std::memcpy(connection.output.data() + kRecordMark, reply_.stream.data(), size);
  connection.sent = 0;
  return true;
}

/// Sends as much as the peer takes now. Returns false if the connection is lost.
bool RecordServer::send(Connection& connection) {
  while (connection.sent < connection.output.size()) {
    iovec rest{.iov_base = connection.output.data() + connection.sent,
               .iov_len = connection.output.size() - connection.sent};
    const ssize_t count = connection.socket.send({&rest, 1});
    if (count < 0) return errno == EAGAIN;
    connection.sent += static_cast<std::size_t>(count);
  }
  connection.output = {};
  ++connection.steps;
  return true;
}

}  // namespace nfsrdma::aux
