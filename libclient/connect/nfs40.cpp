// NFSv4.0: one client id on all connections.
#include <utility>

#include "aux/local_address.h"
#include "aux/record_server.h"
#include "aux/rpcbind.h"
#include "connect/nfs4_options.h"
#include "connect/protocol.h"
#include "engine/path.h"
#include "nfs4/files/engine.h"
#include "nfs4/state/crossing.h"
#include "nfs4/v40/nfs40_client.h"

namespace nfsrdma::connect {
namespace {

class Nfs40 final : public Protocol {
 public:
  explicit Nfs40(const Ground& ground)
      : ground_(ground), callbacks_(listen()), state_(those_here(ground), options(), ground.notices) {}

  async::Task<Status> begin(async::TimePoint deadline) override {
    auto begun = co_await begin_all(deadline);
    // If the server has a client id for this client already, end it now rather than leave it until the lease
    // expires.
    if (!begun && state_.facts().client_id != 0) (void)co_await state_.close(state_.loop().now() + kFarewell);
    co_return begun;
  }
  async::Task<Status> begin_all(async::TimePoint deadline) {
    if (auto done = co_await state_.open(deadline); !done) co_return done;
    const auto channels = those_here(ground_);
    for (std::size_t i = 1; i < channels.size(); ++i) {
      if (auto done = co_await channels[i]->connect(deadline); !done) co_return done;
    }
    if (channels.size() != ground_.channels.size() && ground_.notices) {
      ground_.notices(
          "remoteports= is ignored: NFSv4.0 cannot prove that several addresses belong to one server");
    }
    engine_ = std::make_shared<nfs4::Nfs4Engine>(state_);
    auto path = engine::Path::parse(ground_.target.path);
    if (!path) co_return path.error();
    co_return co_await nfs4::negotiate(state_, path->names());
  }
  async::Task<Status> close(async::TimePoint deadline) override { return state_.close(deadline); }

  unsigned number() const override { return 4; }
  const std::shared_ptr<engine::Engine>& engine() const override { return engine_; }
  std::size_t most_read() const override { return state_.most_read(); }
  std::size_t most_written() const override { return state_.most_written(); }
  std::chrono::seconds lease() const override { return std::chrono::seconds(state_.facts().lease_seconds); }

  void describe(Info& out) const override {
    const nfs4::SessionFacts& facts = state_.facts();
    out.version = "4.0";
    out.minor_version = 0;
    out.ping_call = "RENEW";
    out.slots = facts.slots;
    out.max_operations = facts.max_operations;
    out.lease_seconds = facts.lease_seconds;
    out.client_id = facts.client_id;
    out.security = ground_.flavor->name_of(state_.crossings().target());
    out.backchannel = facts.backchannel;
    if (callbacks_) out.callback_address = state_.options().callback.address;
    out.connections = static_cast<std::uint32_t>(state_.connections());
  }

 private:
  /// Listens for the server's callbacks. Returns null if the server cannot call this machine; then there are
  /// no delegations, and nothing else is lost.
  std::unique_ptr<aux::RecordServer> listen() {
    const Options& options = ground_.target.options;
    if (!ground_.surroundings.listens || ground_.addresses.empty()) return nullptr;
    auto local = aux::address_in(options.callback_address);
    if (!local) {
      auto own = aux::local_address_towards(ground_.addresses.front());
      if (!own) return refused(own.error());
      local = *own;
    }
    aux::RecordServerOptions out;
    out.local = aux::with_port(*local, options.callback_port);
    auto server = aux::RecordServer::listen(
        ground_.channels.front()->loop(), out,
        [this](xdr::ConstBytes call, xdr::Message& reply) { return state_.answer_callback(call, reply); });
    if (!server) return refused(server.error());
    return std::move(*server);
  }
  std::unique_ptr<aux::RecordServer> refused(const Error& why) {
    if (ground_.notices)
      ground_.notices("callbacks are not possible, so there are no delegations: " + why.text());
    return nullptr;
  }
  nfs4::SessionOptions options() {
    nfs4::SessionOptions out = session_options(ground_);
    if (!callbacks_) return out;
    const rpc::Address& at = callbacks_->address();
    out.callback.netid = aux::netid(aux::Wire::tcp, at.storage.ss_family);
    out.callback.address = aux::universal_address(at);
    out.callback.ident = ground_.channels.front()->loop().random<std::uint32_t>();
    return out;
  }

  const Ground ground_;
  // No callback comes before the loop turns, so state_ is ready by then.
  const std::unique_ptr<aux::RecordServer> callbacks_;
  nfs4::Nfs40Client state_;
  std::shared_ptr<engine::Engine> engine_;
};

}  // namespace

std::unique_ptr<Protocol> nfs40_protocol(const Ground& ground) {
  return std::make_unique<Nfs40>(ground);
}

}  // namespace nfsrdma::connect
