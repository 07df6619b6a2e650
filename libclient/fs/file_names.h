// The names of one file, as far as this mount takes them away, hides them, or believes in them.
//
// Rules:
//   May a name be taken from it?  Not while an open of it is under way (is_being_opened()), nor may an open begin while a
//                                 name is being taken (is_being_left()): an open that began behind a removal's question
//                                 whether anybody has the file would be left with a file that is gone.
//   Does it keep another name?    The server's link count says so, unless somebody of this mount took a name from it since
//                                 the server was asked, or takes one now (counts_links()).
//   Which names are hidden?       Those that Removal has given it because it was removed while open, until its last close,
//                                 or until somebody renames one of them.
//   Does the name that it was found by lead here?  For as long as believe() said, unless an open by that name was refused.
//   May a thread open it without asking that?      The one that was refused, once, unless a LOOKUP of the file came first.
//
// Where it was found stands in the Inode (Inodes::place). A plain container, confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "async/under_way.h"
#include "engine/engine.h"

namespace nfsrdma::fs {

/// A name to remove when the last open file is closed, since the file was removed while open (a "silly rename"): by the
/// rights of who removed it, since he may write the directory.
struct HiddenName {
  engine::FileHandle directory;
  std::string name;
  engine::Caller caller;
  bool sure = true;  ///< false: the server's answer was lost, and the name may not be there
};

class FileNames {
 public:
  static constexpr std::size_t kMostExcused = 64;  ///< most of them walk the path again and never come back

  /// `settled`: notified when the last open, or the last task that takes a name, has come to its end.
  explicit FileNames(async::Event& settled) : settled_(settled) {}

  // ---- opens, and tasks that take names: both count while their guards live ----
  [[nodiscard]] async::Counted opening() { return {opening_, settled_}; }
  [[nodiscard]] async::Counted leaving() { return {leaving_, settled_}; }
  [[nodiscard]] bool is_being_opened() const { return opening_ != 0; }
  [[nodiscard]] bool is_being_left() const { return leaving_ != 0; }
  /// This mount took a name from it, or tried to. `when`, `as_of`: Freshness::count().
  void lost_one(std::uint64_t when) { lost_ = when; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  /// For the only task that takes a name now: whether a link count that was asked for `as_of` is not older than a loss.
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
  /// A rename has given a hidden file a name again, so the file stays after its close. Unless `sure` the hidden name may
  /// still exist.
  void unhide(const engine::FileHandle& directory, const std::string& name, bool sure) {
    const auto found =
        std::ranges::find_if(hidden_, [&](const HiddenName& one) { return is_at(one, directory, name); });
    if (found == hidden_.end()) return;
    found->sure = false;
    if (sure) hidden_.erase(found);
  }

  // ---- the name that it was found by ----
  /// On a mount for several users, where the kernel believes none.
  void believe(async::TimePoint until) { until_ = until; }
  void believe_less(async::Clock::duration time) { until_ -= time; }
  void doubt() { until_ = {}; }
  [[nodiscard]] bool is_believed(async::TimePoint now) const { return now < until_; }
  /// A LOOKUP has found it.
  void found() { excused_.clear(); }
  /// The thread's open() was refused because the name leads elsewhere.
  void refused(std::uint32_t thread) {
    if (excused_.size() >= kMostExcused) excused_.erase(excused_.begin());
    excused_.push_back(thread);
    doubt();
  }
  /// Whether the thread opens again what it was refused, once: it does not open it by name.
  [[nodiscard]] bool is_second_try(std::uint32_t thread) { return std::erase(excused_, thread) != 0; }

 private:
  static bool is_at(const HiddenName& one, const engine::FileHandle& directory, const std::string& name) {
    return one.name == name && one.directory == directory;
  }

  async::Event& settled_;
  unsigned opening_ = 0, leaving_ = 0;
  std::uint64_t lost_ = 0;
  std::vector<HiddenName> hidden_;
  async::TimePoint until_{};
  std::vector<std::uint32_t> excused_;
};

}  // namespace nfsrdma::fs
