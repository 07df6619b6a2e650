// The file layer on a client's session, from its root.
#pragma once

#include <memory>

#include "fs/file_system.h"
#include "nfs4/files/engine.h"
#include "support/engine_fixture.h"

namespace nfsrdma::testing {

inline std::unique_ptr<fs::FileSystem> mounted(EngineClient& client, fs::CacheOptions options) {
  auto engine = std::make_shared<nfs4::Nfs4Engine>(client.session);
  const auto root = client.run(engine->find(nullptr, {}));
  REQUIRE(ok(root));
  return std::make_unique<fs::FileSystem>(std::move(engine), options, *root);
}

/// The file layer on the test server, once mount() was called, and short ways to say things.
struct MountedEngine : Scene {
  ~MountedEngine() {
    if (client) client->end();
    files.reset();
  }
  void mount(fs::CacheOptions options = {}) {
    connect();
    files = mounted(*client, options);
    server.clear_calls();
  }
  template <class T>
  T get(async::Task<Result<T>> task) {
    auto got = client->run(std::move(task));
    if (!got) FAIL(got.error().text());
    return std::move(*got);
  }
  template <class T>
  int error(async::Task<Result<T>> task) {
    return errno_of(client->run(std::move(task)));
  }
  fs::Entry lookup(const std::string& name) { return get(files->lookup(who, fs::Inodes::kRoot, name)); }
  /// What the server was asked for: SeenCall::operations(), one COMPOUND to a word.
  [[nodiscard]] std::string calls() const {
    std::string out;
    for (const SeenCall& call : server.calls()) out += (out.empty() ? "" : " ") + call.operations();
    return out;
  }

  std::unique_ptr<fs::FileSystem> files;
  const nfs4::Caller who = user(1000);
};

}  // namespace nfsrdma::testing
