#include "async/descriptor.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace nfsrdma::async {
namespace {

/// A bit for each descriptor that is owned here, by its number. The bits are atomics because the child of a
/// fork(2) must not take a lock, which a thread that the child does not have may hold. A descriptor with a
/// number beyond the table is closed only by exec(2).
constexpr std::size_t kBits = 64, kMost = std::size_t{1} << 16;
std::array<std::atomic<std::uint64_t>, kMost / kBits> owned;

void mark(int fd, bool is_owned) {
  const auto number = static_cast<std::size_t>(fd);
  if (fd < 0 || number >= kMost) return;
  const std::uint64_t bit = std::uint64_t{1} << number % kBits;
  if (is_owned) {
    owned.at(number / kBits) |= bit;
  } else {
    owned.at(number / kBits) &= ~bit;
  }
}

/// Called in the child of fork(2), which has only this thread.
void close_copies() {
  ++detail::forks;
  for (std::size_t word = 0; word < owned.size(); ++word) {
    std::uint64_t left = owned.at(word).exchange(0);
    for (; left != 0; left &= left - 1) {
      const int copy = static_cast<int>(word * kBits) + std::countr_zero(left);
      ::close(copy);
    }
  }
}

/// If pthread_atfork() fails for lack of memory, children close nothing and do not notice the fork.
[[maybe_unused]] const int told = ::pthread_atfork(nullptr, nullptr, &close_copies);

}  // namespace

std::atomic<unsigned> detail::forks = 0;

Descriptor::Descriptor(int fd) : fd_(fd) {
  mark(fd_, true);
}

void Descriptor::reset() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0 || birth_.is_inherited()) return;
  mark(fd, false);
  ::close(fd);
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count == 0) return EIO;
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace nfsrdma::async
