// A pool of large memory blocks, which are reused because getting fresh pages from the kernel costs more than
// most of the work that is done with them.
//
// Confined to the loop's thread. Memory must also be given up on that thread.
#pragma once

#include <cstddef>
#include <memory>

namespace nfsrdma::async {

/// A block of memory, which stays allocated as long as a copy of `data` exists.
struct Memory {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;  ///< size of the whole block
};

class MemoryPool {
 public:
  /// The smallest size that is pooled. Smaller blocks come from the heap, and are returned there.
  static constexpr std::size_t kLarge = 64U << 10;
  static constexpr std::size_t kMostSpare = 64U << 20;

  MemoryPool();
  /// Returns a block of at least `size` and at most twice `size` bytes, not initialised.
  Memory take(std::size_t size);
  /// Frees the spare memory that was not used since the last call.
  void drop_unused();
  [[nodiscard]] std::size_t spare_bytes() const;

 private:
  class Spare;
  std::shared_ptr<Spare> spare_;
};

}  // namespace nfsrdma::async
