// Whether io_uring would be a better poller: the bytes of 4 KiB READs over loopback, asked for and taken in as the iWARP
// connection does it (epoll, recv, send; SO_RCVLOWAT where several are in flight) and by io_uring, where sending and
// waiting are one system call. No protocol, no library; the other end is a child on another processor.
//
//   uring_limit [DEPTH [COUNT]]      READs in flight (32), READs in all (1,000,000)
//
// By system calls alone, since there is no liburing among the project's packages.
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kCall = 250, kAnswer = 4200;  // octets on the wire of one READ
constexpr std::size_t kMostInFlight = 64;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);  // where there is one only, both are there
}

/// Answers until the peer goes.
[[noreturn]] void serve(int fd) {
  std::vector<char> in(kCall * kMostInFlight), out(kAnswer * kMostInFlight);
  for (std::size_t have = 0;;) {
    const ssize_t got = ::recv(fd, in.data(), in.size(), 0);
    if (got <= 0) std::_Exit(0);
    have += static_cast<std::size_t>(got);
    const std::size_t length = have / kCall * kAnswer;
    have %= kCall;
    for (std::size_t at = 0; at < length;) {
      const ssize_t sent = ::send(fd, out.data() + at, length - at, MSG_NOSIGNAL);
      if (sent < 0) std::_Exit(0);
      at += static_cast<std::size_t>(sent);
    }
  }
}

/// Sends so many calls and waits for octets; how many came.
class Way {
 public:
  explicit Way(int fd) : fd_(fd) {}
  virtual ~Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;
  virtual std::size_t exchange(std::size_t calls) = 0;
  std::uint64_t system_calls = 0;

 protected:
  const int fd_;
  std::vector<char> out_ = std::vector<char>(kCall * kMostInFlight);
  std::vector<char> in_ = std::vector<char>(kAnswer * kMostInFlight);
};

class Epoll final : public Way {
 public:
  explicit Epoll(int fd) : Way(fd), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
  }
  std::size_t exchange(std::size_t calls) override {
    if (calls != 0) ::send(fd_, out_.data(), calls * kCall, MSG_NOSIGNAL);
    system_calls += calls != 0 ? 1 : 0;
    for (;;) {
      epoll_event event{};
      ::epoll_wait(epoll_, &event, 1, -1);
      const ssize_t got = ::recv(fd_, in_.data(), in_.size(), MSG_DONTWAIT);
      system_calls += 2;
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0 || errno != EAGAIN) fail("recv");
    }
  }

 private:
  const int epoll_;
};

class Uring final : public Way {
 public:
  explicit Uring(int fd) : Way(fd) {
    io_uring_params p{};
    p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    ring_ = static_cast<int>(::syscall(SYS_io_uring_setup, 8, &p));
    if (ring_ < 0) fail("io_uring_setup");
    char* const submitted = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char* const completed = map(p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    entries_ = reinterpret_cast<io_uring_sqe*>(map(p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    tail_ = reinterpret_cast<unsigned*>(submitted + p.sq_off.tail);
    mask_ = *reinterpret_cast<unsigned*>(submitted + p.sq_off.ring_mask);
    array_ = reinterpret_cast<unsigned*>(submitted + p.sq_off.array);
    done_head_ = reinterpret_cast<unsigned*>(completed + p.cq_off.head);
    done_tail_ = reinterpret_cast<unsigned*>(completed + p.cq_off.tail);
    done_mask_ = *reinterpret_cast<unsigned*>(completed + p.cq_off.ring_mask);
    done_ = reinterpret_cast<io_uring_cqe*>(completed + p.cq_off.cqes);
  }
  std::size_t exchange(std::size_t calls) override {
    unsigned count = 1;
    if (calls != 0) {
      io_uring_sqe& send = add(IORING_OP_SEND, out_.data(), calls * kCall);
      send.flags = IOSQE_CQE_SKIP_SUCCESS;
      ++count;
    }
    io_uring_sqe& receive = add(IORING_OP_RECV, in_.data(), in_.size());
    receive.ioprio = IORING_RECVSEND_POLL_FIRST;
    receive.user_data = 1;
    for (;;) {
      if (::syscall(SYS_io_uring_enter, ring_, count, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0)
        fail("io_uring_enter");
      ++system_calls;
      count = 0;
      std::size_t got = 0;
      unsigned head = *done_head_;
      for (; head != std::atomic_ref(*done_tail_).load(std::memory_order_acquire); ++head) {
        const io_uring_cqe& one = done_[head & done_mask_];
        if (one.res <= 0) fail("io_uring");
        got += one.user_data == 1 ? static_cast<std::size_t>(one.res) : 0;
      }
      std::atomic_ref(*done_head_).store(head, std::memory_order_release);
      if (got != 0) return got;
    }
  }

 private:
  char* map(std::size_t size, std::uint64_t what) const {
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_,
                            static_cast<off_t>(what));
    if (at == MAP_FAILED) fail("mmap");
    return static_cast<char*>(at);
  }
  io_uring_sqe& add(unsigned char operation, char* memory, std::size_t size) {
    const unsigned at = *tail_;
    io_uring_sqe& entry = entries_[at & mask_];
    entry = {};
    entry.opcode = operation;
    entry.fd = fd_;
    entry.addr = reinterpret_cast<std::uintptr_t>(memory);
    entry.len = static_cast<unsigned>(size);
    array_[at & mask_] = at & mask_;
    std::atomic_ref(*tail_).store(at + 1, std::memory_order_release);
    return entry;
  }

  int ring_ = -1;
  io_uring_sqe* entries_ = nullptr;
  unsigned *tail_ = nullptr, *array_ = nullptr, *done_head_ = nullptr, *done_tail_ = nullptr;
  unsigned mask_ = 0, done_mask_ = 0;
  io_uring_cqe* done_ = nullptr;
};

/// A connection to a child that serves.
int connected(pid_t& child) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, at, size) != 0 || ::listen(listener, 1) != 0) fail("listen");
  ::getsockname(listener, at, &size);
  const int one = 1;
  child = ::fork();
  if (child == 0) {
    stay_on(1);
    const int fd = ::accept(listener, nullptr, nullptr);
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    serve(fd);
  }
  stay_on(0);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, at, size) != 0) fail("connect");
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::close(listener);
  return fd;
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

template <class Poller>
void run(const char* name, std::size_t depth, std::size_t count) {
  pid_t child = 0;
  const int fd = connected(child);
  const int low_water = depth > 1 ? static_cast<int>(depth * kAnswer / 2) : 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof low_water);
  Poller way(fd);
  const auto began = std::chrono::steady_clock::now();
  const double used = processor_seconds();
  std::size_t have = 0, done = 0;
  for (std::size_t next = depth; done < count;) {
    have += way.exchange(next);
    next = have / kAnswer;
    have %= kAnswer;
    done += next;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const auto all = static_cast<double>(done);
  std::printf("%-6s %2zu in flight: %8.0f READs/s, %5.2f us of CPU time and %.2f system calls each\n", name,
              depth, all / took.count(), (processor_seconds() - used) / all * 1e6,
              static_cast<double>(way.system_calls) / all);
  ::close(fd);
  ::kill(child, SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t depth = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 32;
  const std::size_t count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1'000'000;
  if (depth == 0 || depth > kMostInFlight || count == 0) {
    std::fprintf(stderr, "usage: uring_limit [DEPTH [COUNT]], DEPTH from 1 to %zu\n", kMostInFlight);
    return 2;
  }
  for (int round = 0; round < 3; ++round) {
    run<Epoll>("epoll", depth, count);
    run<Uring>("uring", depth, count);
  }
  return 0;
}
