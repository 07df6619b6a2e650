#include "sim/fabric/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "fabric/carried.h"
#include "sim/fabric/carrier.h"
#include "sim/fabric/connection.h"
#include "sim/fabric/listener.h"
#include "sim/fabric/pair.h"

namespace nfsrdma::sim {
namespace {

constexpr std::uint32_t kNet = 10U << 24U;   // 10.0.0.0, and the host's number
constexpr std::uint32_t kOther = 1U << 16U;  // 10.1.0.0, the same: other addresses of it

}  // namespace

Network::Network(Simulation& simulation) : simulation_(simulation) {}
Network::~Network() = default;

Network::Key Network::key(const Host& a, const Host& b) {
  return {std::min(a.number(), b.number()), std::max(a.number(), b.number())};
}

rpc::Address Network::address(const Host& host, std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(kNet | host.number());
  rpc::Address out;
  std::memcpy(&out.storage, &name, sizeof name);
  out.length = sizeof name;
  return out;
}

Host* Network::host_of(const sockaddr_storage& address) const {
  sockaddr_in name{};
  std::memcpy(&name, &address, sizeof name);
  const std::uint32_t number = ntohl(name.sin_addr.s_addr) & ~(kNet | kOther);
  const auto& hosts = simulation_.hosts();
  if (name.sin_family != AF_INET || number == 0 || number > hosts.size()) return nullptr;
  return hosts[number - 1].get();
}

LinkConditions& Network::between(const Host& a, const Host& b) {
  return links_[key(a, b)];
}

DeviceHabits& Network::habits(const Host& host) {
  return habits_[host.number()];
}

detail::SimListener* Network::listener_of(const Host& host, std::uint16_t port) const {
  const auto found = listeners_.find({host.number(), port});
  return found == listeners_.end() ? nullptr : found->second;
}

std::unique_ptr<fabric::Listener> Network::listen(Host& host, std::uint16_t port,
                                                  fabric::Listener::Callback callback) {
  hear(host);
  return std::make_unique<detail::SimListener>(*this, host, port, std::move(callback));
}

fabric::Dialer Network::dialer(Host& from) {
  hear(from);
  return [this, &from](async::Loop& loop, const fabric::DialOptions& options,
                       fabric::Handler& handler) -> std::unique_ptr<fabric::Connection> {
    if (!options.carrier) return dial(from, options, handler);
    const auto make = [this, &from, options](async::Loop& /*loop*/, fabric::Handler& there) {
      return dial(from, options, there);
    };
    return std::make_unique<fabric::CarriedConnection>(loop, options.carrier, options.host, make, handler);
  };
}

fabric::MakeCarriers Network::carriers(Host& host) {
  return [&host](async::Loop& /*loop*/, unsigned count) {
    std::vector<std::shared_ptr<fabric::Carrier>> out;
    while (out.size() < count) out.push_back(std::make_shared<detail::SimCarrier>(host));
    return out;
  };
}

std::unique_ptr<fabric::Connection> Network::dial(Host& from, const fabric::DialOptions& options,
                                                  fabric::Handler& handler) {
  forget_dead();
  sockaddr_in name{};
  std::memcpy(&name, &options.address, sizeof name);
  std::shared_ptr<detail::Pair> pair;
  if (Host* const to = host_of(options.address)) {
    pair = std::make_shared<detail::Pair>(*this, ++last_, from, *to, ntohs(name.sin_port));
    pairs_.push_back(pair);
  }
  simulation_.note(from.number(), "dials", last_);
  return std::make_unique<detail::SimConnection>(from, std::move(pair), options, habits(from), handler);
}

void Network::forget_dead() {
  std::erase_if(pairs_, [](const auto& pair) { return pair.expired(); });
}

/// What came for a host while it did not run is handed to it when it does.
void Network::hear(Host& host) {
  if (heard_.size() <= host.number()) heard_.resize(host.number() + 1);
  if (heard_[host.number()]) return;
  heard_[host.number()] = true;
  host.on_wake([this, &host] {
    for (const auto& pair : pairs()) {
      if (!pair->has(host)) continue;
      pair->drain(&pair->host(detail::Side::dialer) == &host ? detail::Side::dialer : detail::Side::listener);
    }
  });
}

std::vector<std::shared_ptr<detail::Pair>> Network::pairs() const {
  std::vector<std::shared_ptr<detail::Pair>> out;
  for (const auto& weak : pairs_) {
    if (auto pair = weak.lock()) out.push_back(std::move(pair));
  }
  return out;
}

void Network::cut(const Host& a, const Host& b, const Told& told) {
  for (const auto& pair : pairs()) {
    if (pair->is_between(a, b)) pair->cut(told);
  }
}

void Network::cut(std::uint64_t connection, const Told& told) {
  for (const auto& pair : pairs()) {
    if (pair->number() == connection) pair->cut(told);
  }
}

void Network::part(const Host& a, const Host& b) {
  simulation_.note(a.number(), "is parted from", b.number());
  parted_.insert(key(a, b));
}

bool Network::parted(const Host& a, const Host& b) const {
  return !parted_.empty() && parted_.contains(key(a, b));
}

void Network::heal() {
  simulation_.note(0, "all reach all");
  parted_.clear();
  for (const auto& pair : pairs()) {
    pair->drain(detail::Side::dialer);
    pair->drain(detail::Side::listener);
  }
}

void Network::vanish(const Host& host) {
  simulation_.note(host.number(), "vanishes");
  for (const auto& pair : pairs()) {
    if (pair->has(host)) pair->vanish(host);
  }
}

std::vector<std::uint64_t> Network::connections(const Host& a, const Host& b) const {
  std::vector<std::uint64_t> out;
  for (const auto& pair : pairs()) {
    if (pair->is_between(a, b) && pair->stands()) out.push_back(pair->number());
  }
  return out;
}

std::size_t Network::open() const {
  std::size_t count = 0;
  for (const auto& pair : pairs()) {
    for (const auto side : {detail::Side::dialer, detail::Side::listener})
      count += pair->face(side) != nullptr;
  }
  return count;
}

}  // namespace nfsrdma::sim
