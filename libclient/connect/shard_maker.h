// Makes one shard of a client (engine/shard.h) in the background, and makes it again when it has stopped working, after
// pauses that grow. The owner of the shard's loop says when one is wanted, and takes the shard to that loop.
//
//     if (!works && maker.may_begin()) background.spawn(maker.make());
//
// Confined to the thread of the Server's loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "async/backoff.h"
#include "async/loop.h"
#include "async/task.h"
#include "connect/server.h"
#include "engine/shard.h"

namespace nfsrdma::connect {

class ShardMaker {
 public:
  /// Takes a shard that was made to its loop, in place of the one before it. An Error says that it cannot be used.
  using Take = std::function<async::Task<Status>(std::unique_ptr<engine::Shard> shard)>;
  /// `number`: that of the shard among those of the Server. `loop`: the Server's. `channel`: as Protocol::make_shard() has
  /// it. `notice` hears why there is no shard, once until one has made a call. Server, loop and channel must outlive the
  /// ShardMaker.
  ShardMaker(async::Loop& loop, Server& server, std::size_t number, rpc::Channel& channel, Take take,
             std::function<void(const std::string& why)> notice);
  ShardMaker(const ShardMaker&) = delete;
  ShardMaker& operator=(const ShardMaker&) = delete;

  /// Returns true if make() is to be called now: the shard is not being made, the pause after the last attempt is over, and
  /// the server can have shards as far as is known. The next pause begins.
  bool may_begin();
  /// Makes the shard, and ends when it has been taken to its loop, or when that has failed.
  async::Task<void> make();
  /// Called when the shard has made a call: the next pause is short again.
  void has_worked();

 private:
  void is_missing(const Error& why);

  async::Loop& loop_;
  Server& server_;
  const std::size_t number_;
  rpc::Channel& channel_;
  const Take take_;
  const std::function<void(const std::string& why)> notice_;
  bool being_made_ = false;     // or being taken to its loop
  bool is_missed_ = false;      // a notice has said that there is none
  bool is_impossible_ = false;  // the server can have no shards
  async::TimePoint next_try_{};
  async::Backoff pause_;
};

}  // namespace nfsrdma::connect
