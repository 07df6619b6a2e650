#include "sim/name_oracle.h"

#include <doctest/doctest.h>

namespace nfsrdma::sim {
namespace {

using NameOutcome = NameOracle::Outcome;

}  // namespace

TEST_CASE("F10 sim: name oracle: a name leads to what the last change that ended made of it") {
  OracleClock clock;
  NameOracle name(clock);
  CHECK(name.may_lead_to("", clock.tick()));
  CHECK_FALSE(name.may_lead_somewhere(clock.tick()));
  name.end(name.begin({}), NameOutcome::done, {"one"});
  CHECK(name.may_lead_to("one", clock.tick()));
  CHECK_FALSE(name.may_lead_to("two", clock.tick()));
  CHECK_FALSE(name.may_lead_to("", clock.tick()));
  name.end(name.begin({"two"}), NameOutcome::done, {"two"});
  CHECK(name.files(clock.tick()) == std::vector<std::string>{"two"});
  name.end(name.begin({""}), NameOutcome::failed, {""});
  CHECK_FALSE(name.may_lead_to("", clock.tick()));
}

TEST_CASE("F10 sim: name oracle: while a change is under way both answers are permitted") {
  OracleClock clock;
  NameOracle name(clock);
  const OracleClock::Operation question(clock);
  const auto making = name.begin({});
  CHECK(name.may_lead_to("any", clock.tick()));
  CHECK(name.may_lead_to("", clock.tick()));
  CHECK_FALSE(name.is_quiet_since(clock.tick()));
  name.end(making, NameOutcome::done, {"one"});
  CHECK(name.is_quiet_since(clock.tick()));
  CHECK(name.may_lead_to("", question.begun()));
  CHECK(name.may_lead_to("one", question.begun()));
  CHECK_FALSE(name.may_lead_to("", clock.tick()));
  const auto removing = name.begin({""});
  const auto replacing = name.begin({"two"});
  name.end(removing, NameOutcome::done, {""});
  name.end(replacing, NameOutcome::done, {"two"});
  CHECK(name.may_lead_to("", clock.tick()));
  CHECK(name.may_lead_to("two", clock.tick()));
  CHECK_FALSE(name.may_lead_to("one", clock.tick()));
}

TEST_CASE("S10 sim: name oracle: a change of unknown outcome may have been made, and may still be") {
  OracleClock clock;
  NameOracle name(clock);
  name.end(name.begin({"one"}), NameOutcome::done, {"one"});
  name.end(name.begin({""}), NameOutcome::unknown, {""});
  CHECK(name.may_lead_to("one", clock.tick()));
  CHECK(name.may_lead_to("", clock.tick()));
  name.end(name.begin({"two"}), NameOutcome::done, {"two"});
  CHECK_FALSE(name.may_lead_to("one", clock.tick()));
  CHECK(name.may_lead_to("", clock.tick()));
  SUBCASE("a rename between two names of one file does nothing") {
    name.end(name.begin({"three"}), NameOutcome::done, {"three"}, false);
    CHECK(name.may_lead_to("two", clock.tick()));
    CHECK(name.may_lead_to("three", clock.tick()));
  }
}

TEST_CASE("F10 sim: name oracle: a file that was unlinked is found only by who asked before that had ended") {
  OracleClock clock;
  NameOracle name(clock);
  name.end(name.begin({}), NameOutcome::done, {"one"});
  const OracleClock::Operation early(clock);
  const auto removing = name.begin({""});
  const OracleClock::Operation beside(clock);
  name.end(removing, NameOutcome::done, {""});
  for (const Tick begun : {early.begun(), beside.begun()}) {
    CHECK(name.may_lead_to("one", begun));
    CHECK(name.may_lead_to("", begun));
    CHECK(name.may_lead_somewhere(begun));
  }
  const Tick late = clock.tick();
  CHECK_FALSE(name.may_lead_to("one", late));
  CHECK_FALSE(name.may_lead_somewhere(late));
  CHECK(name.may_lead_to("", late));
  SUBCASE("a file that is made by that name is another one") {
    name.end(name.begin({}), NameOutcome::done, {"two"});
    CHECK(name.may_lead_to("two", clock.tick()));
    CHECK_FALSE(name.may_lead_to("one", clock.tick()));
    CHECK_FALSE(name.may_lead_to("", clock.tick()));
  }
  SUBCASE("a file whose maker was killed is not known") {
    name.begin({});
    CHECK(name.may_lead_to("any", clock.tick()));
    CHECK(name.may_lead_to("", clock.tick()));
    CHECK(name.files(clock.tick()).empty());
  }
}

TEST_CASE(
    "F10 sim: name oracle: a name that a file is being moved to may lead to that file before it is known") {
  OracleClock clock;
  NameOracle name(clock);
  const auto change = name.begin({}, {"x"});
  const Tick then = clock.tick();
  CHECK(name.files(then) == std::vector<NameOracle::File>{"x"});
  CHECK(name.may_lead_to_unknown(then));
  name.end(change, NameOutcome::done, {"y"});
  CHECK(name.files(clock.tick()) == std::vector<NameOracle::File>{"y"});
}

}  // namespace nfsrdma::sim
