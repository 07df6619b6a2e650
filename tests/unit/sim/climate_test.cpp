// The climates of the simulator: a kind of trouble that no seed draws is one that the simulator says nothing about.
#include "sim/climate.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sim/random.h"

namespace nfsrdma::sim {
namespace {

/// What a climate is made of, but for the habits of the server, which it only leaves out.
std::string shown(std::uint64_t seed, std::string_view without) {
  Random random(seed);
  return Climate(random, true, without, {}).text();
}

}  // namespace

TEST_CASE(
    "sim climate: every kind of trouble occurs, and any two that do not exclude each other occur together") {
  constexpr std::uint64_t kSeeds = 3000;
  // Some have no text of their own: those of the server's habits, and those of `odd`.
  const std::set<std::string_view> silent{"habits", "odd",      "verifiers", "survivals",
                                          "delays", "failures", "promises",  "changes",
                                          "limits", "flags",    "strangers"};
  std::map<std::string_view, unsigned> seen;
  std::map<std::pair<std::string_view, std::string_view>, unsigned> together;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::string all = shown(seed, "");
    std::set<std::string_view> here;
    for (const std::string_view kind : Climate::kinds()) {
      if (shown(seed, kind) != all) here.insert(kind);
    }
    for (const std::string_view one : here) {
      ++seen[one];
      for (const std::string_view other : here) ++together[{one, other}];
    }
  }
  // climate.cpp says why.
  const std::set<std::pair<std::string_view, std::string_view>> excluded{
      {"anything", "teams"},       {"connections", "lost-locks"},
      {"elsewhere", "lost-locks"}, {"failovers", "versions"},
      {"forgetting", "versions"},  {"lost-locks", "threads"},
      {"lost-locks", "versions"},  {"pages", "teams"},
      {"recalls", "versions"},     {"stripes", "teams"},
      {"teams", "time-steps"}};
  for (const std::string_view one : Climate::kinds()) {
    CAPTURE(one);
    CHECK((seen[one] == 0) == silent.contains(one));
    for (const std::string_view other : Climate::kinds()) {
      const double expected = 1.0 * seen[one] * seen[other] / kSeeds;
      if (expected < 20 || excluded.contains({one, other}) || excluded.contains({other, one})) continue;
      CAPTURE(other);
      CHECK(together[{one, other}] > expected / 10);
    }
  }
}

}  // namespace nfsrdma::sim
