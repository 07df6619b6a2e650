#include "connect/resolve.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>

#include "async/helper.h"

namespace nfsrdma::connect {
namespace {

/// State shared by the look-up and its caller. The one that ends last frees it.
struct LookUp {
  std::string host, service;
  addrinfo* found = nullptr;
  int rc = 0;
  // Set when the look-up has ended. The reader sees `found` and `rc` because of this flag; the descriptor
  // does not order them.
  std::atomic<bool> ended = false;
  int done = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ~LookUp() {
    if (found != nullptr) ::freeaddrinfo(found);
    if (done >= 0) ::close(done);
  }
  LookUp(std::string h, std::string s) : host(std::move(h)), service(std::move(s)) {}
  LookUp(const LookUp&) = delete;
  LookUp& operator=(const LookUp&) = delete;

  void run() {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    rc = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
    // The name may be "::1" on a machine without IPv6 addresses, for which glibc returns EAI_ADDRFAMILY.
    if (rc == EAI_NONAME || rc == EAI_FAMILY || rc == EAI_ADDRFAMILY) {
      hints.ai_flags = AI_NUMERICHOST;
      if (::getaddrinfo(host.c_str(), service.c_str(), &hints, &found) == 0) rc = 0;
    }
    ended.store(true, std::memory_order_release);
    [[maybe_unused]] const int told = ::eventfd_write(done, 1);
  }
};

std::vector<rpc::Address> addresses_of(const addrinfo* found) {
  std::vector<rpc::Address> out;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_addrlen > sizeof(sockaddr_storage)) continue;
    rpc::Address address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.length = at->ai_addrlen;
    out.push_back(address);
  }
  return out;
}

}  // namespace

Result<std::vector<rpc::Address>> resolve(const std::string& host, std::uint16_t port,
                                          std::chrono::steady_clock::time_point deadline, int interrupt) {
  auto look_up = std::make_shared<LookUp>(host, std::to_string(port));
  if (look_up->done < 0) {
    return Error(ErrorKind::local, errno, "resolve", host,
                 std::string("no file descriptor is available: ") + std::strerror(errno));
  }
  try {
    const async::AllSignalsBlocked blocked;
    std::thread([look_up] { look_up->run(); }).detach();
  } catch (const std::system_error& none) {
    return Error(ErrorKind::local, none.code().value(), "resolve", host,
                 std::string("no thread could be created: ") + none.what() +
                     "; raise the limit on processes, or give the server's address");
  }
  pollfd fds[2] = {{look_up->done, POLLIN, 0}, {interrupt, POLLIN, 0}};
  int ready = 0;
  do {  // poll(2) ends at each signal that the program handles, even with SA_RESTART
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    ready = ::poll(fds, 2, static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX)));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0 && fds[0].revents == 0) {
    return Error(ErrorKind::cancelled, EINTR, "resolve", host, "interrupted");
  }
  if (ready <= 0 || !look_up->ended.load(std::memory_order_acquire)) {
    return Error(ErrorKind::timeout, ETIMEDOUT, "resolve", host,
                 "the name service does not answer; check /etc/resolv.conf, or give the server's address");
  }
  if (look_up->rc != 0) {
    return Error(ErrorKind::connection, EHOSTUNREACH, "resolve", host,
                 std::string("no address for this name (") + ::gai_strerror(look_up->rc) +
                     "); check its spelling, or give the server's address");
  }
  auto addresses = addresses_of(look_up->found);
  if (addresses.empty()) {
    return Error(ErrorKind::connection, EHOSTUNREACH, "resolve", host, "the name has no usable address");
  }
  return addresses;
}

}  // namespace nfsrdma::connect
