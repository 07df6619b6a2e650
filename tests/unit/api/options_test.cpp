// Options of the C interface: what the configuration adds to those that a program sets, and where each comes from.
#include "nfsrdma/options.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "support/scratch.h"

namespace nfsrdma {
namespace {

/// While one lives, it is the file that NFSRDMA_CONFIG names.
class ConfigurationFile {
 public:
  explicit ConfigurationFile(const std::string& text) : path_(scratch_.path() + "/nfsrdma.conf") {
    std::ofstream(path_) << text;
    REQUIRE(::chmod(path_.c_str(), 0600) == 0);
    ::setenv("NFSRDMA_CONFIG", path_.c_str(), 1);
  }
  ~ConfigurationFile() { ::setenv("NFSRDMA_CONFIG", "none", 1); }
  ConfigurationFile(const ConfigurationFile&) = delete;
  ConfigurationFile& operator=(const ConfigurationFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  testing::Scratch scratch_{"options"};
  std::string path_;
};

}  // namespace

TEST_CASE("options of the C interface: a target gets the defaults that the configuration has for it") {
  const ConfigurationFile file("[defaults]\nrsize=2K\nwsize=2K\n[server \"a\"]\ncredits=7\n");
  Options options;
  REQUIRE(options.set("wsize", "4K"));
  const auto a = parse_target("nfs://a/x?crc=on", options);
  REQUIRE(a);
  CHECK(a->options.get("rsize") == "2048");
  CHECK(a->options.get("wsize") == "4096");
  CHECK(a->options.get("credits") == "7");
  CHECK(a->options.origin("rsize") == file.path() + ":2");
  CHECK(a->options.origin("wsize") == "program");
  CHECK(a->options.origin("crc") == "target");
  CHECK(a->options.origin("timeo") == "default");
  CHECK_FALSE(a->options.origin("nonsense"));
  // Another target does not keep the defaults of the first one, but what its URL gave.
  const auto b = parse_target("b:/", a->options);
  REQUIRE(b);
  CHECK(b->options.get("credits") == "128");
  CHECK(b->options.get("crc") == "on");
}

TEST_CASE("options of the C interface: what is set after the target counts, and config chooses again") {
  const ConfigurationFile file("[defaults]\nrsize=2K\nwsize=2K\n");
  auto target = parse_target("a:/");
  REQUIRE(target);
  REQUIRE(target->options.set("rsize", "8K"));
  CHECK(target->options.get("rsize") == "8192");
  CHECK(target->options.get("wsize") == "2048");
  REQUIRE(target->options.set("config", "none"));
  CHECK(target->options.get("rsize") == "8192");
  CHECK(target->options.get("wsize") == "1048576");
  CHECK_FALSE(target->options.set("config", file.path() + "-missing"));
  CHECK(target->options.get("config") == "none");  // a failed call changes nothing
  CHECK_FALSE(target->options.set_all("rsize=16K,bad"));
  CHECK(target->options.get("rsize") == "8192");
}

TEST_CASE("options of the C interface: an error in the configuration is one of the target") {
  const ConfigurationFile file("[defaults]\nrsise=2K\n");
  const auto target = parse_target("a:/");
  REQUIRE_FALSE(target);
  CHECK(target.error().kind() == ErrorKind::usage);
  CHECK(target.error().message() == file.path() + ":2: unknown option 'rsise'; did you mean 'rsize'?");
  Options options;
  REQUIRE(options.set("config", "none"));
  CHECK(parse_target("a:/", options));
  CHECK(parse_target("nfs://a/?config=none"));
}

}  // namespace nfsrdma
