// A record of one object's attributes as the server returned them last, and of how far they may be used.
//
// Counts are readings of Freshness::count(), which grows with each change and each question of this mount. A
// question with a lower count was asked earlier; "since a count" means with a higher one.
//
// Rules:
//   Which attributes are valid?       newest(): the answer to the latest question, whatever operation carried
//                                     it. learn() drops an answer to an earlier question, whenever it
//                                     arrives. Exception: this mount has altered the object since the earlier
//                                     question. The server may have answered the later question before the
//                                     change, so then the answer that arrives last wins; usually it is the
//                                     answer to the change itself.
//   Are they older than another       They may be (is_stale()) if the server was asked before the last
//   client's close or unlock?         open(2), lock, change of the size or failed write by this mount.
//   Did this mount change them?       changed_since() counts any operation, altered_since() any that is not a
//                                     write. The removal of a name also changes the link count
//                                     (FileNames::lost()).
//   May they answer the kernel's      If keep() allowed that. A change by this mount, another change
//   next GETATTR?                     attribute, the time limit, or another version ends it.
//   May stat(2) get them while        If a WRITE carried them (is_of_write()): other answers may lack the
//   writes are in flight?             time of a write.
//   Which state does the kernel       The change attribute that it was given, unless it was given two:
//   believe in?                       replies overtake each other on the way to the kernel
//                                     (is_sent_to_kernel()). None if the kernel asked before it was sent
//                                     something else of this object (kernel_changes()): it ignores such
//                                     answers.
//   Which state do the kernel's       That of the last open(2), or of what this mount has saved since;
//   pages show?                       unknown if data was lost (cache(), saved()).
//   Did the file's bytes change?      They may have if contents() differs: own writes that begin and end,
//                                     locks, sizes that were set, delegations that end, and other clients'
//                                     changes as they become known.
//
// Freshness changes the record; FileSystem and WriteBehind do so only at lookups, opens and losses of data. A
// plain container, confined to the loop's thread.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "async/world.h"
#include "nfsrdma/types.h"

namespace nfsrdma::fs {

class KnownAttributes {
 public:
  using Count = std::uint64_t;
  using Change = std::uint64_t;

  // ---- what the server said ----

  struct Answer {
    Attributes attributes;  ///< with the mount's numbers
    Count as_of = 0;        ///< count at the time the server was asked
    async::TimePoint came{};
  };
  /// Returns the answer to the latest question; null if none has come.
  [[nodiscard]] const Answer* newest() const { return newest_ ? &*newest_ : nullptr; }
  /// Records the answer to a question of `as_of`. Returns false if the answer to a later question is known.
  bool learn(Attributes said, Count as_of, async::TimePoint came) {
    if (newest_ && as_of < newest_->as_of && !altered_since(as_of)) return false;
    const bool same = newest_ && newest_->attributes.change == said.change;
    if (!same) ++contents_;
    if (!same || is_stale(newest_->as_of)) kept_.reset();
    of_write_ = of_write_ && same && !is_stale(newest_->as_of);
    newest_ = Answer{std::move(said), as_of, came};
    return true;
  }
  [[nodiscard]] bool is_stale(Count as_of) const { return as_of < valid_from_; }
  /// Returns true if an answer is known that is not stale.
  [[nodiscard]] bool is_current() const { return newest_ && !is_stale(newest_->as_of); }
  /// Returns true if the newest answer arrived at or after `since`.
  [[nodiscard]] bool is_confirmed(async::TimePoint since) const { return newest_ && newest_->came >= since; }
  [[nodiscard]] std::uint64_t size() const { return newest_ ? newest_->attributes.size : 0; }
  /// st_ino, or 0 if no answer is known.
  [[nodiscard]] std::uint64_t number() const { return newest_ ? newest_->attributes.file_id : 0; }
  /// Returns true for a directory in which only a file's owner may remove the file.
  [[nodiscard]] bool is_sticky() const {
    return newest_ && newest_->attributes.type == FileType::directory &&
           (newest_->attributes.mode & S_ISVTX) != 0;
  }

  // ---- attributes kept for the kernel's next question ----

  /// Lets the newest answer be given to the kernel until `until`, as long as Freshness::version() equals
  /// `version`.
  void keep(async::TimePoint until, std::uint64_t version) { kept_ = Kept{until, version}; }
  void keep_less(async::Clock::duration time) {
    if (kept_) kept_->until -= time;
  }
  void forget() { kept_.reset(); }
  /// Returns the attributes that keep() allowed, without regard to the time limit, or null.
  [[nodiscard]] const Attributes* kept(std::uint64_t version) const {
    return kept_ && kept_->version == version && is_current() ? &newest_->attributes : nullptr;
  }
  [[nodiscard]] async::TimePoint kept_until() const { return kept_->until; }

  // ---- attributes carried by WRITEs ----

  /// Returns true if a WRITE sent now should carry attributes: it `must`, or none has for the time `every`.
  bool wants(async::TimePoint now, async::Clock::duration every, bool must) {
    if (!must && now - wanted_at_ < every) return false;
    wanted_at_ = now;
    return true;
  }
  /// Marks the newest answer as carried by a WRITE, if it is that of `as_of`.
  void came_with_write(Count as_of) { of_write_ = of_write_ || (newest_ && newest_->as_of == as_of); }
  [[nodiscard]] bool is_of_write() const { return of_write_; }

