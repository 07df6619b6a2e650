// What fuse/read_shards.h is for a mount, in the simulator: a shard on the client's own loop, which makes some of the READs
// of the file layer, and takes its time before it gives them back.
//
// The client's Server must outlive it. Confined to the loop's thread.
#pragma once

#include <memory>

#include "async/tasks.h"
#include "connect/server.h"
#include "connect/shard_maker.h"
#include "fs/reads_elsewhere.h"

namespace nfsrdma::sim {

class ShardReads final : public fs::ReadsElsewhere {
 public:
  ShardReads(async::Loop& loop, connect::Server& server);
  ~ShardReads() override;

  bool start(const engine::ServerFileRef& file, const async::Memory& memory, engine::FastRead& read,
             bool ahead) override;
  /// Gives all READs back, and makes no more.
  void stop();
  /// How many READs were made in the shard.
  [[nodiscard]] unsigned made() const { return made_; }
  void begins(std::size_t /*bytes*/) override {}
  void ends(std::size_t /*bytes*/) override {}

 private:
  struct One;
  async::Task<Status> take(std::unique_ptr<engine::Shard> made);
  async::Task<void> run(std::shared_ptr<One> one);
  /// Returns whether the READ was made in the shard.
  static bool end(One& one);

  async::Loop& loop_;
  rpc::Channel channel_;
  connect::ShardMaker maker_;
  std::shared_ptr<engine::Shard> shard_;  // null: there is none that works
  bool stopped_ = false;
  unsigned made_ = 0;
  std::vector<std::shared_ptr<One>> all_;
  async::Tasks tasks_;
};

}  // namespace nfsrdma::sim
