// Errors of writes whose writer has been told already that they were written, and who is to hear of them.
//
// A file counts its late errors, as Linux's errseq_t does. Every open file description remembers the count as
// of when it was opened: it is told of a later error once, by its next fsync() or close(), and nobody takes
// that away from another one. It is told of an earlier one, too, if nobody had been told by then: else its fsync()
// would say that the file is as all have written it.
//
// A description may be shared by processes (fork) and by descriptors (dup). Each close() of one comes here,
// with an owner that stands for the process; so does the exit of a child that never wrote. Hence:
//   - an error that fsync() told is told by this description no more: all who share it can know;
//   - one that close() told is told to other owners' close() all the same, and to fsync(), since whoever
//     closed it does not speak for them; the same owner's next close() is not told it again.
// A write() that fails takes nothing away.
//
// Whoever waited and has been given up on must not ask: an error counts as told when it is handed out.
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
  /// A call by name has failed with the last one, rename(2) for example.
  void was_told() { told_ = true; }
  /// The file is closed, and neither fsync(2) nor close(2) reported the error, because close(2) had returned early.
  void add_behind_close(const Error& error) {
    behind_close_ = error;
    failing_ = true;
  }
  /// An fsync(2) or close(2) has gone well.
  void went_well() {
    failing_ = false;
    behind_close_.reset();
  }
  /// Data was lost since the last fsync(2) or close(2) that went well.
  [[nodiscard]] bool failing() const { return failing_; }
  /// Why data was lost behind a close(2), until an fsync(2) or close(2) goes well.
  [[nodiscard]] const std::optional<Error>& behind_close() const { return behind_close_; }

  /// What one open file description has been told.
  class Listener {
   public:
    explicit Listener(LateErrors& errors)
        : errors_(errors), told_(errors.told_ ? errors.count_ : errors.count_ - 1) {}
    Status at_fsync();
    Status at_close(std::uint64_t owner);
    /// The last one, if nobody has been told of it.
    [[nodiscard]] Status untold() const;

   private:
    Status tell();

    LateErrors& errors_;
    std::uint64_t told_;  // the count as of the last fsync(), or open()
    /// And as of its last close(), by owner: those that were told something since.
    std::deque<std::pair<std::uint64_t, std::uint64_t>> owners_;
  };

 private:
  std::uint64_t count_ = 0;
  std::optional<Error> last_, behind_close_;
  bool told_ = true;  // the last one was reported, to whomever
  bool failing_ = false;
};

}  // namespace nfsrdma::fs
