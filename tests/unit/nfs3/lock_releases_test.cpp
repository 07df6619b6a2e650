// What release() could not unlock: the lock service of NFSv3 cannot be reached for longer than a question is tried.
#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs3/locks.h"
#include "support/model_locks.h"
#include "support/nfs_fixture.h"
#include "support/virtual_world.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace testing;

constexpr std::chrono::seconds kPatience{5};

/// A lock service that can be cut off: then nothing arrives, and each question ends at its deadline. Its statd answers.
class FarLocks final : public engine::LockManager {
 public:
  FarLocks(async::Loop& loop, LockTable& table, int client) : loop_(loop), near_(loop, table, client) {}

  bool cut = false;
  int states = 0;  ///< questions about the server's state

  async::Task<Result<std::optional<LockHolder>>> test(Question question, async::TimePoint until) override {
    if (!cut) co_return co_await near_.test(std::move(question), until);
    co_await loop_.sleep_until(until);
    co_return no_answer();
  }
  async::Task<Result<Verdict>> lock(Question question, async::TimePoint until) override {
    if (!cut) co_return co_await near_.lock(std::move(question), until);
    co_await loop_.sleep_until(until);
    co_return no_answer();
  }
  async::Task<Status> cancel(Question question, async::TimePoint until) override {
    if (!cut) co_return co_await near_.cancel(std::move(question), until);
    co_await loop_.sleep_until(until);
    co_return no_answer();
  }
  async::Task<Result<Verdict>> unlock(Question question, async::TimePoint until) override {
    if (!cut) co_return co_await near_.unlock(std::move(question), until);
    co_await loop_.sleep_until(until);
    co_return no_answer();
  }
  void forget(const engine::FileHandle& file, std::uint64_t owner) override { near_.forget(file, owner); }
  async::Task<Result<std::uint32_t>> server_state(async::TimePoint until) override {
    ++states;
    return near_.server_state(until);
  }
  std::string how() const override { return "far"; }

 private:
  static Error no_answer() { return {ErrorKind::timeout, ETIMEDOUT, "NLM", "model", "no answer"}; }

  async::Loop& loop_;
  ModelLocks near_;
};

struct FarScene {
  VirtualWorld world;
  async::Loop loop{world};
  LockTable table;
  FarLocks service{loop, table, 1};
  FileRecords files{loop};
  Locks locks{loop, files, &service, kPatience, {[] { return std::uint64_t{0}; }, [](bool) {}}};
  LockedFile file;

  FarScene() {
    file.handle.length = 3;
    file.label = "f";
  }
  static LockRequest of(std::uint64_t owner, LockRange range) {
    LockRequest out;
    out.owner = owner;
    out.write = true;
    out.range = range;
    return out;
  }
  bool lock(std::uint64_t owner, LockRange range) {
    auto holder = loop.run(locks.set(file, of(owner, range)));
    REQUIRE(ok(holder));
    return !*holder;
  }
  int release(std::uint64_t owner) { return errno_of(loop.run(locks.release(file, owner))); }
  async::Task<void> pause(async::Clock::duration time) { co_await loop.sleep_for(time); }
  void pass(async::Clock::duration time) { loop.run(pause(time)); }
  /// The watch over the server ends with the last lock.
  void check_that_all_is_over() {
    CHECK(table.count() == 0);
    CHECK(locks.held() == 0);
    CHECK_FALSE(locks.knows(file.handle, 7));
    CHECK(table.forgotten == 0);
    pass(15s);
    const int before = service.states;
    pass(1min);
    CHECK(service.states == before);
  }
};

async::Task<void> lock_in_background(FarScene& scene, LockRequest request, std::shared_ptr<int> error) {
  auto done = co_await scene.locks.set(scene.file, request);
  *error = errno_of(done);
}

}  // namespace

TEST_CASE("v3 locks: what could not be released in time is released once the lock service is there again") {
  FarScene l;
  REQUIRE(l.lock(7, {0, 10}));
  l.service.cut = true;
  CHECK(l.release(7) == ETIMEDOUT);
  CHECK(l.table.count() == 1);
  CHECK(l.locks.held() == 0);
  l.pass(1min);
  CHECK(l.table.count() == 1);
  l.service.cut = false;
  SUBCASE("which it was all the time") {}
  SUBCASE("which has restarted, and gives no answer but that for a while") {
    l.table.restart();
    l.pass(30s);
    CHECK(l.locks.knows(l.file.handle, 7));
    l.table.grace = false;
  }
  l.pass(20s);
  l.check_that_all_is_over();
}

TEST_CASE("v3 locks: what could not be released since another question of its owner's hung") {
  FarScene l;
  REQUIRE(l.lock(7, {0, 10}));
  l.service.cut = true;
  const auto error = std::make_shared<int>(-1);
  l.loop.spawn(lock_in_background(l, FarScene::of(7, {20, 10}), error));
  l.pass(100ms);
  CHECK(l.release(7) == ETIMEDOUT);
  CHECK(*error == ETIMEDOUT);
  SUBCASE("is released later") {
    l.service.cut = false;
    l.pass(30s);
  }
  SUBCASE("is not claimed where the server restarts") {
    l.table.restart();
    l.service.cut = false;
    l.pass(30s);
    CHECK(l.table.count() == 0);
    l.table.grace = false;
    l.pass(20s);
  }
  l.check_that_all_is_over();
}

TEST_CASE("v3 locks: an owner who is back keeps what it locks, and releases what was left before") {
  FarScene l;
  REQUIRE(l.lock(7, {0, 10}));
  l.service.cut = true;
  CHECK(l.release(7) == ETIMEDOUT);
  l.service.cut = false;
  SUBCASE("before it is tried again") {
    REQUIRE(l.lock(7, {30, 5}));
  }
  SUBCASE("while it is tried again") {
    l.service.cut = true;
    l.pass(7s);  // the watch's question is under way
    l.service.cut = false;
    REQUIRE(l.lock(7, {30, 5}));
  }
  l.pass(1min);
  const auto held = l.table.held.begin()->second.within({30, 5});
  CHECK(held == std::vector{locking::HeldLock{{30, 5}, true}});
  CHECK(l.locks.held() == 1);
  CHECK(l.release(7) == 0);
  l.check_that_all_is_over();
}

}  // namespace nfsrdma::nfs3
