// Uses the library in an event loop of the program's own: epoll watches the descriptor of a completion queue
// and a timer. The program reads a file with 8 reads in flight, and prints the progress each time the timer
// runs out.
//
//   g++ -std=c++20 epoll.cpp $(pkg-config --cflags --libs nfsrdma) -o epoll
//   ./epoll nfs://server/export/file
#include <nfsrdma/client.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <vector>

namespace {

constexpr std::size_t kPiece = 1 << 20, kInFlight = 8;

int fail(const nfsrdma::Error& why) {
  std::cerr << "epoll: " << why.text() << '\n';
  return 1;
}

/// Reads a file from its beginning to its end. The tag of each read is the number of its buffer.
class Reader {
 public:
  Reader(nfsrdma::Client& client, nfsrdma::Queue& queue, nfsrdma::File& file)
      : client_(client), queue_(queue), file_(file) {
    for (std::size_t slot = 0; slot < kInFlight; ++slot) start(slot);
    client_.submit();
  }
  // The server writes into data_ while reads are in flight.
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] bool ended() const { return queue_.pending() == 0; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// Called when the queue's descriptor is readable. reap() also does the work of the client that is due, so
  /// it may find no completion.
  void on_readable() {
    std::array<nfsrdma::Completion, kInFlight> done;
    const std::size_t count = queue_.reap(done, 0, std::chrono::milliseconds(0));
    for (const nfsrdma::Completion& one : std::span(done).first(count)) on_completion(one);
    client_.submit();  // the reads that were started leave together
  }

 private:
  void start(std::size_t slot) {
    if (at_end_ || failed_) return;
    const std::span room = std::span(data_).subspan(slot * kPiece, kPiece);
    if (const auto started = file_.queue_read(queue_, slot, room, offset_); !started) {
      failed_ = fail(started.error()) != 0;
      return;
    }
    offset_ += kPiece;
  }
  void on_completion(const nfsrdma::Completion& completion) {
    const auto count = completion.result();
    if (!count) {
      failed_ = fail(count.error()) != 0;
      return;
    }
    // A real program would use the bytes of this slot now.
    bytes_ += *count;
    if (*count < kPiece) at_end_ = true;
    start(completion.tag());
  }

  nfsrdma::Client& client_;
  nfsrdma::Queue& queue_;
  nfsrdma::File& file_;
  std::vector<std::byte> data_ = std::vector<std::byte>(kInFlight * kPiece);
  std::uint64_t offset_ = 0, bytes_ = 0;
  bool at_end_ = false, failed_ = false;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  const int fd_;
};

/// Returns a descriptor that is readable every 100 ms, or -1.
int make_timer() {
  constexpr itimerspec kTick = {{0, 100'000'000}, {0, 100'000'000}};
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer >= 0) (void)::timerfd_settime(timer, 0, &kTick, nullptr);
  return timer;
}

bool watch(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void run_loop(Reader& reader, int epoll, int timer) {
  while (!reader.ended()) {
    std::array<epoll_event, 2> events{};
    const int count = ::epoll_wait(epoll, events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      if (events[static_cast<std::size_t>(i)].data.fd != timer) {
        reader.on_readable();
        continue;
      }
      std::uint64_t ticks = 0;
      if (::read(timer, &ticks, sizeof ticks) == sizeof ticks)
        std::cout << reader.bytes() << " bytes so far\n";
    }
  }
}

int read_file(nfsrdma::Client& client, nfsrdma::Queue& queue, nfsrdma::File& file) {
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  const Descriptor timer(make_timer());
  if (!watch(epoll.get(), queue.descriptor()) || !watch(epoll.get(), timer.get())) {
    std::perror("epoll");
    return 1;
  }
  Reader reader(client, queue, file);
  run_loop(reader, epoll.get(), timer.get());
  std::cout << reader.bytes() << " bytes" << (reader.failed() ? ", and then an error" : "") << '\n';
  return reader.failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: epoll nfs://server/export/file\n";
    return 2;
  }
  const auto target = nfsrdma::parse_target(argv[1]);
  if (!target) return fail(target.error());
  const auto client = nfsrdma::Client::connect(*target);
  if (!client) return fail(client.error());
  const auto file = (*client)->open(target->path, nfsrdma::OpenMode::read);
  if (!file) return fail(file.error());
  // Declared last and so destroyed first: its destructor cancels the reads that were not reaped.
  const auto queue = nfsrdma::Queue::create(**client);
  if (!queue) return fail(queue.error());
  return read_file(**client, **queue, **file);
}
