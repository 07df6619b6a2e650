// Calls of NFSv4.0 by themselves (nfs4/v40/sessionless.h), on virtual time: who waits for whom. What it comes to in a whole
// client: v40_test.cpp.
#include "nfs4/v40/sessionless.h"

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// It is as if somebody kept data, so that delegations for writing are wanted.
struct KeeperOfNothing final : engine::Writers {
  void write_out(const engine::FileHandle& /*file*/, std::shared_ptr<void> /*until*/) override {}
  std::optional<std::uint64_t> written_size(const engine::FileHandle& /*file*/) const override {
    return std::nullopt;
  }
};

/// As EngineClient (support/engine_fixture.h), of version 4.0.
struct Client40 {
  explicit Client40(const NfsServer& server)
      : place(server, "client40"),
        channel(loop, EngineClient::channel_options(server, place.host()), {}),
        session(std::vector<rpc::Channel*>{&channel}, session_options(),
                [this](const std::string& text) { notices += text + "\n"; }) {
    REQUIRE(ok(run(channel.connect(loop.now() + 5s))));
    REQUIRE(ok(run(session.open(loop.now() + 5s))));
    root = run(engine.find(nullptr, {}))->handle;
  }
  ~Client40() {
    session.delegations().writers(nullptr);
    CHECK(ok(run(session.close(loop.now() + 5s))));
    channel.shut_down();
    loop.drop_tasks();
  }
  Client40(const Client40&) = delete;
  Client40& operator=(const Client40&) = delete;

  template <class T>
  T run(async::Task<T> task) {
    start(task);
    if (!turn_until([&] { return task.done(); })) FAIL("a task does not end");
    return task.await_resume();
  }
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    loop.end_turn();
  }
  bool turn_until(const std::function<bool()>& so, std::chrono::milliseconds most = 10s) {
    const auto end = loop.now() + most;
    while (!so()) {
      if (loop.now() > end) return false;
      loop.turn(loop.now() + 5ms);
    }
    return true;
  }
  async::Task<Result<OpenResult>> open(std::string name, std::uint32_t access) {
    return files.open_at(user(1), root, std::move(name), access, std::nullopt);
  }
  OpenRef opened(const std::string& name, std::uint32_t access) {
    auto made = run(open(name, access));
    if (!made) FAIL(made.error().text());
    return std::move(made->file);
  }
  void close(OpenRef& file) { CHECK(ok(run(files.close(std::move(file))))); }

  static nfs4::SessionOptions session_options() {
    nfs4::SessionOptions out = EngineClient::session_options({}, "client40");
    out.callback.netid = "tcp";
    out.callback.address = "127.0.0.1.3.255";
    return out;
  }

  ClientLoop place;
  async::Loop& loop = place.loop();
  std::string notices;
  rpc::Channel channel;
  nfs4::Sessionless session;
  nfs4::Nfs4Engine engine{session};
  nfs4::OpenFiles files{session};
  nfs4::nfs_fh4 root;
};

struct Scene40 {
  sim::Simulation world{1};
  sim::Network network{world};
  NfsServer server{network, world.add_host("server")};
  KeeperOfNothing keeper;
  std::optional<Client40> client;

  /// `confirms`: the server wants OPEN_CONFIRM.
  explicit Scene40(bool confirms = true) {
    for (const char* path : {"/f", "/g", "/h"}) server.add_file(path, "text");
    server.on_server([confirms](Responder& responder) { responder.state.habits.confirms_owners = confirms; });
  }
  ~Scene40() {
    client.reset();
    CHECK(server.problems() == "");
  }
  Client40& connect() { return client.emplace(server); }
};

}  // namespace

TEST_CASE("sessionless: an OPEN that is refused keeps no turn from the next one of whoever asked") {
  for (const bool confirms : {true, false}) {
    CAPTURE(confirms);
    Scene40 m(confirms);
    Client40& c = m.connect();
    c.session.delegations().writers(&m.keeper);
    m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
    auto by_name = c.opened("f", OPEN4_SHARE_ACCESS_WRITE);
    CHECK(m.server.count(OP_OPEN) == 2);
    REQUIRE(m.server.opens().size() == 1);
    CHECK(m.server.opens().back().share_access == OPEN4_SHARE_ACCESS_WRITE);
    const nfs_fh4 other = c.run(c.engine.find(nullptr, {c.root, {"g"}}))->handle;
    m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
    auto by_handle =
        c.run(c.files.open_handle(user(1), other, "g", OPEN4_SHARE_ACCESS_WRITE, engine::Place{c.root, "g"}));
    REQUIRE(ok(by_handle));
    CHECK(m.server.count(OP_OPEN) == 4);
    c.close(by_name);
    c.close(by_handle->file);
    CHECK(m.server.open_states() == 0);
  }
}

}  // namespace nfsrdma
