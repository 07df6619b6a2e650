// No lock service beside NFSv3: simulated worlds have none, and nothing of the machine that they run on.
#pragma once

#include <cerrno>

#include "engine/lock_manager.h"

namespace nfsrdma::testing {

class NoLocks final : public engine::LockManager {
 public:
  async::Task<Result<std::optional<LockHolder>>> test(Question /*question*/,
                                                      async::TimePoint /*deadline*/) override {
    co_return refusal();
  }
  async::Task<Result<Verdict>> lock(Question /*question*/, async::TimePoint /*deadline*/) override {
    co_return refusal();
  }
  async::Task<Status> cancel(Question /*question*/, async::TimePoint /*deadline*/) override {
    co_return Status();
  }
  async::Task<Result<Verdict>> unlock(Question /*question*/, async::TimePoint /*deadline*/) override {
    co_return refusal();
  }
  void forget(const engine::FileHandle& /*file*/, std::uint64_t /*owner*/) override {}
  async::Task<Result<std::uint32_t>> server_state(async::TimePoint /*deadline*/) override {
    co_return refusal();
  }
  [[nodiscard]] std::string how() const override { return "none"; }

 private:
  static Error refusal() { return {ErrorKind::server, ENOLCK, "lock", "server", "there is no lock service"}; }
};

}  // namespace nfsrdma::testing
