#include "responder/tcp_side.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace nfsrdma::bench {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kInput = 4U << 20;
/// Octets of a record up to the Call's program: the record mark, the XID, the type and the RPC version are in front of it.
constexpr std::size_t kFirstWords = 20;
constexpr std::uint32_t kLast = 0x80000000U;
constexpr std::size_t kPieces = 64;
constexpr std::array<std::byte, 4> kZeros{};

/// Pieces for one system call, from `sent` on.
class Pieces {
 public:
  explicit Pieces(std::size_t skip) : skip_(skip) {}
  void add(xdr::ConstBytes bytes) {
    const std::size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes = bytes.subspan(skipped);
    if (bytes.empty() || count_ == all_.size()) return;
    all_[count_++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: only read
    size_ += bytes.size();
  }
  void begin_next() { skip_ = 0; }
  [[nodiscard]] bool full() const { return count_ + 4 > all_.size(); }
  [[nodiscard]] msghdr message() {
    msghdr out{};
    out.msg_iov = all_.data();
    out.msg_iovlen = count_;
    return out;
  }

 private:
  std::array<iovec, kPieces> all_{};
  std::size_t count_ = 0, size_ = 0, skip_;
};

std::size_t size_of(const xdr::Buffer& head, const Reply& reply) {
  return head.size() + reply.message.unreduced_size();
}

void add(Pieces& to, const xdr::Buffer& head, const Reply& reply) {
  to.add(head.bytes());
  const xdr::ConstBytes stream = reply.message.stream.bytes();
  std::size_t from = 0;
  for (const xdr::Item& item : reply.message.items) {
    to.add(stream.subspan(from, item.stream_offset - from));
    to.add(item.data);
    to.add(xdr::ConstBytes(kZeros).first(xdr::padding(item.data.size())));
    from = item.stream_offset;
  }
  to.add(stream.subspan(from));
}

}  // namespace

TcpSide::TcpSide(async::Loop& loop, Answers& answers) : loop_(loop), answers_(answers) {}

TcpSide::~TcpSide() {
  while (!clients_.empty()) drop(clients_.begin()->first);
  if (listening_ < 0) return;
  loop_.unwatch(listening_);
  ::close(listening_);
}

Status TcpSide::listen(std::uint16_t port) {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listening_ < 0) return Error(ErrorKind::local, errno, "listen", "a socket", std::strerror(errno));
  const int on = 1;
  (void)::setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening_, any, length) != 0 || ::listen(listening_, kBacklog) != 0 ||
      ::getsockname(listening_, any, &length) != 0) {
    const int why = errno;
    return Error(ErrorKind::local, why, "listen", "port " + std::to_string(port), std::strerror(why));
  }
  port_ = ntohs(address.sin_port);
  loop_.watch(listening_, EPOLLIN, [this](std::uint32_t) { on_acceptable(); });
  return {};
}

void TcpSide::on_acceptable() {
  for (;;) {
    const int fd = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Client client;
    client.socket = async::Descriptor(fd);
    client.input.resize(kInput);
    adopt(std::move(client));
  }
}

int TcpSide::adopt(Client client) {
  const int fd = client.socket.get();
  clients_[fd] = std::move(client);
  loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t events) { on_ready(fd, events); });
  return fd;
}

void TcpSide::take(Client client) {
  client.is_new = false;
  on_ready(adopt(std::move(client)), EPOLLIN);
}

void TcpSide::drop(int fd) {
  loop_.unwatch(fd);
  clients_.erase(fd);
}

void TcpSide::on_ready(int fd, std::uint32_t events) {
  Client& client = clients_[fd];
  const bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
  if (readable && !receive(fd, client)) return drop(fd);
  if (client.is_new && hand_over_) {
    if (client.end < kFirstWords) return;
    if (calls_nfs(client)) {
      loop_.unwatch(fd);
      Client leaves = std::move(client);
      clients_.erase(fd);
      return hand_over_(std::move(leaves));
    }
  }
  client.is_new = false;
  if (!serve(client)) return drop(fd);
  if (!send(fd, client)) return drop(fd);
  if (client.output.empty() == client.waits) {
    client.waits = !client.waits;
    loop_.change(fd, client.waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

bool TcpSide::receive(int fd, Client& client) {
  if (client.begin == client.end) client.begin = client.end = 0;
  if (client.end == client.input.size()) {
    if (client.begin == 0) return false;  // a record that is larger than any
    std::memmove(client.input.data(), client.input.data() + client.begin, client.end - client.begin);
    client.end -= client.begin;
    client.begin = 0;
  }
  const ssize_t got = ::recv(fd, client.input.data() + client.end, client.input.size() - client.end, 0);
  if (got == 0) return false;
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  client.end += static_cast<std::size_t>(got);
  return true;
}

/// Returns whether the first Call is one of NFS. At least kFirstWords must have come.
bool TcpSide::calls_nfs(const Client& client) {
  constexpr std::uint32_t kNfsProgram = 100003;
  return xdr::load_u32(client.input.data() + kFirstWords - 4) == kNfsProgram;
}

bool TcpSide::serve(Client& client) {
  for (;;) {
    const xdr::ConstBytes there(client.input.data() + client.begin, client.end - client.begin);
    if (there.size() < 4) return true;
    const std::uint32_t mark = xdr::load_u32(there.data());
    const std::size_t length = mark & ~kLast;
    if ((mark & kLast) == 0) return false;  // nobody sends records in pieces
    if (there.size() - 4 < length) return true;
    client.begin += 4 + length;
    std::unique_ptr<Outgoing> out;
    if (spare_.empty()) {
      out = std::make_unique<Outgoing>();
    } else {
      out = std::move(spare_.back());
      spare_.pop_back();
    }
    if (!answers_.answer(there.subspan(4, length), nullptr, out->reply)) return false;
    xdr::store_u32(out->head.extend(4),
                   kLast | static_cast<std::uint32_t>(out->reply.message.unreduced_size()));
    client.output.push_back(std::move(out));
  }
}

/// As many Replies in a system call as go into it.
bool TcpSide::send(int fd, Client& client) {
  while (!client.output.empty()) {
    Pieces pieces(client.output.front()->sent);
    for (const auto& one : client.output) {
      if (pieces.full()) break;
      add(pieces, one->head, one->reply);
      pieces.begin_next();
    }
    const msghdr message = pieces.message();
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    auto left = static_cast<std::size_t>(sent);
    while (!client.output.empty()) {
      Outgoing& first = *client.output.front();
      const std::size_t missing = size_of(first.head, first.reply) - first.sent;
      if (left < missing) {
        first.sent += left;
        break;
      }
      left -= missing;
      first.head.clear();
      first.reply.clear();
      first.sent = 0;
      spare_.push_back(std::move(client.output.front()));
      client.output.pop_front();
    }
  }
  return true;
}

}  // namespace nfsrdma::bench
