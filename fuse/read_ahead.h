// Sets how far the kernel reads ahead on a mount.
#pragma once

#include <cstddef>
#include <string>

#include "async/descriptor.h"

namespace nfsrdma::fuse {

/// FUSE file systems get a read-ahead of 128 KiB, in requests of that size, and may only ask for less. Root
/// may set more, in sysfs, once the mount has begun; for other users nothing happens. If another program has
/// changed the value there since, it stays as it is.
///
/// A new value holds for files that are opened from then on. Nothing here waits or fails.
class KernelReadAhead {
 public:
  /// Two of the largest requests that the kernel makes, so that one is under way while the other is used.
  static constexpr std::size_t kLeast = 2U << 20;
  /// The kernel reads just as much around a fault in a mapping, wanted or not. Reading further ahead is
  /// therefore left to the file layer, which does so for sequential readers only.
  static constexpr std::size_t kMost = 8U << 20;

  /// Called after FUSE_INIT, when the kernel no longer sets the value by itself.
  void begin(const std::string& mountpoint);
  /// Begins with a file of sysfs that is given by its name.
  void begin_at(const std::string& file);
  /// Sets the value so that about `window` bytes are asked for ahead of one reader. The value is half of the
  /// window, because the kernel asks for as much again when the reader comes to data that was read ahead.
  void follow(std::size_t window);
  /// Returns the value that was set last; 0: none was.
  [[nodiscard]] std::size_t bytes() const { return set_; }

 private:
  void set(std::size_t bytes);
  async::Descriptor fd_;
  std::size_t set_ = 0;
};

}  // namespace nfsrdma::fuse
