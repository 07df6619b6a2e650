// doctor, as a shell gives it.
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: doctor prints a line for each step, a verdict, and its exit status says whether one failed") {
  Shell shell;
  shell.server.add_file("/dir/file", "text");
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const Ran good = shell.run({"doctor", "--read", "file", "-o", "sec=sys", "srv:/dir"});
  CHECK(good.status == 0);
  CHECK(has(good.out, "ok    resolve       "));
  CHECK(has(good.out, "read 4 bytes of /dir/file in "));
  CHECK(has(good.out, "\nVerdict: NFS 4.2 over iwarp works"));
  const Ran bad = shell.run({"doctor", "-o", "sec=sys", "srv:/none"});
  CHECK(bad.status == 1);
  CHECK(has(bad.out, "FAIL  export        "));
  CHECK(has(bad.out, "skip  replies                 -  needs the step export\n"));
  CHECK(has(
      bad.out,
      "\nVerdict: Export: /none does not exist on the server; / exists and has dir.\nTo do: Check the path"));
}

TEST_CASE("cli: doctor tells programs all of that in one object") {
  Shell shell;
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const Ran ran = shell.run({"doctor", "--json", "-o", "sec=sys", "srv:/none"});
  CHECK(ran.status == 1);
  CHECK(std::ranges::count(ran.out, '\n') == 1);
  CHECK(ran.out.starts_with(
      "{\"server\":\"127.0.0.1\",\"path\":\"/none\",\"steps\":[{\"step\":\"resolve\",\"state\":\"ok\","));
  CHECK(has(ran.out, "\"facts\":{\"versions\":\"4.2, 4.1, 4.0, 3, 2\"}"));
  CHECK(has(ran.out, "],\"verdict\":{\"state\":\"failed\",\"seen\":\"export: /none does not exist"));
  CHECK(shell.status({"doctor", "--limit", "0", "srv:/"}) == 2);
  CHECK(shell.status({"doctor", "nonsense://x"}) == 2);
}

}  // namespace nfsrdma::cli
