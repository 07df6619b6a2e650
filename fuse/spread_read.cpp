#include "fuse/spread_read.h"

#include <utility>

namespace nfsrdma::fuse {

bool SpreadRead::spread(MountShards& all, std::size_t others, std::size_t own, engine::ServerFile& file,
                        std::span<std::byte> data, std::uint64_t offset) {
  MountShards::Place* const place = all.choose(others, own);
  if (place == nullptr) return false;
  read_ = file.prepare_read(data.size(), offset);
  if (!read_) return false;
  all_ = &all;
  place_ = place;
  data_ = data;
  place->thread.make(*this);
  return true;
}

void SpreadRead::has_ended() {
  const std::optional<std::size_t> count = std::exchange(read_, nullptr)->finish();
  place_->has_ended(all_->counters().reads, count);
  has_spread(count);
}

}  // namespace nfsrdma::fuse
