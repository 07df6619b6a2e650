// The lock service beside the model server's NFSv3: its locks are shared by the clients of a world and lost at the
// server's restart.
//
// The network between is drawn from the host's chance: questions are late, get lost, or lose their answers. A question
// that was lost is asked again, as aux/lockd.h does, so that the server carries out some of them twice.
//
// Thread-safety: none. The LockTable outlives it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "async/loop.h"
#include "support/model_locks.h"

namespace nfsrdma::sim {

class SimLocks final : public engine::LockManager {
 public:
  /// `troubled`: some questions and answers get lost.
  SimLocks(async::Loop& loop, testing::LockTable& table, int client, bool troubled)
      : loop_(loop), model_(loop, table, client), troubled_(troubled) {}

  async::Task<Result<std::optional<LockHolder>>> test(Question question, async::TimePoint deadline) override {
    co_await arrive();
    auto answer = co_await model_.test(std::move(question), deadline);
    co_await late();
    co_return answer;
  }
  async::Task<Result<Verdict>> lock(Question question, async::TimePoint deadline) override {
    question.when_given = called(std::move(question.when_given));
    for (;;) {
      co_await arrive();
      auto answer = co_await model_.lock(question, deadline);
      const bool arrived = co_await answered();
      if (arrived) co_return answer;
    }
  }
  async::Task<Status> cancel(Question question, async::TimePoint deadline) override {
    for (;;) {
      co_await arrive();
      auto answer = co_await model_.cancel(question, deadline);
      const bool arrived = co_await answered();
      if (arrived) co_return answer;
    }
  }
  async::Task<Result<Verdict>> unlock(Question question, async::TimePoint deadline) override {
    for (;;) {
      co_await arrive();
      auto answer = co_await model_.unlock(question, deadline);
      const bool arrived = co_await answered();
      if (arrived) co_return answer;
    }
  }
  void forget(const engine::FileHandle& file, std::uint64_t owner) override { model_.forget(file, owner); }
  async::Task<Result<std::uint32_t>> server_state(async::TimePoint deadline) override {
    co_await late();
    auto answer = co_await model_.server_state(deadline);
    co_await late();
    co_return answer;
  }
  [[nodiscard]] std::string how() const override { return "simulated"; }

 private:
  static constexpr unsigned kLost = 40;  // of 1000
  static constexpr std::chrono::milliseconds kLatest{30};
  static constexpr std::chrono::seconds kAskedAgain{2};

  [[nodiscard]] std::uint32_t draw(std::uint32_t below) { return loop_.random<std::uint32_t>() % below; }
  [[nodiscard]] bool gets_lost() { return troubled_ && draw(1000) < kLost; }
  async::Task<void> late() {
    const std::chrono::microseconds time(draw(1000 * static_cast<std::uint32_t>(kLatest.count())));
    co_await loop_.sleep_for(time);
  }
  /// The server's call that a lock is given: it is late, or gets lost.
  std::function<void()> called(std::function<void()> by) {
    if (!by) return nullptr;
    return [this, alive = std::weak_ptr(alive_), by = std::move(by)] {
      if (alive.expired() || gets_lost()) return;
      const std::chrono::microseconds late(draw(1000 * static_cast<std::uint32_t>(kLatest.count())));
      loop_.at(loop_.now() + late, [alive, by] {
        if (!alive.expired()) by();
      });
    };
  }
  /// A question, perhaps at the second or third time.
  async::Task<void> arrive() {
    while (gets_lost()) co_await loop_.sleep_for(kAskedAgain);
    co_await late();
  }
  /// False: the answer got lost, and the time has come to ask again.
  async::Task<bool> answered() {
    const bool lost = gets_lost();
    if (lost)
      co_await loop_.sleep_for(kAskedAgain);
    else
      co_await late();
    co_return !lost;
  }

  async::Loop& loop_;
  testing::ModelLocks model_;
  const bool troubled_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace nfsrdma::sim
