// The shell's commands on the test server: relative paths, one connection, patterns, completion, history.
#include "cli/shell_session.h"

#include <cstdlib>
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

std::string offered(Completion found) {
  std::string out = std::to_string(found.begin) + ":" + found.replacement;
  for (const std::string& one : found.names) out += " " + one;
  return out;
}

/// Completes a line in a session that begins in /d.
std::string completed(Shell& shell, const std::string& line) {
  Servers servers(shell.server.target().options);
  const auto operand = servers.parse("127.0.0.1:/d");
  REQUIRE(operand);
  const auto start = servers.at(*operand);
  REQUIRE(start);
  ShellSession session(servers, operand->target, *start);
  return offered(session.complete(line));
}

}  // namespace

TEST_CASE("cli: the shell runs commands with relative paths on one connection") {
  Shell shell;
  shell.server.add_file("/d/a", "text of a\n");
  shell.server.add_file("/d/sub/b", "text of b\n");
  CHECK(shell.told({"shell", "-c", "cat a sub/b", "srv:/d"}) == "text of a\ntext of b\n");
  CHECK(shell.told({"shell", "-c", "cd sub; pwd; cat b ../a /d/a", "srv:/d"}) ==
        "srv:/d/sub\ntext of b\ntext of a\ntext of a\n");
  CHECK(shell.told({"shell", "-c", "cd sub; cd -; pwd; cd; pwd; cd ..; pwd", "srv:/d"}) ==
        "srv:/d\nsrv:/d\nsrv:/\n");
  CHECK(shell.told({"shell", "-c", "ls; mv a sub/c; ls sub; rm sub/c", "srv:/d"}).ends_with("b\nc\n"));
  CHECK(shell.names("/d/sub") == "b");
  CHECK(shell.told({"shell", "-c", "find -t f", "srv:/d"}) == "srv:/d/sub/b\n");
  CHECK(shell.server.count(nfs4::OP_CREATE_SESSION) == 1);
}

TEST_CASE("cli: shell --json gives each command --json, and errors are objects, also of the shell itself") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  const Ran ran =
      shell.run({"shell", "--json", "-c", "pwd; rm none; cat a; sum a; nonsense; cd none", "srv:/d"});
  CHECK(ran.out.starts_with("{\"target\":\"srv:/d\"}\ntext{\"path\":\"/d/a\","));
  CHECK(std::ranges::count(ran.err, '\n') == 3);
  CHECK(lines_in_order(ran.err).find("nfsrdma-cli:") == std::string::npos);
  CHECK(ran.err.find(R"({"kind":"usage","errno":"EINVAL","message":"unknown command 'nonsense'")") !=
        std::string::npos);
  CHECK(shell.run({"shell", "-c", "rm none", "srv:/d"}).err.starts_with("nfsrdma-cli: "));
}

TEST_CASE("cli: the shell reads a script, and quotes keep special characters ordinary") {
  Shell shell;
  for (const char* path : {"/d/*", "/d/a b", "/d/x.c", "/d/y.c"}) shell.server.add_file(path, path);
  const Ran ran =
      shell.run({"shell", "srv:/d"}, "cat '*' # comment\ncat a\\ b\n\ncat *.c\nfind -name '*.c' .");
  CHECK(ran.status == 0);
  CHECK(lines_in_order(ran.out) == "/d/*/d/a b/d/x.c/d/y.csrv:/d/x.c srv:/d/y.c");
  CHECK(shell.status({"shell", "-c", "rm '*'", "srv:/d"}) == 0);
  CHECK(shell.names("/d") == "a b x.c y.c");
}

