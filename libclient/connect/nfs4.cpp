// NFSv4.1 and 4.2: one session on all connections.
#include <utility>

#include "connect/nfs4_options.h"
#include "connect/protocol.h"
#include "engine/path.h"
#include "nfs4/files/engine.h"
#include "nfs4/session/session.h"
#include "nfs4/state/crossing.h"

namespace nfsrdma::connect {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    const auto c = static_cast<char>(b);
    out += c >= 0x20 && c < 0x7f ? c : '.';
  }
  return out;
}

class Nfs4 final : public Protocol {
 public:
  explicit Nfs4(const Ground& ground)
      : ground_(ground), session_(*ground.channels.front(), session_options(ground), ground.notices) {}

  async::Task<Status> begin(async::TimePoint deadline) override {
    auto begun = co_await begin_all(deadline);
    // If the server has a session for this client already, end it now rather than leave it until the lease
    // expires.
    if (!begun && session_.facts().slots != 0)
      (void)co_await session_.close(session_.loop().now() + kFarewell);
    co_return begun;
  }
  async::Task<Status> close(async::TimePoint deadline) override { return session_.close(deadline); }

  unsigned number() const override { return 4; }
  const std::shared_ptr<engine::Engine>& engine() const override { return engine_; }
  std::size_t most_read() const override { return session_.most_read(); }
  std::size_t most_written() const override { return session_.most_written(); }
  std::chrono::seconds lease() const override { return std::chrono::seconds(session_.facts().lease_seconds); }

  async::Task<Result<std::unique_ptr<engine::Shard>>> make_shard(std::size_t number, rpc::Channel& channel,
                                                                 async::TimePoint deadline) override {
    return session_.make_shard(number, channel, deadline);
  }

  void use_shards(engine::ShardCalls* shards) override { session_.use_shards(shards); }

  void describe(Info& out) const override {
    const nfs4::SessionFacts& session = session_.facts();
    out.version = "4." + std::to_string(session.minor_version);
    out.minor_version = session.minor_version;
    out.read_plus = session_.hole_reads().text();
    out.hole_bytes = session_.counters().hole_bytes;
    out.ping_call = "SEQUENCE";
    out.slots = session.slots;
    out.max_request = session.max_request;
    out.max_response = session.max_response;
    out.max_response_cached = session.max_response_cached;
    out.max_operations = session.max_operations;
    out.lease_seconds = session.lease_seconds;
    out.implementation_name = session.implementation_name;
    out.implementation_domain = session.implementation_domain;
    out.implementation_date = session.implementation_date;
    out.server_owner = text_of(session.server_owner.so_major_id.value);
    out.server_scope = text_of(session.server_scope);
    out.client_id = session.client_id;
    out.security = ground_.flavor->name_of(session_.crossings().target());
    for (const std::byte b : session.session_id) {
      out.session_id += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4U];
      out.session_id += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15U];
    }
    out.backchannel = session.backchannel;
    out.protects_state = session.protects_state;
    out.connections = static_cast<std::uint32_t>(session_.lanes().usable());
  }

 private:
  /// Opens the session, adds all connections to it, and makes the engine.
  async::Task<Status> begin_all(async::TimePoint deadline) {
    if (auto done = co_await session_.open(deadline); !done) co_return done;
    for (std::size_t i = 1; i < ground_.channels.size(); ++i) {
      rpc::Channel& channel = *ground_.channels[i];
      auto done = co_await session_.lanes().add(channel, deadline);
      // A further address (remoteports=) may be unreachable for a while: the lane tries it again and again.
      if (!done && !channel.elsewhere()) co_return done;
      if (!done && ground_.notices) ground_.notices(done.error().text());
    }
    engine_ = std::make_shared<nfs4::Nfs4Engine>(session_);
    auto path = engine::Path::parse(ground_.target.path);
    if (!path) co_return path.error();
    co_return co_await nfs4::negotiate(session_, path->names());
  }

  const Ground ground_;
  mutable nfs4::Session session_;
  std::shared_ptr<engine::Engine> engine_;
};

}  // namespace

std::unique_ptr<Protocol> nfs4_protocol(const Ground& ground) {
  return std::make_unique<Nfs4>(ground);
}

}  // namespace nfsrdma::connect
