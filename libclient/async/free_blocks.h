// Memory for objects that come and go at a high rate: blocks of some sizes are kept, each for the next object of its size.
//
// The C library does so for seven blocks of each size only, and then malloc and free are an eighth of the instructions of a
// create on the mount, and a fifth of a READ's. Who uses this is a thread's pool of coroutine frames (task.h) and the
// daemon's operator new (fuse/operator_new.cpp).
//
// All blocks come from malloc, and any of them may be given to free instead. How many of a size are kept is bounded,
// because if threads share work, one thread may make the objects and another end them. The destructor frees what is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace nfsrdma::async {

/// `Sizes` has kUnit, to whose multiples sizes are rounded up, kLargest, above which nothing is kept, and most(bytes), the
/// number of blocks of a size that are kept.
template <class Sizes>
class FreeBlocks {
 public:
  FreeBlocks() = default;
  /// Blocks that are given back later, while the thread ends, are freed.
  ~FreeBlocks() {
    clear();
    for (std::uint32_t& count : count_) count = std::numeric_limits<std::uint32_t>::max();
  }
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  /// Returns a block of at least this size; null if there is no memory.
  [[nodiscard]] void* take(std::size_t bytes) noexcept {
    if (bytes > Sizes::kLargest) return std::malloc(bytes);
    const std::size_t kind = kind_of(bytes);
    Free*& first = first_[kind];
    if (first == nullptr) return std::malloc((kind + 1) * Sizes::kUnit);
    --count_[kind];
    return std::exchange(first, first->next);
  }

  /// Keeps or frees a block of take(), which was asked for with the same size.
  void give(void* block, std::size_t bytes) noexcept {
    if (block == nullptr || bytes > Sizes::kLargest) return std::free(block);
    const std::size_t kind = kind_of(bytes);
    if (count_[kind] >= Sizes::most((kind + 1) * Sizes::kUnit)) return std::free(block);
    ++count_[kind];
    first_[kind] = new (block) Free{first_[kind]};
  }

  /// Frees what is kept.
  void clear() noexcept {
    for (Free*& first : first_) {
      while (first != nullptr) std::free(std::exchange(first, first->next));
    }
    count_.fill(0);
  }

  /// The number of blocks that are kept for objects of this size.
  [[nodiscard]] std::uint32_t kept(std::size_t bytes) const { return count_[kind_of(bytes)]; }

 private:
  struct Free {
    Free* next;
  };
  static constexpr std::size_t kKinds = Sizes::kLargest / Sizes::kUnit;
  static_assert(Sizes::kLargest % Sizes::kUnit == 0 && Sizes::kUnit >= sizeof(Free));
  /// `bytes` may be 0.
  static constexpr std::size_t kind_of(std::size_t bytes) {
    return bytes == 0 ? 0 : (bytes - 1) / Sizes::kUnit;
  }
  std::array<Free*, kKinds> first_{};
  std::array<std::uint32_t, kKinds> count_{};
};

/// Each thread's own FreeBlocks of these sizes.
template <class Sizes>
class OwnBlocks {
 public:
  static FreeBlocks<Sizes>& get() noexcept {
    if (own_ == nullptr) own_ = &make();
    return *own_;
  }

 private:
  [[gnu::noinline]] static FreeBlocks<Sizes>& make() noexcept {
    static thread_local FreeBlocks<Sizes> blocks;
    return blocks;
  }
  // A pointer, because a thread_local with a destructor costs a call at each use. Its TLS model is left to the compiler:
  // "initial-exec" would keep Python and other programs from loading the library at run time.
  static inline thread_local constinit FreeBlocks<Sizes>* own_ = nullptr;
};

}  // namespace nfsrdma::async
