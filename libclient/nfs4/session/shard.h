// A shard of NFSv4.1 and 4.2 (engine/shard.h): a session under the client id of another session, for READs and WRITEs of
// files that are open there. State belongs to the client id, and a client id may have many sessions (RFC 8881 2.10).
//
// The session has no backchannel, because the first session has one. So its connection is made known by its first
// SEQUENCE (2.10.3.1). It takes no part in recovery: if the server does not know it any more or has not answered a call in
// it, or if its connection was lost, it stops working, and Session::make_shard() makes another one.
//
// A server that has taken the place of another one may know the session, and not have what was written there and not stable.
// The Session finds that out by its own connections (ClientLease::server_instance()). So an answer in a shard counts only if
// it came over the shard's one connection, and if the Session has had an answer after that was made.
//
// A call that changes something (PreparedCall) is sent again in its slot when the connection was lost, as the channel does it,
// and while the server still executes it. If it was sent and has no answer in the end, the session of the shard is destroyed
// before the call is made again elsewhere: until then the server may still execute it (18.37.3).
//
// Confined to the thread of its channel's loop. It uses nothing of the Session that it was made by.
#pragma once

#include <atomic>
#include <coroutine>
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

/// A call of the Session's call loop, which awaits it by end(). Confined to the thread of the Session's loop, but for what a
/// Shard uses.
class PreparedCall final : public engine::ShardCall {
 public:
  /// Takes the message out of `compound`.
  PreparedCall(Compound& compound, std::uint32_t max_response, async::TimePoint until,
               std::uint64_t in_epoch);
  void ended() override;
  [[nodiscard]] bool is_made() const override { return made_by_.has_value(); }
  /// co_await prepared.end() waits for ended().
  class End;
  [[nodiscard]] End end();
  /// Returns the Call's message, and the answer if there is one.
  rpc::Outcome take_outcome();
  /// The session in which the server may still execute the call; none: it was not sent, or has been executed.
  std::optional<sessionid4> sent_in;
  /// When the connection was made that the answer came over. Only if is_made().
  [[nodiscard]] async::TimePoint connected() const { return *made_by_; }

  // ---- for the shard ----
  /// Whether nobody waits for the call any more, so that it is not to be sent.
  [[nodiscard]] bool is_given_up() const { return given_up_; }
  /// Takes the message out, for one transmission.
  [[nodiscard]] rpcrdma::Call call(const SEQUENCE4args& sequence, async::TimePoint until);
  const char* const what;
  const async::TimePoint deadline;
  const std::uint64_t epoch;
  /// Takes the Call's message out of `outcome`, and copies the Reply, whose memory is the channel's of the shard.
  void take(rpc::Outcome& outcome);
  /// Says that the server has executed the call. `connected`: when the connection was made that the answer came over.
  void is_made_by(async::TimePoint connected) { made_by_ = connected; }

 private:
  xdr::Message message_;
  std::uint64_t reply_max_inline_ = 0, reply_max_reduced_ = 0;
  const std::size_t sequence_at_;
  const async::Memory memory_;
  std::atomic<bool> given_up_ = false;
  rpc::Outcome outcome_;  // without the message
  std::optional<async::TimePoint> made_by_;
  bool ended_ = false;
  std::coroutine_handle<> waiting_;
};

class PreparedCall::End {
 public:
  explicit End(PreparedCall& of) : of_(of) {}
  ~End() {
    of_.waiting_ = nullptr;
    of_.given_up_ = !of_.ended_;
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  [[nodiscard]] bool await_ready() const { return of_.ended_; }
  void await_suspend(std::coroutine_handle<> waiting) { of_.waiting_ = waiting; }
  void await_resume() const {}

 private:
  PreparedCall& of_;
};
inline PreparedCall::End PreparedCall::end() {
  return End(*this);
}

class Shard final : public engine::Shard {
 public:
  Shard(rpc::Channel& channel, const Handshake::FurtherSession& session);
  async::Task<void> read(engine::ShardRead& read, std::span<std::byte> data) override;
  async::Task<void> call(engine::ShardCall& call) override;
  [[nodiscard]] bool works() const override { return works_; }

 private:
  bool takes(std::uint64_t epoch);
  SEQUENCE4args sequence_of(const SlotTable::Use& use);
  async::TimePoint begin_call(async::TimePoint deadline);
  void take_outcome(PreparedRead& read, SlotTable::Use& use, rpc::Outcome outcome, std::size_t asked);
  void leave_slot(PreparedCall& call, SlotTable::Use& use, nfsstat4 status);
  void take_failure(std::uint32_t sends, SlotTable::Use& use);
  nfsstat4 take_sequence(rpcrdma::Reply answer, const char* what, SlotTable::Use& use);
  void has_answer(const SEQUENCE4resok& sequence, SlotTable::Use& use);
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
