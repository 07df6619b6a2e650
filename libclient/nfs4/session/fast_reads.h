// READs of a session without a coroutine (engine/fast_read.h), as long as nothing unusual happens.
//
// The Call is made as read_call.h says. It needs a free slot and a connection that is up. If it does
// not get them, start() refuses, and the caller reads by the session's call loop. If the Reply says that all
// went well, the slot is given back and FastRead::ended() is called. Everything else (an error of any
// operation, fewer bytes than asked for before the end of the file, a Reply that cannot be decoded, a
// connection that ended, a deadline, a restart that may have lost what was written) is for the call loop. The
// call loop adopts the request with its slot and its outcome (state/sent_request.h), so that the rules for
// errors are in one place.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "async/reused.h"
#include "engine/fast_read.h"
#include "nfs4/session/lanes.h"
#include "nfs4/session/read_call.h"
#include "nfs4/session/slot_queue.h"
#include "nfs4/state/client_lease.h"
#include "nfs4/state/sent_request.h"

namespace nfsrdma::nfs4 {

class FileState;

/// An open file as FastReads sees it.
class FastReadFile {
 public:
  virtual FileState& file_state() = 0;
  /// Reads the bytes by the call loop, with the request that was sent as its first transmission.
  virtual async::Task<Result<std::size_t>> read_on(std::span<std::byte> data, std::uint64_t offset,
                                                   std::unique_ptr<SentRequest> sent_request) = 0;
  /// Returns a stamp for is_outdated(). To be taken when a READ is sent.
  [[nodiscard]] virtual std::uint64_t as_of() const = 0;
  /// Whether data that was read since the stamp may be older than data written by this client
  /// (writing/question.h).
  [[nodiscard]] virtual bool is_outdated(std::uint64_t as_of) const = 0;
  ReadTemplate made;

 protected:
  ~FastReadFile() = default;
};

class FastReads {
 public:
  /// The parts of the session that FastReads uses.
  struct Dependencies {
    ClientLease& session;
    SlotQueue& slots;
    Lanes& lanes;
    Lease& lease;
    engine::ServerCounters& counters;
    /// Calls Session::take_sequence().
    std::function<void(const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent)> take_sequence;
  };
  explicit FastReads(Dependencies parts) : parts_(std::move(parts)) {}
  ~FastReads();
  FastReads(const FastReads&) = delete;
  FastReads& operator=(const FastReads&) = delete;

  /// Sends the READ, or has it wait for a slot. Returns false if it cannot be made in this way now.
  bool start(FastReadFile& file, engine::FastRead& read);
  /// Whether the session and the file are in a state in which nothing unusual is to be expected of a READ of this size,
  /// and its Call can be made as read_call.h says.
  bool is_plain(FastReadFile& file, std::size_t size);

 private:
  /// State of a READ that is under way. The object is kept for the next READ.
  struct One final : rpc::Channel::Waiter, SlotQueue::Waiter, engine::FastRead::UnderWay {
    explicit One(FastReads& a) : all(a) {}
    void on_slot(std::optional<SlotTable::Use> got) override { all.take_slot(*this, std::move(got)); }
    void on_complete(rpcrdma::Complete& how) override { all.completed(*this, how); }
    void drop() override { all.drop(*this); }
    FastReads& all;
    engine::FastRead* read = nullptr;
    FastReadFile* file = nullptr;
    rpc::Channel* channel = nullptr;  // null while it waits for a slot
    std::optional<SlotTable::Use> use;
    async::Use in_use;
    SEQUENCE4args sequence;
    Lease::Sent sent;
    std::uint64_t epoch = 0;
    std::uint64_t as_of = 0;  // FastReadFile::as_of() when it was sent
    async::TimePoint deadline;
    using SlotQueue::Waiter::stop_waiting;
  };
  [[nodiscard]] rpc::Channel* way_for(FastReadFile& file, std::size_t size);
  void take_slot(One& one, std::optional<SlotTable::Use> use);
  void send(One& one, rpc::Channel& channel, SlotTable::Use use);
  void leave_to(One& one, async::Task<Result<std::size_t>> rest);
  void give_back(One& one);
  void drop(One& one);
  void completed(One& one, rpcrdma::Complete& how);
  void count(const rpcrdma::Complete& how);

  const Dependencies parts_;
  async::Reused<One> reads_;
};

}  // namespace nfsrdma::nfs4
