// When directories changed last, as far as the server has told: to see whether a call that was sent twice has had
// an effect the first time.
//
//     const auto before = times.of(directory);
//     … MKDIR, sent again after its connection was lost, is answered EXIST …
//     if (before && !has_changed(*before, wcc.after)) …nobody has made the name since: it was there
//
// Every answer that tells a directory's attributes is noted. Answers may overtake each other; the later time
// counts. Bounded: a directory whose place another one took is not known any more. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>

#include "engine/modifications.h"
#include "nfs3/types/types.h"

namespace nfsrdma::nfs3 {

class DirectoryTimes {
 public:
  void seen(const engine::FileHandle& directory, const post_op_attr& attributes) {
    if (!attributes) return;
    Entry& entry = entries_[engine::hash_of(directory) % entries_.size()];
    const bool known = entry.directory == directory;
    if (known && later(entry.changed, attributes->ctime)) return;
    entry.directory = directory;
    entry.changed = attributes->ctime;
  }
  [[nodiscard]] std::optional<nfstime3> of(const engine::FileHandle& directory) const {
    const Entry& entry = entries_[engine::hash_of(directory) % entries_.size()];
    if (entry.directory != directory) return std::nullopt;
    return entry.changed;
  }

 private:
  struct Entry {
    engine::FileHandle directory;  // of no octets: none
    nfstime3 changed{};
  };
  static bool later(const nfstime3& a, const nfstime3& b) {
    return std::tie(a.seconds, a.nseconds) > std::tie(b.seconds, b.nseconds);
  }
  std::array<Entry, 256> entries_{};
};

}  // namespace nfsrdma::nfs3
