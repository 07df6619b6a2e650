// ls, as a shell asks for it.
#include <string>

#include "cli/format.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: ls shows what is asked for, and goes on behind what is missing") {
  Shell shell;
  shell.server.add_file("/t/.h", "");
  shell.server.add_file("/t/f", "abc");
  shell.server.add_file("/t/s/g", "");
  shell.server.add_symlink("/t/l", "s");
  CHECK(lines_in_order(shell.told({"ls", "srv:/t"})) == "f l s");
  CHECK(lines_in_order(shell.told({"ls", "-A", "srv:/t"})) == ".h f l s");
  CHECK(lines_in_order(shell.told({"ls", "-a", "srv:/t"})) == ". .. .h f l s");
  CHECK(shell.told({"ls", "-d", "srv:/t"}) == "/t\n");
  CHECK(shell.told({"ls", "srv:/t/l"}) == "g\n");
  CHECK(shell.told({"ls", "-l", "srv:/t/l"}).ends_with(" /t/l -> s\n"));
  CHECK(shell.told({"ls", "-n", "srv:/t/f"})
            .starts_with("-rw-r--r--   1 " + left("0", 8) + " " + left("0", 8) + " " + right("3", 12) + " "));
  CHECK(lines_in_order(shell.told({"ls", "-R", "srv:/t"})) == "f g l s srv:/t/s: srv:/t:");
  CHECK(shell.told({"ls", "--json", "srv:/t/s"}).starts_with("{\"name\":\"g\",\"type\":\"regular\","));
  const Ran ran = shell.run({"ls", "srv:/none", "srv:/t/s"});
  CHECK(ran.status == 1);
  CHECK(ran.out == "srv:/t/s:\ng\n");
  CHECK(ran.err.find("/none") != std::string::npos);
}

TEST_CASE("cli: ls -R and find go down only, whatever the server lists") {
  Shell shell;
  shell.server.add_file("/t/s/g", "");
  shell.server.on_server([](Responder& responder) {
    Inode& top = *responder.state.find("/t");
    for (const char* name : {".", "..", "s/.."}) {
      top.cookies[name] = top.next_cookie;
      top.entries[top.next_cookie++] = {name, top.id};
    }
  });
  CHECK(lines_in_order(shell.told({"ls", "-RA", "srv:/t"})) == ". .. g s s/.. srv:/t/s: srv:/t:");
  const Ran ran = shell.run({"find", "srv:/t"});
  CHECK(ran.status == 1);
  CHECK(lines_in_order(ran.out) == "srv:/t srv:/t/s srv:/t/s/g");
  CHECK(shell.status({"rm", "-r", "srv:/t"}) == 1);  // it is not empty
}

}  // namespace nfsrdma::cli
