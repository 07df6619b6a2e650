// Places, and the Line that they are made of: who is served, and when.
#include "async/places.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "sim/simulation.h"

namespace nfsrdma::async {
namespace {

using namespace std::chrono_literals;

struct Crowd {
  sim::Simulation world{1};
  Loop& loop = world.add_host("client").loop();
  Places places;
  std::string log;
  explicit Crowd(std::uint32_t most = 1) : places(loop, most) {}
  void settle() {
    loop.end_turn();
    while (world.step(world.now())) {
    }
  }
  /// Small letters came in, capital ones too late. Whoever came in stays for that long.
  Task<void> visit(char name, Clock::duration most = 1h, Clock::duration stay = 1ms) {
    bool in_time = true;
    if (places.must_wait()) in_time = co_await places.wait(loop.now() + most);
    log += in_time ? name : static_cast<char>(name - 'a' + 'A');
    if (!in_time) co_return;
    const Places::Place place(places);
    co_await loop.sleep_for(stay);
  }
};

}  // namespace

TEST_CASE("places: a lone waiter that has been woken is before who comes then") {
  Crowd m;
  std::optional<Places::Place> taken(std::in_place, m.places);
  auto waiter = m.visit('a');
  waiter.handle().resume();
  taken.reset();
  CHECK(m.places.must_wait());  // he has yet to run
  auto newcomer = m.visit('b');
  newcomer.handle().resume();
  CHECK(m.log.empty());
  m.settle();
  CHECK(m.log == "a");
  m.world.run_for(5ms);
  CHECK(m.log == "ab");
  CHECK_FALSE(m.places.must_wait());
}

TEST_CASE("places: who comes while another one is woken costs nobody his place in the queue") {
  Crowd m;
  std::optional<Places::Place> taken(std::in_place, m.places);
  auto a = m.visit('a'), b = m.visit('b');
  a.handle().resume();
  b.handle().resume();
  taken.reset();
  auto c = m.visit('c');
  c.handle().resume();
  m.world.run_for(10ms);
  CHECK(m.log == "abc");
  CHECK(m.places.taken() == 0);
}

TEST_CASE("places: several that come free at once serve as many") {
  Crowd m(3);
  std::optional<Places::Place> first(std::in_place, m.places), second(std::in_place, m.places);
  std::optional<Places::Place> third(std::in_place, m.places);
  auto a = m.visit('a'), b = m.visit('b'), c = m.visit('c');
  for (auto* one : {&a, &b, &c}) one->handle().resume();
  first.reset();
  second.reset();
  m.settle();
  CHECK(m.log == "ab");
  CHECK(m.places.taken() == 3);
  third.reset();
  m.settle();
  CHECK(m.log == "abc");
  m.world.run_for(5ms);
}

TEST_CASE("places: a waiter destroyed once it was woken leaves the place to the next, or to whoever comes") {
  for (const bool another : {false, true}) {
    Crowd m;
    std::optional<Places::Place> taken(std::in_place, m.places);
    std::optional<Task<void>> waiter(m.visit('a'));
    waiter->handle().resume();
    auto next = m.visit('b');
    if (another) next.handle().resume();
    taken.reset();
    waiter.reset();
    CHECK(m.places.must_wait() == another);
    if (!another) next.handle().resume();
    m.settle();
    CHECK(m.log == "b");
    m.world.run_for(5ms);
    CHECK_FALSE(m.places.must_wait());
  }
}

TEST_CASE("places: a waiter that is destroyed in the queue, or whose time is over, locks nobody out") {
  Crowd m;
  std::optional<Places::Place> taken(std::in_place, m.places);
  std::optional<Task<void>> dropped(m.visit('a'));
  dropped->handle().resume();
  auto late = m.visit('b', 10ms);
  late.handle().resume();
  dropped.reset();
  m.world.run_for(11ms);
  CHECK(m.log == "B");
  CHECK(m.places.must_wait());
  taken.reset();
  CHECK_FALSE(m.places.must_wait());
}

TEST_CASE("places: who takes one without waiting has whoever was woken wait on") {
  Crowd m;
  std::optional<Places::Place> taken(std::in_place, m.places), urgent;
  auto waiter = m.visit('a');
  waiter.handle().resume();
  taken.reset();
  urgent.emplace(m.places);
  m.settle();
  CHECK(m.log.empty());
  urgent.reset();
  m.settle();
  CHECK(m.log == "a");
  m.world.run_for(5ms);
}

}  // namespace nfsrdma::async
