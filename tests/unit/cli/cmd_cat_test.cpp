// cat --range, head and tail, as a shell asks for them.
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: cat, head and tail have errors as JSON, and the contents as they are") {
  Shell shell;
  shell.server.add_file("/f", "text\n");
  for (const char* command : {"cat", "head", "tail"}) {
    CAPTURE(command);
    const Ran ran = shell.run({command, "--json", "srv:/none", "srv:/f"});
    CHECK(ran.out.ends_with("text\n"));
    CHECK(with_name(ran.err).starts_with(R"({"kind":"server","target":"srv:/none",)"));
    CHECK(ran.status == 1);
  }
}

TEST_CASE("cli: cat writes the ranges that it is asked for, in their order, and no byte more") {
  Shell shell;
  const std::string large = pattern(3'000'001);
  shell.server.add_file("/f", "0123456789");
  shell.server.add_file("/g", "abc");
  shell.server.add_file("/large", large);
  shell.server.add_file("/empty", "");
  CHECK(shell.told({"cat", "--range", "2-4", "srv:/f"}) == "234");
  CHECK(shell.told({"cat", "-r", "7-", "srv:/f"}) == "789");
  CHECK(shell.told({"cat", "-r", "-2", "srv:/f"}) == "89");
  CHECK(shell.told({"cat", "-r", "8-99", "srv:/f"}) == "89");
  CHECK(shell.told({"cat", "-r", "5-6,0-0", "-r", "-1", "srv:/f"}) == "5609");
  CHECK(shell.told({"cat", "-r", "1-1", "srv:/f", "srv:/g"}) == "1b");
  CHECK(shell.told({"cat", "-r", "-5", "srv:/empty"}).empty());
  CHECK((shell.told({"cat", "-r", "1000000-2999999", "srv:/large"}) == large.substr(1'000'000, 2'000'000)));
  CHECK((shell.told({"cat", "-r", "-1500000", "srv:/large"}) == large.substr(1'500'001)));
}

TEST_CASE("cli: cat opens no file that ends within its first bytes, and reads a larger one from there on") {
  Shell shell;
  const std::string large = pattern(3'000'001);
  shell.server.add_file("/d/small", "text");
  shell.server.add_file("/d/empty", "");
  shell.server.add_file("/d/large", large);
  CHECK(shell.told({"cat", "srv:/d/small"}) == "text");
  // EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE with what it brings, and the file.
  CHECK(shell.server.calls().size() == 4);
  CHECK(shell.told({"cat", "srv:/d/empty", "srv:/d/small"}) == "text");
  CHECK(shell.server.calls().size() == 6);
  CHECK(shell.server.count(nfs4::OP_OPEN) == 0);
  shell.server.clear_calls();
  CHECK((shell.told({"cat", "srv:/d/large", "srv:/d/small"}) == large + "text"));
  CHECK(shell.server.count(nfs4::OP_OPEN) == 1);
  CHECK(shell.server.count(nfs4::OP_CLOSE) == 1);
}

TEST_CASE("cli: cat of what is no file, or may not be read, says so as an open does") {
  Shell shell;
  shell.server.add_file("/d/f", "text");
  CHECK(shell.run({"cat", "srv:/d"}).err.find("use ls to list it") != std::string::npos);
  CHECK(shell.run({"cat", "srv:/d/none"}).err.find("/d/none") != std::string::npos);
  CHECK(shell.told({"chmod", "000", "srv:/d/f"}).empty());
  shell.server.clear_calls();
  (void)shell.run({"cat", "srv:/d/f"});
  CHECK(shell.server.count(nfs4::OP_OPEN) == 1);
}

TEST_CASE("cli: a range behind the end is an error that says how long the file is") {
  Shell shell;
  shell.server.add_file("/f", "0123456789");
  const Ran ran = shell.run({"cat", "-r", "10-", "srv:/f"});
  CHECK(ran.status == 1);
  CHECK(ran.out.empty());
  CHECK(ran.err.find("has 10 bytes") != std::string::npos);
  CHECK(shell.status({"cat", "-r", "nonsense", "srv:/f"}) == exit_usage);
}

TEST_CASE("cli: head and tail take lines or bytes, from either end") {
  Shell shell;
  std::string lines;
  for (int i = 1; i <= 20; ++i) lines += std::to_string(i) + "\n";
  shell.server.add_file("/l", lines);
  shell.server.add_file("/g", "no newline");
  CHECK(shell.told({"head", "srv:/l"}) == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
  CHECK(shell.told({"head", "-n", "2", "srv:/l"}) == "1\n2\n");
  CHECK(shell.told({"head", "-n", "5", "srv:/g"}) == "no newline");
  CHECK(shell.told({"head", "-c", "3", "srv:/l"}) == "1\n2");
  CHECK(shell.told({"tail", "srv:/l"}) == "11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n");
  CHECK(shell.told({"tail", "-n", "1", "srv:/l"}) == "20\n");
  CHECK(shell.told({"tail", "-n", "+19", "srv:/l"}) == "19\n20\n");
  CHECK(shell.told({"tail", "-n", "0", "srv:/l"}).empty());
  CHECK(shell.told({"tail", "-c", "4", "srv:/g"}) == "line");
  CHECK(shell.told({"tail", "-c", "+4", "srv:/g"}) == "newline");
  CHECK(shell.told({"tail", "-c", "1K", "srv:/g"}) == "no newline");
  CHECK(shell.told({"tail", "-n", "1", "srv:/l", "srv:/g"}) ==
        "==> srv:/l <==\n20\n\n==> srv:/g <==\nno newline");
  CHECK(shell.told({"head", "-q", "-n", "1", "srv:/l", "srv:/l"}) == "1\n1\n");
  CHECK(shell.told({"head", "-v", "-n", "1", "srv:/l"}) == "==> srv:/l <==\n1\n");
}

TEST_CASE("cli: head and tail refuse what makes no sense, and go on behind a missing file") {
  Shell shell;
  shell.server.add_file("/d/f", "text");
  CHECK(shell.status({"tail", "-n", "x", "srv:/d/f"}) == exit_usage);
  CHECK(shell.status({"tail", "-n", "1", "-c", "1", "srv:/d/f"}) == exit_usage);
  CHECK(shell.status({"head", "-c", "-1", "srv:/d/f"}) == exit_usage);
  CHECK(shell.status({"tail", "-s", "0", "srv:/d/f"}) == exit_usage);
  const Ran ran = shell.run({"tail", "-q", "srv:/none", "srv:/d", "srv:/d/f"});
  CHECK(ran.status == 1);
  CHECK(ran.out == "text");
  CHECK(ran.err.find("/none") != std::string::npos);
  CHECK(ran.err.find("use ls to list it") != std::string::npos);
}

}  // namespace nfsrdma::cli
