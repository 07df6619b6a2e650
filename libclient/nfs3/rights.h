// Remembers what callers may do with files, as the server has said (ACCESS, RFC 1813 3.3.4). An answer is
// valid for as long as the file does not change: a caller that opens the file again need not ask again. The
// server still checks every READ and WRITE itself.
//
// A file has not changed if its `change` (convert.h) is the same; changing the mode, the owner or the ACL
// changes that, too. The table has a fixed size: an entry is lost when another one takes its place. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engine/engine.h"
#include "engine/modifications.h"

namespace nfsrdma::nfs3 {

class KnownRights {
 public:
  using Caller = engine::Caller;

  void learn(const engine::FileHandle& file, const Caller& caller, std::uint64_t change,
             std::uint32_t rights) {
    place(file, caller) = {file, caller, change, rights};
  }
  [[nodiscard]] std::optional<std::uint32_t> of(const engine::FileHandle& file, const Caller& caller,
                                                std::uint64_t change) {
    const Entry& entry = place(file, caller);
    if (entry.file != file || entry.change != change || !is_same(entry.caller, caller)) return std::nullopt;
    return entry.rights;
  }

 private:
  struct Entry {
    engine::FileHandle file;  // no octets: the entry is empty
    Caller caller;
    std::uint64_t change = 0;
    std::uint32_t rights = 0;
  };
  Entry& place(const engine::FileHandle& file, const Caller& caller) {
    const std::size_t who = caller ? std::size_t{caller->uid} + 1 : 0;
    return entries_[(engine::hash_of(file) + who) % entries_.size()];
  }
  std::array<Entry, 512> entries_{};
};

}  // namespace nfsrdma::nfs3