  // ---- attributes given to the kernel ----

  /// Called when the kernel is given the newest answer, corrected by Freshness.
  void tell(Count when) {
    sent_to_kernel_ = std::max(sent_to_kernel_, when);
    constexpr std::uint32_t kSetId = S_ISUID | S_ISGID;
    set_id_ = newest_->attributes.type == FileType::regular && (newest_->attributes.mode & kSetId) != 0;
  }
  [[nodiscard]] Count sent_to_kernel() const { return sent_to_kernel_; }
  /// Called when the kernel is given attributes of this state, for which it has asked at the count `asked`. `lasts`: with
  /// a validity above zero.
  void tell_state(Change change, bool lasts, Count asked) {
    const bool one_state = !change_sent_to_kernel_ || change_sent_to_kernel_ == change;
    const bool is_taken = asked >= kernel_changed_;
    change_sent_to_kernel_ = one_state && lasts && is_taken ? std::optional(change) : std::nullopt;
  }
  /// Called when the kernel is sent attributes, the answer to a write, or a notification that drops pages or enlarges the
  /// file. It ignores attributes for which it has asked before that (fuse_change_attributes(), attr_version).
  void kernel_changes(Count now) { kernel_changed_ = now; }
  void tell_no_state() { change_sent_to_kernel_.reset(); }
  [[nodiscard]] bool is_sent_to_kernel(Change change) const { return change_sent_to_kernel_ == change; }
  /// Returns true once if the kernel was given set-id bits, which the server clears when the file is written.
  [[nodiscard]] bool take_set_id() { return std::exchange(set_id_, false); }
  /// Called when the kernel is given attributes that are valid as long as a delegation.
  void lift() { lifted_ = true; }
  [[nodiscard]] bool take_lifted() { return std::exchange(lifted_, false); }

  // ---- what the kernel has cached of the contents ----

  [[nodiscard]] bool is_cached() const { return cached_change_.has_value(); }
  /// Called when the file is opened in a state, if known. Returns true if the kernel's pages show that state.
  bool cache(std::optional<Change> change) {
    const bool same = change && cached_change_ == change;
    cached_change_ = change;
    return same;
  }
  /// Called when all written data is on the server's disk, which gave the file this state. If data was `lost`
  /// before, the pages show no known state until the next open.
  void saved(std::optional<Change> change, bool lost) {
    if (cached_change_ || !lost) cached_change_ = change;
    saved_ = changed_;
  }
  [[nodiscard]] bool is_saved() const { return saved_ == changed_; }
  [[nodiscard]] std::uint64_t contents() const { return contents_; }
  void contents_may_differ() { ++contents_; }

  // ---- what this mount does ----

  /// Makes answers to questions before `as_of` stale.
  void valid_from(Count as_of) {
    valid_from_ = std::max(valid_from_, as_of);
    wanted_at_ = {};  // the next WRITE then carries fresh attributes
  }
  /// Called when a write begins or ends, and when the contents may have changed otherwise.
  void changed(Count when) {
    forget();
    contents_may_differ();
    changed_ = when;
  }
  [[nodiscard]] Count changed() const { return changed_; }
  /// Called after changed() if something other than a write set the size, or made it unknown.
  void resized() { resized_ = changed_; }
  [[nodiscard]] bool resized_since(Count as_of) const { return resized_ > as_of; }
  /// Called when an operation that is no write begins to change the attributes. Returns a number for it.
  std::uint64_t begin_altering(Count when) {
    ++altering_;
    forget();
    altered_ = when;
    return ++begun_;
  }
  void end_altering(Count when) {
    altered_ = when;
    --altering_;
  }
  [[nodiscard]] bool is_being_altered() const { return altering_ != 0; }
  /// Returns true if no other such operation is left, and none began after the one with this number.
  [[nodiscard]] bool is_last_altering(std::uint64_t number) const {
    return altering_ == 1 && begun_ == number;
  }
  [[nodiscard]] bool altered_since(Count as_of) const { return is_being_altered() || altered_ > as_of; }
  /// The count of the last change of either kind.
  [[nodiscard]] Count last_change() const { return std::max(changed_, altered_); }
  [[nodiscard]] bool changed_since(Count as_of) const { return is_being_altered() || last_change() > as_of; }

 private:
  struct Kept {
    async::TimePoint until;
    std::uint64_t version;
  };
  std::optional<Answer> newest_;
  std::optional<Kept> kept_;
  bool of_write_ = false;
  async::TimePoint wanted_at_{};
  bool set_id_ = false, lifted_ = false;
  std::optional<Change> change_sent_to_kernel_, cached_change_;
  std::uint64_t contents_ = 0, begun_ = 0;
  unsigned altering_ = 0;
  Count sent_to_kernel_ = 0, kernel_changed_ = 0, valid_from_ = 0, changed_ = 0, resized_ = 0, altered_ = 0,
        saved_ = 0;
};

}  // namespace nfsrdma::fs
