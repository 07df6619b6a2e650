// A record of this mount's writes to one file, and of their errors.
//
// Rules:
//   What is dirty here?            The writes that are answered and have not ended (PendingWrites). What the server has and
//                                  may lose is the engine's to know (ServerFile::has_unstable_data()).
//   Where does the file end?       At the size that the server said, or further: where a write that is under way ends, or
//                                  one that ended since the server was asked (end_of()). So each write that ends moves the
//                                  end, and where an append goes follows from that. A size that was set, or data that was
//                                  lost, makes what ended before worthless (forget_ended()).
//   Who asks the server for it?    One append at a time; the others wait and use what it learns (finding_end()).
//   May a write be answered early? Not while data was lost and no fsync(2) or close(2) has gone well since
//                                  (LateErrors::failing()).
//   Is data behind close(2) safe?  Not while a save is under way (is_saving()), nor where data was lost behind a close(2)
//                                  (LateErrors::behind_close()).
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
  /// `settled`: notified when a write has ended, and when what the guards below stand for has.
  explicit FileWrites(async::Event& settled) : settled_(settled) {}

  /// PendingWrites::end(), then notifies `settled`.
  void end(Place write, bool written, std::uint64_t changes) {
    PendingWrites::end(write, written, changes);
    settled_.notify_all();
  }

  /// The server is being asked for the size, for an append, while the guard lives.
  [[nodiscard]] async::Flagged finding_end() { return {finding_end_, settled_}; }
  [[nodiscard]] bool is_finding_end() const { return finding_end_; }
  /// An append has begun and is not among the writes yet, because its place is not known, while the guard lives.
  [[nodiscard]] async::Counted placing() { return {placing_, settled_}; }
  [[nodiscard]] bool is_placing() const { return placing_ != 0; }
  /// Data of a close(2) that returned early is being saved while the guard lives.
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
