#include "writing/uncommitted.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace nfsrdma::writing {
namespace {
/// Returns whether the piece may keep its memory: it uses at least half of it, less a header in front of the
/// data.
bool is_worth_it(const Uncommitted::Piece& piece) {
  return piece.bytes.size() * 33 / 16 >= piece.memory.size;
}
}  // namespace

void Uncommitted::more(std::size_t bytes) {
  bytes_ += bytes;
  if (all_) *all_ += bytes;
}
void Uncommitted::fewer(std::size_t bytes) {
  bytes_ -= bytes;
  if (all_) *all_ -= bytes;
}
void Uncommitted::count_into(std::shared_ptr<std::size_t> all) {
  const std::size_t bytes = bytes_;
  fewer(bytes);
  all_ = std::move(all);
  more(bytes);
}

bool Uncommitted::has_other(const Verifier& verifier) const {
  return std::ranges::any_of(pieces_, [&](const auto& one) { return one.second.verifier != verifier; });
}

/// Adds the piece. The bytes are copied if their memory is unknown or is much more than twice as large as the
/// piece.
void Uncommitted::put(Piece piece) {
  if (!piece.memory.data || !is_worth_it(piece)) {
    async::Memory copy = pool_.take(piece.bytes.size());
    std::memcpy(copy.data.get(), piece.bytes.data(), piece.bytes.size());
    piece.bytes = {copy.data.get(), piece.bytes.size()};
    piece.memory = std::move(copy);
  }
  more(piece.bytes.size());
  pieces_.emplace(piece.offset, std::move(piece));
}

void Uncommitted::add(std::uint64_t offset, std::span<const std::byte> data, const Verifier& verifier,
                      const async::Memory& memory, OriginRef origin) {
  if (data.empty()) return;
  cover(offset, data.size());
  Piece piece;
  piece.offset = offset;
  piece.number = ++last_number_;
  piece.verifier = verifier;
  piece.memory = memory;
  piece.bytes = data;
  piece.origin = std::move(origin);
  put(std::move(piece));
}

void Uncommitted::cover(std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = offset + length;
  auto at = pieces_.upper_bound(offset);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const std::uint64_t piece_end = at->second.offset + at->second.bytes.size();
    if (piece_end <= offset) {
      ++at;
      continue;
    }
    Piece piece = std::move(at->second);
    fewer(piece.bytes.size());
    at = pieces_.erase(at);
    std::optional<Piece> tail;
    if (piece_end > end) {  // the part behind the covered range
      tail = piece;
      tail->bytes = piece.bytes.subspan(static_cast<std::size_t>(end - piece.offset));
      tail->offset = end;
    }
    if (piece.offset < offset) {  // the part in front of the covered range
      piece.bytes = piece.bytes.first(static_cast<std::size_t>(offset - piece.offset));
      put(std::move(piece));
    }
    if (tail) put(std::move(*tail));
  }
}

void Uncommitted::committed(std::uint64_t number, const Verifier& verifier) {
  for (auto at = pieces_.begin(); at != pieces_.end();) {
    const Piece& piece = at->second;
    if (piece.number > number || piece.verifier != verifier) {
      ++at;
      continue;
    }
    fewer(piece.bytes.size());
    at = pieces_.erase(at);
  }
}

void Uncommitted::give_up(std::uint64_t number) {
  std::erase_if(pieces_, [&](const auto& one) {
    const Piece& piece = one.second;
    if (piece.number > number) return false;
    fewer(piece.bytes.size());
    return true;
  });
}

std::optional<Uncommitted::Piece> Uncommitted::lost(std::uint64_t number, const Verifier& verifier,
                                                    std::uint64_t offset) const {
  for (auto at = pieces_.lower_bound(offset); at != pieces_.end(); ++at) {
    if (at->second.number <= number && at->second.verifier != verifier) return at->second;
  }
  return std::nullopt;
}

}  // namespace nfsrdma::writing
