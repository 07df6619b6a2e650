#include "api/server.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
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
/// A call without an answer is sent again on a fresh connection while its time-out still leaves room for
/// that, and the credit of one that was given up is had back so (options.h: "Connections are replaced well
/// before"). Not sooner than a server that is merely busy may need.
constexpr std::chrono::milliseconds kLeastPatience = 1s;
std::chrono::milliseconds patience(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout / 2, kLeastPatience, 60s);
}

rpc::ChannelOptions channel_options(const Target& target, const std::vector<rpc::Address>& addresses) {
  rpc::ChannelOptions options;
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

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  if (::getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) std::abort();
  std::string out;
  for (const unsigned char b : raw) {
    out += "0123456789abcdef"[b >> 4U];
    out += "0123456789abcdef"[b & 15U];
  }
  return out;
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

nfs4::SessionOptions session_options(const Options& options, const fabric::Established& established,
                                     std::optional<std::chrono::milliseconds> patience,
                                     const std::string& owner_id) {
  nfs4::SessionOptions out;
  out.minor_version = options.minor_version;
  out.minor_version_fixed = options.minor_version_fixed;
  out.rsize = options.rsize;
  out.wsize = options.wsize;
  out.slots = most_slots(options, established);
  out.callback_slots = kCallbackSlots;
  out.credential = caller_of(options);
  // RFC 8881 2.4: unique among clients. A Client is one of its own, and leaves nothing to reclaim.
  out.owner_id = owner_id;
  if (owner_id.empty()) {
    out.owner_id = "nfsrdma " + host_name() + " " + std::to_string(::getpid()) + " " + random_hex(8);
  }
  // Another each time: of a client that is known already the server drops all that it had (18.35.4, case 5).
  if (::getrandom(out.verifier.data(), out.verifier.size(), 0) != static_cast<ssize_t>(out.verifier.size())) {
    std::abort();
  }
  out.timeout = options.timeout;
  out.patience = patience;
  return out;
}

}  // namespace

rpc::Credential credential_of(std::uint32_t uid, std::uint32_t gid, std::span<const std::uint32_t> groups) {
  return rpc::Credential::sys(host_name(), uid, gid, groups);
}

rpc::Credential caller_of(const Options& options) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  // Somebody else's identity does not come with this process's groups.
  if (options.uid || options.gid) groups.clear();
  const std::vector<std::uint32_t> numbers(groups.begin(), groups.end());
  return credential_of(options.uid.value_or(::geteuid()), options.gid.value_or(::getegid()), numbers);
}

Server::Server(async::Loop& loop, const Target& target, const std::vector<rpc::Address>& addresses,
               const NoticeSink& notices, std::optional<std::chrono::milliseconds> patience,
               std::string owner_id)
    : options_(target.options), notices_(notices), patience_(patience), owner_id_(std::move(owner_id)) {
  for (std::uint32_t i = 0; i < std::max(target.options.connections, 1U); ++i) {
    channels_.push_back(std::make_unique<rpc::Channel>(
        loop, channel_options(target, addresses), [notices](const rpcrdma::Notice& n) { notices(n.text); }));
  }
}

async::Task<Status> Server::connect(async::TimePoint deadline) {
  rpc::Channel& first = *channels_.front();
  if (auto done = co_await first.connect(deadline); !done) co_return done;
  session_ = std::make_unique<nfs4::Session>(
      first, session_options(options_, first.established(), patience_, owner_id_), notices_);
  if (auto done = co_await session_->open(deadline); !done) co_return done;
  for (std::size_t i = 1; i < channels_.size(); ++i) {
    if (auto done = co_await session_->add(*channels_[i], deadline); !done) co_return done;
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
