// READs of a session without a coroutine (engine/quick_read.h), for as long as nothing is unusual.
//
// A READ's Call is always the same but for a few words: it is encoded once for each open file, copied, and these words
// are put in. It takes a slot that is free and a connection that stands, and is refused otherwise: then the caller reads
// by the session's call loop. When its Reply has come, and says that all went well, the slot is given back and the owner
// told. Everything else (an error of any operation, fewer bytes than asked for before the end of the file, a Reply that
// cannot be read, a connection that ended, a deadline, a restart that may have cost the server what was written) is the
// call loop's to judge: it adopts the request with its slot and what became of it (adopted.h), so that what the loop knows
// stands in one place.
//
// Reads whose Calls are sealed (RPCSEC_GSS) do not go this way.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "async/reused.h"
#include "engine/quick_read.h"
#include "nfs4/adopted.h"
#include "nfs4/lanes.h"
#include "nfs4/lease_holder.h"
#include "nfs4/slot_queue.h"

namespace nfsrdma::nfs4 {

class FileState;

/// A READ's Call as it is encoded, and where its words stand.
struct ReadTemplate {
  enum class State : std::uint8_t { not_made, good, useless } state = State::not_made;
  std::vector<std::byte> call;
  std::size_t sequence_at = 0;                        // the arguments of SEQUENCE
  std::size_t read_at = 0;                            // those of READ
  std::uint64_t reply_inline = 0, reply_reduced = 0;  // the largest Reply to a READ of nothing
};

/// An open file, as far as its READs go.
class QuickFile {
 public:
  virtual FileState& file_state() = 0;
  /// Reads with what has been adopted as the first request.
  virtual async::Task<Result<std::size_t>> read_on(std::span<std::byte> data, std::uint64_t offset,
                                                   std::unique_ptr<Adopted> adopted) = 0;
  /// Returns a stamp of the file for is_outdated(), to be taken when a READ is sent.
  [[nodiscard]] virtual std::uint64_t as_of() const = 0;
  /// Whether what was read since may be older than what was written here (writing/question.h).
  [[nodiscard]] virtual bool is_outdated(std::uint64_t as_of) const = 0;
  ReadTemplate made;

 protected:
  ~QuickFile() = default;
};

class QuickReads {
 public:
  /// What it is part of.
  struct Around {
    LeaseHolder& session;
    SlotQueue& slots;
    Lanes& lanes;
    Lease& lease;
    engine::ServerCounters& counters;
    /// Session::take_sequence().
    std::function<void(const SEQUENCE4resok& ok, bool current, const Lease::Sent& sent)> take_sequence;
  };
  explicit QuickReads(Around around) : around_(std::move(around)) {}
  ~QuickReads();
  QuickReads(const QuickReads&) = delete;
  QuickReads& operator=(const QuickReads&) = delete;

  /// False: not now. The session is open, and no recovery under way.
  bool start(QuickFile& file, engine::QuickRead& read);

 private:
  /// One under way; kept for the next.
  struct One final : rpc::Channel::Waiter, engine::QuickRead::UnderWay {
    explicit One(QuickReads& a) : all(a) {}
    void on_complete(rpcrdma::Complete& how) override { all.completed(*this, how); }
    void drop() override { all.drop(*this); }
    QuickReads& all;
    engine::QuickRead* read = nullptr;
    QuickFile* file = nullptr;
    rpc::Channel* channel = nullptr;
    std::optional<SlotTable::Use> use;
    async::Use in_use;
    SEQUENCE4args sequence;
    Lease::Sent sent;
    std::uint64_t epoch = 0;
    std::uint64_t as_of = 0;  // QuickFile::as_of()
    async::TimePoint deadline;
  };
  void give_back(One& one);
  void drop(One& one);
  void completed(One& one, rpcrdma::Complete& how);
  static bool prepare(LeaseHolder& session, QuickFile& file);
  static std::optional<std::size_t> judge(const rpcrdma::Complete& how, std::size_t asked,
                                          SEQUENCE4resok& sequence);
  void count(const rpcrdma::Complete& how);

  const Around around_;
  async::Reused<One> reads_;
};

}  // namespace nfsrdma::nfs4
