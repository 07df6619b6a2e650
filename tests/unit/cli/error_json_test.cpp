// Errors and changes as JSON.
#include "cli/error_json.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("error json: a message is taken apart into what happened, what to do, and the status") {
  const MessageParts all = parts_of("there is no such file; it was removed; check the path (NFS4ERR_NOENT)");
  CHECK(all.explanation == "there is no such file; it was removed");
  CHECK(all.next_step == "check the path");
  CHECK(all.status == "NFS4ERR_NOENT");
  const MessageParts bare = parts_of("interrupted");
  CHECK(bare.explanation == "interrupted");
  CHECK(bare.next_step.empty());
  CHECK(bare.status.empty());
  CHECK(parts_of("a name (NFS4ERR_NOENT) in the middle").status.empty());
  CHECK(parts_of("in brackets (not a status)").explanation == "in brackets (not a status)");
  CHECK(parts_of("x (NFS3ERR_ACCES)").status == "NFS3ERR_ACCES");
}

TEST_CASE("error json: an Error is one object, without the members that it lacks") {
  CHECK(
      error_json(
          {ErrorKind::server, ENOENT, 2, "LOOKUP", "srv:/a\nb", "no such file; check it (NFS4ERR_NOENT)"}) ==
      R"({"kind":"server","target":"srv:/a\nb","operation":"LOOKUP","errno":"ENOENT","status":"NFS4ERR_NOENT",)"
      R"("message":"no such file","next_step":"check it"})");
  CHECK(error_json({ErrorKind::cancelled, 0, "", "", "over"}) == R"({"kind":"cancelled","message":"over"})");
  CHECK(errno_name(ENOSPC) == "ENOSPC");
  CHECK(errno_name(123456).empty());
}

TEST_CASE("cli: with --json each change is an object, and so is each error, on standard error") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  shell.server.add_file("/d/s/b", "");
  const auto lines = [&](const std::vector<std::string>& words) { return shell.told(words); };
  CHECK(lines({"mkdir", "--json", "-p", "srv:/n/m"}) ==
        "{\"action\":\"mkdir\",\"target\":\"srv:/n\"}\n{\"action\":\"mkdir\",\"target\":\"srv:/n/m\"}\n");
  CHECK(lines({"mkdir", "--json", "-p", "srv:/n/m"}).empty());
  CHECK(lines({"touch", "--json", "srv:/d/new"}) == "{\"action\":\"create\",\"target\":\"srv:/d/new\"}\n");
  CHECK(lines({"touch", "--json", "srv:/d/a"}) == "{\"action\":\"touch\",\"target\":\"srv:/d/a\"}\n");
  CHECK(lines({"chmod", "--json", "600", "srv:/d/a"}) == "{\"action\":\"chmod\",\"target\":\"srv:/d/a\"}\n");
  CHECK(lines({"truncate", "--json", "-s", "1", "srv:/d/a"}) ==
        "{\"action\":\"truncate\",\"target\":\"srv:/d/a\"}\n");
  CHECK(lines({"ln", "--json", "-s", "a", "srv:/d/l"}) ==
        "{\"action\":\"symlink\",\"target\":\"srv:/d/l\"}\n");
  CHECK(lines({"mv", "--json", "srv:/d/a", "srv:/d/c"}) ==
        "{\"action\":\"rename\",\"target\":\"srv:/d/a\",\"destination\":\"srv:/d/c\"}\n");
  CHECK(lines({"cp", "--json", "srv:/d/c", "srv:/d/e"}) ==
        "{\"action\":\"copy\",\"target\":\"srv:/d/c\",\"destination\":\"srv:/d/e\"}\n");
  CHECK(lines_in_order(lines({"rm", "--json", "-r", "srv:/d/s"})) ==
        R"({"action":"remove","target":"srv:/d/s"} {"action":"remove","target":"srv:/d/s/b"})");
  CHECK(lines({"rmdir", "--json", "srv:/n/m"}) == "{\"action\":\"remove\",\"target\":\"srv:/n/m\"}\n");
  const Ran ran = shell.run({"rm", "--json", "srv:/none", "srv:/d/c"});
  CHECK(ran.status == 1);
  CHECK(ran.out == "{\"action\":\"remove\",\"target\":\"srv:/d/c\"}\n");
  CHECK(with_name(ran.err).starts_with(R"({"kind":"server","target":"srv:/none",)"));
  CHECK(ran.err.find("\"status\":\"NFS4ERR_NOENT\"") != std::string::npos);
  CHECK(ran.err.find("\"errno\":\"ENOENT\"") != std::string::npos);
  CHECK(std::ranges::count(ran.err, '\n') == 1);
  const Ran wrong = shell.run({"chmod", "--json", "nonsense", "srv:/d/e"});
  CHECK(wrong.status == exit_usage);
  CHECK(wrong.err.starts_with("{\"kind\":\"usage\","));
  CHECK(shell.run({"rm", "srv:/none"}).err.starts_with("nfsrdma-cli: "));
}

}  // namespace nfsrdma::cli
