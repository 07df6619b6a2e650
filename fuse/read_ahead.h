// How far the kernel reads ahead on a mount.
#pragma once

#include <cstddef>
#include <string>

namespace nfsrdma::fuse {

/// FUSE file systems get 128 KiB, in requests of that size, and may only ask for less. Root may set more, in sysfs,
/// once the mount has begun; for others nothing happens. What somebody else has set there since stays as it is.
///
/// It holds for files that are opened from then on. Nothing here waits or fails.
class KernelReadAhead {
 public:
  /// Two of the largest requests that the kernel makes, so that one is under way while the other is used.
  static constexpr std::size_t kLeast = 2U << 20;
  /// What is read around a fault in a mapping is just as much, wanted or not. So the rest is left to the file layer, which
  /// reads ahead of those who read in sequence only.
  static constexpr std::size_t kMost = 8U << 20;

  KernelReadAhead() = default;
  ~KernelReadAhead();
  KernelReadAhead(const KernelReadAhead&) = delete;
  KernelReadAhead& operator=(const KernelReadAhead&) = delete;

  /// The kernel has said what it wants of the mount (FUSE_INIT), and sets nothing by itself any more.
  void begin(const std::string& mountpoint);
  /// The same for a file of sysfs that is given by its name.
  void begin_at(const std::string& file);
  /// So many bytes should be asked for ahead of one reader. Half of it is set, since the kernel asks for as much again
  /// when the reader comes to what it has asked for ahead.
  void follow(std::size_t window);
  /// What it was set to last; 0: nothing was.
  [[nodiscard]] std::size_t bytes() const { return set_; }

 private:
  void set(std::size_t bytes);
  int fd_ = -1;
  std::size_t set_ = 0;
};

}  // namespace nfsrdma::fuse
