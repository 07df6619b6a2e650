#include "fuse/ring_door.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

namespace nfsrdma::fuse {
namespace {

constexpr auto kOfferFor = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr std::uint64_t kLeastBytes = RING_PAGE;

std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    out += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return out;
}

}  // namespace

RingDoor::RingDoor(async::Loop& loop, RingService& service) : loop_(loop), service_(service) {}

RingDoor::~RingDoor() {
  close();
}

void RingDoor::close() {
  closed_ = true;
  bytes_->keeps_pages = true;
  while (!connections_.empty()) end(connections_.begin()->first);
  offers_.clear();
  if (socket_ < 0) return;
  if (pausing_ != 0) loop_.cancel(std::exchange(pausing_, 0));
  loop_.unwatch(socket_);
  ::close(std::exchange(socket_, -1));
}

// ---- ioctls ----

bool RingDoor::has_place_for(uid_t user) const {
  std::size_t all = 0, rings = 0;
  const auto count = [&](uid_t whose) {
    ++all;
    if (whose == user) ++rings;
  };
  for (const auto& [number, one] : connections_) {
    if (one.ring != 0) count(one.user);
  }
  for (const auto& [token, one] : offers_) count(one.user);
  return all < kMostRings && rings < kMostRingsOfUser;
}

int RingDoor::room_for(uid_t user, std::uint64_t bytes) const {
  std::uint64_t of_user = bytes_->of(user) + bytes, of_all = bytes_->all() + bytes;
  for (const auto& [token, one] : offers_) {
    of_all += one.bounds.bytes;
    if (one.user == user) of_user += one.bounds.bytes;
  }
  const bool fits = of_user <= kMostBytesOfUser && of_all <= kMostBytesOfAll;
  return fits && has_place_for(user) ? 0 : EDQUOT;
}

int RingDoor::open(uid_t user, ring_open& asked) {
  if (closed_) return ENOTCONN;
  if (asked.version != RING_VERSION) return EPROTONOSUPPORT;
  drop_late();
  Offer offer;
  offer.user = user;
  offer.bounds.slots = std::clamp<unsigned>(asked.slots, 1, RING_MOST_SLOTS);
  offer.bounds.bytes = std::clamp(asked.bytes, kLeastBytes, kMostBytes) / RING_PAGE * RING_PAGE;
  int code = offers_.size() < kMostOffers ? room_for(user, offer.bounds.bytes) : EDQUOT;
  if (code == 0 && !listen()) code = errno;
  if (code != 0) {
    ++service_.counters().denied;
    return code;
  }
  offer.until = loop_.now() + kOfferFor;
  Token token{};
  loop_.random(std::as_writable_bytes(std::span(token)));
  offers_.emplace(token, offer);
  asked.slots = offer.bounds.slots;
  asked.bytes = offer.bounds.bytes;
  std::ranges::copy(token, asked.token);
  std::memset(asked.name, 0, sizeof asked.name);
  name_.copy(asked.name, sizeof asked.name - 1);
  return 0;
}

int RingDoor::attach(ring_attach& asked, const RingService::Handle& file) {
  Token token{};
  std::ranges::copy(asked.token, token.begin());
  const auto at = by_token_.find(token);
  if (at == by_token_.end()) return ENOENT;
  if (const int code = service_.refusal(*file); code != 0) return code;
  const auto number = service_.attach(connections_.at(at->second).ring, file);
  if (!number) return EMFILE;
  asked.file = *number;
  const fs::Access access = file->file()->access();
  asked.rights = 0;
  if (access != fs::Access::write) asked.rights |= RING_MAY_READ;
  if (access != fs::Access::read) asked.rights |= RING_MAY_WRITE;
  return 0;
}

// ---- the socket ----

bool RingDoor::listen() {
  if (socket_ >= 0) return true;
  std::array<std::byte, 12> random{};
  loop_.random(random);
  name_ = "nfsrdma-ring-" + hex(random);
  static_assert(13 + 2 * random.size() < RING_NAME_SIZE);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name_.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  constexpr int kBacklog = 64;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(fd, kBacklog) != 0) {
    const int code = errno;
    ::close(fd);
    errno = code;
    return false;
  }
  socket_ = fd;
  watch_socket();
  return true;
}