TEST_CASE("cli: the shell goes on behind a failure, and ends there with -e") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  const Ran on = shell.run({"shell", "srv:/d"}, "cat none\nnonsense\ncat 'a\ncat a\n");
  CHECK(on.status == 0);
  CHECK(on.out == "text");
  CHECK(on.err.find("unknown command 'nonsense'") != std::string::npos);
  CHECK(on.err.find("a quote is not closed") != std::string::npos);
  const Ran ended = shell.run({"shell", "-e", "srv:/d"}, "cat none\ncat a\n");
  CHECK(ended.status == 1);
  CHECK(ended.out.empty());
  CHECK(shell.run({"shell", "-e", "-c", "cat none; cat a", "srv:/d"}).out.empty());
  CHECK(shell.status({"shell", "-c", "ls", "-c", "chmod", "srv:/d"}) == exit_usage);
  CHECK(shell.status({"shell", "srv:/d/a"}) == 1);
  CHECK(shell.status({"shell", "srv:/none"}) == 1);
  CHECK(shell.run({"shell", "srv:/d"}, "exit\ncat a\n").out.empty());
  CHECK(shell.run({"shell", "-c", "cd a; cd none; pwd", "srv:/d"}).out == "srv:/d\n");
}

TEST_CASE("cli: the shell copies from and to local directories, and runs local commands") {
  Shell shell;
  const Place place;
  shell.server.add_file("/d/a", "text");
  const std::filesystem::path before = std::filesystem::current_path();
  const std::string cd = "lcd " + place.path() + "; ";
  const Ran ran =
      shell.run({"shell", "-c", cd + "get -q a; lpwd; put -q a b", "-c", "lls", "-c", "!exit 3", "srv:/d"});
  std::filesystem::current_path(before);
  CHECK(ran.status == 3);
  CHECK(ran.out == place.path() + "\na\n");
  CHECK(place.read("a") == "text");
  CHECK(shell.content("/d/b") == "text");
}

TEST_CASE("cli: the shell's commands have their own options for the connection") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  CHECK(shell.run({"shell", "-c", "info -o vers=4.1; info", "srv:/d"}).out.find("4.1") != std::string::npos);
  CHECK(shell.status({"shell", "-c", "ls -o nonsense=1", "srv:/d"}) == exit_usage);
}

TEST_CASE("cli: the shell completes commands, options and names on the server") {
  Shell shell;
  for (const char* path : {"/d/alpha one", "/d/alpha two", "/d/beta/x", "/d/.hidden"})
    shell.server.add_file(path, "");
  CHECK(completed(shell, "trunc") == "0:truncate  truncate");
  CHECK(completed(shell, "lp") == "0:lpwd  lpwd");
  CHECK(completed(shell, "cat al") == "4:alpha\\  alpha one alpha two");
  CHECK(completed(shell, "cat alpha\\ o") == "4:alpha\\ one  alpha one");
  CHECK(completed(shell, "cat 'alpha o") == "4:alpha\\ one  alpha one");
  CHECK(completed(shell, "cd ") == "3:beta/ beta/");
  CHECK(completed(shell, "ls beta/") == "3:beta/x  x");
  CHECK(completed(shell, "ls .h") == "3:.hidden  .hidden");
  CHECK(completed(shell, "ls --num") == "3:--numeric  --numeric");
  CHECK(completed(shell, "cat /d/b") == "4:/d/beta/ beta/");
  CHECK(completed(shell, "nonsense x").ends_with(":"));
  CHECK(completed(shell, "chmod ").ends_with(":"));
  CHECK(completed(shell, "cat none") == "4:");
}

TEST_CASE("line editor: history is kept below the state directory of the user") {
  const char* const before = std::getenv("XDG_STATE_HOME");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("XDG_STATE_HOME", "/state", 1);
  CHECK(history_path() == "/state/nfsrdma/history");
  ::setenv("XDG_STATE_HOME", "relative", 1);
  CHECK(history_path() != "relative/nfsrdma/history");
  if (before == nullptr) {
    ::unsetenv("XDG_STATE_HOME");
  } else {
    ::setenv("XDG_STATE_HOME", kept.c_str(), 1);
  }
}

}  // namespace nfsrdma::cli
