#include "api/server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "fabric/verbs/library.h"
#include "nfs4/namespace.h"

namespace nfsrdma::api {
namespace {

using namespace std::chrono_literals;

/// What stands around the data of a READ's Reply or a WRITE's Call (see the session's envelope).
constexpr std::uint32_t kEnvelope = 1024;
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
                                     const Surroundings& surroundings) {
  nfs4::SessionOptions out;
  out.minor_version = options.minor_version;
  out.minor_version_fixed = options.minor_version_fixed;
  out.rsize = options.rsize;
  out.wsize = options.wsize;
  out.slots = most_slots(options, channel.established());
  out.callback_slots = kCallbackSlots;
  out.credential = caller_of(options, surroundings.host);
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

rpc::Credential credential_of(std::uint32_t uid, std::uint32_t gid, std::span<const std::uint32_t> groups) {
  return rpc::Credential::sys(host_name(), uid, gid, groups);
}

rpc::Credential caller_of(const Options& options, const std::string& host) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  // Somebody else's identity does not come with this process's groups.
  if (options.uid || options.gid) groups.clear();
  const std::vector<std::uint32_t> numbers(groups.begin(), groups.end());
  return rpc::Credential::sys(host, options.uid.value_or(::geteuid()), options.gid.value_or(::getegid()),
                              numbers);
}

Surroundings Surroundings::system(std::string owner_id) {
  return {host_name(), std::to_string(::getpid()), fabric::system_dialer(), std::move(owner_id)};
}

Server::Server(async::Loop& loop, const Target& target, const std::vector<rpc::Address>& addresses,
               const NoticeSink& notices, std::optional<std::chrono::milliseconds> patience,
               Surroundings surroundings)
    : options_(target.options),
      notices_(notices),
      patience_(patience),
      surroundings_(std::move(surroundings)) {
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
      first, session_options(options_, first, patience_, surroundings_), notices_);
  auto begun = co_await begin(deadline);
  // Not left to the lease, where there is one already.
  if (!begun && session_->facts().slots != 0) (void)co_await session_->close(first.loop().now() + kFarewell);
  co_return begun;
}

/// The session, on all connections, and what the server takes in one READ and WRITE.
async::Task<Status> Server::begin(async::TimePoint deadline) {
  if (auto done = co_await session_->open(deadline); !done) co_return done;
  for (std::size_t i = 1; i < channels_.size(); ++i) {
    if (auto done = co_await session_->lanes().add(*channels_[i], deadline); !done) co_return done;
  }
  nfs4::Namespace names(*session_);
  const nfs4::bitmap4 sizes = nfs4::bitmap_of({nfs4::FATTR4_MAXREAD, nfs4::FATTR4_MAXWRITE});
  auto root = co_await names.find(nfs4::Path(), false, sizes);
  if (!root) co_return root.error();
  const auto fit = [](std::uint32_t wanted, std::uint64_t server, std::uint32_t message) {
    const std::uint64_t most = std::min<std::uint64_t>(server, message - kEnvelope);
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(std::min<std::uint64_t>(wanted, most), 1024));
  };
  const nfs4::SessionFacts& facts = session_->facts();
  rsize_ = fit(options_.rsize, root->attributes.maxread.value_or(~0ULL), facts.max_response);
  wsize_ = fit(options_.wsize, root->attributes.maxwrite.value_or(~0ULL), facts.max_request);
  co_return Status();
}

void Server::shut_down() {
  for (const auto& channel : channels_) channel->shut_down();
}

}  // namespace nfsrdma::api
