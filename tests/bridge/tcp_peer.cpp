#include "bridge/tcp_peer.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "fabric/address.h"

namespace nfsrdma::bridge {
namespace {

constexpr std::size_t kReadAtOnce = 256 * 1024;
/// So that one busy connection leaves the loop's turn to the others.
constexpr int kReadsPerTurn = 8;
constexpr std::size_t kRecordsPerWrite = 16;

}  // namespace

TcpPeer::TcpPeer(async::Loop& loop, const sockaddr_storage& server, std::size_t largest, Events& events)
    : loop_(loop), events_(events), socket_(fabric::iwarp::Socket::open(server.ss_family)), reader_(largest) {
  begin(server);
}

void TcpPeer::begin(const sockaddr_storage& server) {
  if (!socket_.valid()) return lose_errno("no socket to be had", errno);
  const int rc =
      ::connect(socket_.fd(), reinterpret_cast<const sockaddr*>(&server), fabric::address_size(server));
  if (rc != 0 && errno != EINPROGRESS) return lose_errno("cannot connect", errno);
  interest_ = EPOLLOUT;
  loop_.watch(socket_.fd(), interest_, [this](std::uint32_t events_now) { on_ready(events_now); });
}

TcpPeer::~TcpPeer() {
  close();
}

void TcpPeer::close() {
  lost_ = true;
  if (!socket_.valid()) return;
  if (interest_ != 0) loop_.unwatch(socket_.fd());
  interest_ = 0;
  socket_.reset();
}

void TcpPeer::lose(const std::string& why) {
  if (lost_) return;
  close();
  loop_.post([this, why, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) events_.on_server_lost(why);
  });
}

void TcpPeer::lose_errno(const char* what, int errno_value) {
  lose(std::string(what) + ": " + std::strerror(errno_value));
}

void TcpPeer::send(xdr::Buffer record) {
  if (lost_) return;
  queue_.push_back(std::move(record));
  if (connected_ && queue_.size() == 1) write_out();
}

void TcpPeer::pause(bool paused) {
  paused_ = paused;
  set_interest();
}

void TcpPeer::set_interest() {
  if (lost_ || !connected_) return;
  const std::uint32_t wanted = (paused_ ? 0U : std::uint32_t{EPOLLIN}) |
                               (queue_.empty() ? 0U : std::uint32_t{EPOLLOUT}) | std::uint32_t{EPOLLRDHUP};
  if (wanted == interest_) return;
  interest_ = wanted;
  loop_.change(socket_.fd(), interest_);
}

void TcpPeer::on_ready(std::uint32_t events) {
  if (!connected_) {
    const int error = socket_.take_error();
    if (error != 0) return lose_errno("cannot connect", error);
    if ((events & EPOLLOUT) == 0) return;
    connected_ = true;
  }
  // While paused only a broken connection wakes us, and what it still holds is of no use.
  if (paused_ && (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0)
    return lose("the server closed the connection");
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) on_readable();
  if (!lost_) write_out();
}

void TcpPeer::on_readable() {
  static thread_local std::vector<std::byte> bytes(kReadAtOnce);
  for (int i = 0; i < kReadsPerTurn && !lost_ && !paused_; ++i) {
    std::array<iovec, 1> into{iovec{bytes.data(), bytes.size()}};
    const ssize_t count = socket_.receive(into);
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) return lose_errno("reading", errno);
    if (count == 0) return lose("the server closed the connection");
    const auto take = [this](xdr::Buffer message) {
      if (!lost_) events_.on_record(std::move(message));
    };
    if (!reader_.feed(fabric::ConstBytes(bytes).first(static_cast<std::size_t>(count)), take))
      return lose("the server announces a record that is larger than any it may send");
    if (static_cast<std::size_t>(count) < bytes.size()) return;
  }
}

void TcpPeer::write_out() {
  while (!queue_.empty()) {
    std::array<iovec, kRecordsPerWrite> from{};
    std::size_t used = 0;
    for (xdr::Buffer& record : queue_) {
      const std::size_t skip = used == 0 ? written_ : 0;
      from[used++] = {record.data() + skip, record.size() - skip};
      if (used == from.size()) break;
    }
    ssize_t count = socket_.send(std::span(from).first(used));
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return lose_errno("writing", errno);
    while (count > 0) {
      const auto left = static_cast<ssize_t>(queue_.front().size() - written_);
      if (count < left) {
        written_ += static_cast<std::size_t>(count);
        break;
      }
      count -= left;
      queue_.pop_front();
      written_ = 0;
    }
  }
  set_interest();
}

}  // namespace nfsrdma::bridge
