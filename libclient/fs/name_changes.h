// What this mount does to the names of one directory, for whoever holds a page of it that came before: such a
// page must not bring a name back that is gone, nor say what an old name led to.
//
// A name counts from when its change begins, since the server may have executed it at any time from then on.
// Names whose change has ended are remembered only while somebody lists the directory, and kMost at most:
// beyond that every page from before is doubted as a whole.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace nfsrdma::fs {

class NameChanges {
 public:
  static constexpr std::size_t kMost = 4096;
  enum class Verdict : unsigned char {
    as_listed,  ///< nothing was done to it here
    doubtful,   ///< it may lead elsewhere by now, or nowhere: look it up
    gone,       ///< it was removed
  };

  /// A page that is asked for now is `as_of` this.
  [[nodiscard]] std::uint64_t now() const { return count_; }
  [[nodiscard]] Verdict judge(const std::string& name, std::uint64_t as_of) const;
  void begin(const std::string& name);
  /// Once for each begin().
  void end(const std::string& name, bool gone);
  /// Somebody lists the directory, until he leaves.
  void join() { ++readers_; }
  void leave();

 private:
  struct Change {
    std::uint64_t at = 0;
    unsigned under_way = 0;
    bool gone = false;
  };
  void forget_ended();

  std::unordered_map<std::string, Change> changes_;
  std::uint64_t count_ = 0;
  std::uint64_t forgotten_ = 0;  // pages from before this are doubted
  unsigned readers_ = 0;
};

}  // namespace nfsrdma::fs
