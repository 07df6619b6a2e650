// bench on the test server: which parts run, that nothing is changed or left, and what is refused.
#include <algorithm>
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: bench without --write reads, and changes nothing") {
  Shell shell;
  shell.server.add_file("/d/f", pattern(100'000));
  (void)shell.client();
  const std::size_t writes = shell.server.count(nfs4::OP_WRITE);
  const Ran ran = shell.run({"bench", "--time", "0.01", "srv:/d/f"});
  CHECK(ran.status == 0);
  for (const char* part : {"ping ", "getattr ", "read ", "randread ", "For a report: nfsrdma-cli ", "cache",
                           "A ping is one call of SEQUENCE,"}) {
    CAPTURE(part);
    CHECK(ran.out.find(part) != std::string::npos);
  }
  CHECK(ran.out.find("randwrite") == std::string::npos);
  CHECK(ran.err.find("give --write") != std::string::npos);
  CHECK(shell.server.count(nfs4::OP_WRITE) == writes);
  const Ran empty = shell.run({"bench", "--time", "0.01", "--parts", "ping,read", "srv:/d"});
  CHECK(empty.status == 0);
  CHECK(empty.err.find("there is nothing to read") != std::string::npos);
}

TEST_CASE("cli: bench --write removes what it has made") {
  Shell shell;
  const Place place;
  shell.server.add_directory("/d");
  const Ran ran = shell.run({"bench", "--write", "--json", "--time", "0.01", "--size", "256K", "--svg",
                             place.path("b.svg"), "srv:/d"});
  CHECK(ran.status == 0);
  CHECK(ran.err.empty());
  CHECK(std::ranges::count(ran.out, '\n') == 11);
  for (const char* part : {"ping", "getattr", "write", "read", "randread", "randwrite", "create"}) {
    CAPTURE(part);
    CHECK(ran.out.find(std::string("{\"part\":\"") + part + "\"") != std::string::npos);
  }
  CHECK(shell.names("/d").empty());
  CHECK(place.read("b.svg").starts_with("<svg "));
}

TEST_CASE("cli: bench removes its scratch file when a part fails") {
  Shell shell;
  shell.server.add_directory("/d");
  (void)shell.client();
  shell.server.answer(nfs4::OP_WRITE, nfs4::NFS4ERR_NOSPC, 1000);
  const Ran ran = shell.run({"bench", "--write", "--time", "0.01", "--size", "64K", "srv:/d"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("/d") != std::string::npos);
  CHECK(shell.names("/d").empty());
}

TEST_CASE("cli: bench refuses what makes no sense") {
  Shell shell;
  shell.server.add_file("/d/tiny", "x");
  CHECK(shell.status({"bench", "--time", "0", "srv:/d"}) == exit_usage);
  CHECK(shell.status({"bench", "--size", "1", "srv:/d"}) == exit_usage);
  CHECK(shell.run({"bench", "--parts", "ping,juggle", "srv:/d"}).err.find("'juggle'") != std::string::npos);
  CHECK(shell.run({"bench", "srv:/d/tiny"}).err.find("4096 bytes") != std::string::npos);
  CHECK(shell.status({"bench", "srv:/none"}) == 1);
  CHECK(shell.status({"bench", "--time", "0.01", "--parts", "ping", "--svg", "/nonexistent/x", "srv:/d"}) ==
        1);
}

}  // namespace nfsrdma::cli
