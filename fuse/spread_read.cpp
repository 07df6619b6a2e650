#include "fuse/spread_read.h"

#include <utility>

namespace nfsrdma::fuse {

bool SpreadRead::spread(ReadShards& all, std::size_t others, std::size_t own, engine::ServerFile& file,
                        std::span<std::byte> data, std::uint64_t offset) {
  ReadShards::Place* const place = all.choose(others, own);
  if (place == nullptr) return false;
  read_ = file.prepare_read(data.size(), offset);
  if (!read_) return false;
  all_ = &all;
  place_ = place;
  data_ = data;
  place->thread.read(*this);
  return true;
}

void SpreadRead::has_read() {
  const std::optional<std::size_t> count = std::exchange(read_, nullptr)->finish();
  ShardCounters& counters = all_->counters();
  if (count) {
    place_->maker.has_read();
    ++counters.reads;
    counters.bytes += *count;
  } else {
    ++counters.made_again;
  }
  has_spread(count);
}

}  // namespace nfsrdma::fuse
