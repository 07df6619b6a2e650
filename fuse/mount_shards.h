// The shards of a mount (engine/shard.h): threads, each with a session of its own, for READs and WRITEs, and for the answers to
// the kernel that READs bring.
//
//   READs of the kernel that are one READ of the server           plain_reads.h
//   other READs of the kernel, also those ahead of a reader       fs/open_handle.h
//   the answers to these                                          shard_answers.h
//   READs of rings                                                fs/reading.h
//   WRITEs                                                        nfs4/session/session.h
//
// The mount's loop stays the only one that reads the kernel's requests and that knows files. It hands READs, WRITEs and answers
// over to the shards' threads (shard_thread.h). Each hand-over may be a wake-up of the other thread, which takes some 10 µs
// with one call under way, and next to nothing with many. So it does that only while enough is under way, counted here, and
// uses no more shards than there is load for. READs into the kernel's cache, WRITEs and answers are also handed over if they are
// large and alone: as a rule no program waits for the former two, and the copy of the latter takes longer than the wake-up.
//
// The threads start when something is to be handed over for the first time, and their shards are made in the background then;
// and again when they have stopped working, after pauses that grow. What finds no shard is done by the mount's loop.
// While a trace is written no call is handed over: a trace could not be followed if several threads wrote to it.
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
#include "fs/reads_elsewhere.h"
#include "fuse/log.h"
#include "fuse/shard_counters.h"
#include "fuse/shard_thread.h"
#include "fuse/trace_control.h"

namespace nfsrdma::fuse {

class MountShards final : public fs::ReadsElsewhere, private engine::ShardCalls {
 public:
  /// A thread, and what makes its shards.
  struct Place {
    Place(async::Loop& loop, connect::Server& server, std::size_t number, std::chrono::milliseconds patience,
          const std::function<void(const std::string&)>& notice);
    /// Counts a call that has come back. `bytes`: what it has moved; none: the shard has not made it.
    void has_ended(ShardCounters::Calls& count, std::optional<std::size_t> bytes);
    ShardThread thread;
    connect::ShardMaker maker;
  };

  /// `server`, `trace` and `loop` must outlive this object. `server` is connected.
  MountShards(async::Loop& loop, connect::Server& server, std::size_t count,
              std::chrono::milliseconds timeout, const TraceControl& trace, Log log);
  ~MountShards() override;
  MountShards(const MountShards&) = delete;
  MountShards& operator=(const MountShards&) = delete;

  bool start(const engine::ServerFileRef& file, const async::Memory& memory, engine::FastRead& read,
             bool ahead) override;

  // ---- for the jobs ----
  /// Returns a shard for one READ, WRITE or answer of the load `own`, apart from which `others` is under way; null if that is not
  /// worthwhile, or impossible. With `own` 0 it is worthwhile only because of the others.
  [[nodiscard]] Place* choose(std::size_t others, std::size_t own);
  /// Returns the load of what is under way.
  [[nodiscard]] std::size_t load() const { return load_; }
  [[nodiscard]] static std::size_t load_of(std::size_t bytes);
  void begins(std::size_t bytes) override { load_ += load_of(bytes); }
  void ends(std::size_t bytes) override { load_ -= load_of(bytes); }

  /// Ends all threads. What they had is given back before this returns. There is no shard any more.
  void stop();

  [[nodiscard]] ShardCounters& counters() { return counters_; }
  [[nodiscard]] std::size_t working() const;
  [[nodiscard]] std::vector<ConnectionState> connections();

 private:
  class Elsewhere;
  class Write;
  bool start(std::size_t bytes, async::FunctionRef<std::shared_ptr<engine::ShardCall>()> make) override;
  [[nodiscard]] Place* least_busy(std::size_t most);
  void start_threads();

  async::Loop& loop_;
  connect::Server& server_;
  const std::size_t count_;
  const std::chrono::milliseconds patience_;
  const TraceControl& trace_;
  const Log log_;
  ShardCounters counters_;
  bool ended_ = false;  // or the threads could not be started
  std::size_t load_ =
      0;  // of all READs, answers, and WRITEs in shards under way: their bytes, and a fixed amount for each
  bool spreads_ = false;  // READs are being handed over
  async::Reused<Elsewhere> reads_;
  async::Reused<Write> writes_;
  std::vector<std::unique_ptr<Place>> places_;  // behind the READs and WRITEs, which they give back
  async::Tasks making_;                         // behind what the tasks use
};

}  // namespace nfsrdma::fuse
