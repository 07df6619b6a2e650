// The file layer on a client's session, from its root.
#pragma once

#include <memory>

#include "fs/file_system.h"
#include "fs/nfs4/engine.h"
#include "support/engine_fixture.h"

namespace nfsrdma::testing {

inline std::unique_ptr<fs::FileSystem> mounted(EngineClient& client, fs::Options options) {
  auto engine = std::make_unique<fs::Nfs4Engine>(client.session);
  const auto root = client.run(engine->root("/"));
  REQUIRE(ok(root));
  return std::make_unique<fs::FileSystem>(std::move(engine), options, *root);
}

}  // namespace nfsrdma::testing
