#include "locking/held_locks.h"

#include <algorithm>
#include <iterator>

namespace nfsrdma::locking {

void HeldLocks::lock(const LockRange& range, bool write) {
  unlock(range);
  join(pieces_.emplace(range.offset, Piece{range.end(), write}).first);
}

/// Merges `at` with those of its neighbours that adjoin it and are of the same kind.
void HeldLocks::join(std::map<std::uint64_t, Piece>::iterator at) {
  const auto next = std::next(at);
  if (next != pieces_.end() && next->first == at->second.end && next->second.write == at->second.write) {
    at->second.end = next->second.end;
    pieces_.erase(next);
  }
  if (at == pieces_.begin()) return;
  const auto before = std::prev(at);
  if (before->second.end == at->first && before->second.write == at->second.write) {
    before->second.end = at->second.end;
    pieces_.erase(at);
  }
}

void HeldLocks::unlock(const LockRange& range) {
  const std::uint64_t begin = range.offset;
  const std::uint64_t end = range.end();
  auto at = pieces_.upper_bound(begin);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const std::uint64_t piece_begin = at->first;
    const Piece piece = at->second;
    if (piece.end <= begin) {
      ++at;
      continue;
    }
    at = pieces_.erase(at);
    if (piece_begin < begin) pieces_.emplace(piece_begin, Piece{begin, piece.write});
    if (piece.end > end) at = std::next(pieces_.emplace(end, piece).first);
  }
}

std::vector<HeldLock> HeldLocks::list() const {
  std::vector<HeldLock> out;
  out.reserve(pieces_.size());
  for (const auto& [begin, piece] : pieces_)
    out.push_back({LockRange::between(begin, piece.end), piece.write});
  return out;
}

std::vector<HeldLock> HeldLocks::within(const LockRange& range) const {
  std::vector<HeldLock> out;
  for (const auto& [begin, piece] : pieces_) {
    const std::uint64_t from = std::max(begin, range.offset), to = std::min(piece.end, range.end());
    if (from < to) out.push_back({LockRange::between(from, to), piece.write});
  }
  return out;
}

std::vector<LockRange> HeldLocks::not_held(const LockRange& range) const {
  std::vector<LockRange> out;
  std::uint64_t next = range.offset;
  const std::uint64_t end = range.end();
  for (const auto& [begin, piece] : pieces_) {
    if (piece.end <= next) continue;
    if (begin >= end) break;
    if (begin > next) out.push_back(LockRange::between(next, begin));
    next = std::max(next, std::min(piece.end, end));
  }
  if (next < end) out.push_back(LockRange::between(next, end));
  return out;
}

}  // namespace nfsrdma::locking
