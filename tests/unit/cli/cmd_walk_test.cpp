// Trees that are walked, as a shell asks for it: find, du, sum.
#include <string>
#include <vector>

#include "cli/sha256.h"
#include "support/at_limit.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: find lists by name, type and depth") {
  Shell shell;
  shell.server.add_file("/t/a.c", "");
  shell.server.add_file("/t/b.h", "");
  shell.server.add_file("/t/s/c.c", "");
  shell.server.add_symlink("/t/l", "s");
  const auto found = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "find");
    words.emplace_back("srv:/t");
    return lines_in_order(shell.told(words));
  };
  CHECK(found({}) == "srv:/t srv:/t/a.c srv:/t/b.h srv:/t/l srv:/t/s srv:/t/s/c.c");
  CHECK(found({"-n", "*.c"}) == "srv:/t/a.c srv:/t/s/c.c");
  CHECK(found({"-t", "d"}) == "srv:/t srv:/t/s");
  CHECK(found({"-t", "f", "-n", "[bc].?"}) == "srv:/t/b.h srv:/t/s/c.c");
  CHECK(found({"-t", "l"}) == "srv:/t/l");
  CHECK(found({"-d", "0"}) == "srv:/t");
  CHECK(found({"-d", "1"}) == "srv:/t srv:/t/a.c srv:/t/b.h srv:/t/l srv:/t/s");
  CHECK(found({"-d", "99999999999999999999", "-n", "c.c"}) == "srv:/t/s/c.c");
  CHECK(shell.status({"find", "-t", "x", "srv:/t"}) == 2);
  CHECK(shell.status({"find", "-d", "-1", "srv:/t"}) == 2);
  const Ran both = shell.run({"find", "srv:/none", "srv:/t/s"});
  CHECK(both.status == 1);
  CHECK(lines_in_order(both.out) == "srv:/t/s srv:/t/s/c.c");
}

TEST_CASE("cli: find, du and sum print targets as they were given, which other commands take") {
  Shell shell;
  shell.server.add_file("/t/a b", "text");
  shell.server.add_file("/t/50%?#", "text");
  const std::string url = "nfs://127.0.0.1/t?port=" + std::to_string(shell.server.port());
  const std::string below = "?port=" + std::to_string(shell.server.port());
  const std::string found =
      in_order({url, "nfs://127.0.0.1/t/a%20b" + below, "nfs://127.0.0.1/t/50%25%3F%23" + below});
  CHECK(lines_in_order(shell.told({"find", url})) == found);
  CHECK(shell.told({"find", "-d", "1", "srv:"}) == "srv:/\nsrv:/t\n");
  CHECK(lines_in_order(shell.told({"find", "srv:/t//"})) == "srv:/t// srv:/t//50%?# srv:/t//a b");
  CHECK(shell.told({"du", "-b", "nfs://127.0.0.1/t/a%20b" + below}) ==
        "4\tnfs://127.0.0.1/t/a%20b" + below + "\n");
  for (const std::string& one :
       {"nfs://127.0.0.1/t/a%20b" + below, "nfs://127.0.0.1/t/50%25%3F%23" + below}) {
    CHECK(shell.told({"cat", one}) == "text");
  }
}

TEST_CASE("cli: -0 ends names with NUL characters, and leaves every byte of them as it is") {
  Shell shell;
  shell.server.add_file("/t/two\nlines\\", "abc");
  const std::string name = "srv:/t/two\nlines\\";
  const auto ended = [](const std::string& text) { return text + '\0'; };
  CHECK(shell.told({"find", "-0", "-t", "f", "srv:/t"}) == ended(name));
  CHECK(shell.told({"find", "srv:/t", "-type", "f", "-print0"}) == ended(name));
  CHECK(shell.told({"du", "-b0", name}) == ended("3\t" + name));
  CHECK(shell.told({"ls", "--null", "srv:/t"}) == ended("two\nlines\\"));
  const std::string sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  ";
  CHECK(shell.told({"sum", "-r0", "srv:/t"}) == ended(sum + name));
  for (const char* command : {"find", "du", "sum", "ls"}) {
    CHECK(shell.status({command, "-0", "--json", "srv:/t"}) == exit_usage);
  }
}

