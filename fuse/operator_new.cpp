// The daemon's operator new and operator delete: small blocks are kept for the next object (small_blocks.h).
//
// Not under a sanitizer, which has to see the end of each object.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "fuse/small_blocks.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

using nfsrdma::fuse::SmallBlocks;

// A pointer, because a thread_local with a destructor costs a call at each use.
thread_local constinit SmallBlocks* own = nullptr;

SmallBlocks& blocks() noexcept {
  if (own == nullptr) {
    static thread_local SmallBlocks made;
    own = &made;
  }
  return *own;
}

}  // namespace

void* operator new(std::size_t bytes) {
  for (;;) {
    if (void* const block = blocks().take(bytes)) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* block, std::size_t bytes) noexcept {
  blocks().give(block, bytes);
}

void operator delete(void* block) noexcept {
  std::free(block);
}
#endif
