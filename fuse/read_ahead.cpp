#include "fuse/read_ahead.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "fuse/mountinfo.h"

namespace nfsrdma::fuse {
namespace {

constexpr std::size_t kUnit = 1024;  // unit of read_ahead_kb
constexpr std::size_t kStep = 64U << 10;

/// Returns the value in the file, or 0 if it cannot be read.
std::size_t set_now(int fd) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  std::size_t out = 0;
  if (got > 0) (void)std::from_chars(text.data(), text.data() + got, out);
  return out * kUnit;
}

}  // namespace

void KernelReadAhead::begin(const std::string& mountpoint) {
  if (const auto mount = mounted_at(mountpoint))
    begin_at("/sys/class/bdi/" + mount->device + "/read_ahead_kb");
}

void KernelReadAhead::begin_at(const std::string& file) {
  fd_ = async::Descriptor(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (fd_.is_valid()) set(kLeast);
}

void KernelReadAhead::follow(std::size_t window) {
  const std::size_t wanted = std::clamp(window / 2 / kStep * kStep, kLeast, kMost);
  if (set_ == 0 || wanted == set_ || set_now(fd_.get()) != set_) return;
  set(wanted);
}

void KernelReadAhead::set(std::size_t bytes) {
  const std::string text = std::to_string(bytes / kUnit);
  const bool done = ::pwrite(fd_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (done) set_ = set_now(fd_.get());  // the kernel rounds to pages
}

}  // namespace nfsrdma::fuse
