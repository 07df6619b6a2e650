// NFSv3 and NFSv2: the root of the target comes from MOUNT, and calls go over all connections.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "async/event.h"
#include "async/helper.h"
#include "async/tasks.h"
#include "aux/lockd.h"
#include "aux/mountd.h"
#include "calling/procedure_calls.h"
#include "connect/protocol.h"
#include "connect/resolve.h"
#include "engine/path.h"
#include "nfs3/engine.h"

namespace nfsrdma::connect {
namespace {

calling::CallOptions call_options(const Ground& ground) {
  const Options& options = ground.target.options;
  return {ground.flavor, options.timeout, ground.patience,
          most_calls(options, ground.channels.front()->established())};
}

}  // namespace

aux::MountOptions mount_options(const Target& target, std::vector<rpc::Address> addresses) {
  const Options& options = target.options;
  aux::MountOptions out;
  out.server = options.mount_host.empty() ? target.host : options.mount_host;
  out.addresses = std::move(addresses);
  out.port = options.mount_port;
  if (!options.mount_transport.empty())
    out.transport = options.mount_transport == "udp" ? aux::Transport::udp : aux::Transport::tcp;
  if (options.version == 2U) out.version = 1;
  out.timeout = options.connect_timeout;
  out.identity = own_identity(options);
  return out;
}

namespace {

constexpr async::Clock::duration kSettleTime = std::chrono::seconds(3);
/// Interval of health checks. NFSv3 has no lease that would set one.
constexpr std::chrono::seconds kHealthCheck(30);

class Nfs3 final : public Protocol {
 public:
  Nfs3(const Ground& ground, unsigned version)
      : ground_(ground),
        version_(version),
        calls_(all_of(ground), call_options(ground)),
        roots_(ground.surroundings.roots),
        locks_(ground.surroundings.locks) {}

  async::Task<Status> begin(async::TimePoint deadline) override {
    auto begun = co_await begin_all(deadline);
    // Undo the registrations, because neither the server's mount service nor this machine's rpcbind would
    // notice that this client gave up.
    if (!begun) (void)co_await close(calls_.loop().now() + kFarewell);
    co_return begun;
  }
  async::Task<Status> begin_all(async::TimePoint deadline) {
    if (auto done = co_await find_mountd(deadline); !done) co_return done;
    if (!locks_) {
      auto lockd = std::make_shared<aux::Lockd>(calls_.loop(), lock_options());
      lockd_ = lockd.get();
      locks_ = std::move(lockd);
      lockd_->look();
      co_await settle(deadline);
    }
    engine_ = std::make_shared<nfs3::Nfs3Engine>(calls_, *roots_, locks_.get(), version_);
    auto path = engine::Path::parse(ground_.target.path);
    if (!path) co_return path.error();
    // The first call shows whether the server speaks the version. The mount service is asked meanwhile.
    Finding finding(calls_.loop());
    finding.tasks.spawn(find_root(*path, finding));
    if (auto answered = co_await engine_->ping(); !answered) co_return answered;
    for (std::size_t i = 1; i < ground_.channels.size(); ++i) {
      if (auto done = co_await ground_.channels[i]->connect(deadline); !done) co_return done;
    }
    for (const auto& channel : ground_.channels) channel->check_health(kHealthCheck, version_);
    while (!finding.root) (void)co_await finding.found.wait_until(async::TimePoint::max());
    auto root = *std::move(finding.root);
    if (!root) {
      // If "/" is not an export, it stands for the server as a whole: each path then has a root of its own.
      const bool whole = path->is_begin() && root.error().kind() == ErrorKind::server &&
                         root.error().errno_value() != EPROTONOSUPPORT;
      if (!whole) co_return root.error();
      co_return Status();
    }
    if (root->handle.length == 0) co_return Status();  // the target is above the exports
    target_ = root->handle.mark;
    for (;;) {
      auto learned = co_await nfs3().learn_limits(root->handle);
      const bool cannot = !learned && learned.error().kind() == ErrorKind::server &&
                          learned.error().status() == rpc::kGarbageArgs;
      if (!cannot || mountd_ == nullptr || !ground_.flavor->has_choice()) co_return learned;
      mountd_->avoid(root->handle);
      auto other = co_await roots_->find(path->names());
      if (!other) co_return learned;
      root = std::move(other);
      target_ = root->handle.mark;
    }
  }
  async::Task<Status> close(async::TimePoint deadline) override {
    if (lockd_ != nullptr) co_await lockd_->close(deadline);
    if (mountd_ != nullptr) co_await mountd_->unmount(deadline);
    co_return Status();
  }

