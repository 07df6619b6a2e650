// A READ that a shard of the mount makes (mount_shards.h), for a class that has the memory for it.
//
// Confined to the loop's thread, but for what CallJob says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/engine.h"
#include "fuse/mount_shards.h"

namespace nfsrdma::fuse {

class SpreadRead : private CallJob {
 protected:
  /// Has a shard of `all` make the READ, if MountShards::choose(others, own) finds one. Returns false if none takes it.
  /// Until has_spread() is called, this object and `data` must stay, and `file` must be open.
  bool spread(MountShards& all, std::size_t others, std::size_t own, engine::ServerFile& file,
              std::span<std::byte> data, std::uint64_t offset);
  /// Called when the READ is back. No `count`: the caller is to make it again, by ServerFile::read().
  virtual void has_spread(std::optional<std::size_t> count) = 0;
  [[nodiscard]] MountShards::Place& place() { return *place_; }

 private:
  void has_ended() final;
  async::Task<void> make(engine::Shard& shard) final { return shard.read(*read_, data_); }
  [[nodiscard]] bool may_be_dropped() const final { return true; }

  MountShards* all_ = nullptr;
  MountShards::Place* place_ = nullptr;
  std::unique_ptr<engine::ShardRead> read_;
  std::span<std::byte> data_;
};

}  // namespace nfsrdma::fuse
