#include "support/rpc_program.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fabric/address.h"
#include "support/loopback.h"

namespace nfsrdma::testing {
namespace {

void put(std::vector<std::byte>& to, std::initializer_list<std::uint32_t> words) {
  for (const std::uint32_t word : words) {
    to.resize(to.size() + 4);
    xdr::store_u32(&to[to.size() - 4], word);
  }
}

bool read_all(int fd, std::byte* to, std::size_t size) {
  while (size != 0) {
    const ssize_t count = ::recv(fd, to, size, 0);
    if (count <= 0) return false;
    to += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

rpc::Address loopback_of(int family, std::uint16_t port) {
  rpc::Address out;
  if (family == AF_INET6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    in.sin6_addr = in6addr_loopback;
    std::memcpy(&out.storage, &in, sizeof in);
    out.length = sizeof in;
  } else {
    out.storage = loopback(port);
    out.length = sizeof(sockaddr_in);
  }
  return out;
}

}  // namespace

RpcPrograms::RpcPrograms(int family) : family_(family) {
  // One port for both: whichever TCP gives that UDP has, too.
  for (int tries = 0; tries < 100 && datagrams_ < 0; ++tries) {
    if (listening_ >= 0) ::close(listening_);
    listening_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening_ < 0) std::abort();
    rpc::Address any = loopback_of(family, 0);
    auto* const address = reinterpret_cast<sockaddr*>(&any.storage);
    socklen_t size = any.length;
    if (::bind(listening_, address, size) != 0 || ::listen(listening_, 5) != 0) std::abort();
    (void)::getsockname(listening_, address, &size);
    port_ = fabric::port_of(any.storage);
    datagrams_ = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (datagrams_ < 0) std::abort();
    if (::bind(datagrams_, address, size) == 0) continue;
    ::close(std::exchange(datagrams_, -1));
  }
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { run(); });
}

RpcPrograms::~RpcPrograms() {
  (void)::eventfd_write(stop_, 1);
  thread_.join();
  for (const int fd : connections_) ::close(fd);
  for (const int fd : {listening_, datagrams_, stop_}) {
    if (fd >= 0) ::close(fd);
  }
}

bool RpcPrograms::possible(int family) {
  const rpc::Address any = loopback_of(family, 0);
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool out = fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&any.storage), any.length) == 0;
  if (fd >= 0) ::close(fd);
  return out;
}

rpc::Address RpcPrograms::address() const {
  return loopback_of(family_, port_);
}

void RpcPrograms::serve(std::uint32_t program, std::uint32_t version, std::uint32_t procedure,
                        Handler handler) {
  const std::lock_guard guard(mutex_);
  handlers_[{program, version, procedure}] = std::move(handler);
}

void RpcPrograms::withdraw(std::uint32_t program) {
  const std::lock_guard guard(mutex_);
  std::erase_if(handlers_, [&](const auto& one) { return std::get<0>(one.first) == program; });
}

std::vector<std::string> RpcPrograms::calls() const {
  const std::lock_guard guard(mutex_);
  return calls_;
}

void RpcPrograms::close_tcp() {
  const std::lock_guard guard(mutex_);
  ::close(std::exchange(listening_, -1));
}

void RpcPrograms::hang_up() {
  hangs_up_ = true;
  while (hangs_up_) std::this_thread::yield();
}

std::optional<RpcPrograms::Octets> RpcPrograms::answer(xdr::ConstBytes call, const char* over) {
  xdr::Decoder in(call);
  std::uint32_t xid = 0, direction = 0, rpc = 0, program = 0, version = 0, procedure = 0, flavor = 0;
  xdr::ConstBytes body;
  if (!in.u32(xid) || !in.u32(direction) || !in.u32(rpc) || !in.u32(program) || !in.u32(version) ||
      !in.u32(procedure) || !in.u32(flavor) || !in.opaque(400, body) || !in.u32(flavor) ||
      !in.opaque(400, body))
    return std::nullopt;
  const std::lock_guard guard(mutex_);
  calls_.push_back(std::to_string(program) + "." + std::to_string(version) + "." + std::to_string(procedure) +
                   "/" + over);
  Octets out;
  const auto found = handlers_.find({program, version, procedure});
  if (found != handlers_.end()) {
    auto results = found->second(in.rest());
    if (!results) return std::nullopt;
    put(out, {xid, 1, 0, 0, 0, 0});
    out.insert(out.end(), results->begin(), results->end());
    return out;
  }
  const auto first = handlers_.lower_bound({program, 0, 0});
  const bool known = first != handlers_.end() && std::get<0>(first->first) == program;
  const bool versioned = std::ranges::any_of(handlers_, [&](const auto& one) {
    return std::get<0>(one.first) == program && std::get<1>(one.first) == version;
  });
  if (!known) {
    put(out, {xid, 1, 0, 0, 0, 1});  // PROG_UNAVAIL
  } else if (versioned) {
    put(out, {xid, 1, 0, 0, 0, 3});  // PROC_UNAVAIL
  } else {
    put(out, {xid, 1, 0, 0, 0, 2, std::get<1>(first->first), std::get<1>(first->first)});
  }
  return out;
}

/// One record of one fragment (RFC 5531 11).
bool RpcPrograms::take_record(int fd) {
  std::array<std::byte, 4> mark{};
  if (!read_all(fd, mark.data(), mark.size())) return false;
  constexpr std::uint32_t kLast = 1U << 31U;
  Octets call(xdr::load_u32(mark.data()) & ~kLast);
  if (!read_all(fd, call.data(), call.size())) return false;
  const auto reply = answer(call, "tcp");
  if (!reply || silent_tcp_) return true;
  Octets record;
  put(record, {kLast | static_cast<std::uint32_t>(reply->size())});
  record.insert(record.end(), reply->begin(), reply->end());
  return ::send(fd, record.data(), record.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(record.size());
}

void RpcPrograms::take_connection() {
  const std::lock_guard guard(mutex_);
  const int fd = listening_ >= 0 ? ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC) : -1;
  if (fd < 0) return;
  ++accepted_;
  connections_.push_back(fd);
}

void RpcPrograms::run() {
  for (;;) {
    std::vector<pollfd> fds{{stop_, POLLIN, 0}, {datagrams_, POLLIN, 0}};
    {
      const std::lock_guard guard(mutex_);
      fds.push_back({listening_, POLLIN, 0});
    }
    if (hangs_up_) {
      for (const int fd : std::exchange(connections_, {})) ::close(fd);
      hangs_up_ = false;
    }
    for (const int fd : connections_) fds.push_back({fd, POLLIN, 0});
    constexpr int kLook = 20;  // for a listener that was closed
    if (::poll(fds.data(), fds.size(), kLook) < 0 || fds[0].revents != 0) return;
    if (fds[1].revents != 0) {
      Octets call(65536);
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const ssize_t count =
          ::recvfrom(datagrams_, call.data(), call.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
      call.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      const auto reply = no_udp_ ? std::nullopt : answer(call, "udp");
      if (reply)
        (void)::sendto(datagrams_, reply->data(), reply->size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    }
    if (fds[2].revents != 0) take_connection();
    for (std::size_t i = 3; i < fds.size(); ++i) {
      if (fds[i].revents == 0 || take_record(fds[i].fd)) continue;
      ::close(fds[i].fd);
      std::erase(connections_, fds[i].fd);
    }
  }
}

}  // namespace nfsrdma::testing
