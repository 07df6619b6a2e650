// The NFSv4 engine on a test server, without the public API around it: what a mount builds upon.
//
// Confined to the thread that made it. A task that does not end in time fails the test.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <utility>

#include "engine/path.h"
#include "nfs4/files/convert.h"
#include "nfs4/files/engine.h"
#include "nfs4/files/locks.h"
#include "nfs4/session/session.h"
#include "security/sys.h"
#include "sim/fabric/network.h"
#include "support/loopback.h"
#include "support/nfs_fixture.h"

namespace nfsrdma::testing {

inline nfs4::Caller user(std::uint32_t uid, std::uint32_t gid = 100,
                         const std::vector<std::uint32_t>& groups = {}) {
  security::Identity identity;
  identity.uid = uid;
  identity.gid = gid;
  identity.groups = groups;
  return std::make_shared<const security::Identity>(std::move(identity));
}

/// Whether a Call's encoded credential, as the server saw it, is this one's.
inline bool is_of(const std::string& seen, const nfs4::Caller& caller) {
  const auto credential = rpc::Credential::sys("test", caller->uid, caller->gid, caller->groups);
  const auto mine = credential.encoded();
  return !seen.empty() && seen == std::string(reinterpret_cast<const char*>(mine.data()), seen.size());
}

/// The loop of a client: a simulated machine's where its server is on one, with all that is left of the
/// client thrown away behind it; otherwise one of its own.
class ClientLoop {
 public:
  ClientLoop(const NfsServer& server, const std::string& name)
      : host_(server.host() != nullptr ? &server.host()->simulation().add_host(name) : nullptr) {
    if (host_ == nullptr) own_.emplace();
  }
  ~ClientLoop() {
    if (host_ != nullptr) host_->renew_loop();
  }
  ClientLoop(const ClientLoop&) = delete;
  ClientLoop& operator=(const ClientLoop&) = delete;
  [[nodiscard]] async::Loop& loop() { return host_ != nullptr ? host_->loop() : *own_; }
  [[nodiscard]] sim::Host* host() { return host_; }

 private:
  sim::Host* const host_;
  std::optional<async::Loop> own_;
};

/// A client in a test: it has its loop run.
struct OnLoop {
  OnLoop(const NfsServer& server, const std::string& name) : place(server, name) {}

  template <class T>
  T run(async::Task<T> task, std::chrono::milliseconds most = 10s) {
    start(task);
    if (!turn_until([&] { return task.done(); }, most)) FAIL("a task does not end");
    return task.await_resume();
  }
  template <class T>
  T run(async::Soon<T> soon) {
    return run(async::Task<T>(std::move(soon)));
  }
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    loop.end_turn();
  }
  /// Runs the loop until it is so.
  bool turn_until(const std::function<bool()>& so, std::chrono::milliseconds most = 5s) {
    const auto end = loop.now() + most;
    while (!so()) {
      if (loop.now() > end) return false;
      loop.turn(loop.now() + 5ms);
    }
    return true;
  }
  void turn_for(std::chrono::milliseconds time) {
    turn_until([] { return false; }, time);
  }

  ClientLoop place;
  async::Loop& loop = place.loop();
};

/// One client's connection, session and everything on it.
struct EngineClient : OnLoop {
  using MakeFlavor = std::function<std::shared_ptr<security::Flavor>(async::Loop&)>;
  explicit EngineClient(const NfsServer& server, std::string name = "engine",
                        nfs4::SessionOptions wanted = {}, const MakeFlavor& make_flavor = {})
      : OnLoop(server, name),
        channel(loop, channel_options(server, place.host()), {}),
        session(channel, session_options(with(std::move(wanted), make_flavor), std::move(name)),
                [this](const std::string& text) { notices += text + "\n"; }) {
    REQUIRE(ok(run(channel.connect(loop.now() + 5s))));
    REQUIRE(ok(run(session.open(loop.now() + 5s))));
    root = run(engine.find(nullptr, {}))->handle;
  }
  ~EngineClient() { end(); }
  /// What has tasks of its own on the loop is to be destroyed behind this.
  void end() {
    if (std::exchange(closes, false)) CHECK(ok(run(session.close(loop.now() + 5s))));
    channel.shut_down();
    loop.drop_tasks();
  }
  EngineClient(const EngineClient&) = delete;
  EngineClient& operator=(const EngineClient&) = delete;

