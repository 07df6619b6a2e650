// The latest known stamps of directories, which show whether a call that was sent twice had an effect the
// first time. A stamp is a value that changes with each change of a directory: its time of change (ctime) in
// NFSv3, its change attribute in NFSv4.0.
//
//     const auto before = stamps.of(directory, now);
//     ... MKDIR, sent again after its connection was lost, is answered EXIST ...
//     if (before && after == *before) ... nobody has made the name since: it existed before the call
//
// Every answer that carries a directory's stamp is noted by seen(). Answers may arrive out of order; the
// later stamp counts. On many servers stamps are times of a clock with coarse ticks, so two changes in quick
// succession may have equal stamps. For this reason of() returns no stamp that was first seen less than a
// tick ago.
//
// Bounded: each hash value has room for one directory, and a new directory displaces the old one. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "async/world.h"
#include "engine/modifications.h"
#include "engine/spot.h"

namespace nfsrdma::engine {

template <class Stamp>
class DirectoryStamps {
 public:
  /// Sets the resolution of the server's times, as the server reports it. (Linux does not report the tick of
  /// its clock.)
  void tick(async::Clock::duration apart) {
    constexpr async::Clock::duration kMost = std::chrono::seconds(5);
    tick_ = std::clamp(2 * apart, kLeastTick, kMost);
  }
  void seen(const FileHandle& directory, const Stamp& stamp, async::TimePoint now) {
    Entry& entry = entries_[hash_of(directory) % entries_.size()];
    if (entry.directory == directory && entry.last >= stamp) return;
    entry.directory = directory;
    entry.last = stamp;
    entry.since = now;
  }
  [[nodiscard]] std::optional<Stamp> of(const FileHandle& directory, async::TimePoint now) const {
    const Entry& entry = entries_[hash_of(directory) % entries_.size()];
    if (entry.directory != directory || now - entry.since < tick_) return std::nullopt;
    return entry.last;
  }

 private:
  static constexpr async::Clock::duration kLeastTick = std::chrono::milliseconds(50);
  struct Entry {
    FileHandle directory;  // zero length: the entry is empty
    Stamp last{};
    async::TimePoint since{};  // when `last` was first seen
  };
  async::Clock::duration tick_ = kLeastTick;
  std::array<Entry, 256> entries_{};
};

}  // namespace nfsrdma::engine
