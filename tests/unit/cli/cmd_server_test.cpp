// Targets, df and ping, as a shell gives them.
#include <algorithm>
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: a target that is none is a mistake, one that is missing a failure") {
  Shell shell;
  shell.server.add_file("/f", "");
  CHECK(shell.status({"stat", "nonsense"}) == 2);
  CHECK(shell.status({"stat", "srv:/none"}) == 1);
  CHECK(shell.status({"stat", "srv:/none", "nonsense", "srv:/f"}) == 2);
  const Ran ran = shell.run({"stat", "--json", "srv:/none", "srv:/f"});
  CHECK(ran.status == 1);
  CHECK(ran.out.starts_with("{\"name\":\"f\",\"path\":\"/f\",\"type\":\"regular\",\"mode\":\"0644\","));
  CHECK(shell.server.connections() == 1);  // all of them one server
}

TEST_CASE("cli: df and ping tell what they are asked") {
  Shell shell;
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string space = shell.told({"df", "srv:/"});
  CHECK(has(space, "         977         391         489   45%  srv:/\n"));
  CHECK(has(shell.told({"df", "-i", "srv:/"}), "        1000         100         800   12%  srv:/\n"));
  const std::string three = shell.told({"ping", "--json", "-c", "3", "-i", "0.001", "srv:/"});
  CHECK(std::ranges::count(three, '\n') == 4);
  CHECK(has(three, "\"sent\":3,\"received\":3,\"lost_percent\":0,"));
  CHECK(shell.status({"ping", "-c", "0", "srv:/"}) == 2);
  CHECK(shell.status({"ping", "-i", "0", "srv:/"}) == 2);
}

}  // namespace nfsrdma::cli
