// The crew's rules by themselves, where a Client cannot be made to show them.
#include "api/crew.h"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace nfsrdma {
namespace {

using namespace std::chrono_literals;

TEST_SUITE("threads") {
  TEST_CASE("a thread whose turn of the loop throws gives up the lead") {
    async::Loop loop;
    api::Crew crew(loop, true);
    bool over = false;
    {
      const api::Crew::Inside inside(crew);
      loop.post([] { throw std::runtime_error("a callback of the loop fails"); });
      CHECK_THROWS_AS(crew.wait([] { return false; }), std::runtime_error);
      CHECK(!crew.led());
      loop.post([&over] { over = true; });
      CHECK(crew.wait([&over] { return over; }, loop.now() + 10s));
    }
  }

  TEST_CASE("where the leader's turn throws, a thread that waits leads from then on") {
    async::Loop loop;
    api::Crew crew(loop, true);
    bool fails = false, over = false, ended_well = false;
    std::thread other;
    {
      const api::Crew::Inside inside(crew);
      other = std::thread([&] {
        const api::Crew::Inside follower(crew);
        fails = true;
        loop.post([] { throw std::runtime_error("a callback of the loop fails"); });
        ended_well = crew.wait([&over] { return over; }, loop.now() + 10s);
      });
      // The leader lets the other thread in while it waits.
      CHECK_THROWS_AS(crew.wait([] { return false; }, loop.now() + 10s), std::runtime_error);
      CHECK(fails);
      loop.at(loop.now() + 1ms, [&over] { over = true; });
    }
    other.join();
    CHECK(ended_well);
  }
}

}  // namespace
}  // namespace nfsrdma
