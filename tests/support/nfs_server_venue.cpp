#include "support/nfs_server_venue.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "fabric/iwarp/listener.h"
#include "sim/fabric/network.h"
#include "support/loopback.h"

namespace nfsrdma::testing {
namespace {

class ThreadVenue final : public Venue {
 public:
  ThreadVenue() {
    loop_.watch(wake_, EPOLLIN, [this](std::uint32_t) { take_queue(); });
  }
  ~ThreadVenue() override {
    end();
    loop_.unwatch(wake_);
    ::close(wake_);
  }
  ThreadVenue(const ThreadVenue&) = delete;
  ThreadVenue& operator=(const ThreadVenue&) = delete;

  async::Loop& loop() override { return loop_; }

  /// The first call starts the thread: until then the loop is the caller's.
  void run(std::function<void()> fn) override {
    if (!thread_.joinable()) {
      thread_ = std::thread([this] {
        while (!stop_) loop_.turn(async::TimePoint::max());
      });
    }
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(fn));
    }
    [[maybe_unused]] const int told = ::eventfd_write(wake_, 1);
  }

  std::unique_ptr<fabric::Listener> listen(fabric::Listener::Callback callback) override {
    auto made = fabric::iwarp::Listener::listen(
        loop_, loopback(port_),
        [callback = std::move(callback)](std::unique_ptr<fabric::iwarp::Incoming> incoming) {
          callback(std::move(incoming));
        });
    if (!made) {
      std::fprintf(stderr, "test server: %s\n", made.error().text().c_str());
      std::abort();
    }
    port_ = (*made)->port();
    return std::move(*made);
  }

  bool wait(const std::function<bool()>& so, std::chrono::milliseconds most) override {
    const auto end = std::chrono::steady_clock::now() + most;
    while (!so()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

  void end() override {
    if (!thread_.joinable()) return;
    run([this] { stop_ = true; });
    thread_.join();
  }

 private:
  void take_queue() {
    eventfd_t count = 0;
    [[maybe_unused]] const int taken = ::eventfd_read(wake_, &count);
    std::vector<std::function<void()>> batch;
    {
      const std::lock_guard lock(mutex_);
      batch.swap(queue_);
    }
    for (const auto& fn : batch) fn();
  }

  async::Loop loop_;
  std::uint16_t port_ = 0;  // the thread's
  const int wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::mutex mutex_;  // guards queue_
  std::vector<std::function<void()>> queue_;
  bool stop_ = false;  // the thread's
  std::thread thread_;
};

class SimVenue final : public Venue {
 public:
  static constexpr std::uint16_t kPort = 20049;

  SimVenue(sim::Network& network, sim::Host& host) : network_(network), host_(host) {}
  async::Loop& loop() override { return host_.loop(); }
  void run(std::function<void()> fn) override {
    fn();
    loop().end_turn();
  }
  std::unique_ptr<fabric::Listener> listen(fabric::Listener::Callback callback) override {
    return network_.listen(host_, kPort, std::move(callback));
  }
  bool wait(const std::function<bool()>& so, std::chrono::milliseconds most) override {
    return host_.simulation().run_until(so, most);
  }
  void end() override {}

 private:
  sim::Network& network_;
  sim::Host& host_;
};

}  // namespace

std::unique_ptr<Venue> thread_venue() {
  return std::make_unique<ThreadVenue>();
}
std::unique_ptr<Venue> sim_venue(sim::Network& network, sim::Host& host) {
  return std::make_unique<SimVenue>(network, host);
}

}  // namespace nfsrdma::testing
