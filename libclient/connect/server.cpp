#include "connect/server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "fabric/verbs/library.h"
#include "nfs4/engine.h"
#include "nfs4/session.h"
#include "security/sys.h"

namespace nfsrdma::connect {
namespace {

using namespace std::chrono_literals;

/// Calls that a server may have under way towards us.
constexpr std::uint32_t kCallbackSlots = 4;
/// For the end of a session that could not be used.
constexpr auto kFarewell = 2s;
/// A call without an answer is sent again on a fresh connection while its time-out still leaves room for
/// that, and the credit of one that was given up is had back so (options.h: "Connections are replaced well
/// before"). Not sooner than a server that is merely busy may need.
constexpr std::chrono::milliseconds kLeastPatience = 1s;
std::chrono::milliseconds patience(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout / 2, kLeastPatience, 60s);
}

rpc::ChannelOptions channel_options(const Target& target, const std::vector<rpc::Address>& addresses,
                                    const fabric::Dialer& dial) {
  rpc::ChannelOptions options;
  options.dial = dial;
  options.server = target.host;
  options.addresses = addresses;
  options.fabric = target.options.fabric;
  options.crc = target.options.crc;
  options.busy_poll = target.options.busy_poll;
  options.connect_timeout = target.options.connect_timeout;
  options.rdma.credits_wanted = target.options.credits;
  options.rdma.backward_credits = kCallbackSlots;
  options.rdma.reply_timeout = patience(target.options.timeout);
  return options;
}

std::string random_hex(async::Loop& loop) {
  std::array<char, 17> text{};
  (void)std::snprintf(text.data(), text.size(), "%016" PRIx64, loop.random<std::uint64_t>());
  return text.data();
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

/// How many calls may be under way where each pins its buffer in memory. Beyond that the system would refuse
/// to register another.
std::uint32_t most_slots(const Options& options, const fabric::Established& established) {
  if (established.fabric != "verbs") return options.credits;
  constexpr std::uint64_t kMessages = 2U << 20;  // the connection's own
  constexpr std::uint64_t kEdges = 64U << 10;    // pages begun, and a Reply chunk
  const std::uint64_t most = fabric::verbs::lockable_memory();
  const std::uint64_t each = std::max(options.rsize, options.wsize) + kEdges;
  const std::uint64_t count = (most - std::min(most, kMessages)) / each;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count, 1, options.credits));
}

nfs4::SessionOptions session_options(const Options& options, rpc::Channel& channel,
                                     std::optional<std::chrono::milliseconds> patience,
                                     const Surroundings& surroundings, const Server::NoticeSink& notices) {
  nfs4::SessionOptions out;
  out.minor_version = options.minor_version;
  out.minor_version_fixed = options.minor_version_fixed;
  out.rsize = options.rsize;
  out.wsize = options.wsize;
  out.slots = most_slots(options, channel.established());
  out.callback_slots = kCallbackSlots;
  out.flavor = surroundings.flavor;
  if (!out.flavor)
    out.flavor = std::make_shared<security::Sys>(surroundings.host, own_identity(options), notices);
  // RFC 8881 2.4: unique among clients. A Client is one of its own, and leaves nothing to reclaim.
  out.owner_id = surroundings.owner_id;
  if (out.owner_id.empty()) {
    out.owner_id =
        "nfsrdma " + surroundings.host + " " + surroundings.process + " " + random_hex(channel.loop());
  }
  // Another each time: of a client that is known already the server drops all that it had (18.35.4, case 5).
  channel.loop().random(out.verifier);
  out.timeout = options.timeout;
  out.patience = patience;
  return out;
}

}  // namespace

security::Identity own_identity(const Options& options) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  // Somebody else's identity does not come with this process's groups.
  if (options.uid || options.gid) groups.clear();
  return {
      options.uid.value_or(::geteuid()), options.gid.value_or(::getegid()), {groups.begin(), groups.end()}};
}

Surroundings Surroundings::system(std::string owner_id) {
  return {host_name(), std::to_string(::getpid()), fabric::system_dialer(), std::move(owner_id)};
}

