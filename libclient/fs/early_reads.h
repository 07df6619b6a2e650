// A small file that is opened for reading is read at the same time (Engine::read_early). The open file gets these bytes
// if OPEN finds the file in the state that they belong to, so that a program that reads a small file waits for one
// round trip instead of two.
//
// Confined to the loop's thread.
#pragma once

#include <memory>

#include "fs/open_handle.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class EarlyReads final : Part {
 public:
  explicit EarlyReads(MountState& state) : Part(state) {}

  struct Early;
  /// Begins an early read. Returns null if one does not pay: for a large file, for a file whose pages the
  /// kernel may have, and if recent early reads were not used.
  [[nodiscard]] std::shared_ptr<Early> begin(const Caller& caller, const Inode& inode, int flags);
  /// Gives the early bytes to the handle if they are valid. Their answer usually follows the answer to OPEN at
  /// once; a later one is not waited for (kEarlyWait).
  async::Task<void> take(std::shared_ptr<Early> early, std::shared_ptr<OpenHandle> file, Attributes told);
  /// Called when the file is closed. Notes whether its early bytes were used.
  void judge(const OpenHandle& file);

 private:
  static async::Task<void> read(std::shared_ptr<Engine> engine, Caller caller, FileHandle handle,
                                std::shared_ptr<Early> early);

  // Score of recent early reads: each one that was used adds one, each other takes one.
  static constexpr int kMostEarlyWorth = 16;
  int early_worth_ = kMostEarlyWorth;
  unsigned early_tries_ = 0;
};

}  // namespace nfsrdma::fs
