// A READ that a shard of the mount makes (read_shards.h), for a class that has the memory for it.
//
// Confined to the loop's thread, but for what ReadJob says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/engine.h"
#include "fuse/read_shards.h"

namespace nfsrdma::fuse {

class SpreadRead : private ReadJob {
 protected:
  /// Has a shard of `all` make the READ, if ReadShards::choose(others, own) finds one. Returns false if none takes it.
  /// Until has_spread() is called, this object and `data` must stay, and `file` must be open.
  bool spread(ReadShards& all, std::size_t others, std::size_t own, engine::ServerFile& file,
              std::span<std::byte> data, std::uint64_t offset);
  /// Called when the READ is back. No `count`: the caller is to make it again, by ServerFile::read().
  virtual void has_spread(std::optional<std::size_t> count) = 0;
  [[nodiscard]] ReadShards::Place& place() { return *place_; }

 private:
  void has_read() final;
  engine::ShardRead& shard_read() final { return *read_; }
  std::span<std::byte> memory() final { return data_; }

  ReadShards* all_ = nullptr;
  ReadShards::Place* place_ = nullptr;
  std::unique_ptr<engine::ShardRead> read_;
  std::span<std::byte> data_;
};

}  // namespace nfsrdma::fuse
