#include "aux/rpcbind.h"

#include <netinet/in.h>

#include <cerrno>
#include <charconv>

#include "fabric/address.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using Found = Result<std::optional<std::uint16_t>>;

template <class P>
async::Task<Found> ask_for_all(async::Loop& loop, Remote remote, Service service, async::TimePoint deadline) {
  const std::string wanted = netid(service.wire, remote.address.storage.ss_family);
  auto told = co_await call<P>(loop, remote, security::Identity(), xdr::Void(), deadline);
  if (!told) co_return told.error();
  for (const rpcb& one : told->list.value) {
    const bool is_it =
        one.r_prog == service.program && one.r_vers == service.version && one.r_netid.value == wanted;
    if (is_it) co_return port_in(one.r_addr.value);
  }
  co_return std::optional<std::uint16_t>();
}

async::Task<Found> ask_portmapper(async::Loop& loop, Remote remote, Service service,
                                  async::TimePoint deadline) {
  // The portmapper does not know RDMA, and knows only IPv4.
  if (service.wire == Wire::rdma) co_return std::optional<std::uint16_t>();
  mapping args;
  args.prog = service.program;
  args.vers = service.version;
  args.prot = service.wire == Wire::tcp ? IPPROTO_TCP : IPPROTO_UDP;
  auto told = co_await call<PMAP_GETPORT>(loop, remote, security::Identity(), args, deadline);
  if (!told) co_return told.error();
  constexpr std::uint32_t kMost = 65535;
  if (told->port == 0 || told->port > kMost) co_return std::optional<std::uint16_t>();
  co_return std::optional<std::uint16_t>(static_cast<std::uint16_t>(told->port));
}

bool has_other_versions(const Error& error) {
  return error.errno_value() == EPROTONOSUPPORT || error.errno_value() == EOPNOTSUPP;
}

async::Task<Found> ask(async::Loop& loop, Remote remote, Service service, async::TimePoint deadline) {
  auto found = co_await ask_for_all<RPCB4_DUMP>(loop, remote, service, deadline);
  if (found || !has_other_versions(found.error())) co_return found;
  found = co_await ask_for_all<RPCB3_DUMP>(loop, remote, service, deadline);
  if (found || !has_other_versions(found.error())) co_return found;
  co_return co_await ask_portmapper(loop, std::move(remote), service, deadline);
}

}  // namespace

std::string netid(Wire wire, int family) {
  const bool six = family == AF_INET6;
  switch (wire) {
    case Wire::tcp:
      return six ? "tcp6" : "tcp";
    case Wire::udp:
      return six ? "udp6" : "udp";
    case Wire::rdma:
      break;
  }
  return six ? "rdma6" : "rdma";
}

std::string universal_address(const rpc::Address& address) {
  const unsigned port = fabric::port_of(address.storage);
  return fabric::host_text(address.storage) + "." + std::to_string(port / 256) + "." +
         std::to_string(port % 256);
}

std::optional<std::uint16_t> port_in(std::string_view address) {
  // The last two numbers are the two octets of the port.
  const auto octet = [&address]() -> std::optional<unsigned> {
    const std::size_t dot = address.rfind('.');
    if (dot == std::string_view::npos || dot + 1 == address.size()) return std::nullopt;
    const std::string text(address.substr(dot + 1));
    address = address.substr(0, dot);
    unsigned value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value > 255)
      return std::nullopt;
    return value;
  };
  const auto low = octet();
  const auto high = low ? octet() : std::nullopt;
  if (!high || address.empty()) return std::nullopt;
  const unsigned port = *high * 256 + *low;
  if (port == 0) return std::nullopt;
  return static_cast<std::uint16_t>(port);
}

rpc::Address with_port(const rpc::Address& address, std::uint16_t port) {
  rpc::Address out = address;
  if (out.storage.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(out.storage).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(out.storage).sin6_port = htons(port);
  }
  return out;
}

async::Task<Found> find_port(async::Loop& loop, rpc::Address address, std::string server, Service service,
                             async::TimePoint deadline, std::uint16_t rpcbind_port) {
  Remote remote{with_port(address, rpcbind_port), std::move(server), Transport::tcp};
  // TCP gets half of the time, and UDP the other half.
  const auto middle = loop.now() + (deadline - loop.now()) / 2;
  auto found = co_await ask(loop, remote, service, middle);
  if (found || found.error().kind() != ErrorKind::connection) co_return found;
  remote.transport = Transport::udp;
  auto again = co_await ask(loop, std::move(remote), service, deadline);
  if (!again && again.error().kind() == ErrorKind::connection) co_return found;  // its message says more
  co_return again;
}

}  // namespace nfsrdma::aux