Server::Server(async::Loop& loop, const Target& target, const std::vector<rpc::Address>& addresses,
               const NoticeSink& notices, std::optional<std::chrono::milliseconds> patience,
               Surroundings surroundings)
    : target_(target), notices_(notices), patience_(patience), surroundings_(std::move(surroundings)) {
  for (std::uint32_t i = 0; i < std::max(target.options.connections, 1U); ++i) {
    channels_.push_back(
        std::make_unique<rpc::Channel>(loop, channel_options(target, addresses, surroundings_.dial),
                                       [notices](const rpcrdma::Notice& n) { notices(n.text); }));
  }
}

async::Task<Status> Server::connect(async::TimePoint deadline) {
  rpc::Channel& first = *channels_.front();
  if (auto done = co_await first.connect(deadline); !done) co_return done;
  session_ = std::make_unique<nfs4::Session>(
      first, session_options(target_.options, first, patience_, surroundings_, notices_), notices_);
  auto begun = co_await begin(deadline);
  // Not left to the lease, where there is one already.
  if (!begun && session_->facts().slots != 0) (void)co_await session_->close(first.loop().now() + kFarewell);
  co_return begun;
}

/// The session, on all connections, the engine on it, and what the server takes in one READ and WRITE.
async::Task<Status> Server::begin(async::TimePoint deadline) {
  if (auto done = co_await session_->open(deadline); !done) co_return done;
  for (std::size_t i = 1; i < channels_.size(); ++i) {
    if (auto done = co_await session_->lanes().add(*channels_[i], deadline); !done) co_return done;
  }
  const auto fit = [](std::uint32_t wanted, std::size_t most) {
    constexpr std::size_t kLeast = 1024;
    return static_cast<std::uint32_t>(std::max(std::min<std::size_t>(wanted, most), kLeast));
  };
  rsize_ = fit(target_.options.rsize, session_->most_read());
  wsize_ = fit(target_.options.wsize, session_->most_written());
  engine_ = std::make_shared<nfs4::Nfs4Engine>(*session_);
  co_return Status();
}

async::Task<Status> Server::close(async::TimePoint deadline) {
  return session_->close(deadline);
}

Server::~Server() = default;

std::chrono::seconds Server::lease() const {
  return std::chrono::seconds(session_->facts().lease_seconds);
}

void Server::shut_down() {
  for (const auto& channel : channels_) channel->shut_down();
}

Info Server::info() const {
  const nfs4::SessionFacts& session = session_->facts();
  const rpc::Channel& first = *channels_.front();
  const rpcrdma::Facts& rdma = first.facts();
  const fabric::Established& fabric = first.established();
  Info out;
  out.server = target_.host;
  out.address = first.address();
  out.fabric = fabric.fabric;
  out.fabric_detail = fabric.detail;
  out.fabric_reason = fabric.reason;
  out.device = fabric.traits.device;
  out.memory_windows = fabric.traits.memory_windows;
  out.invalidation_offered = fabric.traits.remote_invalidation;
  out.mpa_revision = fabric.mpa_revision;
  out.crc = fabric.crc;
  out.ird = fabric.ird;
  out.ord = fabric.ord;
  out.call_threshold = rdma.call_threshold;
  out.reply_threshold = rdma.reply_threshold;
  out.private_data = rdma.private_data_seen;
  out.remote_invalidation = rdma.remote_invalidation;
  out.credits_wanted = target_.options.credits;
  out.credits_granted = rdma.granted;
  out.minor_version = session.minor_version;
  out.slots = session.slots;
  out.max_request = session.max_request;
  out.max_response = session.max_response;
  out.max_response_cached = session.max_response_cached;
  out.max_operations = session.max_operations;
  out.rsize = rsize();
  out.wsize = wsize();
  out.lease_seconds = session.lease_seconds;
  out.implementation_name = session.implementation_name;
  out.implementation_domain = session.implementation_domain;
  out.implementation_date = session.implementation_date;
  out.server_owner = session.server_owner;
  out.server_scope = session.server_scope;
  out.client_id = session.client_id;
  for (const std::byte b : session.session_id) {
    out.session_id += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4U];
    out.session_id += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15U];
  }
  out.backchannel = session.backchannel;
  out.connections = static_cast<std::uint32_t>(session_->lanes().usable());
  for (const auto& channel : channels_) {
    out.calls += channel->facts().calls;
    out.retransmissions += channel->facts().retransmissions;
    out.reconnects += channel->facts().reconnects;
  }
  return out;
}

}  // namespace nfsrdma::connect
