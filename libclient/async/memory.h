// Memory in large pieces, used again: to have fresh pages from the kernel costs more than most of what is
// done with them.
//
// Confined to the loop's thread, and so is giving Memory up.
#pragma once

#include <cstddef>
#include <memory>

namespace nfsrdma::async {

/// There for as long as somebody has it.
struct Memory {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;  ///< of all that is kept
};

class MemoryPool {
 public:
  /// What is smaller comes from the heap, and goes back there.
  static constexpr std::size_t kLarge = 64U << 10;
  static constexpr std::size_t kMostSpare = 64U << 20;

  MemoryPool();
  /// At least so much, and at most twice so much; not initialised.
  Memory take(std::size_t size);
  /// What has been lying there since this was called last, or all the time.
  void drop_unused();
  [[nodiscard]] std::size_t spare_bytes() const;

 private:
  class Spare;
  std::shared_ptr<Spare> spare_;
};

}  // namespace nfsrdma::async
