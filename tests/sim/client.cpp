#include "sim/client.h"

#include "security/choice.h"
#include "security/sys.h"
#include "sim/locks.h"
#include "sim/server.h"
#include "support/fixed_roots.h"
#include "support/no_locks.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

/// As good as for ever, and still a time that can be added to.
constexpr auto kForEver = std::chrono::hours(24 * 365 * 50);
constexpr auto kRetryAfter = 1s;
/// Long enough to find out that a connection is dead of which nobody was told.
constexpr auto kGoodbye = 45s;

bool may_pass(const Error& error) {
  // NOSPC: no room for a session (RFC 8881 18.36.3). CONN_NOT_BOUND: where BIND_CONN_TO_SESSION is refused for seconds.
  return error.kind() == ErrorKind::connection || error.kind() == ErrorKind::timeout ||
         nfs4::passes(nfs4::retry_of(error)) || error.status() == nfs4::NFS4ERR_NOSPC ||
         error.status() == nfs4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
}

}  // namespace

connect::Options SimClient::quick() {
  connect::Options out;
  out.rsize = out.wsize = 16U << 10U;
  out.uid = out.gid = 0;
  out.credits = 16;
  out.timeout = 60s;
  out.connect_timeout = 10s;
  return out;
}

SimClient::SimClient(Network& network, Host& host, const Host& server, const connect::Options& options,
                     Sealing sealing, testing::LockTable* locks)
    : network_(network),
      host_(host),
      server_host_(server),
      options_(options),
      sealing_(sealing),
      locks_(locks) {
  build();
}

connect::Target SimClient::target(const Host& server, const connect::Options& options) {
  connect::Target out;
  out.host = server.name();
  out.path = "/";
  out.options = options;
  return out;
}

connect::Surroundings SimClient::surroundings(Network& network, Host& host, Sealing sealing,
                                              const connect::Options& options) {
  connect::Surroundings out;
  out.host = host.name();
  out.process = "1";
  out.dial = network.dialer(host);
  out.carriers = network.carriers(host);
  out.owner_id = owner(host);
  out.roots = std::make_shared<testing::FixedRoots>(options.version.value_or(4));
  out.locks = std::make_shared<testing::NoLocks>();
  if (sealing) {
    const auto root = std::make_shared<security::Sys>(host.name(), security::Identity());
    auto mechanism = std::make_shared<testing::ToyMechanism>(host.loop().random<std::uint64_t>(), root,
                                                             host.loop(), sealing->traits);
    out.flavor = std::make_shared<gss::Gss>(host.loop(), sealing->service, std::move(mechanism), "server");
    if (sealing->by_place) {
      const auto either = [root, sealed = out.flavor](Security security) {
        return security == Security::sys ? std::shared_ptr<security::Flavor>(root) : sealed;
      };
      const std::vector all{static_cast<Security>(sealing->service), Security::sys};
      out.flavor = std::make_shared<security::Choice>(host.loop(), all, Security::sys, either);
    }
  }
  return out;
}

connect::Surroundings SimClient::own_surroundings() {
  connect::Surroundings out = surroundings(network_, host_, sealing_, options_);
  if (locks_ == nullptr) return out;
  const auto number = static_cast<int>(host_.number());
  out.locks = std::make_shared<SimLocks>(host_.loop(), *locks_, number, locks_->troubled);
  return out;
}

void SimClient::build() {
  const std::vector addresses{Network::address(server_host_, SimServer::kPort)};
  const auto told = [this](const std::string& text) {
    host_.simulation().say(host_.number(), "notice", text);
  };
  server_ = std::make_unique<connect::Server>(host_.loop(), target(server_host_, options_), addresses, told,
                                              kForEver, own_surroundings());
}

SimClient::~SimClient() {
  if (server_) kill();
}

async::Task<Status> SimClient::connect() {
  for (;;) {
    const auto deadline = host_.loop().now() + options_.connect_timeout;
    auto done = co_await server_->connect(deadline);
    if (done) break;
    if (!may_pass(done.error())) co_return done;
    host_.simulation().say(host_.number(), "cannot connect", done.error().text());
    server_->shut_down();
    co_await host_.loop().sleep_for(kRetryAfter);
    build();
  }
  auto root = co_await server_->engine()->find(nullptr, engine::Spot());
  if (!root) co_return root.error();
  fs::CacheOptions cache;
  cache.rsize = server_->rsize();
  cache.wsize = server_->wsize();
  // From too little for two readers to more than all of them want.
  const std::size_t requests = 1 + host_.loop().random<std::uint64_t>() % 32;
  cache.most_ahead = requests * cache.rsize;
  if (options_.shards != 0) shard_ = std::make_unique<ClientShard>(host_.loop(), *server_);
  files_ = std::make_unique<fs::FileSystem>(server_->engine(), cache, *root, shard_.get());
  if (has_kernel_) kernel_ = std::make_unique<KernelModel>(*files_);
  co_return Status();
}

async::Task<Status> SimClient::finish() {
  co_await files_->closed();
  if (shard_) {
    shard_->stop();
    host_.simulation().say(host_.number(), "READs made in a shard", std::to_string(shard_->reads()));
    host_.simulation().say(host_.number(), "WRITEs made in a shard", std::to_string(shard_->writes()));
  }
  auto closed = co_await server_->close(host_.loop().now() + kGoodbye);
  server_->shut_down();
  co_return closed;
}

void SimClient::kill() {
  network_.vanish(host_);
  host_.loop().drop_tasks();
  kernel_.reset();
  files_.reset();
  shard_.reset();
  server_.reset();
  host_.renew_loop();
}

}  // namespace nfsrdma::sim
