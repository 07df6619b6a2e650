// The steps as far as the server's port, without RDMA: addresses, route, devices, TCP.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "async/event.h"
#include "async/until.h"
#include "aux/local_address.h"
#include "aux/rpcbind.h"
#include "connect/resolve.h"
#include "diagnosis/examination.h"
#include "fabric/address.h"
#include "fabric/iwarp/socket.h"
#include "fabric/verbs/library.h"
#include "rpc/message.h"

namespace nfsrdma::diagnosis {
namespace {

using namespace std::chrono_literals;

/// The port on which a server has NFS over TCP, without RDMA.
constexpr std::uint16_t kNfsPort = 2049;
constexpr auto kHintTime = 1s;
/// Time for the TCP port if RDMA devices may reach the server without TCP.
constexpr auto kTcpBesideVerbs = 2s;
constexpr auto kRpcbindTime = 3s;

// ---- the system's means ----

std::string interface_of(const rpc::Address& local) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string out;
  const std::string wanted = fabric::host_text(local.storage);
  for (const ifaddrs* one = all; one != nullptr && out.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != local.storage.ss_family) continue;
    sockaddr_storage address{};
    std::memcpy(&address, one->ifa_addr, fabric::address_size(local.storage));
    if (fabric::host_text(address) == wanted) out = one->ifa_name;
  }
  ::freeifaddrs(all);
  return out;
}

unsigned mtu_of(const fabric::iwarp::Socket& socket, const std::string& interface) {
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, interface.c_str(), interface.size() + 1);
  return ::ioctl(socket.fd(), SIOCGIFMTU, &request) == 0 ? static_cast<unsigned>(request.ifr_mtu) : 0;
}

/// Returns the path MTU that the kernel has for a connected socket.
unsigned path_mtu_of(const fabric::iwarp::Socket& socket, int family) {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const bool is_v6 = family == AF_INET6;
  const int got =
      ::getsockopt(socket.fd(), is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_MTU : IP_MTU, &mtu, &length);
  return got == 0 && mtu > 0 ? static_cast<unsigned>(mtu) : 0;
}

Result<Way> way_to(const rpc::Address& server) {
  auto local = aux::local_address_towards(server);
  if (!local) return local.error();
  Way out;
  out.source = fabric::host_text(local->storage);
  out.interface = interface_of(*local);
  const int family = server.storage.ss_family;
  const fabric::iwarp::Socket socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto* const to = reinterpret_cast<const sockaddr*>(&server.storage);
  if (!socket.valid() || ::connect(socket.fd(), to, server.length) != 0) return out;
  out.mtu = mtu_of(socket, out.interface);
  out.path_mtu = path_mtu_of(socket, family);
  return out;
}

/// Waits until a connect(2) that is under way has ended. Returns 0 or an errno.
async::Task<int> connected(async::Loop& loop, const fabric::iwarp::Socket& socket,
                           async::TimePoint deadline) {
  async::Event writable(loop);
  bool is_over = false;
  loop.watch(socket.fd(), EPOLLOUT, [&](std::uint32_t) {
    is_over = true;
    writable.notify_all();
  });
  struct Unwatch {
    async::Loop& loop;
    int fd;
    ~Unwatch() { loop.unwatch(fd); }
  };
  const Unwatch unwatch{loop, socket.fd()};
  const bool in_time = co_await async::until(writable, deadline, [&] { return is_over; });
  co_return in_time ? socket.take_error() : ETIMEDOUT;
}

async::Task<Knock> try_tcp(async::Loop& loop, rpc::Address address, async::TimePoint deadline) {
  const auto socket =
      std::make_shared<fabric::iwarp::Socket>(fabric::iwarp::Socket::open(address.storage.ss_family));
  if (!socket->valid()) co_return Knock{errno};
  const auto* const to = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(socket->fd(), to, address.length) == 0) co_return Knock{0, socket};
  if (errno != EINPROGRESS) co_return Knock{errno};
  const int failed = co_await connected(loop, *socket, deadline);
  co_return Knock{failed, socket};
}

