#include "fabric/iwarp/regions.h"

#include <cassert>
#include <limits>

namespace nfsrdma::fabric::iwarp {
Region& RegionTable::add(Bytes memory, Use use) {
  assert(memory.size() <= max_length);
  for (;;) {
    const std::uint32_t stag = random_();
    if (stag == 0) continue;
    const auto [entry, is_new] = entries_.try_emplace(stag, Region{stag, use, memory, memory.size()});
    if (!is_new) continue;
    awaited_ += still_awaited(entry->second);
    all_awaited_ += missing(entry->second);
    return entry->second;
  }
}

bool RegionTable::remove(std::uint32_t stag) {
  const auto entry = entries_.find(stag);
  if (entry == entries_.end()) return false;
  awaited_ -= still_awaited(entry->second);
  all_awaited_ -= missing(entry->second);
  entries_.erase(entry);
  return true;
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
  awaited_ = all_awaited_ = 0;
}

Region* RegionTable::find(std::uint32_t stag) {
  const auto entry = entries_.find(stag);
  return entry == entries_.end() ? nullptr : &entry->second;
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
