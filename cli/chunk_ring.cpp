// See chunk_ring.h.
#include "cli/chunk_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "cli/report.h"

namespace nfsrdma::cli {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t worth_huge_pages = 4U << 20;
constexpr std::chrono::milliseconds kick_interval{5};
constexpr int kick = SIGUSR1;  // ends a blocking call of the thread; means nothing else

void nothing(int /*number*/) {}

void install_kick() {
  struct sigaction action{};
  action.sa_handler = nothing;  // without SA_RESTART
  sigemptyset(&action.sa_mask);
  sigaction(kick, &action, nullptr);
}

/// Leaves signals to the main thread.
void block_signals_but_kick() {
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, kick);
  pthread_sigmask(SIG_SETMASK, &set, nullptr);
}

}  // namespace

/// Lives as long as one of its buffers is held. The buffer that was given back last is taken first, because
/// its pages are present. May be used on any thread, because the library releases a buffer on the thread that
/// runs it.
class Ring::Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  Buffers(std::byte* memory, std::size_t stride, std::size_t count)
      : memory_(memory), stride_(stride), count_(count) {
    for (std::size_t i = count; i-- > 0;) free_.push_back(i);
  }
  ~Buffers() { munmap(memory_, stride_ * count_); }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  /// Returns null if all buffers are held.
  std::shared_ptr<std::byte> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    const std::size_t index = free_.back();
    free_.pop_back();
    if (index == touched_) touch(touched_++);
    return {memory_ + index * stride_, [self = shared_from_this(), index](std::byte*) { self->put(index); }};
  }

 private:
  /// Makes all pages of a buffer present at once, which is cheaper than one by one as they are used. The
  /// first buffer is left out, because a small file uses few of its pages. A failure does not matter.
  void touch(std::size_t index) const {
    if (index != 0) madvise(memory_ + stride_ * index, stride_, MADV_POPULATE_WRITE);
  }
  void put(std::size_t index) {
    const std::lock_guard lock(mutex_);
    free_.push_back(index);
  }

  std::byte* const memory_;
  const std::size_t stride_, count_;
  std::mutex mutex_;
  std::vector<std::size_t> free_;
  std::size_t touched_ = 0;  // number of buffers that were ever taken: the first ones
};

Result<Ring> Ring::create(std::size_t places, std::size_t buffers, std::size_t chunk_size) {
  const std::size_t stride = (chunk_size + page - 1) / page * page;
  const std::size_t size = stride * buffers;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return local_error(errno, "mmap", "transfer buffers");
  if (size >= worth_huge_pages) madvise(memory, size, MADV_HUGEPAGE);  // only a hint
  Ring ring;
  ring.buffers_ = std::make_shared<Buffers>(static_cast<std::byte*>(memory), stride, buffers);
  ring.chunk_size_ = chunk_size;
  ring.chunks_.resize(places);
  return ring;
}

bool Ring::provide(std::uint64_t number) {
  Chunk& chunk = (*this)[number];
  chunk.keeper.reset();
  const std::shared_ptr<std::byte> buffer = buffers_->take();
  if (!buffer) return false;
  chunk.memory = {buffer.get(), chunk_size_};
  chunk.keeper = buffer;
  return true;
}

LocalStage::LocalStage(Ring& ring, LocalEnd& end) : ring_(ring), end_(end) {
  if (end.immediate()) return;
  event_.emplace();
  if (event_->fd() < 0) {
    error_ = errno;
    return;
  }
  install_kick();
  ended_ = false;
  try {
    thread_ = std::thread([this] { thread_main(); });
  } catch (const std::system_error& failed) {
    error_ = failed.code().value();
  }
}

LocalStage::~LocalStage() {
  if (thread_.joinable()) {
    std::unique_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    // The kick may come just before the thread enters a call that blocks, so it is repeated.
    while (!changed_.wait_for(lock, kick_interval, [this] { return ended_; })) {
      pthread_kill(thread_.native_handle(), kick);
    }
    lock.unlock();
    thread_.join();
  }
}

void LocalStage::allow(std::uint64_t limit) {
  if (end_.immediate()) {
    allowed_ = limit;
    while (passed() < allowed_ && error() == 0) run_one();
    return;
  }
  const std::lock_guard lock(mutex_);
  if (limit == allowed_) return;
  allowed_ = limit;
  changed_.notify_all();
}

void LocalStage::clear_event() {
  if (event_) event_->clear();
}

void LocalStage::run_one() {
  const std::uint64_t number = passed_.load(std::memory_order_relaxed);
  if (const int fault = end_.run(ring_[number], stop_); fault != 0) {
    error_.store(fault, std::memory_order_release);
  } else {
    passed_.store(number + 1, std::memory_order_release);
  }
}

void LocalStage::thread_main() {
  block_signals_but_kick();
  std::unique_lock lock(mutex_);
  while (!stop_ && error() == 0) {
    changed_.wait(lock, [this] { return stop_ || passed() < allowed_; });
    if (stop_) break;
    lock.unlock();
    run_one();
    event_->signal();
    lock.lock();
  }
  ended_ = true;
  changed_.notify_all();
}

}  // namespace nfsrdma::cli
