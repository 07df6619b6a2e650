// How often an operation is made again for state that the server loses again and again
// (nfs4/state/loss_limit.h).
#include "nfs4/state/loss_limit.h"

#include <doctest/doctest.h>

#include "async/loop.h"
#include "async/task.h"
#include "support/virtual_world.h"

namespace nfsrdma {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;

struct LonelyLoop {
  testing::VirtualWorld world;
  async::Loop loop{world};
  static async::Task<void> pausing(async::Loop& on, async::Clock::duration time) {
    co_await on.sleep_for(time);
  }
  void pass(async::Clock::duration time) { loop.run(pausing(loop, time)); }
};

}  // namespace

TEST_CASE("loss limit: some at once, then behind pauses that grow, and an end of what is always lost") {
  LonelyLoop l;
  LossLimit losses(l.loop, async::TimePoint::max());
  const auto again = [&l](LossLimit& of) { return l.loop.run(of.again(true)); };
  CHECK_FALSE(l.loop.run(losses.again(false)));
  async::TimePoint before = l.loop.now();
  for (int i = 0; i < 3; ++i) CHECK(again(losses));
  CHECK((l.loop.now() == before));
  for (const auto pause : {50ms, 100ms, 200ms, 400ms, 800ms}) {
    before = l.loop.now();
    CHECK(again(losses));
    CHECK((l.loop.now() - before == pause));
  }
  CHECK_FALSE(again(losses));
  // A server that has kept it for a while has only restarted.
  l.pass(4s);
  before = l.loop.now();
  for (int i = 0; i < 3; ++i) CHECK(again(losses));
  CHECK((l.loop.now() == before));
  CHECK(again(losses));
  CHECK((l.loop.now() - before == 50ms));
  // Nor is there a pause that nobody has the time for.
  LossLimit hasty(l.loop, l.loop.now() + 70ms);
  for (int i = 0; i < 4; ++i) CHECK(again(hasty));
  CHECK_FALSE(again(hasty));
  LossLimit late(l.loop, l.loop.now());
  CHECK_FALSE(again(late));
}

}  // namespace nfsrdma
