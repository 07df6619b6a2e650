// Makes one shard of a client (engine/shard.h) in the background, and makes it again when it has stopped working, after
// pauses that grow. The owner of the shard's loop says when one is wanted, and takes the shard to that loop.
//
//     if (!works && maker.may_begin()) background.spawn(make());
//
//     async::Task<void> make() {
//       auto made = co_await maker.make(channel);
//       …
//     }
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
  /// `number`: that of the shard among those of the Server. `loop`: the Server's. `notice` hears why there is no shard, once
  /// until one has read something. Server and loop must outlive the ShardMaker.
  ShardMaker(async::Loop& loop, Server& server, std::size_t number,
             std::function<void(const std::string& why)> notice);
  ShardMaker(const ShardMaker&) = delete;
  ShardMaker& operator=(const ShardMaker&) = delete;

  /// Returns true if make() is to be called now: the shard is not being made, the pause after the last attempt is over, and
  /// the server can have shards as far as is known. The next pause begins.
  bool may_begin();
  /// Makes the shard in place of the one before it. `channel`: as Protocol::make_shard() has it. Returns null if that has
  /// failed.
  async::Task<std::unique_ptr<engine::Shard>> make(rpc::Channel& channel);
  /// Called when the shard is made and cannot be used.
  void is_unusable(const Error& why);
  /// Called when the shard has read something: the next pause is short again.
  void has_read();

 private:
  async::Loop& loop_;
  Server& server_;
  const std::size_t number_;
  const std::function<void(const std::string& why)> notice_;
  bool being_made_ = false;
  bool is_missed_ = false;      // a notice has said that there is none
  bool is_impossible_ = false;  // the server can have no shards
  async::TimePoint next_try_{};
  async::Backoff pause_;
};

}  // namespace nfsrdma::connect
