// Prints a checksum of each file, with coroutines: 16 of them work at the same time on one thread, each on a
// file of its own. The executor is a run queue: coroutines resume in main(), not inside the library.
//
//   g++ -std=c++20 coroutine.cpp $(pkg-config --cflags --libs nfsrdma) -o coroutine
//   ./coroutine nfs://server/export/directory name...
#include <nfsrdma/await.h>
#include <nfsrdma/client.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kPiece = 1 << 20, kWorkers = 16;

/// The coroutines whose calls have ended. It has no lock, because the library calls the executor only inside
/// Client::wait(), and only the main thread calls that.
class RunQueue {
 public:
  /// Returns an executor (await.h) that puts coroutines into this queue.
  auto executor() {
    return [this](std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); };
  }
  void run_all() {
    while (!ready_.empty()) {
      const std::coroutine_handle<> next = ready_.front();
      ready_.pop_front();
      next.resume();
    }
  }

 private:
  std::deque<std::coroutine_handle<>> ready_;
};

/// The type of a coroutine that runs at once until it first waits, and that destroys itself at its end.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// State that all coroutines share.
struct Work {
  nfsrdma::Directory& directory;
  const std::span<char* const> names;
  RunQueue& queue;
  std::size_t next = 0;      // number of the first name that no coroutine has taken
  std::size_t running = 0;   // coroutines that have not ended
  std::size_t failures = 0;  // files
};

/// FNV-1a: something that shows that the data has arrived.
std::uint64_t updated(std::uint64_t sum, std::span<const std::byte> data) {
  for (const std::byte octet : data) sum = (sum ^ std::to_integer<std::uint64_t>(octet)) * 0x100000001b3U;
  return sum;
}

void report(Work& work, const nfsrdma::Error& why) {
  std::cerr << "coroutine: " << why.text() << '\n';
  ++work.failures;
}

/// Takes names until there are no more.
Detached sum_files(Work& work) {
  ++work.running;
  const auto executor = work.queue.executor();
  std::vector<std::byte> data(kPiece);
  while (work.next != work.names.size()) {
    const char* const name = work.names[work.next++];
    const auto file =
        co_await nfsrdma::await_open(work.directory, name, nfsrdma::OpenMode::read, {}, executor);
    if (!file) {
      report(work, file.error());
      continue;
    }
    std::uint64_t sum = 0xcbf29ce484222325U, offset = 0;
    auto count = co_await nfsrdma::await_read(**file, data, offset, executor);
    while (count && *count != 0) {
      sum = updated(sum, std::span(data).first(*count));
      offset += *count;
      count = co_await nfsrdma::await_read(**file, data, offset, executor);
    }
    // Without this, the destructor of the File would wait until the file is closed, and stop all coroutines.
    const auto closed = co_await nfsrdma::await_close(**file, executor);
    if (!count) {
      report(work, count.error());
    } else if (!closed) {
      report(work, closed.error());
    } else {
      std::printf("%016llx %12llu %s\n", static_cast<unsigned long long>(sum),
                  static_cast<unsigned long long>(offset), name);
    }
  }
  --work.running;
}

int fail(const nfsrdma::Error& why) {
  std::cerr << "coroutine: " << why.text() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: coroutine nfs://server/export/directory name...\n";
    return 2;
  }
  const auto target = nfsrdma::parse_target(argv[1]);
  if (!target) return fail(target.error());
  const auto client = nfsrdma::Client::connect(*target);
  if (!client) return fail(client.error());
  const auto directory = (*client)->open_directory(target->path);
  if (!directory) return fail(directory.error());

  RunQueue queue;
  Work work{**directory, std::span(argv + 2, argv + argc), queue};
  for (std::size_t i = 0; i < kWorkers; ++i) sum_files(work);
  while (work.running != 0) {
    (*client)->wait(std::chrono::seconds(1));  // the executor is called in here
    queue.run_all();
  }
  return work.failures == 0 ? 0 : 1;
}
