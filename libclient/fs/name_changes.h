// A record of this mount's changes of names in one directory, for code that holds a page of the directory
// from before: such a page must not restore a name that is gone, nor say what a name led to before the
// change.
//
// A change counts from its beginning, because the server may execute it at any time from then on. Changes
// that have ended are remembered only while a program lists the directory, and at most kMost of them. Beyond
// that all older pages are doubted as a whole.
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
    as_listed,  ///< this mount has not changed the name
    doubtful,   ///< the name may lead elsewhere by now, or nowhere, and has to be looked up
    gone,       ///< the name was removed
  };

  /// Returns the `as_of` of a page that is asked for now.
  [[nodiscard]] std::uint64_t now() const { return count_; }
  [[nodiscard]] Verdict judge(const std::string& name, std::uint64_t as_of) const;
  void begin(const std::string& name);
  /// Called once for each begin().
  void end(const std::string& name, bool gone);
  /// Called when a program begins to list the directory. leave() follows.
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
  std::uint64_t forgotten_ = 0;  // older pages are doubted
  unsigned readers_ = 0;
};

}  // namespace nfsrdma::fs
