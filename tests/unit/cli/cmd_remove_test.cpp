// rm and rmdir, as a shell asks for them, and what they say of names.
#include <algorithm>
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: rm removes what it is told to, and no more") {
  Shell shell;
  shell.server.add_file("/keep/f", "kept");
  shell.server.add_file("/d/a", "");
  shell.server.add_file("/d/sub/b", "");
  shell.server.add_symlink("/d/link", "../keep");
  CHECK(shell.status({"rm", "srv:/d"}) == 1);
  for (const char* itself : {"srv:/", "srv:/d/..", "srv:/d/.", "srv:/d/../"}) {
    CAPTURE(itself);
    CHECK(shell.status({"rm", "-rf", itself}) == 1);
  }
  CHECK(shell.names("/d") == "a link sub");
  CHECK(shell.status({"rm", "srv:/none"}) == 1);
  CHECK(shell.status({"rm", "-f", "srv:/none"}) == 0);
  CHECK(shell.status({"rm", "srv:/none", "srv:/d/a"}) == 1);
  CHECK(shell.names("/d") == "link sub");
  CHECK(shell.status({"rmdir", "srv:/d"}) == 1);
  CHECK(shell.status({"rm", "-r", "srv:/d"}) == 0);
  CHECK(shell.names("/") == "keep");
  CHECK(shell.content("/keep/f") == "kept");
  CHECK(shell.status({"rmdir", "srv:/keep/f"}) == 1);
}

TEST_CASE("cli: rm -r names what it cannot remove, and removes the rest") {
  Shell shell;
  for (const char* name : {"a", "b", "c", "sub/d"}) shell.server.add_file(std::string("/d/") + name, "");
  shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_ACCESS);
  const Ran ran = shell.run({"rm", "-r", "srv:/d"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("/d/") != std::string::npos);
  const std::string rest = shell.names("/d");
  CHECK_FALSE(rest.empty());
  CHECK(rest.find(' ') == std::string::npos);
  CHECK(shell.server.count(nfs4::OP_REMOVE) == 5);  // three files, sub/d and sub, each once
  CHECK(shell.status({"rm", "-r", "srv:/d"}) == 0);
  CHECK_FALSE(shell.is_there("/d"));
}

TEST_CASE("cli: what is said of a name is one line, and does nothing to a terminal") {
  Shell shell;
  shell.server.add_file("/d/a\x1b[2J\r\nb", "");
  shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_ACCESS);
  const Ran ran = shell.run({"rm", "-r", "srv:/d"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find(R"(/d/a\x1b[2J\r\nb)") != std::string::npos);
  CHECK(std::ranges::count(ran.err, '\n') == 1);
}

TEST_CASE("cli: rm -r ends where the server lists what it does not find") {
  Shell shell;
  shell.server.add_file("/d/ghost", "");
  SUBCASE("somebody else was faster") {
    shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_NOENT);
    CHECK(shell.status({"rm", "-r", "srv:/d"}) == 0);
    CHECK_FALSE(shell.is_there("/d"));
  }
  SUBCASE("it is never found") {
    shell.server.add_file("/d/spectre", "");
    shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_NOENT, 100);
    const Ran ran = shell.run({"rm", "-rf", "srv:/d"});
    CHECK(ran.status == 1);
    CHECK(ran.err.find("ghost") != std::string::npos);
    CHECK(ran.err.find("spectre") != std::string::npos);
    CHECK(shell.server.count(nfs4::OP_REMOVE) == 4);
  }
}

}  // namespace nfsrdma::cli
