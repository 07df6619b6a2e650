// Counters of this client's operations that may change the attributes of files. They show whether attributes
// that were asked for before or during such an operation may be stale.
//
//     const std::uint64_t before = modifications.of(file);
//     ... GETATTR ...
//     if (before == modifications.of(file)) ... no operation of this client can have changed the attributes
//
// Files whose handles have equal hashes share a counter. A change of another file with that hash costs one
// GETATTR. Confined to the loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "engine/spot.h"

namespace nfsrdma::engine {

/// The files whose attributes a call may change. Only regular files have to be listed, as far as the holders
/// of cached attributes must know.
struct Changes {
  bool any = false;                   ///< some file that cannot be known from the call
  std::optional<std::size_t> handle;  ///< hash of the handle of the file that the call changes
};
inline std::size_t hash_of(const FileHandle& handle) {
  return std::hash<std::string_view>()(handle.chars());
}

class Modifications {
 public:
  /// Returns a counter that increases when a call that may change the file's attributes begins, and again
  /// when it ends.
  [[nodiscard]] std::uint64_t of(const FileHandle& file) const {
    return noted_.any + noted_.by_hash[place_of(hash_of(file))];
  }
  /// Returns the value that of() will have after one such call that begins now, if no other overlaps it: a
  /// Scope counts twice.
  [[nodiscard]] std::uint64_t after_call(const FileHandle& file) const { return of(file) + 2; }
  /// Returns whether a call that may change the file's attributes is under way.
  [[nodiscard]] bool is_under_way(const FileHandle& file) const {
    return under_way_.any != 0 || under_way_.by_hash[place_of(hash_of(file))] != 0;
  }

  /// Guards a call from before it is sent until it ends, and counts at both times, because attributes that
  /// were learnt in between may be older than the change.
  class Scope {
   public:
    Scope(Modifications& all, const Changes& changes) : all_(all), changes_(changes) {
      all_.noted_.add(changes_, 1);
      all_.under_way_.add(changes_, 1);
    }
    ~Scope() {
      all_.noted_.add(changes_, 1);
      all_.under_way_.add(changes_, std::uint64_t(-1));
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Modifications& all_;
    const Changes changes_;
  };

 private:
  static constexpr std::size_t kPlaces = 256;
  static std::size_t place_of(std::size_t hash) { return hash % kPlaces; }
  struct Counts {
    std::uint64_t any = 0;
    std::array<std::uint64_t, kPlaces> by_hash{};
    void add(const Changes& changes, std::uint64_t count) {
      if (changes.any) any += count;
      if (changes.handle) by_hash[place_of(*changes.handle)] += count;
    }
  };
  Counts noted_, under_way_;
};

}  // namespace nfsrdma::engine
