// find with the tests and actions of find(1), as a shell asks for it.
#include <string>
#include <vector>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

std::string found(Shell& shell, std::vector<std::string> words) {
  words.insert(words.begin(), {"find", "srv:/t"});
  return lines_in_order(shell.told(words));
}

}  // namespace

TEST_CASE("cli: find tests sizes, ages, paths and emptiness") {
  Shell shell;
  shell.server.add_file("/t/small", "x");
  shell.server.add_file("/t/sub/Large.BIN", pattern(5000));
  shell.server.add_file("/t/sub/empty", "");
  shell.server.add_directory("/t/none");
  CHECK(found(shell, {"-size", "-2k", "-type", "f"}) == "srv:/t/small srv:/t/sub/empty");
  CHECK(found(shell, {"-size", "+4k", "-type", "f"}) == "srv:/t/sub/Large.BIN");
  CHECK(found(shell, {"-size", "-0", "-type", "f"}).empty());
  CHECK(found(shell, {"-iname", "*.bin"}) == "srv:/t/sub/Large.BIN");
  CHECK(found(shell, {"-path", "/t/sub/*"}) == "srv:/t/sub/Large.BIN srv:/t/sub/empty");
  CHECK(found(shell, {"-empty"}) == "srv:/t/none srv:/t/sub/empty");
  CHECK(found(shell, {"-empty", "-type", "d"}) == "srv:/t/none");
  CHECK(found(shell, {"-type", "f,d", "-name", "s*", "-name", "*l"}) == "srv:/t/small");
  CHECK(found(shell, {"-mindepth", "2"}) == "srv:/t/sub/Large.BIN srv:/t/sub/empty");
  CHECK(found(shell, {"-mindepth", "1", "-maxdepth", "1"}) == "srv:/t/none srv:/t/small srv:/t/sub");
  shell.set_mode("/t/small", 0644, 1'000'000'000);
  shell.set_mode("/t/sub/empty", 0644, 2'000'000'000'000);
  CHECK(found(shell, {"-mtime", "+365", "-name", "small"}) == "srv:/t/small");
  CHECK(found(shell, {"-mmin", "-1", "-name", "empty"}) == "srv:/t/sub/empty");
  CHECK(found(shell, {"-newer", "127.0.0.1:/t/small", "-name", "empty"}) == "srv:/t/sub/empty");
  CHECK(found(shell, {"-newer", "/proc/self/exe", "-type", "f", "-name", "small"}).empty());
}

TEST_CASE("cli: find refuses values that make no sense, and a reference that is missing") {
  Shell shell;
  shell.server.add_file("/t/f", "");
  for (const char* option : {"--size", "--mtime", "--mmin", "--type", "--maxdepth", "--mindepth"}) {
    CAPTURE(option);
    const Ran ran = shell.run({"find", "srv:/t", option, "nonsense"});
    CHECK(ran.status == exit_usage);
    CHECK(ran.err.find(option) != std::string::npos);
  }
  CHECK(shell.status({"find", "srv:/t", "-newer", "127.0.0.1:/none"}) == 1);
  CHECK(shell.status({"find", "srv:/t", "-newer", "/nonexistent"}) == 1);
}

TEST_CASE("cli: find -depth lists contents before their directory") {
  Shell shell;
  shell.server.add_file("/t/a/b/f", "");
  CHECK(shell.told({"find", "srv:/t", "-depth"}) == "srv:/t/a/b/f\nsrv:/t/a/b\nsrv:/t/a\nsrv:/t\n");
}

TEST_CASE("cli: find -delete removes what it finds, contents first, and never a directory that is named") {
  Shell shell;
  for (const char* path : {"/t/a/b/f.tmp", "/t/a/g.tmp", "/t/keep/h", "/t/i.tmp"})
    shell.server.add_file(path, "");
  CHECK(shell.told({"find", "srv:/t", "-name", "*.tmp", "-delete"}).empty());
  CHECK(shell.names("/t") == "a keep");
  CHECK(lines_in_order(shell.told({"find", "srv:/t", "-type", "d", "-empty", "-delete", "-print"})) ==
        "srv:/t/a srv:/t/a/b");
  CHECK(shell.names("/t") == "keep");
  CHECK(shell.status({"find", "srv:/t", "-delete"}) == 0);
  CHECK(shell.is_there("/t"));
  CHECK(shell.names("/t").empty());
  shell.server.add_file("/t/single", "");
  CHECK(shell.status({"find", "srv:/t/single", "-delete"}) == 0);
  CHECK_FALSE(shell.is_there("/t/single"));
}

TEST_CASE("cli: find -delete goes on behind what it cannot remove, and says so") {
  Shell shell;
  for (const char* path : {"/t/d/a", "/t/d/b", "/t/c"}) shell.server.add_file(path, "");
  (void)shell.client();
  shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_ACCESS);
  const Ran ran = shell.run({"find", "srv:/t", "-type", "f", "-delete"});
  CHECK(ran.status == 1);
  CHECK_FALSE(ran.err.empty());
  CHECK(lines_in_order(shell.told({"find", "srv:/t", "-type", "f"})).find(' ') == std::string::npos);
  CHECK(shell.told({"find", "srv:/t", "-type", "f"}).find("srv:/t/") == 0);
}

}  // namespace nfsrdma::cli
