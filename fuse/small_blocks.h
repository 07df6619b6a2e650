// Memory for the many small objects that a request of the kernel makes: requests, open files, strings, entries of tables.
//
// Keeps blocks of up to kLargest bytes, by size, for the next object of that size. The C library does so for seven of each
// size only, and a create needs 66 blocks, so there they were an eighth of its instructions. The daemon's operator new and
// operator delete use it (operator_new.cpp), each thread its own.
//
// All blocks come from malloc, and any of them may be given to free instead. At most kMost blocks of each size are kept,
// 0.5 MB in all. The destructor frees them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nfsrdma::fuse {

class SmallBlocks {
 public:
  static constexpr std::size_t kUnit = 32, kLargest = 512;
  static constexpr std::uint32_t kMost = 128;

  SmallBlocks() = default;
  ~SmallBlocks();
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;

  /// Returns a block of at least this size; null if there is no memory.
  [[nodiscard]] void* take(std::size_t bytes) noexcept;
  /// Keeps or frees a block of take(), which was asked for with the same size.
  void give(void* block, std::size_t bytes) noexcept;
  [[nodiscard]] std::uint32_t kept(std::size_t bytes) const { return count_[place_of(bytes)]; }

 private:
  struct Free {
    Free* next;
  };
  static constexpr std::size_t kPlaces = kLargest / kUnit;
  /// `bytes` may be 0.
  static constexpr std::size_t place_of(std::size_t bytes) { return bytes == 0 ? 0 : (bytes - 1) / kUnit; }
  std::array<Free*, kPlaces> first_{};
  std::array<std::uint32_t, kPlaces> count_{};
};

}  // namespace nfsrdma::fuse
