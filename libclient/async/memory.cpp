#include "async/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <utility>

namespace nfsrdma::async {
namespace {

constexpr std::size_t kPage = 4096;

/// Memory directly from the kernel. Giving it up returns it there, whatever else is on the heap.
struct Unmap {
  std::size_t size = 0;
  void operator()(std::byte* block) const { ::munmap(block, size); }
};
using Block = std::unique_ptr<std::byte, Unmap>;

/// Maps a block. All of its pages are made at once, because a fault for each page would cost more.
Block fresh(std::size_t size) {
  void* const block =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();  // like operator new
  return {static_cast<std::byte*>(block), Unmap{size}};
}
std::size_t size_of(const Block& block) {
  return block.get_deleter().size;
}

}  // namespace

class MemoryPool::Spare {
 public:
  void keep(Block block) {
    const std::size_t size = size_of(block);
    if (bytes_ + size > kMostSpare) return;
    bytes_ += size;
    blocks_.emplace(size, std::move(block));
  }
  Block find(std::size_t size) {
    auto found = blocks_.lower_bound(size);
    if (found == blocks_.end() || found->first / 2 > size) return {};
    // Take the block of this size that was returned last, because it is most likely still in the caches.
    found = std::prev(blocks_.upper_bound(found->first));
    Block block = std::move(found->second);
    erase(found);
    return block;
  }
  /// Frees one block, which has another size than is needed, to make room for blocks of the needed size.
  void drop_one() {
    if (!blocks_.empty()) erase(blocks_.begin());
  }
  void drop_unused() {
    const std::size_t used = bytes_ - least_;
    while (bytes_ > used) erase(std::prev(blocks_.end()));
    least_ = bytes_;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  using Blocks = std::multimap<std::size_t, Block>;
  void erase(Blocks::iterator at) {
    bytes_ -= at->first;
    least_ = std::min(least_, bytes_);
    blocks_.erase(at);
  }

  Blocks blocks_;  // by size
  std::size_t bytes_ = 0;
  std::size_t least_ = 0;  // the smallest value of bytes_ since drop_unused()
};

MemoryPool::MemoryPool() : spare_(std::make_shared<Spare>()) {}

void MemoryPool::drop_unused() {
  spare_->drop_unused();
}
std::size_t MemoryPool::spare_bytes() const {
  return spare_->bytes();
}

Memory MemoryPool::take(std::size_t size) {
  if (size < kLarge)
    return {std::shared_ptr<std::byte>(new std::byte[size], std::default_delete<std::byte[]>()), size};
  size = (size + kPage - 1) / kPage * kPage;
  Block block = spare_->find(size);
  if (!block) {
    if (spare_->bytes() > kMostSpare / 2) spare_->drop_one();
    block = fresh(size);
  }
  const Unmap unmap = block.get_deleter();
  return {std::shared_ptr<std::byte>(block.release(),
                                     [unmap, spare = std::weak_ptr(spare_)](std::byte* used) {
                                       Block back(used, unmap);
                                       if (const auto pool = spare.lock()) pool->keep(std::move(back));
                                     }),
          unmap.size};
}

}  // namespace nfsrdma::async