  /// By name, with what else OpenFiles::open_at() takes left out.
  async::Task<Result<nfs4::OpenResult>> open(nfs4::Caller caller, nfs4::nfs_fh4 directory, std::string name,
                                             std::uint32_t access) {
    return files.open_at(std::move(caller), directory, std::move(name), access, std::nullopt);
  }
  /// The object of a path with single steps from the root.
  nfs4::nfs_fh4 handle(const std::string& path) {
    auto parsed = engine::Path::parse(path);
    auto found = run(engine.find(nullptr, parsed->spot()));
    if (!ok(found)) return {};
    return found->handle;
  }

  static rpc::ChannelOptions channel_options(const NfsServer& server, sim::Host* host) {
    rpc::ChannelOptions options;
    options.server = "test server";
    options.fabric = Fabric::iwarp;
    if (host != nullptr) {
      options.addresses = {sim::Network::address(*server.host(), server.port())};
      options.dial = server.network()->dialer(*host);
    } else {
      rpc::Address address;
      address.storage = loopback(server.port());
      address.length = sizeof(sockaddr_in);
      options.addresses = {address};
    }
    options.rdma.backward_credits = 4;
    options.rdma.reply_timeout = 2s;
    return options;
  }
  nfs4::SessionOptions with(nfs4::SessionOptions options, const MakeFlavor& make_flavor) {
    if (make_flavor) options.flavor = make_flavor(loop);
    return options;
  }
  static nfs4::SessionOptions session_options(nfs4::SessionOptions options, std::string name) {
    options.callback_slots = 4;
    if (!options.flavor) options.flavor = std::make_shared<security::Sys>("test", security::Identity());
    options.verifier[0] = std::byte{1};
    options.owner_id = std::move(name);
    if (options.timeout == 60s) options.timeout = 5s;
    return options;
  }

  std::string notices;
  rpc::Channel channel;
  nfs4::Session session;
  nfs4::Nfs4Engine engine{session};  // with files of its own
  const std::shared_ptr<nfs4::OpenFiles> open_files = std::make_shared<nfs4::OpenFiles>(session);
  nfs4::OpenFiles& files = *open_files;
  nfs4::Locks locks{session};
  nfs4::nfs_fh4 root;
  bool closes = true;
};

/// A server and, once connect() was called, a client, on simulated machines: what they wait for takes no real
/// time. At the end nobody may have broken a rule.
struct Scene {
  sim::Simulation world{1};
  sim::Network network{world};
  NfsServer server{network, world.add_host("server")};
  std::optional<EngineClient> client;

  ~Scene() {
    client.reset();
    CHECK(server.problems() == "");
  }
  EngineClient& connect(ReadPlus read_plus = ReadPlus::automatic) {
    nfs4::SessionOptions options;
    options.read_plus = read_plus;
    return client.emplace(server, "engine", std::move(options));
  }
  /// A file in the root, for reading and writing.
  nfs4::OpenRef open(const std::string& name, std::uint32_t uid = 1) {
    return open_for(nfs4::OPEN4_SHARE_ACCESS_BOTH, name, uid);
  }
  nfs4::OpenRef open_for(std::uint32_t access, const std::string& name, std::uint32_t uid = 1) {
    auto made = client->run(client->open(user(uid), client->root, name, access));
    if (!made) FAIL(made.error().text());
    return std::move(made->file);
  }
  void close(nfs4::OpenRef& file) { CHECK(ok(client->run(client->files.close(std::move(file))))); }
  /// Runs the client's loop until `so` returns true, at most for `most` of virtual time. Returns whether it did.
  bool soon(const std::function<bool()>& so, std::chrono::milliseconds most = 10s) {
    return client->turn_until(so, most);
  }
};

inline SetAttributes mode(std::uint32_t bits) {
  SetAttributes out;
  out.mode = bits;
  return out;
}

}  // namespace nfsrdma::testing
