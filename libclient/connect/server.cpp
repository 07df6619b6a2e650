#include "connect/server.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "aux/local_address.h"
#include "aux/rpcbind.h"
#include "connect/flavors.h"
#include "connect/protocol.h"
#include "connect/tracing.h"
#include "fabric/address.h"
#include "fabric/verbs/library.h"
#include "rpc/message.h"

namespace nfsrdma::connect {
namespace {

using namespace std::chrono_literals;

/// Time limit for asking rpcbind. Short, because most servers of NFS over RDMA use the standard port.
constexpr auto kRpcbindTime = 5s;
/// How long a reply may take before the connection is replaced: half of the call's timeout, so that the call
/// can be sent again on a fresh connection within its timeout. Replacing the connection also recovers the
/// credit of a call that was given up (options.h: "replaced well before that"). The lower bound is what a
/// server that is merely busy may need.
constexpr std::chrono::milliseconds kLeastPatience = 1s;
std::chrono::milliseconds patience(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout / 2, kLeastPatience, 60s);
}

/// Makes a connection lead to another address of the server, at the same port.
void lead_elsewhere(rpc::ChannelOptions& options, const std::string& where) {
  const auto address = aux::address_in(where);
  if (!address) return;  // cannot happen: the option was checked when it was set
  options.addresses = {aux::with_port(*address, fabric::port_of(options.addresses.front().storage))};
  options.server = where;
  options.elsewhere = true;
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

/// Adds advice to an Error that a known fault may have caused: for krb5p, Linux 6.1.192 (Debian 12) looks for
/// the arguments at a wrong place in a decrypted request, whichever client sent it.
Error with_advice(const Error& why, const Options& options) {
  const bool is_undecodable = why.kind() == ErrorKind::server && why.status() == rpc::kGarbageArgs;
  if (!is_undecodable || std::ranges::count(options.security, Security::krb5p) == 0) return why;
  return {why.kind(),
          why.errno_value(),
          why.status(),
          why.operation(),
          why.peer(),
          "the server could not decode the request, which was protected with krb5p: some Linux kernels (such "
          "as 6.1.192) cannot serve krb5p to any client; use sec=krb5i, or another kernel on the server"};
}

}  // namespace

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

security::Identity own_identity(const Options& options) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  // An identity given by uid= or gid= does not get this process's groups.
  if (options.uid || options.gid) groups.clear();
  return {
      options.uid.value_or(::geteuid()), options.gid.value_or(::getegid()), {groups.begin(), groups.end()}};
}

Surroundings Surroundings::system(std::string owner_id) {
  Surroundings out;
  out.host = host_name();
  out.process = std::to_string(::getpid());
  out.dial = fabric::system_dialer();
  out.carriers = fabric::carrier_threads;
  out.owner_id = std::move(owner_id);
  out.listens = true;
  return out;
}

std::uint32_t most_calls(const Options& options, const fabric::Established& established) {
  if (established.fabric != "verbs") return options.credits;
  constexpr std::uint64_t kMessages = 2U << 20;  // a connection's own messages
  constexpr std::uint64_t kEdges = 64U << 10;    // partial pages at both ends, and a Reply chunk
  const std::uint64_t most = fabric::verbs::lockable_memory();
  const std::uint64_t messages = kMessages * (options.connections + options.shards);
  const std::uint64_t each = std::max(options.rsize, options.wsize) + kEdges;
  const std::uint64_t sessions = 1 + options.shards;
  const std::uint64_t count = (most - std::min(most, messages)) / each / sessions;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count, 1, options.credits));
}

Protocol::~Protocol() = default;

async::Task<Result<std::unique_ptr<engine::Shard>>> Protocol::make_shard(std::size_t /*number*/,
                                                                         rpc::Channel& channel,
                                                                         async::TimePoint /*deadline*/) {
  co_return Error(ErrorKind::usage, EOPNOTSUPP, "", channel.server(), "shards need NFSv4.1 or 4.2");
}

