#include "fabric/iwarp/regions.h"

#include <cassert>
#include <limits>
#include <utility>

namespace nfsrdma::fabric::iwarp {
Region& RegionTable::add(Bytes memory, Use use) {
  std::uint32_t stag = 0;
  while (stag == 0 || find(stag) != nullptr) stag = random_();
  return add(stag, memory, use);
}

Region& RegionTable::add(std::uint32_t stag, Bytes memory, Use use) {
  assert(memory.size() <= max_length && stag != 0 && find(stag) == nullptr);
  if (count_ == buckets_.size()) grow();
  if (free_ == nullptr) free_ = &entries_.emplace_back();
  Entry& entry = *std::exchange(free_, free_->next);
  entry.region = {stag, use, memory, memory.size(), false, 0};
  Entry*& first = buckets_[bucket(stag)];
  entry.next = std::exchange(first, &entry);
  ++count_;
  awaited_ += still_awaited(entry.region);
  all_awaited_ += missing(entry.region);
  return entry.region;
}

bool RegionTable::remove(std::uint32_t stag) {
  Entry** at = &buckets_[bucket(stag)];
  while (*at != nullptr && (*at)->region.stag != stag) at = &(*at)->next;
  if (*at == nullptr) return false;
  Entry& entry = *std::exchange(*at, (*at)->next);
  awaited_ -= still_awaited(entry.region);
  all_awaited_ -= missing(entry.region);
  entry.region = {};
  entry.next = std::exchange(free_, &entry);
  --count_;
  return true;
}

void RegionTable::grow() {
  std::vector<Entry*> old(buckets_.size() * 2);
  old.swap(buckets_);
  for (Entry* entry : old) {
    while (entry != nullptr) {
      Entry* const next = entry->next;
      Entry*& first = buckets_[bucket(entry->region.stag)];
      entry->next = std::exchange(first, entry);
      entry = next;
    }
  }
}

void RegionTable::withdraw(Region& region) {
  assert(!region.withdrawn);
  awaited_ -= still_awaited(region);
  all_awaited_ -= missing(region);
  region.withdrawn = true;
  region.memory = {};
}

void RegionTable::clear() {
  entries_.clear();
  buckets_.assign(kFirstBuckets, nullptr);
  free_ = nullptr;
  count_ = 0;
  awaited_ = all_awaited_ = 0;
}

RegionTable::Checked RegionTable::check(std::uint32_t stag, std::uint64_t offset, std::uint64_t length,
                                        Use use) {
  Region* region = find(stag);
  if (region == nullptr) return {nullptr, Denial::unknown_stag};
  if (region->use != use) return {nullptr, Denial::wrong_use};
  if (length > std::numeric_limits<std::uint64_t>::max() - offset) return {nullptr, Denial::offset_wraps};
  if (offset + length > region->length) return {nullptr, Denial::out_of_bounds};
  return {region, std::nullopt};
}

}  // namespace nfsrdma::fabric::iwarp
