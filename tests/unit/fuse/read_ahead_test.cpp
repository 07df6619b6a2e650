// What the kernel is told to read ahead (fuse/read_ahead.h), in a file that stands for the one of sysfs.
#include "fuse/read_ahead.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace nfsrdma::fuse {
namespace {

constexpr std::size_t kMiB = 1U << 20;

struct Setting {
  Setting() {
    std::string pattern = std::filesystem::temp_directory_path() / "nfsrdma-read-ahead.XXXXXX";
    const int fd = ::mkstemp(pattern.data());
    REQUIRE(fd >= 0);
    ::close(fd);
    name = pattern;
    set("128");
  }
  ~Setting() { std::filesystem::remove(name); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  void set(const std::string& text) const { std::ofstream(name) << text << '\n'; }
  [[nodiscard]] int kib() const {
    int out = 0;
    std::ifstream(name) >> out;
    return out;
  }
  std::string name;
};

}  // namespace

TEST_CASE("kernel's read-ahead: follows half of the window within its bounds") {
  const Setting setting;
  KernelReadAhead ahead;
  CHECK(ahead.bytes() == 0);
  ahead.follow(16 * kMiB);  // before it has begun
  CHECK(setting.kib() == 128);
  ahead.begin_at(setting.name);
  CHECK(setting.kib() == 2048);
  ahead.follow(16 * kMiB);
  CHECK(setting.kib() == 8192);
  CHECK(ahead.bytes() == 8 * kMiB);
  ahead.follow(6 * kMiB + 1);
  CHECK(setting.kib() == 3072);
  ahead.follow(32 * kMiB);
  CHECK(setting.kib() == 8192);
  ahead.follow(0);
  CHECK(setting.kib() == 2048);
}

TEST_CASE("kernel's read-ahead: what somebody else has set stays") {
  const Setting setting;
  KernelReadAhead ahead;
  ahead.begin_at(setting.name);
  setting.set("512");
  ahead.follow(16 * kMiB);
  CHECK(setting.kib() == 512);
}

TEST_CASE("kernel's read-ahead: who may not set it does without") {
  KernelReadAhead ahead;
  ahead.begin_at("/nonexistent/read_ahead_kb");
  ahead.follow(16 * kMiB);
  CHECK(ahead.bytes() == 0);
  KernelReadAhead nowhere;
  nowhere.begin("/nonexistent");
  CHECK(nowhere.bytes() == 0);
}

}  // namespace nfsrdma::fuse
