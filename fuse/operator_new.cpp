// The daemon's operator new and operator delete. A request of the kernel makes many small objects: requests, open files,
// strings, entries of tables. Blocks of up to 2 KB are kept for the next of them (async/free_blocks.h), at most 1.6 MB for
// each thread.
//
// Not compiled for a sanitizer (CMakeLists.txt). Heap profilers see a kept block as in use.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "async/free_blocks.h"

namespace {

struct Small {
  static constexpr std::size_t kUnit = 32, kLargest = 2048;
  static constexpr std::uint32_t most(std::size_t bytes) { return bytes <= 512 ? 128 : 16; }
};
using Blocks = nfsrdma::async::OwnBlocks<Small>;

}  // namespace

void* operator new(std::size_t bytes) {
  for (;;) {
    if (void* const block = Blocks::get().take(bytes)) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* block, std::size_t bytes) noexcept {
  Blocks::get().give(block, bytes);
}

void operator delete(void* block) noexcept {
  std::free(block);
}
