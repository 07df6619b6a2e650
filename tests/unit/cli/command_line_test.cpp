// Words of a command line: where options may stand, and how missing operands are reported.
#include "cli/command_line.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace nfsrdma::cli {
namespace {

using Words = std::vector<std::string>;

Result<Arguments> parse(const Words& words) {
  const auto command = std::ranges::find(all_commands(), words.front(),
                                         [](const Command& one) { return std::string(one.name); });
  return parse_arguments(*command, {words.begin() + 1, words.end()});
}

}  // namespace

TEST_CASE("command line: -o may stand before the command") {
  const Words moved{"ls", "-o", "port=1", "S:/"};
  CHECK(command_first({"-o", "port=1", "ls", "S:/"}) == moved);
  CHECK(command_first({"-oport=1", "--options", "vers=3", "--options=uid=1", "ls", "S:/"}) ==
        Words{"ls", "-oport=1", "--options", "vers=3", "--options=uid=1", "S:/"});
  CHECK(command_first({"ls", "-o", "port=1"}) == Words{"ls", "-o", "port=1"});
  for (const Words& words : {Words{}, Words{"-o"}, Words{"-o", "port=1"}, Words{"-l", "ls"}}) {
    CHECK(command_first(words) == words);
  }
}

TEST_CASE("command line: find takes its options with one dash, and no other command does") {
  const auto found = parse({"find", "S:/", "-name", "*.c", "-type", "f", "-maxdepth", "2"});
  REQUIRE(found);
  CHECK(found->value("name") == "*.c");
  CHECK(found->value("type") == "f");
  CHECK(found->value("maxdepth") == "2");
  CHECK(found->operands == Words{"S:/"});
  const auto operands = parse({"find", "S:/", "-n", "x", "--", "-name"});
  REQUIRE(operands);
  CHECK(operands->value("name") == "x");
  CHECK(operands->operands == Words{"S:/", "-name"});
  CHECK_FALSE(parse({"rm", "-recursive", "S:/"}));
}

TEST_CASE("command line: a missing operand is reported with those that are there") {
  const auto none = parse({"mv"});
  REQUIRE_FALSE(none);
  CHECK(none.error().message() == "mv needs TARGET... TARGET; see 'nfsrdma-cli mv --help'");
  const auto one = parse({"mv", "S:/a"});
  REQUIRE_FALSE(one);
  CHECK(one.error().message() ==
        "mv needs TARGET... TARGET, and got only 'S:/a'; see 'nfsrdma-cli mv --help'");
}

TEST_CASE("command line: the line that makes a copy again has the options and quotes that it needs") {
  const auto given = parse({"get", "-rqT", "-o", "port=1,uid=0", "S:/my dir", "here"});
  REQUIRE(given);
  const auto command = std::ranges::find(all_commands(), std::string("get"),
                                         [](const Command& one) { return std::string(one.name); });
  CHECK(line_for_shell(*command, *given, {"S:/my dir", "here/my dir"}) ==
        "nfsrdma-cli get -r -q -T -o port=1,uid=0 'S:/my dir' 'here/my dir'");
  CHECK(line_for_shell(*command, *given, {"S:/a", "-b"}) ==
        "nfsrdma-cli get -r -q -T -o port=1,uid=0 -- S:/a -b");
}

}  // namespace nfsrdma::cli