// ---- devices ----

std::vector<std::string> devices() {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& one : std::filesystem::directory_iterator("/sys/class/infiniband", none))
    out.push_back(one.path().filename().string());
  std::ranges::sort(out);
  return out;
}

/// Returns true if a connection may be made without TCP.
bool may_use_device(const Examination& at) {
  return at.options().fabric != Fabric::iwarp && fabric::verbs::missing_device().empty();
}

// ---- the port ----

/// Asks rpcbind for the port, as a client of NFSv3 and v2 does.
async::Task<void> look_for_port(Examination& at, Finding& out) {
  const connect::Options& options = at.options();
  if (options.port_fixed || options.version.value_or(4) >= 4) co_return;
  const aux::Service service{rpc::kNfsProgram, *options.version, aux::Wire::rdma};
  for (rpc::Address& address : at.addresses) {
    auto port = co_await aux::find_port(at.loop, address, at.target.host, service, at.until(kRpcbindTime),
                                        at.means.around.rpcbind_port);
    if (!port || !*port) continue;
    address = aux::with_port(address, **port);
    out.fact("rpcbind_port", **port);
  }
}

/// The attempts at the addresses of the server.
struct Knocked {
  std::optional<std::size_t> open;  ///< number of the address that answered
  int why = 0;                      ///< errno of the first one that did not
};

async::Task<Knocked> knock_at_all(Examination& at, std::chrono::milliseconds time) {
  Knocked out;
  const async::TimePoint end = at.until(time);
  for (std::size_t i = 0; i < at.addresses.size(); ++i) {
    const auto now = at.loop.now();
    const auto share = (end - std::min(end, now)) / static_cast<long>(at.addresses.size() - i);
    const Knock knock = co_await at.means.knock(at.loop, at.addresses[i], now + share);
    if (knock.failed == 0) {
      out.open = i;
      at.knock = knock.connection;
      co_return out;
    }
    if (out.why == 0) out.why = knock.failed;
  }
  co_return out;
}

async::Task<bool> has_nfs_without_rdma(Examination& at) {
  const rpc::Address address = aux::with_port(at.addresses.front(), kNfsPort);
  if (fabric::port_of(at.addresses.front().storage) == kNfsPort) co_return false;
  const Knock knock = co_await at.means.knock(at.loop, address, at.until(kHintTime));
  co_return knock.failed == 0;
}

/// Returns how to have a server listen for RDMA.
std::string listener_advice(const std::string& port) {
  return "have the server listen for RDMA (Linux: `echo rdma " + port +
         " > /proc/fs/nfsd/portlist`, or rdma=y in [nfsd] of /etc/nfs.conf; a device or siw must be there), "
         "or give the right port with port=";
}

Finding no_port(const Examination& at, int why, bool has_plain) {
  const sockaddr_storage& address = at.addresses.front().storage;
  const std::string port = std::to_string(fabric::port_of(address));
  const std::string where = "TCP port " + port + " of " + fabric::host_text(address);
  const std::string plain =
      has_plain ? "; NFS without RDMA answers on port " + std::to_string(kNfsPort) : std::string();
  switch (why) {
    case ECONNREFUSED:
      return failure("nothing listens on " + where + " (connection refused)" + plain, listener_advice(port));
    case ETIMEDOUT:
      return failure(where + " does not answer: a firewall drops the packets, or the host is down" + plain,
                     "allow TCP port " + port + " in the firewalls of the server (`firewall-cmd --add-port=" +
                         port + "/tcp`) and on the way");
    case ECONNRESET:
    case EACCES:
    case EPERM:
      return failure("a firewall rejects connections to " + where + " (" + std::strerror(why) + ")" + plain,
                     "allow TCP port " + port + " in the firewalls of this machine and of the server");
    default:
      return failure(where + " cannot be reached (" + std::strerror(why) + ")" + plain,
                     "check the address and the routes (`ip route get " + fabric::host_text(address) + "`)");
  }
}

}  // namespace

