#include "aux/registration.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rpc/rpc.h>

#include <cerrno>
#include <string>

#include "async/helper.h"
#include "fabric/address.h"

namespace nfsrdma::aux {
namespace {

const char* const kOperation = "register";

rpc::Address loopback(int family, std::uint16_t port) {
  rpc::Address out;
  out.storage.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(out.storage).sin6_addr = in6addr_loopback;
    out.length = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in&>(out.storage).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.length = sizeof(sockaddr_in);
  }
  return with_port(out, port);
}

Error error(int errno_value, std::string text) {
  return {ErrorKind::local, errno_value, kOperation, "rpcbind on this machine", std::move(text)};
}

struct FreeNetconfig {
  void operator()(netconfig* config) const { freenetconfigent(config); }
};
std::unique_ptr<netconfig, FreeNetconfig> netconfig_of(const std::string& name) {
  return std::unique_ptr<netconfig, FreeNetconfig>(getnetconfigent(name.c_str()));
}

/// Calls rpcbind over its socket in the file system, so that rpcbind knows who owns the registration.
bool set_and_wait(const Service& service, rpc::Address at) {
  const auto config = netconfig_of(netid(service.wire, at.storage.ss_family));
  if (!config) return false;
  netbuf address{at.length, at.length, &at.storage};
  return rpcb_set(service.program, service.version, config.get(), &address) != FALSE;
}
bool unset_and_wait(const Service& service, int family) {
  const auto config = netconfig_of(netid(service.wire, family));
  return config && rpcb_unset(service.program, service.version, config.get()) != FALSE;
}

async::Task<bool> on_thread(async::Loop& loop, async::TimePoint deadline, std::function<bool()> work) {
  const auto done = co_await async::on_helper<bool>(loop, deadline, std::move(work));
  co_return done.value_or(false);
}

async::Task<Result<std::optional<std::uint16_t>>> registered(async::Loop& loop, Service service, int family,
                                                             async::TimePoint deadline) {
  co_return co_await find_port(loop, loopback(family, 0), "this machine", service, deadline);
}

async::Task<bool> is_at(async::Loop& loop, Service service, rpc::Address at, async::TimePoint deadline) {
  auto port = co_await registered(loop, service, at.storage.ss_family, deadline);
  co_return port && *port && **port == fabric::port_of(at.storage);
}

async::Task<void> unset(async::Loop& loop, Service service, int family, async::TimePoint deadline) {
  const std::function<bool()> work = [service, family] { return unset_and_wait(service, family); };
  (void)co_await on_thread(loop, deadline, work);
}

/// Returns true if a program answers there. A program that was killed does not.
async::Task<bool> answers(async::Loop& loop, Service service, rpc::Address at, async::TimePoint deadline) {
  const Transport transport = service.wire == Wire::tcp ? Transport::tcp : Transport::udp;
  const RawCall null{service.program, service.version, 0, "NULL", {}};
  const Remote remote{at, "this machine", transport};
  auto answer = co_await call_raw(loop, remote, security::Identity(), null, deadline);
  const bool refused = !answer && answer.error().errno_value() == ECONNREFUSED;
  co_return !refused;
}

/// Checks TCP and UDP, because the kernel's lockd registers both.
async::Task<Status> find_free(async::Loop& loop, Service service, int family, bool* stale,
                              async::TimePoint deadline) {
  for (const Wire wire : {service.wire, Wire::udp}) {
    const Service one{service.program, service.version, wire};
    auto port = co_await registered(loop, one, family, deadline);
    if (!port) {
      const bool silent = port.error().kind() == ErrorKind::connection;
      if (silent) co_return error(ECONNREFUSED, "no rpcbind runs on this machine");
      co_return port.error();
    }
    if (!*port) continue;
    const rpc::Address at = loopback(family, **port);
    const bool there = co_await answers(loop, one, at, deadline);
    if (there) co_return error(EADDRINUSE, "another program on this machine is registered for this service");
    if (wire == service.wire) *stale = true;
  }
  co_return Status();
}

}  // namespace

async::Task<Status> Registration::look(async::Loop& loop, Service service, int family,
                                       async::TimePoint deadline) {
  bool stale = false;
  co_return co_await find_free(loop, service, family, &stale, deadline);
}

async::Task<Result<std::unique_ptr<Registration>>> Registration::take(async::Loop& loop, Service service,
                                                                      rpc::Address at,
                                                                      async::TimePoint deadline) {
  const int family = at.storage.ss_family;
  bool stale = false;
  auto found_free = co_await find_free(loop, service, family, &stale, deadline);
  if (!found_free) co_return found_free.error();
  if (stale) co_await unset(loop, service, family, deadline);
  const std::function<bool()> set = [service, at] { return set_and_wait(service, at); };
  const bool done = co_await on_thread(loop, deadline, set);
  if (!done) co_return error(EACCES, "rpcbind refuses to register this program");
  // rpcb_set() reached the rpcbind whose socket is in this file system. Servers ask the one of this network
  // namespace, which may be another.
  const bool is_ours = co_await is_at(loop, service, at, deadline);
  if (is_ours) co_return std::make_unique<Registration>(loop, service, at);
  co_await unset(loop, service, family, deadline);
  co_return error(
      EADDRNOTAVAIL,
      "this is not the rpcbind that servers would ask, which may be in another network namespace");
}

async::Task<void> Registration::give_up(async::TimePoint deadline) {
  const bool is_ours = co_await is_at(loop_, service_, at_, deadline);
  if (is_ours) co_await unset(loop_, service_, at_.storage.ss_family, deadline);
}

}  // namespace nfsrdma::aux
