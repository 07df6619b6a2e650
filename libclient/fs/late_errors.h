// Errors of writes that were reported as successful before they reached the server, and the open files that
// still have to report them.
//
// A file counts its late errors, as Linux's errseq_t does. Every open file description remembers the count at
// the time of its open(2). It reports a later error once, by its next fsync() or close(), and no other
// description takes that report away. It also reports an earlier error if no description had reported that by
// then; otherwise its fsync() would say that the server has the file as all programs have written it.
//
// A description may be shared by processes (fork) and by descriptors (dup). Each close() of a descriptor
// comes here, with an owner that identifies the process; so does the exit of a child that never wrote. Hence:
//   - an error that fsync() reported is not reported again by this description: all who share it can know it;
//   - an error that close() reported is still reported by other owners' close() and by fsync(), because the
//     process that closed does not act for the others; that owner's next close() does not report it again.
// A write() that fails reports nothing in place of these.
//
// A caller whose request was abandoned must not ask: an error counts as reported when it is returned from
// here.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "nfsrdma/result.h"

namespace nfsrdma::fs {

class LateErrors {
 public:
  void add(const Error& error) {
    ++count_;
    last_ = error;
    told_ = false;
    failing_ = true;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Called when an operation by name, rename(2) for example, has failed with the last error.
  void was_told() { told_ = true; }
  /// Called when the file is closed and neither fsync(2) nor close(2) reported the error, because close(2)
  /// had returned early.
  void add_behind_close(const Error& error) {
    behind_close_ = error;
    failing_ = true;
  }
  /// Called when an fsync(2) or close(2) has succeeded.
  void went_well() {
    failing_ = false;
    behind_close_.reset();
  }
  /// Returns whether data was lost since the last fsync(2) or close(2) that succeeded.
  [[nodiscard]] bool failing() const { return failing_; }
  /// Returns the error that lost data after a close(2) had returned, until an fsync(2) or close(2) succeeds.
  [[nodiscard]] const std::optional<Error>& behind_close() const { return behind_close_; }

  /// The errors that one open file description has reported.
  class Listener {
   public:
    explicit Listener(LateErrors& errors)
        : errors_(errors), told_(errors.told_ ? errors.count_ : errors.count_ - 1) {}
    Status at_fsync();
    Status at_close(std::uint64_t owner);
    /// Returns the last error, unless this description has reported it to any owner.
    [[nodiscard]] Status untold() const;

   private:
    Status tell();

    LateErrors& errors_;
    std::uint64_t told_;  // the count at the last fsync() or open()
    /// The count at the last close() of each owner that has been given an error since.
    std::deque<std::pair<std::uint64_t, std::uint64_t>> owners_;
  };

 private:
  std::uint64_t count_ = 0;
  std::optional<Error> last_, behind_close_;
  bool told_ = true;  // the last error was reported, by any description
  bool failing_ = false;
};

}  // namespace nfsrdma::fs
