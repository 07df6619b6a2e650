// A shard of NFSv4.1 and 4.2 (engine/shard.h): a session under the client id of another session, for READs of files that
// are open there. State belongs to the client id, and a client id may have many sessions (RFC 8881 2.10).
//
// The session has no backchannel, because the first session has one. So its connection is made known by its first
// SEQUENCE (2.10.3.1). It takes no part in recovery: if the server does not know it any more or has not answered a call in
// it, or if its connection was lost, it stops working, and Session::make_shard() makes another one.
//
// A server that has taken the place of another one may know the session, and not have what was written there and not stable.
// The Session finds that out by its own connections (ClientLease::server_instance()). So an answer in a shard counts only if
// it came over the shard's one connection, and if the Session has had an answer after that was made.
//
// Confined to the thread of its channel's loop. It uses nothing of the Session that it was made by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/shard.h"
#include "engine/statistics.h"
#include "nfs4/session/fast_reads.h"
#include "nfs4/session/handshake.h"
#include "nfs4/session/read_call.h"
#include "nfs4/session/slot_queue.h"

namespace nfsrdma::nfs4 {

class Session;

/// Confined to the thread of the Session's loop, but for what a Shard uses.
class PreparedRead final : public engine::ShardRead {
 public:
  PreparedRead(Session& session, FastReadFile& file, std::size_t size, std::uint64_t offset);
  std::optional<std::size_t> finish() override;

  // ---- for the shard ----
  [[nodiscard]] const ReadTemplate& made() const { return file_.made; }
  const std::uint64_t offset;
  const stateid4 stateid;
  const async::TimePoint deadline;
  /// The answer, if the READ has succeeded.
  struct Answer {
    std::size_t count = 0;
    std::uint32_t status_flags = 0;
    std::size_t sent = 0, received = 0;  ///< bytes
    rpcrdma::Trip trip;
    async::TimePoint connected;  ///< when the connection was made that the answer came over
  };
  std::optional<Answer> answer;
  const std::uint64_t epoch;

 private:
  Session& session_;
  FastReadFile& file_;
  const async::Use in_use_;
  const std::uint64_t as_of_;
  const Lease::Sent sent_;
};

class Shard final : public engine::Shard {
 public:
  Shard(rpc::Channel& channel, const Handshake::FurtherSession& session);
  async::Task<void> read(engine::ShardRead& read, std::span<std::byte> data) override;
  [[nodiscard]] bool works() const override { return works_; }

 private:
  void take_outcome(PreparedRead& read, SlotTable::Use& use, rpc::Outcome outcome, std::size_t asked);
  void stop();

  rpc::Channel& channel_;
  const Handshake::FurtherSession session_;
  engine::ServerCounters counters_;  // of the slots; calls are counted by the Session
  SlotQueue slots_;
  std::optional<std::uint64_t>
      generation_;  // the channel's, of the shard's one connection; none: nothing was sent
  bool works_ = true;
};

}  // namespace nfsrdma::nfs4