TEST_CASE("cli: a directory that cannot be listed does not keep the others from being walked") {
  Shell shell;
  shell.server.add_file("/t/a/f", "");
  shell.server.add_file("/t/b/g", "");
  (void)shell.client();
  shell.server.answer(nfs4::OP_READDIR, nfs4::NFS4ERR_ACCESS, 1, 1);
  const Ran ran = shell.run({"find", "srv:/t"});
  CHECK(ran.status == 1);
  const std::string found = lines_in_order(ran.out);
  CHECK((found == "srv:/t srv:/t/a srv:/t/a/f srv:/t/b" || found == "srv:/t srv:/t/a srv:/t/b srv:/t/b/g"));
  CHECK_FALSE(ran.err.empty());
}

TEST_CASE("cli: du counts a file once, by whichever of its names, and directories with all below") {
  Shell shell;
  shell.server.add_file("/t/a", pattern(1000));
  shell.server.add_file("/t/s/b", pattern(3001));
  shell.server.add_file("/t/e/empty", "");
  CHECK(ok(shell.client().link("/t/a", "/t/hard")));
  CHECK(ok(shell.client().link("/t/a", "/t/hard2")));
  CHECK(lines_in_order(shell.told({"du", "-b", "srv:/t"})) == "0\tsrv:/t/e 3001\tsrv:/t/s 4001\tsrv:/t");
  CHECK(shell.told({"du", "-sb", "srv:/t"}) == "4001\tsrv:/t\n");
  CHECK(shell.told({"du", "-s", "srv:/t"}) == "4\tsrv:/t\n");
  CHECK(shell.told({"du", "-sh", "srv:/t"}) == "4.0K\tsrv:/t\n");
  CHECK(shell.told({"du", "-b", "srv:/t/s/b"}) == "3001\tsrv:/t/s/b\n");
  CHECK(shell.told({"du", "-s", "--json", "srv:/t"}) ==
        "{\"path\":\"/t\",\"target\":\"srv:/t\",\"bytes\":4001}\n");
}

TEST_CASE("cli: sum tells what is in a file, of any size and name, and leaves no file out silently") {
  Shell shell;
  const std::string large = pattern(5'000'000), middle = pattern(70'000);
  shell.server.add_file("/t/abc", "abc");
  shell.server.add_file("/t/empty", "");
  shell.server.add_file("/t/s/large", large);
  shell.server.add_file("/t/s/two\nlines", middle);
  shell.server.add_symlink("/t/link", "nowhere");
  const auto sum = [](const std::string& text) {
    Sha256 one;
    one.add(bytes(text));
    return one.finish();
  };
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  srv:/t/abc";
  CHECK(shell.told({"sum", "srv:/t/abc"}) == abc + "\n");
  CHECK(lines_in_order(shell.told({"sum", "-r", "srv:/t"})) ==
        in_order({abc, sum("") + "  srv:/t/empty", sum(large) + "  srv:/t/s/large",
                  "\\" + sum(middle) + "  srv:/t/s/two\\nlines"}));
  const Ran ran = shell.run({"sum", "srv:/t", "srv:/t/abc"});
  CHECK(ran.status == 1);
  CHECK(ran.out == abc + "\n");
  CHECK(ok(shell.client().make_node("/t/fifo", FileType::fifo, 0600)));
  CHECK(shell.status({"sum", "-r", "srv:/t"}) == 1);
}

TEST_CASE(
    "cli: a process that may have no more threads walks trees by itself, and says why it moves no data") {
  if (skips_under_sanitizers()) return;
  Shell shell;
  const Place here;
  shell.server.add_file("/t/s/f", "text");
  shell.server.add_file("/t/g", pattern(200'000));
  (void)shell.client();
  {
    const NoThreads none;
    CHECK(lines_in_order(shell.told({"find", "srv:/t"})) == "srv:/t srv:/t/g srv:/t/s srv:/t/s/f");
    CHECK(shell.status({"cp", "-r", "srv:/t", "srv:/u"}) == 0);
    const Ran got = shell.run({"get", "srv:/t/g", here.path("g")});
    CHECK(got.status == 1);
    CHECK(got.err.find("Resource temporarily unavailable") != std::string::npos);
    CHECK(here.names().empty());
  }
  CHECK((shell.content("/u/g") == pattern(200'000)));
  CHECK(shell.content("/u/s/f") == "text");
  CHECK(shell.status({"get", "srv:/t/g", here.path("g")}) == 0);
  CHECK((here.read("g") == pattern(200'000)));
}

}  // namespace nfsrdma::cli
