#include "nfs4/uncommitted.h"

#include <utility>

namespace nfsrdma::nfs4 {
namespace {
constexpr std::size_t kMostSpare = 32U << 20;
}

void Uncommitted::more(std::size_t bytes) {
  bytes_ += bytes;
  if (all_) *all_ += bytes;
}
void Uncommitted::fewer(std::size_t bytes) {
  bytes_ -= bytes;
  if (all_) *all_ -= bytes;
}
void Uncommitted::count_into(std::shared_ptr<std::size_t> all) {
  if (all_) *all_ -= bytes_;
  all_ = std::move(all);
  *all_ += bytes_;
}

Uncommitted::Storage Uncommitted::copy_of(std::span<const std::byte> data) {
  // What is far too large stays for others: as a piece it would count for much less than it takes.
  while (!spare_.empty() && spare_.back()->capacity() / 2 <= data.size()) {
    Storage storage = std::move(spare_.back());
    spare_.pop_back();
    spare_bytes_ -= storage->capacity();
    if (storage->capacity() < data.size()) continue;  // writes have become larger
    storage->assign(data.begin(), data.end());
    return storage;
  }
  return std::make_shared<std::vector<std::byte>>(data.begin(), data.end());
}

void Uncommitted::keep(Storage storage) {
  if (storage.use_count() != 1 || spare_bytes_ + storage->capacity() > kMostSpare) return;
  spare_bytes_ += storage->capacity();
  spare_.push_back(std::move(storage));
}

/// What is left of a piece that was cut. Where that is less than half, it gets memory of its own.
void Uncommitted::put(Piece piece) {
  if (piece.length < piece.storage->capacity() / 2) {
    Storage whole = std::exchange(piece.storage, copy_of(piece.data()));
    piece.begin = 0;
    keep(std::move(whole));
  }
  more(piece.length);
  pieces_.emplace(piece.offset, std::move(piece));
}

void Uncommitted::add(std::uint64_t offset, std::span<const std::byte> data, const verifier4& verifier) {
  if (data.empty()) return;
  cover(offset, data.size());
  Piece piece;
  piece.offset = offset;
  piece.number = ++last_number_;
  piece.verifier = verifier;
  piece.storage = copy_of(data);
  piece.length = data.size();
  more(piece.length);
  pieces_.emplace(offset, std::move(piece));
}

void Uncommitted::cover(std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = offset + length;
  auto at = pieces_.upper_bound(offset);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const std::uint64_t piece_end = at->second.offset + at->second.length;
    if (piece_end <= offset) {
      ++at;
      continue;
    }
    Piece piece = std::move(at->second);
    fewer(piece.length);
    at = pieces_.erase(at);
    Piece tail;
    if (piece_end > end) {  // what stands behind
      tail = piece;
      const auto skip = static_cast<std::size_t>(end - piece.offset);
      tail.begin += skip;
      tail.length -= skip;
      tail.offset = end;
    }
    if (piece.offset < offset) {  // what stands before
      piece.length = static_cast<std::size_t>(offset - piece.offset);
      put(std::move(piece));
    } else {
      piece.storage = nullptr;
    }
    if (tail.length != 0) put(std::move(tail));
  }
}

void Uncommitted::committed(std::uint64_t number, const verifier4& verifier) {
  for (auto at = pieces_.begin(); at != pieces_.end();) {
    Piece& piece = at->second;
    if (piece.number > number || piece.verifier != verifier) {
      ++at;
      continue;
    }
    fewer(piece.length);
    Storage storage = std::move(piece.storage);
    at = pieces_.erase(at);
    keep(std::move(storage));
  }
}

std::optional<Uncommitted::Piece> Uncommitted::lost(std::uint64_t number, const verifier4& verifier,
                                                    std::uint64_t offset) const {
  for (auto at = pieces_.lower_bound(offset); at != pieces_.end(); ++at) {
    if (at->second.number <= number && at->second.verifier != verifier) return at->second;
  }
  return std::nullopt;
}

}  // namespace nfsrdma::nfs4