Server::Server(async::Loop& loop, const Target& target, const std::vector<rpc::Address>& addresses,
               const NoticeSink& notices, std::optional<std::chrono::milliseconds> patience,
               Surroundings surroundings)
    : loop_(loop),
      target_(target),
      addresses_(addresses),
      notices_(notices),
      patience_(patience),
      surroundings_(std::move(surroundings)),
      flavor_(surroundings_.flavor),
      tap_(surroundings_.tap ? surroundings_.tap : tapper_of(target_.options, notices_)) {
  if (!flavor_) {
    flavor_ = make_flavor(loop_, target_, addresses_, surroundings_, notices_);
  }
}

std::vector<rpc::Channel*> all_of(const Ground& ground) {
  std::vector<rpc::Channel*> out;
  out.reserve(ground.channels.size());
  for (const auto& channel : ground.channels) out.push_back(channel.get());
  return out;
}

std::vector<rpc::Channel*> those_here(const Ground& ground) {
  auto out = all_of(ground);
  std::erase_if(out, [](const rpc::Channel* one) { return one->elsewhere(); });
  return out;
}

/// A row of the table of versions, one for each Protocol.
struct Server::Version {
  unsigned number;                      ///< of the NFS program
  unsigned least_minor, highest_minor;  ///< the minor versions that the Protocol chooses from
  std::unique_ptr<Protocol> (*make)(const Ground& ground);
};

/// The rows, in the order in which they are tried. nfs4_protocol chooses between 4.2 and 4.1 itself (Handshake::begin).
const Server::Version Server::kVersions[] = {
    {4, 1, 2, nfs4_protocol}, {4, 0, 0, nfs40_protocol}, {3, 0, 0, nfs3_protocol}, {2, 0, 0, nfs2_protocol}};

bool Server::is_wanted(const Version& version) const {
  const Options& options = target_.options;
  if (options.version.value_or(version.number) != version.number) return false;
  if (version.number != 4) return true;
  const bool above = options.minor_version_fixed && options.minor_version > version.highest_minor;
  return !above && options.minor_version >= version.least_minor;
}

async::Task<Status> Server::connect(async::TimePoint deadline) {
  if (const Options& options = target_.options;
      permitted(options) != std::vector{Security::sys} && (options.uid || options.gid)) {
    co_return Error(
        ErrorKind::usage, EINVAL, "", target_.host,
        "uid= and gid= set the identity for sec=sys; with Kerberos the ticket sets it: omit them");
  }
  if (auto settled = co_await flavor_->settle(deadline); !settled) co_return settled.error();
  std::optional<Error> first;
  for (const Version& version : kVersions) {
    if (!is_wanted(version)) continue;
    if (auto there = co_await dial(version, deadline); !there) co_return there;
    auto begun = co_await begin(version, deadline);
    if (begun) co_return begun;
    protocol_.reset();
    if (!begun) begun = with_advice(begun.error(), target_.options);
    // The next version is tried only if the server says that it does not speak this one.
    const bool other =
        begun.error().kind() == ErrorKind::server && begun.error().errno_value() == EPROTONOSUPPORT;
    if (!other) co_return begun;
    if (!first) first = begun.error();
  }
  if (first) co_return *first;
  co_return Error(ErrorKind::usage, EINVAL, "", target_.host,
                  "this version of NFS is not supported; use 2, 3, 4.0, 4.1 or 4.2");
}

/// Asks the rpcbind of each address for the port of versions 2 and 3 (RFC 8166 9). The port stays if rpcbind
/// knows none. Returns true if the port of an address has changed.
async::Task<bool> Server::find_port(const Version& version, async::TimePoint deadline) {
  if (version.number >= 4 || target_.options.port_fixed) co_return false;
  const aux::Service service{rpc::kNfsProgram, version.number, aux::Wire::rdma};
  bool changed = false;
  for (rpc::Address& address : addresses_) {
    auto port =
        co_await aux::find_port(loop_, address, target_.host, service,
                                std::min(deadline, loop_.now() + kRpcbindTime), surroundings_.rpcbind_port);
    if (!port && notices_) notices_("rpcbind of " + target_.host + ": " + port.error().message());
    if (!port || !*port || **port == fabric::port_of(address.storage)) continue;
    address = aux::with_port(address, **port);
    changed = true;
  }
  co_return changed;
}

