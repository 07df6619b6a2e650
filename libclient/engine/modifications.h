// What this client does that may change the attributes of files: so that nobody believes in attributes that
// were asked for before, or meanwhile.
//
//     const std::uint64_t before = modifications.of(file);
//     … GETATTR …
//     if (before == modifications.of(file)) …nothing of this client's may have changed them
//
// Files whose handles have the same hash count together: a counter that changes for another file's sake costs
// one GETATTR. Confined to the loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "engine/spot.h"

namespace nfsrdma::engine {

/// Whose attributes a call may change: those of regular files, as far as whoever keeps them must know.
struct Changes {
  bool any = false;                   ///< of a file that the call does not tell
  std::optional<std::size_t> handle;  ///< hashed: of the file with this handle
};
inline std::size_t hash_of(const FileHandle& handle) {
  return std::hash<std::string_view>()(handle.chars());
}

class Modifications {
 public:
  /// Changes with each call that may change the file's attributes, when it is begun and when it has ended.
  [[nodiscard]] std::uint64_t of(const FileHandle& file) const {
    return any_ + by_hash_[hash_of(file) % by_hash_.size()];
  }
  /// What of() will be when one such call, begun now, has ended, if there is no other meanwhile: a Scope notes
  /// twice.
  [[nodiscard]] std::uint64_t after_call(const FileHandle& file) const { return of(file) + 2; }

  /// A call, from before it is sent: counts at its beginning and at its end, since what was learnt in between
  /// may be of before.
  class Scope {
   public:
    Scope(Modifications& all, const Changes& changes) : all_(all), changes_(changes) { all_.note(changes_); }
    ~Scope() { all_.note(changes_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Modifications& all_;
    const Changes changes_;
  };

 private:
  void note(const Changes& changes) {
    if (changes.any) ++any_;
    if (changes.handle) ++by_hash_[*changes.handle % by_hash_.size()];
  }
  std::uint64_t any_ = 0;
  std::array<std::uint64_t, 256> by_hash_{};
};

}  // namespace nfsrdma::engine
