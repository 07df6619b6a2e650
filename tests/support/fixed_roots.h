// The root of a test server for NFSv3: what its mount service would tell.
#pragma once

#include "engine/roots.h"
#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

class FixedRoots final : public engine::Roots {
 public:
  async::Task<Result<engine::Root>> find(std::vector<std::string> /*names*/) override {
    co_return engine::Root{handle_of(1), 0};
  }
  async::Task<Result<std::vector<std::string>>> towards_exports(std::vector<std::string> /*names*/) override {
    co_return std::vector<std::string>();
  }
  void forget(const engine::FileHandle& /*root*/) override {}
};

}  // namespace nfsrdma::testing
