// The root of a test server for NFSv3 and v2: what its mount service would tell.
#pragma once

#include "engine/roots.h"
#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

class FixedRoots final : public engine::Roots {
 public:
  /// `version`: of NFS. All of v2's handles have one size.
  explicit FixedRoots(unsigned version = 3) {
    root_ = handle_of(1);
    if (version == 2) root_.length = 32;
  }
  async::Task<Result<engine::Root>> find(std::vector<std::string> /*names*/) override {
    co_return engine::Root{root_, 0};
  }
  async::Task<Result<std::vector<std::string>>> towards_exports(std::vector<std::string> /*names*/) override {
    co_return std::vector<std::string>();
  }
  void forget(const engine::FileHandle& /*root*/) override {}

 private:
  engine::FileHandle root_;
};

}  // namespace nfsrdma::testing
