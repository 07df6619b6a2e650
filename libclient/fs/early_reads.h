// A small file that is opened for reading is read in the same call (Engine::open_and_read), so that a program that opens and
// reads a small file waits for one round trip instead of two. The bytes belong to the open file, for one reader, once.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "fs/open_handle.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class EarlyReads final : Part {
 public:
  explicit EarlyReads(MountState& state) : Part(state) {}

  /// Room for the first bytes of a file that is being opened.
  struct Early {
    async::Memory memory;
    std::size_t wanted;
    async::TimePoint begun;
    std::uint64_t changed;  ///< KnownAttributes::changed() when the open began
    [[nodiscard]] std::span<std::byte> room() const { return {memory.data.get(), wanted}; }
  };
  /// Returns none if an early read does not pay: for a large file, for a file whose pages the kernel may have, and if
  /// recent early reads were not used.
  [[nodiscard]] std::optional<Early> begin(const Inode& inode, int flags);
  /// Gives the first bytes to the handle, if some were read. They do not count if this mount has changed the file since the
  /// open began, or has learned since that another client has.
  static void take(Early early, OpenHandle& file, const Opened& opened);
  /// Called when the file is closed. Notes whether its early bytes were used.
  void judge(const OpenHandle& file);

 private:
  // Score of recent early reads: each one that was used adds one, each other takes one.
  static constexpr int kMostEarlyWorth = 16;
  int early_worth_ = kMostEarlyWorth;
  unsigned early_tries_ = 0;
};

}  // namespace nfsrdma::fs
