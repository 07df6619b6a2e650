// Tells when a thread of a test waits: what another thread does then finds it waiting, and not on the way there.
//
//     const SleepWatch me;
//     std::thread other([&] {
//       CHECK(eventually([&] { return me.is_asleep(); }));
//       interrupt.set();
//     });
//     CHECK(client.wait(10s, also));
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace nfsrdma::testing {

/// Watches the thread that makes it, which it does not outlive. Any thread may ask. It holds one descriptor, and needs no
/// other one to answer.
class SleepWatch {
 public:
  SleepWatch() { REQUIRE(fd_ >= 0); }
  ~SleepWatch() { ::close(fd_); }
  SleepWatch(const SleepWatch&) = delete;
  SleepWatch& operator=(const SleepWatch&) = delete;

  /// Whether the thread sleeps in a system call (proc_pid_stat(5): the state behind the name in parentheses is S).
  [[nodiscard]] bool is_asleep() const {
    std::array<char, 512> text{};
    const auto count = ::pread(fd_, text.data(), text.size(), 0);
    const std::string_view seen(text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    const auto name_end = seen.rfind(')');
    return name_end != std::string_view::npos && seen.substr(name_end + 1).starts_with(" S");
  }

 private:
  const int fd_ =
      ::open(("/proc/self/task/" + std::to_string(::gettid()) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
};

}  // namespace nfsrdma::testing
