// What the tests of the engine and of the API share: a client on a test server, and short ways to say things.
#pragma once

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nfsrdma/client.h"
#include "support/nfs_server.h"

namespace nfsrdma::testing {

using namespace std::chrono_literals;

/// For REQUIRE(ok(…)): shows the error.
template <class T>
bool ok(const Result<T>& result) {
  if (!result) FAIL_CHECK(result.error().text());
  return result.has_value();
}

/// The errno of a failure, 0 for success.
template <class T>
int errno_of(const Result<T>& result) {
  return result ? 0 : result.error().errno_value();
}

inline std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::span<std::byte> room(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

/// Text that differs from place to place.
inline std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>('a' + (i * 7 + i / 251 + seed * 31) % 26);
  return out;
}

/// Waits, in small steps, until it is so. The time is up where it never is, and long, since the machine may be busy.
inline bool eventually(const std::function<bool()>& so, std::chrono::milliseconds most = 30s) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// The same, and callbacks run meanwhile.
inline bool comes(Client& client, const std::function<bool()>& so, std::chrono::milliseconds most = 30s) {
  return eventually(
      [&] {
        client.wait(1ms);
        return so();
      },
      most);
}

class Stopwatch {
 public:
  [[nodiscard]] std::chrono::milliseconds elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun_);
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

class Notices final : public Observer {
 public:
  void notice(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    all_ += text + "\n";
  }
  [[nodiscard]] std::string all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  [[nodiscard]] bool has(const std::string& part) const { return all().find(part) != std::string::npos; }

 private:
  mutable std::mutex mutex_;
  std::string all_;
};

/// The descriptor that a signal handler would write to.
class Interrupt {
 public:
  Interrupt() = default;
  ~Interrupt() { ::close(fd_); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  void set() const { CHECK(::eventfd_write(fd_, 1) == 0); }
  void clear() const {
    eventfd_t count = 0;
    (void)::eventfd_read(fd_, &count);
  }

 private:
  int fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
};

/// A server and, once connect() was called, a client of it. At the end nobody may have broken a rule.
struct Mounted {
  NfsServer server;
  Notices notices;
  std::unique_ptr<Client> client;

  ~Mounted() {
    client.reset();
    CHECK(server.problems() == "");
  }
  Client& connect(const std::string& options = "", int interrupt = -1) {
    auto made = Client::connect(server.target(options), &notices, interrupt);
    if (!made) FAIL(made.error().text());
    client = std::move(*made);
    return *client;
  }
  [[nodiscard]] std::unique_ptr<File> open(const std::string& path, OpenMode mode = OpenMode::read_write,
                                           const OpenFlags& flags = {}) const {
    auto file = client->open(path, mode, flags);
    if (!file) FAIL(file.error().text());
    return std::move(*file);
  }
  static bool eventually(const std::function<bool()>& so, std::chrono::milliseconds most = 30s) {
    return testing::eventually(so, most);
  }
  /// The whole file through a File.
  static std::string read_all(File& file, std::size_t most = 1U << 20) {
    std::string data(most, '?');
    const auto count = file.read(room(data), 0);
    if (!ok(count)) return "";
    data.resize(*count);
    return data;
  }
};

}  // namespace nfsrdma::testing