void RingDoor::watch_socket() {
  loop_.watch(socket_, EPOLLIN, [this](std::uint32_t) { accept(); });
}

/// Drops offers that were not used in time, and connections that have sent no token in time.
void RingDoor::drop_late() {
  const auto now = loop_.now();
  std::erase_if(offers_, [&](const auto& one) { return one.second.until <= now; });
  std::vector<Number> late;
  for (const auto& [number, one] : connections_) {
    if (one.ring == 0 && one.until <= now) late.push_back(number);
  }
  for (const Number number : late) end(number);
}

/// Returns true if the user has more offers than connections without a token. The socket's name is no secret:
/// connections of a user who was offered nothing are closed, so that they delay no other user.
bool RingDoor::is_expected(uid_t user) const {
  const auto offers =
      std::ranges::count_if(offers_, [&](const auto& one) { return one.second.user == user; });
  const auto silent = std::ranges::count_if(
      connections_, [&](const auto& one) { return one.second.ring == 0 && one.second.user == user; });
  return silent < offers;
}

void RingDoor::accept() {
  drop_late();
  const int fd = ::accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
    // The connection stays in the queue, so the loop would report it again at once.
    loop_.unwatch(socket_);
    pausing_ = loop_.at(loop_.now() + kPause, [this] {
      pausing_ = 0;
      watch_socket();
    });
  }
  if (fd < 0) return;
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || !is_expected(who.uid)) {
    ::close(fd);
    return;
  }
  Connection connection;
  connection.socket = fd;
  connection.user = who.uid;
  connection.pid = who.pid;
  connection.until = loop_.now() + kOfferFor;
  const Number number = ++last_;
  connections_.emplace(number, connection);
  loop_.watch(fd, EPOLLIN | EPOLLRDHUP, [this, number](std::uint32_t) { heard(number); });
}

/// Reads one message. If there are more, the loop reports that again in its next turn. A message that comes
/// when there is a ring already only wakes the daemon. The kernel drops descriptors that a program sends
/// along.
void RingDoor::heard(Number number) {
  Connection& connection = connections_.at(number);
  Token token{};
  const ssize_t got = ::recv(connection.socket, token.data(), token.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end(number);
  if (connection.ring != 0) return service_.roused();
  if (static_cast<std::size_t>(got) != token.size() || !admit(number, connection, token)) end(number);
}

bool RingDoor::admit(Number number, Connection& connection, const Token& token) {
  const auto at = offers_.find(token);
  if (at == offers_.end() || at->second.user != connection.user) return false;
  const RingBounds bounds = at->second.bounds;
  offers_.erase(at);
  RingMemory memory = make_ring_memory(bounds, connection.user, bytes_);
  if (!memory.bytes) {
    ++service_.counters().denied;
    return false;
  }
  const int socket = connection.socket;
  connection.token = token;
  connection.ring = service_.add(
      bounds, std::move(memory.bytes),
      // If the byte does not fit into the socket, the program has another byte to read already.
      [socket] { (void)::send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); },
      [this, number] { end(number); });
  by_token_.emplace(token, number);
  watch_process(number, connection);
  const bool given = hand_over(socket, memory.descriptor);
  ::close(memory.descriptor);
  return given;
}

bool RingDoor::hand_over(int socket, int memory) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* const control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &memory, sizeof memory);
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/// If the process cannot be seen from here (a pid of 0: another PID namespace), only the end of the socket
/// shows that it has gone.
void RingDoor::watch_process(Number number, Connection& connection) {
  if (connection.pid <= 0) return;
  const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, connection.pid, 0));
  if (fd < 0) return;
  connection.process = fd;
  loop_.watch(fd, EPOLLIN, [this, number](std::uint32_t) { end(number); });
}

void RingDoor::end(Number number) {
  const auto at = connections_.extract(number);
  if (!at) return;
  const Connection& connection = at.mapped();
  if (connection.ring != 0) {
    by_token_.erase(connection.token);
    service_.remove(connection.ring);
  }
  for (const int fd : {connection.socket, connection.process}) {
    if (fd < 0) continue;
    loop_.unwatch(fd);
    ::close(fd);
  }
}

}  // namespace nfsrdma::fuse
