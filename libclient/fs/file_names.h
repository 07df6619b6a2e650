// The names of one file: which of them this mount is removing, has hidden, or still considers valid.
//
// Rules:
//   May a name be taken from it?      Not while an open of it is under way (is_being_opened()). Conversely no
//                                     open may begin while a name is being taken (is_being_left()): an open
//                                     that began after a removal had checked that no program has the file
//                                     open would be left with a file that is gone.
//   Does it keep another name?        The server's link count says so, unless another task of this mount took
//                                     a name from it since the server was asked, or takes one now
//                                     (counts_links()).
//   Which names are hidden?           The names that Removal has given it because it was removed while open.
//                                     They stay hidden until its last close, or until a program renames one
//                                     of them.
//   Does the name that it was found   For as long as believe() said, unless an open by that name was refused.
//   by still lead here?
//
// The place where it was found is in the Inode (Inodes::place), and the other names that the kernel may use
// are in OtherNames. A plain container, confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "async/under_way.h"
#include "engine/engine.h"

namespace nfsrdma::fs {

/// A name that is removed when the last open file is closed, because the file was removed while open (a
/// "silly rename"). It is removed with the rights of the user who removed the file, since that user may write
/// the directory.
struct HiddenName {
  engine::FileHandle directory;
  std::string name;
  engine::Caller caller;
  bool sure = true;  ///< false: the server's answer was lost, and the name may not be there
};

class FileNames {
 public:
  /// `settled` is notified when the last open, or the last task that takes a name, has ended.
  explicit FileNames(async::Event& settled) : settled_(settled) {}

  // ---- opens, and tasks that take names: both count while their guards live ----
  [[nodiscard]] async::Counted opening() { return {opening_, settled_}; }
  [[nodiscard]] async::Counted leaving() { return {leaving_, settled_}; }
  [[nodiscard]] bool is_being_opened() const { return opening_ != 0; }
  [[nodiscard]] bool is_being_left() const { return leaving_ != 0; }
  /// Called when this mount took a name from the file, or tried to. `when` and `as_of` are readings of
  /// Freshness::count().
  void lost_one(std::uint64_t when) { lost_ = when; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  /// Called by a task that takes a name. Returns true if a link count that was asked for at `as_of` is valid:
  /// no other task takes a name now, and none has since `as_of`.
  [[nodiscard]] bool counts_links(std::uint64_t as_of) const { return leaving_ == 1 && lost_ <= as_of; }

  // ---- hidden names ----
  void hide(HiddenName where) { hidden_.push_back(std::move(where)); }
  [[nodiscard]] std::vector<HiddenName> take_hidden() { return std::exchange(hidden_, {}); }
  [[nodiscard]] bool any_hidden() const { return !hidden_.empty(); }
  [[nodiscard]] bool is_hidden() const { return std::ranges::any_of(hidden_, &HiddenName::sure); }
  [[nodiscard]] bool is_hidden_in(const engine::FileHandle& directory) const {
    return std::ranges::find(hidden_, directory, &HiddenName::directory) != hidden_.end();
  }
  [[nodiscard]] bool is_hidden_at(const engine::FileHandle& directory, const std::string& name) const {
    return std::ranges::any_of(hidden_, [&](const HiddenName& one) { return is_at(one, directory, name); });
  }
  /// Called when a rename has given a hidden file a regular name again, so that the file stays after its
  /// close. Unless `sure` the hidden name may still exist.
  void unhide(const engine::FileHandle& directory, const std::string& name, bool sure) {
    const auto found =
        std::ranges::find_if(hidden_, [&](const HiddenName& one) { return is_at(one, directory, name); });
    if (found == hidden_.end()) return;
    found->sure = false;
    if (sure) hidden_.erase(found);
  }

  // ---- the name that it was found by ----
  /// Used on a mount for several users, where the kernel caches no names: the name is valid until this time.
  void believe(async::TimePoint until) { until_ = until; }
  void believe_less(async::Clock::duration time) { until_ -= time; }
  void doubt() { until_ = {}; }
  [[nodiscard]] bool is_believed(async::TimePoint now) const { return now < until_; }

 private:
  static bool is_at(const HiddenName& one, const engine::FileHandle& directory, const std::string& name) {
    return one.name == name && one.directory == directory;
  }

  async::Event& settled_;
  unsigned opening_ = 0, leaving_ = 0;
  std::uint64_t lost_ = 0;
  std::vector<HiddenName> hidden_;
  async::TimePoint until_{};
};

}  // namespace nfsrdma::fs
