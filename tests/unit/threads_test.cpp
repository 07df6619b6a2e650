// Several threads on one Client and its Files at once, while its own thread renews the lease and recovers. To
// be run under ThreadSanitizer; the other builds see to it that nothing hangs or gets mixed up.
#include <atomic>

#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {
using namespace testing;
using namespace nfs4;

constexpr int kThreads = 4;

/// Runs `body(i)` on kThreads threads, and waits for them.
void on_threads(const std::function<void(unsigned)>& body) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}
}  // namespace

TEST_SUITE("threads") {
  TEST_CASE("threads: files of their own and one in common, blocking and not") {
    Mounted m;
    m.server.set_lease(1);  // its own thread is busy
    m.server.add_file("/common", pattern(50'000));
    for (unsigned i = 0; i < kThreads; ++i) m.server.add_file("/own" + std::to_string(i), "");
    Client& client = m.connect();
    auto common = m.open("/common");
    std::atomic<int> wrong{0};
    on_threads([&](unsigned number) {
      const std::string path = "/own" + std::to_string(number);
      auto own = client.open(path, OpenMode::read_write);
      if (!own) {
        ++wrong;
        return;
      }
      std::atomic<int> done{0};
      int started = 0;
      std::vector<std::string> pieces(10, std::string(500, '?'));
      for (std::size_t round = 0; round < 10; ++round) {
        const std::string data = pattern(3000, number + static_cast<unsigned>(round));
        if (!(*own)->write(bytes(data), round * 3000)) ++wrong;
        std::string back(3000, '?');
        if ((*own)->read(room(back), round * 3000).value_or(0) != 3000 || back != data) ++wrong;
        common->start_read(room(pieces[round]), round * 500, [&done](Result<std::size_t>) { ++done; });
        ++started;
        if (!client.stat(path) || !client.ping()) ++wrong;
        (void)client.info();
      }
      const Stopwatch watch;
      while (done < started && watch.elapsed() < 5s) client.wait(5ms);
      if (done != started) ++wrong;
      for (std::size_t round = 0; round < 10; ++round) {
        if (pieces[round] != pattern(50'000).substr(round * 500, 500)) ++wrong;
      }
      if (!(*own)->close()) ++wrong;
    });
    CHECK(wrong == 0);
  }

  TEST_CASE("threads: a restart while several threads work and the client's own recovers") {
    Mounted m;
    m.server.set_lease(1);
    m.server.add_file("/a", pattern(10'000));
    Client& client = m.connect();
    std::atomic<int> wrong{0};
    std::atomic<bool> stop{false};
    std::thread trouble([&] {
      for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(60ms);
        m.server.restart(i == 1 ? 100ms : 0ms);
      }
      stop = true;
    });
    on_threads([&](unsigned number) {
      auto file = client.open("/a", OpenMode::read_write);
      if (!file) {
        ++wrong;
        return;
      }
      const std::string data = pattern(500, number);
      do {  // at least once, also if the others leave this one no room before the end
        std::string back(500, '?');
        if (!(*file)->write(bytes(data), number * 500)) ++wrong;
        if ((*file)->read(room(back), 5000).value_or(0) != 500) ++wrong;
      } while (!stop);
      if (!(*file)->close()) ++wrong;
    });
    trouble.join();
    CHECK(wrong == 0);
    for (unsigned i = 0; i < kThreads; ++i) {
      CHECK(m.server.stable_content("/a")->substr(i * 500, 500) == pattern(500, i));
    }
  }

  TEST_CASE("threads: callbacks, waiters and an interrupt") {
    Mounted m;
    m.server.add_file("/a", pattern(10'000));
    const Interrupt interrupt;
    Client& client = m.connect("", interrupt.fd());
    auto file = m.open("/a");
    std::atomic<int> done{0}, started{0};
    std::thread knocking([&] {
      for (int i = 0; i < 20; ++i) {
        interrupt.set();
        std::this_thread::sleep_for(1ms);
        interrupt.clear();
        std::this_thread::sleep_for(2ms);
      }
    });
    on_threads([&](unsigned number) {
      std::vector<std::string> data(20, std::string(100, '?'));
      std::atomic<int> mine{0};
      for (std::size_t i = 0; i < data.size(); ++i) {
        ++started;
        file->start_read(room(data[i]), number * 1000 + i * 10, [&](Result<std::size_t>) {
          ++done;
          ++mine;
        });
        (void)client.stat("/a");
      }
      const Stopwatch watch;
      while (mine < 20 && watch.elapsed() < 5s) client.wait(2ms);
    });
    knocking.join();
    interrupt.clear();
    CHECK(done == started);
    CHECK(client.ping());
  }

  TEST_CASE("threads: disconnect() while others call") {
    Mounted m;
    m.server.add_file("/a", pattern(10'000));
    Client& client = m.connect("timeo=1s");
    std::atomic<int> ended{0};
    on_threads([&](unsigned number) {
      if (number < 2) {
        std::this_thread::sleep_for(10ms);
        (void)client.disconnect();
      } else {
        const Stopwatch watch;
        while (client.ping() && watch.elapsed() < 3s) {
        }
        auto late = client.open("/a", OpenMode::read);
        CHECK_FALSE(late);
      }
      ++ended;
    });
    CHECK(ended == kThreads);
  }

  TEST_CASE("threads: files are opened, used and destroyed by many at once") {
    Mounted m;
    for (unsigned i = 0; i < kThreads; ++i) m.server.add_file("/f" + std::to_string(i), "");
    m.server.set_lease(1);
    Client& client = m.connect();
    std::atomic<int> wrong{0};
    on_threads([&](unsigned number) {
      for (int i = 0; i < 10; ++i) {
        auto file = client.open("/f" + std::to_string(number), OpenMode::read_write);
        if (!file || !(*file)->write(bytes("x"), 0)) ++wrong;
        if (file && i % 2 == 0) {
          std::string data(1, '?');
          (*file)->start_read(room(data), 0, [](Result<std::size_t>) {});
          file->reset();
        }
      }
    });
    CHECK(wrong == 0);
    CHECK(m.server.open_states() == 0);
  }
}

}  // namespace nfsrdma
