// Patterns among the operands: what they stand for, and what is never taken for one.
#include "cli/operands.h"

#include <string>
#include <vector>

#include "cli/glob.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

/// A tree with names of many kinds.
void fill(Shell& shell) {
  for (const char* path : {"/d/a.csv", "/d/b.csv", "/d/c.txt", "/d/.hidden.csv", "/d/sub/e.csv",
                           "/d/sub/deep/f.csv", "/d/sub/.git/g.csv", "/d/two/e.csv"}) {
    shell.server.add_file(path, path);
  }
  shell.server.add_symlink("/d/link", "sub");
}

}  // namespace

TEST_CASE("glob: components match as in the shell, sorted, and dots only by a dot") {
  Shell shell;
  fill(shell);
  const auto paths = [&](const std::string& pattern) {
    const auto found = Pattern::parse(pattern).expand(shell.client());
    REQUIRE(found);
    std::string out;
    for (const std::string& one : *found) out += (out.empty() ? "" : " ") + one;
    return out;
  };
  CHECK(paths("/d/*.csv") == "/d/a.csv /d/b.csv");
  CHECK(paths("/d/.*.csv") == "/d/.hidden.csv");
  CHECK(paths("/d/[!a].?sv") == "/d/b.csv");
  CHECK(paths("/*/*/e.csv") == "/d/link/e.csv /d/sub/e.csv /d/two/e.csv");
  CHECK(paths("/d/*/") == "/d/link/ /d/sub/ /d/two/");
  CHECK(paths("/d/**/*.csv") == "/d/a.csv /d/b.csv /d/sub/deep/f.csv /d/sub/e.csv /d/two/e.csv");
  CHECK(paths("/d/sub/**") == "/d/sub/deep /d/sub/deep/f.csv /d/sub/e.csv");
  CHECK(paths("/**/**/f.csv") == "/d/sub/deep/f.csv");
  CHECK(paths("/none/*").empty());
  CHECK(paths("/d/a.csv/*").empty());
  CHECK(paths("/d/x*/y").empty());
}

TEST_CASE("glob: each directory is listed once, and what has no wildcard not at all") {
  Shell shell;
  fill(shell);
  (void)shell.client();
  const std::size_t before = shell.server.count(nfs4::OP_READDIR);
  const auto found = Pattern::parse("/d/*/e.csv").expand(shell.client());
  REQUIRE(found);
  CHECK(found->size() == 3);
  CHECK(shell.server.count(nfs4::OP_READDIR) == before + 1);
}

TEST_CASE("glob: backslashes quote special characters only, and names are bytes") {
  Shell shell;
  for (const char* path : {"/d/a*b", "/d/axb", "/d/a\\b", "/d/[x]", "/d/\xff\xfe", "/d/\xc3\xa9"})
    shell.server.add_file(path, path);
  CHECK(Pattern::parse("/d/a\\*b").literal() == "/d/a*b");
  CHECK_FALSE(Pattern::parse("/d/a\\*b").has_wildcards());
  CHECK(Pattern::parse("/d/a\\b").literal() == "/d/a\\b");
  CHECK(Pattern::parse("/d/a\\\\b").literal() == "/d/a\\b");
  CHECK_FALSE(Pattern::parse("/d/[x").has_wildcards());
  CHECK_FALSE(Pattern::parse("/d/[]").has_wildcards());
  const auto first = [&](const std::string& pattern) {
    const auto found = Pattern::parse(pattern).expand(shell.client());
    REQUIRE(found);
    return found->empty() ? "" : found->front();
  };
  CHECK(first("/d/\\[*") == "/d/[x]");
  CHECK(first("/d/\xff?") == "/d/\xff\xfe");
  CHECK(first("/d/a\\b*") == "/d/a\\b");
  CHECK(quoted_for_glob("a*?[]\\b") == "a\\*\\?\\[\\]\\\\b");
  CHECK(first("/d/" + quoted_for_glob("a*b") + "*") == "/d/a*b");
}

TEST_CASE("operands: patterns are expanded for every command that takes several targets") {
  Shell shell;
  fill(shell);
  CHECK(shell.told({"cat", "srv:/d/*.csv"}) == "/d/a.csv/d/b.csv");
  CHECK(shell.status({"chmod", "600", "srv:/d/*.csv"}) == 0);
  CHECK(shell.mode("/d/a.csv") == 0600);
  CHECK(shell.mode("/d/b.csv") == 0600);
  CHECK(shell.status({"mv", "srv:/d/*.csv", "srv:/d/two"}) == 0);
  CHECK(shell.names("/d/two") == "a.csv b.csv e.csv");
  CHECK(shell.status({"rm", "srv:/d/two/[ab]*"}) == 0);
  CHECK(shell.names("/d/two") == "e.csv");
  const std::string url = "nfs://127.0.0.1/d/*.txt?port=" + std::to_string(shell.server.port());
  CHECK(shell.told({"cat", url}) == "/d/c.txt");
}

