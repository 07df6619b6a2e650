// The shards of a mount (engine/shard.h): threads, each with a session of its own, for those READs of the kernel that are one
// READ of the server (plain_reads.h).
//
// The mount's loop stays the only one that reads the kernel's requests and that knows files. It hands READs over to the
// shards' threads (shard_thread.h).
//
// The threads start when a READ is to be handed over for the first time, and their shards are made in the background then;
// and again when they have stopped working, after pauses that grow. READs that find no shard are made by the mount's loop.
// While a trace is written no READ is handed over: a trace could not be followed if several threads wrote to it.
//
// Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/loop.h"
#include "async/tasks.h"
#include "connect/server.h"
#include "connect/shard_maker.h"
#include "fuse/log.h"
#include "fuse/shard_counters.h"
#include "fuse/shard_thread.h"
#include "fuse/trace_control.h"

namespace nfsrdma::fuse {

class ReadShards {
 public:
  /// A thread, and what makes its shards.
  struct Place {
    Place(async::Loop& loop, connect::Server& server, std::size_t number, std::chrono::milliseconds patience,
          const std::function<void(const std::string&)>& notice);
    ShardThread thread;
    connect::ShardMaker maker;
  };

  /// `server`, `trace` and `loop` must outlive this object. `server` is connected.
  ReadShards(async::Loop& loop, connect::Server& server, std::size_t count, std::chrono::milliseconds timeout,
             const TraceControl& trace, Log log);
  ~ReadShards();
  ReadShards(const ReadShards&) = delete;
  ReadShards& operator=(const ReadShards&) = delete;

  /// Returns a shard for one READ; null if the mount's loop has to make it. The shard is the least busy of those that work,
  /// but no more than `most` of them are used. With few READs for each of many shards, each thread would have to be woken for
  /// each READ.
  [[nodiscard]] Place* choose(std::size_t most);
  /// Ends all threads. The READs that they had are given back before this returns. There is no shard any more.
  void stop();

  [[nodiscard]] ShardCounters& counters() { return counters_; }
  [[nodiscard]] std::size_t working() const;
  [[nodiscard]] std::vector<ConnectionState> connections();

 private:
  void start_threads();
  async::Task<void> make(Place& place);

  async::Loop& loop_;
  connect::Server& server_;
  const std::size_t count_;
  const std::chrono::milliseconds patience_;
  const TraceControl& trace_;
  const Log log_;
  ShardCounters counters_;
  bool ended_ = false;  // or the threads could not be started
  std::vector<std::unique_ptr<Place>> places_;
  async::Tasks making_;  // behind what the tasks use
};

}  // namespace nfsrdma::fuse
