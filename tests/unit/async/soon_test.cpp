// A result that is there at once, or comes from a Task.
#include "async/soon.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "async/event.h"
#include "async/loop.h"
#include "async/until.h"
#include "nfsrdma/result.h"

namespace nfsrdma::async {
namespace {

using namespace std::chrono_literals;

Task<std::string> slowly(Loop& loop, std::string text) {
  co_await loop.sleep_for(1ms);
  co_return text;
}
Soon<std::string> said(Loop& loop, const std::string& text, bool at_once) {
  if (at_once) return text;
  return slowly(loop, text);
}
Task<std::string> twice(Loop& loop, bool at_once) {
  auto first = co_await said(loop, "here", at_once);
  auto second = co_await said(loop, "there", !at_once);
  co_return first + second;
}

Task<void> sleep(Loop& loop, bool& done) {
  co_await loop.sleep_for(1ms);
  done = true;
}
Soon<> nothing(Loop& loop, bool& done, bool at_once) {
  if (at_once) return {};
  return sleep(loop, done);
}

}  // namespace

TEST_CASE("Soon: a result that is there at once, and one that comes later") {
  Loop loop;
  CHECK(said(loop, "x", true).await_ready());
  CHECK_FALSE(said(loop, "x", false).await_ready());
  CHECK(loop.run(twice(loop, true)) == "herethere");
  CHECK(loop.run(twice(loop, false)) == "herethere");
  CHECK(loop.run(said(loop, "now", true)) == "now");
  CHECK(loop.run(said(loop, "later", false)) == "later");
}

TEST_CASE("Soon: without a result") {
  Loop loop;
  bool done = false;
  CHECK(nothing(loop, done, true).await_ready());
  loop.run(nothing(loop, done, true));
  CHECK_FALSE(done);
  loop.run(nothing(loop, done, false));
  CHECK(done);
}

TEST_CASE("Soon: a result that can only be moved, and an Error") {
  Loop loop;
  const auto number = [](bool good) -> Soon<Result<std::unique_ptr<int>>> {
    if (good) return std::make_unique<int>(7);
    return Error(ErrorKind::local, ENOMEM, "make", "a number", "there is none");
  };
  auto made = loop.run(number(true));
  REQUIRE(made);
  CHECK(**made == 7);
  CHECK(loop.run(number(false)).error().errno_value() == ENOMEM);
}

TEST_CASE("Soon: what is dropped while it waits is destroyed") {
  Loop loop;
  bool done = false;
  {
    Task<void> waits = nothing(loop, done, false);
    waits.handle().resume();
  }
  while (loop.next_timer() != TimePoint::max()) loop.turn(TimePoint::max());
  CHECK_FALSE(done);
}

TEST_CASE("until: looks first, then at each notification, and gives up at the deadline") {
  Loop loop;
  Event changed(loop);
  int looked = 0;
  CHECK(loop.run(until(changed, TimePoint::min(), [&] { return ++looked == 1; })));
  CHECK(looked == 1);
  CHECK_FALSE(loop.run(until(changed, loop.now() + 1ms, [] { return false; })));
  looked = 0;
  Task<bool> waits = until(changed, TimePoint::max(), [&] { return ++looked == 3; });
  waits.handle().resume();
  CHECK(looked == 2);  // once more when the wait began
  CHECK_FALSE(waits.done());
  changed.notify_all();
  loop.turn(loop.now());
  CHECK(looked == 3);
  REQUIRE(waits.done());
  CHECK(waits.await_resume());
}

}  // namespace nfsrdma::async
