#include "fuse/small_blocks.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace nfsrdma::fuse {

SmallBlocks::~SmallBlocks() {
  for (std::size_t place = 0; place < kPlaces; ++place) {
    while (first_[place] != nullptr) std::free(std::exchange(first_[place], first_[place]->next));
    // Blocks that are given back later, while the thread ends, are freed.
    count_[place] = kMost;
  }
}

void* SmallBlocks::take(std::size_t bytes) noexcept {
  if (bytes > kLargest) return std::malloc(bytes);
  const std::size_t place = place_of(bytes);
  if (first_[place] == nullptr) return std::malloc((place + 1) * kUnit);
  --count_[place];
  return std::exchange(first_[place], first_[place]->next);
}

void SmallBlocks::give(void* block, std::size_t bytes) noexcept {
  const std::size_t place = place_of(bytes);
  if (block == nullptr || bytes > kLargest || count_[place] == kMost) return std::free(block);
  ++count_[place];
  first_[place] = new (block) Free{first_[place]};
}

}  // namespace nfsrdma::fuse
