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
    return noted_.any + noted_.by_hash[place_of(hash_of(file))];
  }
  /// What of() will be when one such call, begun now, has ended, if there is no other meanwhile: a Scope notes
  /// twice.
  [[nodiscard]] std::uint64_t after_call(const FileHandle& file) const { return of(file) + 2; }
  /// A call that may change the file's attributes has begun and not ended.
  [[nodiscard]] bool is_under_way(const FileHandle& file) const {
    return under_way_.any != 0 || under_way_.by_hash[place_of(hash_of(file))] != 0;
  }

  /// A call, from before it is sent: counts at its beginning and at its end, since what was learnt in between
  /// may be of before.
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
