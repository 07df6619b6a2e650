// How directories looked last, as far as the server has told: to see whether a call that was sent twice has had an
// effect the first time. A stamp is what changes with each change of a directory: its time of change in NFSv3, its
// change attribute in NFSv4.0.
//
//     const auto before = stamps.of(directory);
//     … MKDIR, sent again after its connection was lost, is answered EXIST …
//     if (before && after == *before) …nobody has made the name since: it was there
//
// Every answer that tells a directory's stamp is noted. Answers may overtake each other; the later stamp counts.
// Bounded: a directory whose place another one took is not known any more. Pure.
#pragma once

#include <array>
#include <optional>

#include "engine/modifications.h"
#include "engine/spot.h"

namespace nfsrdma::engine {

template <class Stamp>
class DirectoryStamps {
 public:
  void seen(const FileHandle& directory, const Stamp& now) {
    Entry& entry = entries_[hash_of(directory) % entries_.size()];
    if (entry.directory == directory && entry.last > now) return;
    entry.directory = directory;
    entry.last = now;
  }
  [[nodiscard]] std::optional<Stamp> of(const FileHandle& directory) const {
    const Entry& entry = entries_[hash_of(directory) % entries_.size()];
    if (entry.directory != directory) return std::nullopt;
    return entry.last;
  }

 private:
  struct Entry {
    FileHandle directory;  // of no octets: none
    Stamp last{};
  };
  std::array<Entry, 256> entries_{};
};

}  // namespace nfsrdma::engine