/// Makes the first connection, unless there is one to the version's port already. There may be one to another
/// port, because version 4 was tried before.
async::Task<Status> Server::dial(const Version& version, async::TimePoint deadline) {
  const bool elsewhere = co_await find_port(version, deadline);
  if (!channels_.empty() && !elsewhere) co_return Status();
  shut_down();
  channels_.clear();
  // Connections are shared out in turn: the first stays on this loop, the next go to the threads, one each,
  // and so on.
  const std::uint32_t threads = std::max(target_.options.threads, 1U);
  std::vector<std::shared_ptr<fabric::Carrier>> carriers{nullptr};
  if (threads > 1 && surroundings_.carriers) {
    for (auto& one : surroundings_.carriers(loop_, threads - 1)) carriers.push_back(std::move(one));
  }
  const auto& ports = target_.options.remote_ports;
  const auto connections =
      std::max({target_.options.connections, threads, static_cast<std::uint32_t>(1 + ports.size())});
  for (std::uint32_t i = 0; i < connections; ++i) {
    rpc::ChannelOptions options = channel_options(target_, addresses_, surroundings_.dial);
    if (i != 0 && !ports.empty()) lead_elsewhere(options, ports[(i - 1) % ports.size()]);
    options.carrier = carriers[i % carriers.size()];
    options.tap = tap_;
    channels_.push_back(
        std::make_unique<rpc::Channel>(loop_, options, [notices = notices_](const rpcrdma::Notice& n) {
          if (notices) notices(n.text);
        }));
  }
  co_return co_await channels_.front()->connect(deadline);
}

async::Task<Status> Server::begin(const Version& version, async::TimePoint deadline) {
  const Ground ground{target_, addresses_, surroundings_, channels_, flavor_, notices_, patience_};
  protocol_ = version.make(ground);
  if (auto begun = co_await protocol_->begin(deadline); !begun) co_return begun;
  const auto fit = [](std::uint32_t most_wanted, std::size_t most) {
    constexpr std::size_t kLeast = 1024;
    return static_cast<std::uint32_t>(std::max(std::min<std::size_t>(most_wanted, most), kLeast));
  };
  rsize_ = fit(target_.options.rsize, protocol_->most_read());
  wsize_ = fit(target_.options.wsize, protocol_->most_written());
  co_return Status();
}

async::Task<Status> Server::close(async::TimePoint deadline) {
  auto closed = co_await protocol_->close(deadline);
  co_await say_farewell(*flavor_, *channels_.front(), protocol_->number(),
                        std::min(deadline, loop_.now() + kFarewell));
  co_return closed;
}

Server::~Server() = default;

const std::shared_ptr<engine::Engine>& Server::engine() {
  return protocol_->engine();
}

std::chrono::seconds Server::lease() const {
  return protocol_->lease();
}

rpc::ChannelOptions Server::shard_channel_options() const {
  rpc::ChannelOptions out = channel_options(target_, addresses_, surroundings_.dial);
  out.rdma.reply_timeout = patience(target_.options.timeout / engine::Shard::kPatience);
  // Where bytes may be placed is decided by the fabric of the client's own connections (fuse/ring_service.h).
  if (channels_.front()->established().fabric == "verbs") out.fabric = Fabric::verbs;
  return out;
}

async::Task<Result<std::unique_ptr<engine::Shard>>> Server::make_shard(std::size_t number,
                                                                       rpc::Channel& channel,
                                                                       async::TimePoint deadline) {
  return protocol_->make_shard(number, channel, deadline);
}

void Server::use_shards(engine::ShardCalls* shards) {
  protocol_->use_shards(shards);
}

void Server::shut_down() {
  for (const auto& channel : channels_) channel->shut_down();
}

Info Server::info() const {
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
  out.rsize = rsize();
  out.wsize = wsize();
  out.security = flavor_->name_of(0);
  out.calls_by_security = flavor_->uses();
  protocol_->describe(out);
  for (const auto& channel : channels_) {
    out.calls += channel->facts().calls;
    out.retransmissions += channel->facts().retransmissions;
    out.reconnects += channel->facts().reconnects;
  }
  return out;
}

}  // namespace nfsrdma::connect
