#include "fs/early_reads.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

namespace nfsrdma::fs {

std::optional<EarlyReads::Early> EarlyReads::begin(const Inode& inode, int flags) {
  constexpr std::size_t kMost = 16U << 10, kPage = 4096;
  constexpr unsigned kNowAndThen = 16;
  const bool plain = access_of(flags) == Access::read && (flags & (O_TRUNC | O_DIRECT)) == 0;
  const std::uint64_t size = inode.end();
  if (!plain || size == 0 || size > kMost || inode.type != FileType::regular) return std::nullopt;
  if (inode.attributes.is_cached() || !inode.open.empty() || !inode.writes.empty()) return std::nullopt;
  if (engine_->promises().delegated(inode.handle)) return std::nullopt;
  if (early_worth_ <= 0 && ++early_tries_ % kNowAndThen != 0) return std::nullopt;
  const std::size_t wanted = (size + kPage - 1) / kPage * kPage;
  return Early{loop_.memory().take(wanted), wanted, loop_.now(), inode.attributes.changed()};
}

void EarlyReads::take(Early early, OpenHandle& file, const Opened& opened) {
  file.early_read = true;
  const auto& told = opened.object.attributes;
  const KnownAttributes& known = file.inode().attributes;
  const bool is_newest = told && known.newest() && known.newest()->attributes.change == told->change;
  if (opened.first && is_newest && known.changed() == early.changed && file.inode().writes.empty())
    file.has_read(std::move(early.memory), early.wanted, *opened.first, early.begun);
}

void EarlyReads::judge(const OpenHandle& file) {
  if (file.early_read)
    early_worth_ = std::clamp(early_worth_ + (file.used_early() ? 1 : -1), 0, kMostEarlyWorth);
}

}  // namespace nfsrdma::fs
