// A server in memory, nfsrdma-fuse as a process that has it mounted on this kernel, and children that use it.
//
// NFSRDMA_FUSE in the environment names the program. Needs /dev/fuse and root.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "fuse/mountinfo.h"
#include "support/nfs_fixture.h"

namespace nfsrdma::testing {

inline std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A child that runs `work`, and the status with which it ends.
class Child {
 public:
  explicit Child(const std::function<int()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    for (int number = 1; number < SIGSYS; ++number) std::signal(number, SIG_DFL);  // doctest has handlers
    ::_exit(work());
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  /// What wait(2) gives; none: it has not ended by then.
  std::optional<int> ended(std::chrono::milliseconds most) {
    int status = 0;
    if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, most)) return std::nullopt;
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

/// A server, and a daemon that has it mounted.
struct Mounting {
  NfsServer server;
  const std::string place = [] {
    std::string name = std::filesystem::temp_directory_path() / "nfsrdma-mount-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return name;
  }();
  const std::string log = place + ".log";
  std::optional<Child> daemon;

  ~Mounting() {
    server.release();
    ::umount2(place.c_str(), MNT_DETACH);
    if (daemon) (void)daemon->ended(15s);
    std::filesystem::remove(place);
    std::filesystem::remove(log);
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& name, const std::string& options) const {
    return {name,
            "127.0.0.1:/",
            place,
            "--log",
            log,
            "-o",
            "fabric=iwarp,port=" + std::to_string(server.port()) + (options.empty() ? "" : "," + options)};
  }
  static int run(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    ::execv(std::getenv("NFSRDMA_FUSE"), pointers.data());
    return 127;
  }
  [[nodiscard]] bool stands() const {
    const auto mount = fuse::topmost_mount(content_of("/proc/self/mountinfo"), place);
    return mount && mount->type == "fuse.nfsrdma";
  }
  void mount(const std::string& options = "") {
    auto all = words("nfsrdma-fuse", options);
    all.push_back("-f");
    daemon.emplace([&] { return run(all); });
    REQUIRE(eventually([&] { return stands(); }, 10s));
  }
  /// As mount(8) would, and whether it worked.
  [[nodiscard]] int helper(const std::string& options) const {
    Child child([&] { return run(words("mount.nfsrdma", options)); });
    return child.ended(20s).value_or(-1);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return place + "/" + name; }
  /// The value of `key` in the statistics' line that begins with `line`.
  [[nodiscard]] std::string statistic(const std::string& line, const std::string& key) const {
    std::istringstream lines(content_of(path(".nfsrdma-stats")));
    for (std::string one; std::getline(lines, one);) {
      if (!one.starts_with(line + " ")) continue;
      const auto at = one.find(" " + key + "=");
      if (at == std::string::npos) break;
      const auto begin = at + key.size() + 2;
      return one.substr(begin, one.find(' ', begin) - begin);
    }
    return "-";
  }
  [[nodiscard]] int open(const std::string& name) const { return ::open(path(name).c_str(), O_RDWR); }
};

}  // namespace nfsrdma::testing
