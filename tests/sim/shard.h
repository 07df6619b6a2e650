// What fuse/mount_shards.h is for a mount, in the simulator: a shard on the client's own loop, which makes some of the READs
// and WRITEs of the file layer, and takes its time before it gives them back.
//
// The client's Server must outlive it. Confined to the loop's thread.
#pragma once

#include <memory>

#include "async/tasks.h"
#include "connect/server.h"
#include "connect/shard_maker.h"
#include "fs/reads_elsewhere.h"

namespace nfsrdma::sim {

class ClientShard final : public fs::ReadsElsewhere, private engine::ShardCalls {
 public:
  ClientShard(async::Loop& loop, connect::Server& server);
  ~ClientShard() override;

  bool start(const engine::ServerFileRef& file, const async::Memory& memory, engine::FastRead& read,
             bool ahead) override;
  /// Gives everything back, and makes no more.
  void stop();
  /// How many READs, and how many WRITEs, were made in the shard.
  [[nodiscard]] unsigned reads() const { return reads_; }
  [[nodiscard]] unsigned writes() const { return writes_; }
  void begins(std::size_t /*bytes*/) override {}
  void ends(std::size_t /*bytes*/) override {}

 private:
  struct One;
  bool start(std::size_t bytes, async::FunctionRef<std::shared_ptr<engine::ShardCall>()> make) override;
  bool may_use();
  async::Task<void> call(std::shared_ptr<engine::ShardCall> call);
  async::Task<void> take_time();
  async::Task<Status> take(std::unique_ptr<engine::Shard> made);
  async::Task<void> run(std::shared_ptr<One> one);
  /// Returns whether the READ was made in the shard.
  static bool end(One& one);

  async::Loop& loop_;
  connect::Server& server_;
  rpc::Channel channel_;
  connect::ShardMaker maker_;
  std::shared_ptr<engine::Shard> shard_;  // null: there is none that works
  bool stopped_ = false;
  unsigned reads_ = 0, writes_ = 0;
  std::vector<std::shared_ptr<One>> all_;
  std::vector<std::shared_ptr<engine::ShardCall>> calls_;
  async::Tasks tasks_;
};

}  // namespace nfsrdma::sim
