// The NFSv3 engine on a test server, on simulated machines: what its tests wait for takes no real time. At the end
// nobody may have broken a rule.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs3/engine.h"
#include "security/sys.h"
#include "sim/fabric/network.h"
#include "support/engine_fixture.h"
#include "support/fixed_roots.h"
#include "support/nfs_responder.h"

namespace nfsrdma::testing {

struct Scene3 {
  const unsigned version;
  sim::Simulation world{1};
  sim::Network network{world};
  NfsServer server{network, world.add_host("server")};
  std::string notices;
  ClientLoop place{server, "client"};
  async::Loop& loop = place.loop();
  rpc::Channel channel{loop, EngineClient::channel_options(server, place.host()), {}};
  calling::ProcedureCalls calls{{&channel}, options()};
  FixedRoots roots{version};
  std::optional<nfs3::Nfs3Engine> engine;
  engine::FileHandle root = handle_of(1);
  const nfs3::Caller who = user(0, 0);

  /// `of`: the version of NFS, 3 or 2.
  explicit Scene3(unsigned of = 3) : version(of) {
    if (version == 2) root.length = 32;
    engine.emplace(calls, roots, nullptr, version);
    REQUIRE(ok(run(channel.connect(loop.now() + 5s))));
    REQUIRE(ok(run(engine->learn_limits(root))));
    server.clear_calls();
  }
  ~Scene3() {
    channel.shut_down();
    loop.drop_tasks();
    engine.reset();
    CHECK(server.problems() == "");
  }
  static calling::CallOptions options() {
    return {std::make_shared<security::Sys>("test", security::Identity()), 30s, std::nullopt, 64};
  }

  template <class T>
  T run(async::Task<T> task, std::chrono::milliseconds most = 60s) {
    task.handle().resume();
    loop.end_turn();
    const auto end = loop.now() + most;
    while (!task.done()) {
      if (loop.now() > end) FAIL("a task does not end");
      loop.turn(loop.now() + 5ms);
    }
    return task.await_resume();
  }
  template <class T>
  T run(async::Soon<T> soon) {
    return run(async::Task<T>(std::move(soon)));
  }
  template <class T>
  T get(async::Task<Result<T>> task) {
    auto got = run(std::move(task));
    if (!got) FAIL(got.error().text());
    return std::move(*got);
  }
  template <class T>
  int error(async::Task<Result<T>> task) {
    auto got = run(std::move(task));
    return got ? 0 : got.error().errno_value();
  }
  engine::Opened open(const std::string& name, std::optional<engine::Engine::Creation> creation = {}) {
    return get(engine->open_at(who, root, name, engine::Access::both, creation));
  }
  Status write(const engine::Opened& file, const std::string& text, std::uint64_t offset = 0) {
    auto done =
        run(file.file->write(std::as_bytes(std::span(text)), {}, offset, Stability::unstable, nullptr));
    if (!done) return done.error();
    CHECK(*done == text.size());
    return {};
  }
  std::string read(const engine::Opened& file, std::size_t count, std::uint64_t offset = 0) {
    std::string out(count, '\0');
    out.resize(get(file.file->read(std::as_writable_bytes(std::span(out)), offset)));
    return out;
  }
  void pass(std::chrono::milliseconds time) { run(pause(time)); }
  async::Task<void> pause(std::chrono::milliseconds time) { co_await loop.sleep_for(time); }
  /// What the server was asked for, one call to a word.
  [[nodiscard]] std::string asked() {
    std::string out;
    for (const SeenCall& call : server.calls()) out += (out.empty() ? "" : " ") + call.operations();
    server.clear_calls();
    return out;
  }
  void habits(const std::function<void(Habits&)>& change) {
    server.on_server([&change](Responder& responder) { change(responder.state.habits); });
  }
};

}  // namespace nfsrdma::testing
