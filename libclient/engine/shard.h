// READs and WRITEs on other loops than the engine's, so that several processors work on them at the same time.
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
// A WRITE is prepared, and its answer looked at, by the engine as if it had no shards. Only the call itself is made elsewhere,
// if the engine has been given ShardCalls:
//
//     engine's loop:  shards.start(bytes, make)                       false: the engine makes the call itself
//     shard's loop:   co_await shard.call(call);
//     engine's loop:  call.ended();
//
// If it is not known then whether the server has executed the WRITE, the engine first sees to it that the server does not do so
// later, over something that has been written since.
//
// A Shard that has stopped working is replaced by another one: Protocol::make_shard() (connect/protocol.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "async/function_ref.h"
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

/// A call that a shard makes. It keeps all that the call uses, also if its caller does not wait any more; the server may execute
/// it even then, if it was sent. Begins and ends on the engine's loop.
class ShardCall {
 public:
  ShardCall() = default;
  virtual ~ShardCall() = default;
  ShardCall(const ShardCall&) = delete;
  ShardCall& operator=(const ShardCall&) = delete;
  /// Called once, when no shard has the call any more.
  virtual void ended() = 0;
  /// Returns whether the server has executed the call in the shard.
  [[nodiscard]] virtual bool is_made() const = 0;
};

/// Gives an engine's calls to shards. Confined to the engine's loop.
class ShardCalls {
 public:
  ShardCalls() = default;
  virtual ~ShardCalls() = default;
  ShardCalls(const ShardCalls&) = delete;
  ShardCalls& operator=(const ShardCalls&) = delete;
  /// Has a shard make the call that `make` returns, which moves so many bytes. Returns false, without having called
  /// `make`, if none takes it.
  virtual bool start(std::size_t bytes, async::FunctionRef<std::shared_ptr<ShardCall>()> make) = 0;
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
  /// Makes the call, which ends at its deadline at the latest. If the task is destroyed before, the outcome is not known.
  virtual async::Task<void> call(ShardCall& call) = 0;
  /// Returns false once the server has ended the session or not answered a call in it, or its connection was lost.
  [[nodiscard]] virtual bool works() const = 0;
};

}  // namespace nfsrdma::engine
