// The file that a mount writes its metrics to: what it replaces, and what it leaves.
#include "fuse/metrics_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/scratch.h"

namespace nfsrdma::fuse {
namespace {

using testing::Scratch;
namespace files = std::filesystem;

constexpr const char* kFirst = "# HELP nfsrdma_mount_info first\n";
constexpr const char* kSecond = "# HELP nfsrdma_mount_info second\n";

std::string metrics_in(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
void fill_file(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}
std::size_t names_in(const std::string& directory) {
  return static_cast<std::size_t>(std::distance(files::directory_iterator(directory), {}));
}

}  // namespace

TEST_CASE("metrics file: each text replaces the one before as a whole, and the end removes it") {
  const Scratch place("metrics");
  const std::string path = place.path() + "/m.prom";
  MetricsFile file(path, "/mnt");
  REQUIRE(file.write(kFirst));
  std::ifstream reader(path);  // a reader that has opened the first one
  REQUIRE(file.write(kSecond));
  CHECK(std::string(std::istreambuf_iterator<char>(reader), {}) == kFirst);
  CHECK(metrics_in(path) == kSecond);
  CHECK(names_in(place.path()) == 1);
  file.remove();
  CHECK(names_in(place.path()) == 0);
  file.remove();
}

TEST_CASE("metrics file: it is readable for others as far as the umask allows") {
  const Scratch place("metrics");
  const mode_t before = ::umask(022);
  MetricsFile file(place.path() + "/m.prom", "/mnt");
  CHECK(file.write(kFirst));
  ::umask(before);
  struct stat facts{};
  REQUIRE(::stat((place.path() + "/m.prom").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777U) == 0644);
}

TEST_CASE("metrics file: in a directory each mount has a file of its own") {
  const Scratch place("metrics");
  MetricsFile one(place.path(), "/mnt/data"), other(place.path(), "/mnt-data");
  REQUIRE(one.write(kFirst));
  REQUIRE(other.write(kSecond));
  CHECK(metrics_in(place.path() + "/nfsrdma-mnt-data.prom") == kFirst);
  CHECK(metrics_in(place.path() + "/nfsrdma-mnt\\x2ddata.prom") == kSecond);
  CHECK(metrics_name("/a b\"\n\xff_1.x") == "nfsrdma-a\\x20b\\x22\\x0a\\xff_1.x.prom");
}

TEST_CASE("metrics file: nothing is replaced that has no metrics") {
  const Scratch place("metrics");
  const std::string path = place.path() + "/m.prom";
  MetricsFile file(path, "/mnt");
  const auto refused = [&] {
    const Status done = file.write(kFirst);
    return !done && done.error().errno_value() == EEXIST && names_in(place.path()) == 1;
  };
  fill_file(path, "# HELP node_");
  CHECK(refused());
  CHECK(metrics_in(path) == "# HELP node_");
  files::remove(path);
  files::create_symlink("elsewhere", path);
  CHECK(refused());
  files::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(refused());
  files::remove(path);
  fill_file(path, "");
  CHECK(file.write(kFirst));
  // A name that another mount has taken meanwhile stays at the end.
  files::remove(path);
  fill_file(path, kSecond);
  file.remove();
  CHECK(metrics_in(path) == kSecond);
}

TEST_CASE("metrics file: a failure leaves no file, and says what to do") {
  const Scratch place("metrics");
  const std::string missing = place.path() + "/missing/m.prom";
  const Status done = MetricsFile(missing, "/mnt").write(kFirst);
  REQUIRE_FALSE(done);
  CHECK(done.error().errno_value() == ENOENT);
  CHECK(done.error().text().find("create this directory") != std::string::npos);
  // What a killed mount has left beside it does not matter.
  fill_file(place.path() + "/.m.prom.new", "half");
  CHECK(MetricsFile(place.path() + "/m.prom", "/mnt").write(kFirst));
  CHECK(names_in(place.path()) == 1);
  // No user can make files there.
  CHECK_FALSE(MetricsFile("/proc/m.prom", "/mnt").write(kFirst));
}

}  // namespace nfsrdma::fuse
