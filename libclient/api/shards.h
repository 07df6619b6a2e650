// Shards of a client (engine/shard.h): loops, each with a connection and a session, for the blocking reads of the
// program's threads. A thread that reads for the first time takes the shard that fewest threads have, and keeps it.
//
// A read is prepared inside the client (crew.h), made inside the shard, and finished inside the client again. If any of
// that fails, the client reads as it does without shards. So there are no rules for errors here.
//
// A shard is made in the background, on the client's loop, when a thread reads in a place without one; and again when it has
// stopped working, after pauses that grow. Meanwhile the client reads. Only threads that read there run the loop of a
// shard: if the connection has ended since the last read, the next one finds out.
//
// Thread-safety: all functions may be called by any thread that is not inside a shard. A thread that is inside the client
// may go inside a shard, never the other way round. The destructor may not be called while another thread reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "api/crew.h"
#include "async/function_ref.h"
#include "async/tasks.h"
#include "connect/server.h"
#include "connect/shard_maker.h"
#include "engine/engine.h"

namespace nfsrdma::api {

class ClientCore;
class FileCore;
struct How;

class Shards {
 public:
  /// `loop`: the client's, if the shards are to use it too, because it is that of one thread. Null: each has its own.
  Shards(ClientCore& client, connect::Server& server, std::size_t count, async::Loop* loop);
  ~Shards();
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  /// Reads in the shard of this thread. Returns none if the client has to do it; `how` has the time that is left for that.
  /// An Error says that the program does not want the read any more.
  std::optional<Result<std::size_t>> read(FileCore& file, std::span<std::byte> data, std::uint64_t offset,
                                          How& how);

  // ---- called inside the client ----

  /// Cancels the reads with this tag. Returns how many there were.
  std::size_t cancel(std::uint64_t tag);
  /// Ends all reads as interrupted.
  void interrupt();
  /// Cancels all reads, and ends the connections.
  void shut_down();
  /// Returns how many shards work.
  [[nodiscard]] std::size_t working() const;
  /// Adds what the connections have done.
  void add_totals(Info& info) const;

 private:
  struct Place;
  struct Reading;
  class Judging;
  class Visit;
  class Seats;
  [[nodiscard]] Place& place_of_this_thread();
  void want(Place& place);
  std::optional<Error> read_in(Place& place, engine::ShardRead& read, std::span<std::byte> data, How& how);
  std::size_t cancel_if(async::FunctionRef<bool(const Reading&)> wanted);

  ClientCore& client_;
  const std::uint64_t number_;  // among all Shards of the process
  std::mutex seating_;
  std::vector<std::unique_ptr<Place>> places_;
  async::Tasks making_;
};

}  // namespace nfsrdma::api
