// A record of this mount's writes to one file, and of their errors.
//
// Rules:
//   Which data is dirty here?        The writes that are answered and have not ended (PendingWrites). The
//                                    engine knows which data the server has and may still lose
//                                    (ServerFile::has_unstable_data()).
//   Where does the file end?         At the size that the server reported, or further: where a write ends
//                                    that is under way, or that has ended since the server was asked
//                                    (end_of()). So each write that ends moves the end of the file, and the
//                                    position of an append follows from it. If the size was set, or data was
//                                    lost, the ends of earlier writes no longer count (forget_ended()).
//   Who asks the server for it?      One append at a time; the others wait and use the answer
//                                    (finding_end()).
//   May a write be answered early?   Not if data was lost and no fsync(2) or close(2) has succeeded since
//                                    (LateErrors::failing()).
//   Is data of a finished close(2)   Not while a save is under way (is_saving()), nor if data was lost after
//   safe?                            a close(2) had returned (LateErrors::behind_close()).
//
// WriteBehind and DeferredCloses write here. A plain container, confined to the loop's thread.
#pragma once

#include <cstdint>

#include "async/under_way.h"
#include "fs/late_errors.h"
#include "fs/pending_writes.h"

namespace nfsrdma::fs {

class FileWrites : public PendingWrites {
 public:
  /// `settled` is notified when a write has ended, and when an activity has ended that one of the guards
  /// below stands for.
  explicit FileWrites(async::Event& settled) : settled_(settled) {}

  /// Does what PendingWrites::end() does, then notifies `settled`.
  void end(Place write, bool written, std::uint64_t changes) {
    PendingWrites::end(write, written, changes);
    settled_.notify_all();
  }

  /// While the guard lives, the server is being asked for the size on behalf of an append.
  [[nodiscard]] async::Flagged finding_end() { return {finding_end_, settled_}; }
  [[nodiscard]] bool is_finding_end() const { return finding_end_; }
  /// While the guard lives, an append has begun that is not among the writes yet, because its offset is not
  /// known.
  [[nodiscard]] async::Counted placing() { return {placing_, settled_}; }
  [[nodiscard]] bool is_placing() const { return placing_ != 0; }
  /// While the guard lives, data of a close(2) that returned early is being saved.
  [[nodiscard]] async::Counted saving() { return {saving_, settled_}; }
  [[nodiscard]] bool is_saving() const { return saving_ != 0; }

  [[nodiscard]] LateErrors& errors() { return errors_; }
  [[nodiscard]] const LateErrors& errors() const { return errors_; }

 private:
  async::Event& settled_;
  bool finding_end_ = false;
  unsigned placing_ = 0;
  unsigned saving_ = 0;
  LateErrors errors_;
};

}  // namespace nfsrdma::fs
