// config, as a shell gives it.
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

TEST_CASE("cli: config shows each option, its value, and where it comes from") {
  Shell shell;
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string all = shell.told({"config", "nfs://server:99/a?crc=on"});
  CHECK(has(all, "\nport              99                   target\n"));
  CHECK(has(all, "\ncrc               on                   target\n"));
  CHECK(has(all, "\ncredits           128                  default\n"));
  CHECK(has(all, "\nuid               -                    default\n"));
  const std::string changed = shell.told({"config", "--changed", "nfs://server:99/a?crc=on", "other"});
  CHECK(changed.starts_with("server:/a:\nport "));
  CHECK(has(changed, "\nother:/:\n"));
  CHECK_FALSE(has(changed, "default"));
  const std::string json = shell.told({"config", "--json", "nfs://server:99/a"});
  CHECK(json.starts_with(
      "{\"server\":\"server\",\"path\":\"/a\",\"options\":{\"vers\":{\"value\":\"\",\"from\":"));
  CHECK(has(json, "\"port\":{\"value\":\"99\",\"from\":\"target\"}"));
  CHECK(shell.status({"config", "nonsense://x"}) == 2);
}

}  // namespace nfsrdma::cli