  unsigned number() const override { return version_; }
  const std::shared_ptr<engine::Engine>& engine() const override { return engine_; }
  std::size_t most_read() const override { return nfs3().limits().most_read; }
  std::size_t most_written() const override { return nfs3().limits().most_written; }
  std::chrono::seconds lease() const override { return std::chrono::hours(1); }

  void describe(Info& out) const override {
    out.version = std::to_string(version_);
    out.ping_call = "NULL";
    out.locks = locks_->how();
    out.slots = calls_.most();
    out.security = ground_.flavor->name_of(target_);
    for (const auto& channel : ground_.channels) out.connections += channel->up() ? 1 : 0;
  }

 private:
  /// The search for the target's root, which is dropped if the connection fails meanwhile.
  struct Finding {
    explicit Finding(async::Loop& loop) : found(loop), tasks(loop) {}
    std::optional<Result<engine::Root>> root;
    async::Event found;
    async::Tasks tasks;  // the last member, because the tasks use the others
  };
  async::Task<void> find_root(engine::Path path, Finding& finding) {
    finding.root = co_await roots_->find(path.names());
    finding.found.notify_all();
  }
  async::Task<Status> find_mountd(async::TimePoint deadline) {
    if (roots_) co_return Status();
    const std::string& host = ground_.target.options.mount_host;
    std::vector<rpc::Address> addresses = ground_.addresses;
    if (!host.empty()) {
      using Addresses = Result<std::vector<rpc::Address>>;
      const std::function<Addresses()> work = [host, deadline] { return resolve(host, 0, deadline, -1); };
      auto found = co_await async::on_helper<Addresses>(calls_.loop(), deadline, work);
      if (!found) {
        co_return Error(ErrorKind::timeout, ETIMEDOUT, "resolve", host,
                        "the name service does not answer; give the mount service's address with mounthost=");
      }
      if (!*found) co_return found->error();
      addresses = std::move(**found);
    }
    aux::MountOptions options = mount_options(ground_.target, std::move(addresses));
    options.version = version_ == 2 ? 1 : 3;
    options.flavor = ground_.flavor;
    options.rpcbind_port = ground_.surroundings.rpcbind_port;
    auto mountd = std::make_shared<aux::Mountd>(calls_.loop(), std::move(options));
    mountd_ = mountd.get();
    roots_ = std::move(mountd);
    co_return Status();
  }
  /// Releases the locks that a mount left behind when it was killed.
  async::Task<void> settle(async::TimePoint deadline) {
    auto settled = co_await lockd_->settle(std::min(deadline, calls_.loop().now() + kSettleTime));
    if (!ground_.notices) co_return;
    if (!settled) {
      ground_.notices("locks left behind by a killed mount could not be released: " + settled.error().text());
    } else if (*settled != 0) {
      ground_.notices("released the locks left behind by a killed mount (" + std::to_string(*settled) +
                      " owners)");
    }
  }
  [[nodiscard]] aux::LockdOptions lock_options() const {
    aux::LockdOptions out;
    out.server = ground_.target.host;
    out.addresses = ground_.addresses;
    out.host = ground_.surroundings.host;
    out.nfs_version = version_;
    out.identity = own_identity(ground_.target.options);
    out.listens = ground_.surroundings.listens;
    out.records = ground_.surroundings.lock_records;
    out.rpcbind_port = ground_.surroundings.rpcbind_port;
    return out;
  }
  [[nodiscard]] nfs3::Nfs3Engine& nfs3() const { return static_cast<nfs3::Nfs3Engine&>(*engine_); }

  const Ground ground_;
  const unsigned version_;     // NFS version: 3 or 2
  security::Mark target_ = 0;  // mark of the target's root
  calling::ProcedureCalls calls_;
  std::shared_ptr<engine::Roots> roots_;
  aux::Mountd* mountd_ = nullptr;  // roots_, if it is the server's mount service
  std::shared_ptr<engine::LockManager> locks_;
  aux::Lockd* lockd_ = nullptr;             // locks_, if it is the server's lock service
  std::shared_ptr<engine::Engine> engine_;  // uses the members above
};

}  // namespace

std::unique_ptr<Protocol> nfs3_protocol(const Ground& ground) {
  return std::make_unique<Nfs3>(ground, 3);
}

std::unique_ptr<Protocol> nfs2_protocol(const Ground& ground) {
  return std::make_unique<Nfs3>(ground, 2);
}

}  // namespace nfsrdma::connect
