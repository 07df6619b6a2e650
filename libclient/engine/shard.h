// READs on other loops than the engine's, so that several processors read at the same time.
//
// What an engine knows of a file belongs to its loop's thread. But a READ needs little of it: a handle and a stateid. So
// it can be made on the loop of a shard, which has a connection and a session of its own:
//
//     engine's loop:  auto read = file.prepare_read(size, offset);    null: use ServerFile::read()
//     shard's loop:   co_await shard.read(*read, data);
//     engine's loop:  auto count = read->finish();                    none: use ServerFile::read()
//
// A shard does what is usual and nothing else. A READ that fails there, in whatever way, is made again by
// ServerFile::read(), which has the rules for errors; a READ does no harm the second time.
//
// A Shard that has stopped working is replaced by another one: Protocol::make_shard() (connect/protocol.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "async/task.h"

namespace nfsrdma::engine {

/// A READ that a shard can make. Begins and ends on the engine's loop; the file must outlive it.
class ShardRead {
 public:
  ShardRead() = default;
  virtual ~ShardRead() = default;
  ShardRead(const ShardRead&) = delete;
  ShardRead& operator=(const ShardRead&) = delete;
  /// Returns how many bytes were read, which are fewer than asked for only at the end of the file. Returns none if the
  /// READ has failed, or if what was read may be outdated.
  [[nodiscard]] virtual std::optional<std::size_t> finish() = 0;
};

/// Confined to its own loop's thread.
class Shard {
 public:
  Shard() = default;
  virtual ~Shard() = default;
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  /// The part of a call's time in which the server has to answer there. Otherwise ServerFile::read() asks it.
  static constexpr int kPatience = 4;
  /// Returns that part of the time of a call, which is long enough for a server that is busy for a moment, and for a silent
  /// connection to be found out first.
  static constexpr std::chrono::nanoseconds patience(std::chrono::nanoseconds all) {
    return std::max<std::chrono::nanoseconds>(all / kPatience, std::chrono::seconds(2));
  }
  /// How long the connection may take. ServerFile::read() reads after that.
  static constexpr std::chrono::seconds kConnecting{2};
  /// Makes the READ. `data` has the size that was prepared. Its outcome is what ShardRead::finish() returns.
  virtual async::Task<void> read(ShardRead& read, std::span<std::byte> data) = 0;
  /// Returns false once the server has ended the session or not answered a call in it, or its connection was lost.
  [[nodiscard]] virtual bool works() const = 0;
};

}  // namespace nfsrdma::engine