TEST_CASE("operands: no match is an error that names the quoting, and nothing is done") {
  Shell shell;
  fill(shell);
  const Ran ran = shell.run({"rm", "srv:/d/a.csv", "srv:/d/*.none"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("no name on the server matches") != std::string::npos);
  CHECK(ran.err.find("--no-glob") != std::string::npos);
  CHECK(shell.is_there("/d/a.csv"));
  CHECK(shell.status({"rm", "-f", "srv:/d/a.csv", "srv:/d/*.none"}) == 0);
  CHECK_FALSE(shell.is_there("/d/a.csv"));
}

TEST_CASE("operands: a name that exists is that file alone, whatever characters it has") {
  Shell shell;
  for (const char* path : {"/d/*", "/d/a", "/d/x[1].pdf", "/d/x1.pdf"}) shell.server.add_file(path, "");
  const Ran ran = shell.run({"rm", "srv:/d/*"});
  CHECK(ran.status == 0);
  CHECK(ran.err.find("exactly this name") != std::string::npos);
  CHECK(shell.names("/d") == "a x1.pdf x[1].pdf");
  CHECK(shell.status({"rm", "srv:/d/x[1].pdf"}) == 0);
  CHECK(shell.names("/d") == "a x1.pdf");
  CHECK(shell.status({"rm", "srv:/d/x[1].pdf"}) == 0);  // a pattern now
  CHECK(shell.names("/d") == "a");
}

TEST_CASE("operands: --no-glob, a backslash and percent-encoding keep characters ordinary") {
  Shell shell;
  for (const char* path : {"/d/a", "/d/b*"}) shell.server.add_file(path, "");
  CHECK(shell.status({"rm", "-g", "srv:/d/*"}) == 1);
  CHECK(shell.status({"rm", "srv:/d/\\*"}) == 1);
  const std::string below = "?port=" + std::to_string(shell.server.port());
  CHECK(shell.status({"rm", "nfs://127.0.0.1/d/%2A" + below}) == 1);
  CHECK(shell.names("/d") == "a b*");
  // Among other characters that make a pattern, too.
  CHECK(shell.status({"rm", "nfs://127.0.0.1/d/[ab]%2A" + below}) == 0);
  CHECK(shell.names("/d") == "a");
  shell.server.add_file("/d/b*", "");
  CHECK(shell.status({"rm", "srv:/d/b\\*"}) == 0);
  CHECK(shell.names("/d") == "a");
}

TEST_CASE("operands: a destination and a new directory are never patterns") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  CHECK(shell.status({"mkdir", "srv:/d/[new]"}) == 0);
  CHECK(shell.status({"cp", "-q", "srv:/d/a", "srv:/d/b[1]"}) == 0);
  CHECK(shell.status({"touch", "srv:/d/t\\*"}) == 0);
  CHECK(shell.names("/d") == "[new] a b[1] t*");
}

TEST_CASE("operands: get of a pattern alone copies into the present directory") {
  Shell shell;
  const Place place;
  fill(shell);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(place.path());
  const int status = shell.status({"get", "-q", "srv:/d/*.csv"});
  std::filesystem::current_path(before);
  CHECK(status == 0);
  CHECK(place.names() == "a.csv b.csv");
}

TEST_CASE("operands: find prints URLs whose special characters are encoded") {
  Shell shell;
  shell.server.add_file("/d/a*[b]", "text");
  const std::string query = "?port=" + std::to_string(shell.server.port());
  const std::string printed = shell.told({"find", "-t", "f", "nfs://127.0.0.1/d" + query});
  CHECK(printed == "nfs://127.0.0.1/d/a%2A%5Bb%5D" + query + "\n");
}

TEST_CASE("operands: the usage line says what each operand is") {
  const auto roles = [](const std::string& name, std::vector<std::string> operands,
                        const std::string& option = "") {
    const auto command =
        std::ranges::find(all_commands(), name, [](const Command& one) { return std::string(one.name); });
    Arguments arguments;
    arguments.operands = std::move(operands);
    if (!option.empty()) arguments.given[option];
    std::string out;
    for (std::size_t i = 0; i < arguments.operands.size(); ++i)
      out += "olstp"[static_cast<std::size_t>(role_of(*command, arguments, i))];
    return out;
  };
  CHECK(roles("ls", {"a", "b"}) == "pp");
  CHECK(roles("ping", {"a"}) == "s");
  CHECK(roles("get", {"a"}) == "p");
  CHECK(roles("get", {"a", "b", "c"}) == "ppl");
  CHECK(roles("put", {"a", "b", "c"}) == "llt");
  CHECK(roles("cp", {"a", "b", "c"}) == "ppt");
  CHECK(roles("chmod", {"a", "b", "c"}) == "opp");
  CHECK(roles("ln", {"a", "b"}) == "pt");
  CHECK(roles("ln", {"a", "b"}, "symbolic") == "ot");
  CHECK(roles("mkdir", {"a", "b"}) == "tt");
  CHECK(roles("acl", {"get", "a", "b"}) == "opp");
  CHECK(roles("acl", {"set", "a", "b"}) == "oop");
  CHECK(roles("acl", {"set", "a", "b"}, "file") == "opp");
  CHECK(roles("acl", {"set", "a"}) == "op");
}

}  // namespace nfsrdma::cli
