#include "async/memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace nfsrdma::async {
namespace {

constexpr std::size_t kPage = 4096;

struct Free {
  void operator()(std::byte* block) const { ::operator delete(block, std::align_val_t(kPage)); }
};
using Block = std::unique_ptr<std::byte, Free>;

Block fresh(std::size_t size) {
  Block block(static_cast<std::byte*>(::operator new(size, std::align_val_t(kPage))));
  // All pages in one go, instead of a fault for each. Linux before 5.14 does not know how.
  ::madvise(block.get(), size, MADV_POPULATE_WRITE);
  return block;
}

}  // namespace

class MemoryPool::Spare {
 public:
  void keep(std::size_t size, Block block) {
    if (bytes_ + size > kMostSpare) return;
    bytes_ += size;
    blocks_.emplace(size, std::move(block));
  }
  Block find(std::size_t& size) {
    const auto found = blocks_.lower_bound(size);
    if (found == blocks_.end() || found->first / 2 > size) return nullptr;
    size = found->first;
    bytes_ -= size;
    return std::move(blocks_.extract(found).mapped());
  }
  /// Of another size, to make room for those that are asked for now.
  void drop_one() {
    if (blocks_.empty()) return;
    bytes_ -= blocks_.begin()->first;
    blocks_.erase(blocks_.begin());
  }
  void drop_all() {
    blocks_.clear();
    bytes_ = 0;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::multimap<std::size_t, Block> blocks_;
  std::size_t bytes_ = 0;
};

MemoryPool::MemoryPool() : spare_(std::make_shared<Spare>()) {}

void MemoryPool::drop_spare() {
  spare_->drop_all();
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
  return {std::shared_ptr<std::byte>(block.release(),
                                     [size, spare = std::weak_ptr(spare_)](std::byte* used) {
                                       Block back(used);
                                       if (const auto pool = spare.lock()) pool->keep(size, std::move(back));
                                     }),
          size};
}

}  // namespace nfsrdma::async
