// How directories looked last, as far as the server has told: to see whether a call that was sent twice has had an
// effect the first time. A stamp is what changes with each change of a directory: its time of change in NFSv3, its
// change attribute in NFSv4.0.
//
//     const auto before = stamps.of(directory, now);
//     … MKDIR, sent again after its connection was lost, is answered EXIST …
//     if (before && after == *before) …nobody has made the name since: it was there
//
// Every answer that tells a directory's stamp is noted. Answers may overtake each other; the later stamp counts.
// Stamps are times on many servers, and their clocks tick: a change right behind another one has the same stamp. So one
// that was first seen a moment ago proves nothing, and is not given.
// Bounded: a directory whose place another one took is not known any more. Pure.
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
  /// How far the server's times are apart, as it says. (Linux: a tick of its clock, which it does not say.)
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
    FileHandle directory;  // of no octets: none
    Stamp last{};
    async::TimePoint since{};  // when it was seen first
  };
  async::Clock::duration tick_ = kLeastTick;
  std::array<Entry, 256> entries_{};
};

}  // namespace nfsrdma::engine
