#include "fs/pending_writes.h"

#include <algorithm>

namespace nfsrdma::fs {
namespace {
/// Limit of remembered ends. Two ends are merged into the further one with the later count: a size that is
/// too large for a moment is asked for again, but one that is too small hides data.
constexpr std::size_t kMostEnded = 64;
}  // namespace

PendingWrites::Place PendingWrites::begin(std::uint64_t offset, std::size_t size, bool append) {
  PendingWrite write;
  write.offset = offset;
  write.end = offset + size;
  write.first = write.number = ++last_;
  write.append = append;
  return writes_.insert(writes_.end(), write);
}

void PendingWrites::extend(Place write, std::size_t size, bool append) {
  PendingWrite& longer = at(write);
  longer.end += size;
  longer.number = ++last_;
  longer.append |= append;
}

void PendingWrites::end(Place write, bool written, std::uint64_t changes) {
  const std::uint64_t end = write->end;
  writes_.erase(write);
  ++count_ended_;
  if (!written) return;
  while (!ended_.empty() && ended_.back().end <= end) ended_.pop_back();
  ended_.push_back({changes, end});
  if (ended_.size() <= kMostEnded) return;
  ended_[1].end = ended_[0].end;
  ended_.erase(ended_.begin());
}

bool PendingWrites::any_answered(std::uint64_t up_to, std::uint64_t from, std::uint64_t to) const {
  return std::ranges::any_of(writes_, [&](const PendingWrite& write) {
    return write.answered && write.first <= up_to && write.touches(from, to);
  });
}

bool PendingWrites::any(std::uint64_t up_to, std::uint64_t from, std::uint64_t to) const {
  return std::ranges::any_of(
      writes_, [&](const PendingWrite& write) { return write.first <= up_to && write.touches(from, to); });
}

bool PendingWrites::any_before(Place write) const {
  return std::ranges::any_of(writes_, [&](const PendingWrite& other) {
    return other.number < write->number && other.touches(write->offset, write->end);
  });
}

bool PendingWrites::any_other(Place write, std::uint64_t from, std::uint64_t to) const {
  return std::ranges::any_of(
      writes_, [&](const PendingWrite& other) { return &other != &*write && other.touches(from, to); });
}

bool PendingWrites::any_append() const {
  return std::ranges::any_of(writes_, &PendingWrite::append);
}

bool PendingWrites::empty() const {
  return std::ranges::none_of(writes_, &PendingWrite::answered);
}

std::size_t PendingWrites::answered() const {
  return static_cast<std::size_t>(std::ranges::count_if(writes_, &PendingWrite::answered));
}

std::uint64_t PendingWrites::furthest() const {
  std::uint64_t out = 0;
  for (const PendingWrite& write : writes_) out = std::max(out, write.end);
  return out;
}

std::uint64_t PendingWrites::furthest_unanswered() const {
  std::uint64_t out = 0;
  for (const PendingWrite& write : writes_) {
    if (!write.answered) out = std::max(out, write.end);
  }
  return out;
}

std::optional<std::uint64_t> PendingWrites::written_since(std::uint64_t changes) const {
  std::optional<std::uint64_t> out;
  const auto reaches = [&](std::uint64_t end) { out = std::max(out.value_or(0), end); };
  for (const PendingWrite& write : writes_) {
    if (write.answered) reaches(write.end);
  }
  for (const Ended& write : ended_) {
    if (write.changes > changes) reaches(write.end);
  }
  return out;
}

}  // namespace nfsrdma::fs
