// Several threads on one Client and its Files at once, while its own thread renews the lease and recovers. To
// be run under ThreadSanitizer; the other builds see to it that nothing hangs or gets mixed up.
#include <poll.h>

#include <atomic>

#include "support/at_limit.h"
#include "support/nfs_fixture.h"
#include "support/sleep_watch.h"

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

/// A thread that reads /a, which the server holds up: it leads, and others wait beside it.
struct Led : Mounted {
  Led() {
    server.add_file("/a", pattern(1000));
    connect();
    file = open("/a");
    server.hold(OP_READ);
    leader = std::thread([this] {
      std::string data(10, '?');
      read = file->read(room(data), 0).value_or(0) == 10;
    });
    CHECK(eventually([this] { return server.held() == 1; }));
  }
  void join() {
    leader.join();
    CHECK(read);
  }
  std::unique_ptr<File> file;
  std::atomic<bool> read{false};
  std::thread leader;
};
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
      while (done < started && watch.elapsed() < 30s) client.wait(5ms);
      if (done != started) ++wrong;
      for (std::size_t round = 0; round < 10; ++round) {
        if (pieces[round] != pattern(50'000).substr(round * 500, 500)) ++wrong;
      }
      if (!(*own)->close()) ++wrong;
    });
    CHECK(wrong == 0);
  }

  TEST_CASE("threads: eight threads of everything") {
    Mounted m;
    m.server.add_file("/common", pattern(100'000));
    Client& client = m.connect();
    auto common = m.open("/common");
    std::atomic<int> wrong{0};
    const auto must = [&](const auto& result) { wrong += result ? 0 : 1; };
    on_threads([&](unsigned number) {
      const std::string name = "d" + std::to_string(number);
      must(client.make_directory("/" + name, 0755));
      auto directory = client.open_directory(name);
      if (!directory) {
        ++wrong;
        return;
      }
      Directory& here = **directory;
      for (unsigned round = 0; round < 5; ++round) {
        OpenFlags flags;
        flags.create = true;
        auto file = here.open("f", OpenMode::read_write, flags);
        if (!file) {
          ++wrong;
          continue;
        }
        const std::string text = pattern(5000, number + round);
        must((*file)->write(bytes(text), 0, round % 2 == 0 ? Stability::on_disk : Stability::unstable));
        must((*file)->lock({number, true, {0, 100}}));
        must((*file)->copy_from(*common, number, 5000, 1000));
        std::string back(5000, '?');
        must((*file)->read(room(back), 0));
        wrong += back == text ? 0 : 1;
        must((*file)->attributes());
        must((*file)->seek(0, false));
        must((*file)->unlock(number));
        must((*file)->sync());
        must(common->lock({number, false, {number * 10ULL, 10}}));
        must(common->unlock(number));
        must((*file)->close());
        must(here.set_xattr("f", "x", bytes("y")));
        must(here.get_xattr("f", "x"));
        must(here.link("f", client, "/linked" + name));
        must(here.stat("f"));
        must(here.access("f", 4));
        must(client.rename("/linked" + name, here, "g"));
        must(here.symlink("f", "s"));
        must(here.read_link("s"));
        int entries = 0;
        must(here.list("", [&](const DirectoryEntry&) { return ++entries != 0; }));
        wrong += entries == 3 ? 0 : 1;
        for (const char* gone : {"f", "g", "s"}) must(here.remove_file(gone));
        must(client.space("/"));
        must(client.ping());
        (void)client.info();
      }
      must(client.remove_directory(name));
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
        const unsigned before = m.server.count(OP_WRITE);
        CHECK(eventually([&] { return m.server.count(OP_WRITE) >= before + 20; }));
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
    std::atomic<int> done{0}, started{0}, ended{0}, knocks{0};
    // Each time some calls end, before the next knock and before the end of this one.
    std::thread knocking([&] {
      const auto some_end = [&] {
        const int before = ended;
        return eventually([&] { return ended >= before + kThreads; });
      };
      for (; knocks < 20; ++knocks) {
        interrupt.set();
        CHECK(some_end());
        interrupt.clear();
        CHECK(some_end());
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
        ++ended;
      }
      const Stopwatch watch;
      for (; (mine < 20 || knocks < 20) && watch.elapsed() < 30s; ++ended) client.wait(2ms);
    });
    knocking.join();
    interrupt.clear();
    CHECK(done == started);
    CHECK(client.ping());
  }

  TEST_CASE("threads: each has its call in flight, and none waits for another's answer") {
    Mounted m;
    m.server.add_file("/slow", pattern(20'000));
    m.server.add_file("/quick", "");
    Client& client = m.connect();
    auto file = m.open("/slow");
    constexpr std::size_t kReaders = 8;
    m.server.hold(OP_READ);
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (std::size_t i = 0; i < kReaders; ++i) {
      readers.emplace_back([&, i] {
        std::string data(1000, '?');
        const auto count = file->read(room(data), i * 1000);
        if (count.value_or(0) != 1000 || data != pattern(20'000).substr(i * 1000, 1000)) ++wrong;
      });
    }
    CHECK(eventually([&] { return m.server.held() == kReaders; }));
    CHECK(ok(client.stat("/quick")));
    CHECK(ok(client.ping()));
    m.server.release_first();
    CHECK(ok(client.ping()));
    m.server.release();
    for (std::thread& reader : readers) reader.join();
    CHECK(wrong == 0);
  }

  TEST_CASE("threads: whoever leads may leave first or last, and everybody gets his answer") {
    Mounted m;
    m.server.add_file("/a", pattern(20'000));
    m.connect();
    auto file = m.open("/a");
    for (int round = 0; round < 30; ++round) {
      m.server.hold(OP_READ);
      std::atomic<int> wrong{0};
      std::vector<std::thread> readers;
      for (std::size_t i = 0; i < 4; ++i) {
        readers.emplace_back([&, i] {
          std::string data(100, '?');
          if (file->read(room(data), i * 100).value_or(0) != 100) ++wrong;
        });
        CHECK(eventually([&] { return m.server.held() == i + 1; }));
      }
      while (m.server.held() > 1) m.server.release_first();
      m.server.release();
      for (std::thread& reader : readers) reader.join();
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("threads: one that polls beside others hears of its descriptor, its callback, and the time") {
    Led m;
    Client& client = *m.client;
    const Interrupt mine;
    const std::vector<int> also{mine.fd()};
    CHECK_FALSE(client.wait(20ms, also));
    CHECK_FALSE(client.wait(20ms));
    const SleepWatch me;
    std::thread other([&] {
      CHECK(eventually([&] { return me.is_asleep(); }));
      mine.set();
    });
    CHECK(client.wait(10s, also));
    other.join();
    mine.clear();
    std::string data(5, '?');
    std::atomic<int> done{0};
    m.file->start_read(room(data), 0, [&](Result<std::size_t>) { ++done; });
    CHECK(eventually([&] { return m.server.held() == 2; }));
    m.server.release();
    const Stopwatch watch;
    while (done == 0 && watch.elapsed() < 10s) client.wait(10s, also);
    CHECK(done == 1);
    m.join();
  }

  TEST_CASE("threads: one that polls beside others does so, too, where no descriptor is left") {
    Led m;
    Client& client = *m.client;
    const Interrupt mine;
    const std::vector<int> also{mine.fd()};
    const SleepWatch me;
    {
      const FewDescriptors none(kSanitized ? 64 : 0);
      CHECK_FALSE(client.wait(20ms, also));
      const Stopwatch watch;
      std::thread other([&] {
        // Without a descriptor the thread sleeps in steps, between which a busy machine may not let it be seen asleep.
        (void)eventually([&] { return me.is_asleep(); }, 100ms);
        mine.set();
      });
      CHECK(client.wait(10s, also));
      other.join();
      mine.clear();
      std::string data(5, '?');
      std::atomic<int> done{0};
      m.file->start_read(room(data), 0, [&](Result<std::size_t>) { ++done; });
      CHECK(eventually([&] { return m.server.held() == 2; }));
      m.server.release();
      while (done == 0 && watch.elapsed() < 10s) client.wait(500ms, also);
      CHECK(done == 1);
      CHECK(watch.elapsed() < 5s);
    }
    m.join();
  }

  TEST_CASE("threads: an interrupt ends the calls of all, and the next ones work") {
    Mounted m;
    m.server.add_file("/a", pattern(1000));
    const Interrupt interrupt;
    Client& client = m.connect("", interrupt.fd());
    auto file = m.open("/a");
    m.server.hold(OP_READ);
    std::atomic<int> cancelled{0};
    std::vector<std::thread> readers;
    for (unsigned i = 0; i < kThreads; ++i) {
      readers.emplace_back([&] {
        std::string data(10, '?');
        if (errno_of(file->read(room(data), 0)) == EINTR) ++cancelled;
      });
    }
    CHECK(eventually([&] { return m.server.held() == kThreads; }));
    interrupt.set();
    for (std::thread& reader : readers) reader.join();
    interrupt.clear();
    CHECK(cancelled == kThreads);
    m.server.release();
    CHECK(ok(client.ping()));
  }

  TEST_CASE("threads: a program with a loop of its own polls, and is served") {
    Mounted m;
    m.server.set_lease(1);
    m.server.add_file("/a", pattern(1000));
    Client& client = m.connect();
    auto file = m.open("/a");
    pollfd mine{client.descriptor(), POLLIN, 0};
    std::string data(1000, '?');
    int done = 0;
    const auto where = std::this_thread::get_id();
    const Stopwatch watch;
    for (int round = 0; round < 50; ++round) {
      file->start_read(room(data), 0, [&](Result<std::size_t> count) {
        if (count.value_or(0) == 1000 && std::this_thread::get_id() == where) ++done;
      });
      while (done == round && watch.elapsed() < 20s) {
        client.service();
        if (done == round) ::poll(&mine, 1, 1000);
      }
    }
    CHECK(done == 50);
    // What a program does not come back for the client's own thread does: the lease is renewed.
    const unsigned before = m.server.count(OP_SEQUENCE);
    CHECK(eventually([&] { return m.server.count(OP_SEQUENCE) >= before + 3; }));
    CHECK(m.server.count(OP_CREATE_SESSION) == 1);
    CHECK(ok(client.ping()));
  }

  TEST_CASE("threads: a large read and a large write have several pieces in flight") {
    Mounted m;
    m.server.add_file("/a", pattern(600'000));
    m.connect("rsize=32K,wsize=32K");
    auto file = m.open("/a");
    const std::string text = pattern(600'000, 3);
    std::atomic<std::size_t> written{0}, read{0};
    m.server.hold(OP_WRITE);
    std::thread writer([&] { written = file->write(bytes(text), 0).value_or(0); });
    CHECK(eventually([&] { return m.server.held() == 8; }));
    m.server.release();
    writer.join();
    CHECK(written == text.size());
    std::string back(600'000, '?');
    m.server.hold(OP_READ);
    std::thread reader([&] { read = file->read(room(back), 0).value_or(0); });
    for (std::size_t in_flight = 1; in_flight < 8; ++in_flight) {  // each that is answered brings one more
      CHECK(eventually([&] { return m.server.held() >= in_flight; }));
      m.server.release_first();
    }
    CHECK(eventually([&] { return m.server.held() == 8; }));
    m.server.release();
    reader.join();
    CHECK(read == text.size());
    CHECK((back == text));
  }

  TEST_CASE("threads: disconnect() while others call") {
    Mounted m;
    m.server.add_file("/a", pattern(10'000));
    Client& client = m.connect("timeo=1s");
    std::atomic<int> ended{0}, pings{0};
    on_threads([&](unsigned number) {
      if (number < 2) {
        CHECK(eventually([&] { return pings >= 20; }));
        (void)client.disconnect();
      } else {
        const Stopwatch watch;
        while (client.ping() && watch.elapsed() < 30s) ++pings;
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
