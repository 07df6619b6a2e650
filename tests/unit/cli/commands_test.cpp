// Rules that all commands share: the order in which they look at their operands.
#include "cli/commands.h"

#include <string>
#include <vector>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: nothing is done if one of the operands is no target") {
  using Words = std::vector<std::string>;
  Shell shell;
  shell.server.add_file("/a", "text");
  shell.server.add_directory("/d");
  shell.set_mode("/a", 0604);
  for (const Words& words : {
           Words{"rm", "srv:/a", "nonsense"},
           Words{"rmdir", "srv:/d", "nonsense"},
           Words{"mkdir", "srv:/new", "nonsense"},
           Words{"touch", "srv:/new", "nonsense"},
           Words{"truncate", "-s", "0", "srv:/a", "nonsense"},
           Words{"chmod", "777", "srv:/a", "nonsense"},
           Words{"chown", "7", "srv:/a", "nonsense"},
           Words{"acl", "set", "A::OWNER@:r", "srv:/a", "nonsense"},
           Words{"mv", "srv:/a", "nonsense", "srv:/d"},
           Words{"cp", "srv:/a", "nonsense", "srv:/d"},
           Words{"ln", "srv:/a", "nonsense", "srv:/d"},
           Words{"cat", "srv:/a", "nonsense"},
           Words{"ls", "srv:/", "nonsense"},
           Words{"stat", "srv:/a", "nonsense"},
           Words{"find", "srv:/", "nonsense"},
           Words{"du", "srv:/", "nonsense"},
           Words{"sum", "srv:/a", "nonsense"},
           Words{"df", "srv", "nonsense:x"},
           Words{"info", "srv", "nonsense:x"},
       }) {
    CAPTURE(words.front());
    const Ran ran = shell.run(words);
    CHECK(ran.status == exit_usage);
    CHECK(ran.out.empty());
    CHECK(ran.err.find("'nonsense") != std::string::npos);
  }
  CHECK(shell.names("/") == "a d");
  CHECK(shell.names("/d").empty());
  CHECK(shell.content("/a") == "text");
  CHECK(shell.mode("/a") == 0604);
}

TEST_CASE("cli: each operand that is no target is named") {
  Shell shell;
  shell.server.add_file("/a", "text");
  const Ran ran = shell.run({"rm", "first", "srv:/a", "second"});
  CHECK(ran.err.find("'first'") != std::string::npos);
  CHECK(ran.err.find("'second'") != std::string::npos);
  CHECK(shell.is_there("/a"));
}

TEST_CASE("cli: cp and mv on one server say which commands cross the network, and do nothing") {
  Shell shell;
  shell.server.add_file("/a", "text");
  for (const char* command : {"cp", "mv"}) {
    CAPTURE(command);
    Ran ran = shell.run({command, "srv:/a", "plain", "srv:/"});
    CHECK(ran.err.find("use put") != std::string::npos);
    ran = shell.run({command, "srv:/a", "nfs://elsewhere/b", "srv:/b"});
    CHECK(ran.status == 1);
    CHECK(ran.err.find("on another server") != std::string::npos);
  }
  CHECK(shell.names("/") == "a");
}

TEST_CASE("cli: a failure is reported with the target at which it occurred") {
  Shell shell;
  shell.server.add_file("/a", "text");
  shell.server.answer(nfs4::OP_SETATTR, nfs4::NFS4ERR_ISDIR, 10);
  const Ran ran = shell.run({"truncate", "-s", "1", "srv:/a"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("/a: SETATTR: ") != std::string::npos);
}

}  // namespace nfsrdma::cli