Means Means::system() {
  return {connect::Surroundings::system(), connect::resolve, way_to, try_tcp};
}

async::Task<Finding> examine_name(Examination& at) {
  auto found_addresses =
      at.means.resolve(at.target.host, at.options().port, at.until_connected(), at.interrupt);
  at.loop.time_passed();
  if (!found_addresses) co_return failure(found_addresses.error());
  at.addresses = std::move(*found_addresses);
  std::vector<std::string> texts;
  texts.reserve(at.addresses.size());
  for (const rpc::Address& one : at.addresses) texts.push_back(fabric::host_text(one.storage));
  const bool is_number = texts.size() == 1 && texts.front() == at.target.host;
  Finding out = found(is_number ? "the server is given by its address"
                                : at.target.host + " has the address" + (texts.size() > 1 ? "es " : " ") +
                                      comma_list(texts));
  out.fact("addresses", comma_list(texts));
  co_return out;
}

async::Task<Finding> examine_route(Examination& at) {
  auto way = at.means.route(at.addresses.front());
  const std::string address = fabric::host_text(at.addresses.front().storage);
  if (!way) {
    co_return failure(
        "there is no route to " + address + " (" + std::strerror(way.error().errno_value()) + ")",
        "check the address, this machine's network, and its routes (`ip route get " + address + "`)");
  }
  at.way = *way;
  const std::string mtu = way->mtu == 0 ? "" : ", MTU " + std::to_string(way->mtu);
  Finding out = found("from " + way->source + (way->interface.empty() ? "" : " by " + way->interface) + mtu);
  out.fact("source", way->source).fact("interface", way->interface);
  out.fact("mtu", way->mtu).fact("path_mtu", way->path_mtu);
  co_return out;
}

async::Task<Finding> examine_device(Examination& at) {
  const std::string missing = fabric::verbs::missing_device();
  const std::string list = comma_list(devices());
  const auto with_list = [&list](Finding out) {
    out.fact("devices", list);
    return out;
  };
  if (at.options().fabric == Fabric::iwarp)
    co_return with_list(found("none is used: fabric=iwarp was given, RDMA runs over TCP in user space"));
  if (missing.empty()) co_return with_list(found(list + " on this machine"));
  if (at.options().fabric == Fabric::verbs)
    co_return with_list(failure("fabric=verbs is not possible: " + missing,
                                "use fabric=auto or fabric=iwarp, or load the device's driver"));
  co_return with_list(found("RDMA runs over TCP in user space (iWARP): " + missing));
}

async::Task<Finding> examine_port(Examination& at) {
  Finding facts;
  co_await look_for_port(at, facts);
  const bool beside_verbs = may_use_device(at);
  const auto time = at.options().connect_timeout;
  const Knocked knocked = co_await knock_at_all(
      at, beside_verbs ? std::min<std::chrono::milliseconds>(time, kTcpBesideVerbs) : time);
  const auto with_facts = [&](Finding out) {
    facts.fact("address", fabric::peer_text(at.addresses.front().storage, ""));
    out.facts = facts.facts;
    return out;
  };
  if (knocked.open) {
    at.addresses = {at.addresses[*knocked.open]};
    const std::string where = fabric::peer_text(at.addresses.front().storage, "");
    co_return with_facts(found(where + " accepts TCP connections"));
  }
  if (beside_verbs) {
    co_return with_facts(skipped("no TCP connection (" + std::string(std::strerror(knocked.why)) +
                                 "), which RDMA devices other than iWARP do not need"));
  }
  const bool has_plain = co_await has_nfs_without_rdma(at);
  co_return with_facts(no_port(at, knocked.why, has_plain));
}

}  // namespace nfsrdma::diagnosis
