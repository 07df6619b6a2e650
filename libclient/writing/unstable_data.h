// The data of one open file that the server has only in its memory: unstable WRITEs, COMMIT, and the rewrite
// of data that the server lost (RFC 1813 3.3.7, 3.3.21, 4.8; RFC 8881 18.3, 18.32).
//
//     UnstableData data(loop, writer);            // `writer`: WRITE and COMMIT of the protocol's version
//     co_await data.write(bytes, offset, How::unstable, nullptr, memory);
//     co_await data.commit(nullptr);              // what was written before this is on the server's disk
//
// Ownership. This object keeps what the server has not made stable (uncommitted.h). The amount is bounded:
// when one file has more than kCommitAt, a COMMIT is sent in the background while writes continue. When all
// files that share one AllFiles have more than kMostOfAll together, writes wait for a COMMIT. A file that has
// nothing of its own to commit then writes stably (FILE_SYNC).
//
// Several openers. One file may be open several times, each time with an UnstableData of its own, in the
// file's record (write_record.h). What one of them writes replaces what the others wrote in that range, so
// that none of them writes old data again.
//
// Commit. commit() makes stable what was written before commit() began; later writes do not prolong it. At
// most one COMMIT of an UnstableData is under way.
//
// Restart of the server. The verifier of a COMMIT shows it. Each piece that was lost is then written again at
// its place, and WRITEs of callers wait meanwhile, whichever opener they belong to.
//
// Doubt. Until the rewrite the server returns the contents from before the lost write, and the file is in
// doubt. Every question about the file passes the gate in question.h, which ends the doubt first.
//
// Termination. A server whose verifier differs each time would have data written again for ever. So after
// kMostMismatches COMMITs in a row that did not match, lost data is written with FILE_SYNC. One deadline
// covers a whole commit(), with every WRITE and COMMIT that it takes. A piece that was written again before
// the deadline is not lost, and the next commit() does not have to write it once more.
//
// Failure. If the server refuses to make unstable data stable, or to accept it again, commit() returns the
// error and may be tried again. An error of a COMMIT in the background is returned by the next write() or
// commit(). If AllFiles has a `lost` function, that function gets the error instead and the data is
// discarded, because with many users no caller would know that the data has yet to be written. Errors that
// are not the server's answer (a lost connection, a deadline) discard nothing.
//
// Confined to the loop's thread. No call of write() or commit() may be under way when this is destroyed; a
// COMMIT in the background ends with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "async/event.h"
#include "async/loop.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"
#include "writing/write_record.h"

namespace nfsrdma::writing {

/// The durability that a WRITE asks for: values of stable_how (NFSv3) and of stable_how4 (NFSv4).
enum class How : std::uint32_t { unstable = 0, data_sync = 1, file_sync = 2 };

/// Attributes right after a WRITE or COMMIT; none if the server did not report them.
using After = std::optional<Attributes>;

/// WRITE and COMMIT of the protocol's version, for one file.
class Writer {
 public:
  struct Written {
    std::size_t count = 0;
    bool stable = false;
    Verifier verifier{};
  };
  Writer() = default;
  virtual ~Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  struct Piece {
    std::span<const std::byte> data;
    std::uint64_t offset = 0;
    async::Memory memory;  ///< empty, or holds `data`, and does not change any more
    OriginRef origin;      ///< versions without delegations need not tell origins apart
  };
  /// Sends one WRITE. Stores the attributes that came with the answer in `after`, unless it is null. `piece` must stay until
  /// the task has ended.
  virtual async::Task<Result<Written>> write_piece(const Piece& piece, How how, After* after) = 0;
  /// Sends one COMMIT of the whole file and returns the server's verifier.
  virtual async::Task<Result<Verifier>> commit_file(After* after) = 0;
  /// Returns the largest number of bytes of one WRITE at the moment.
  [[nodiscard]] virtual std::size_t most_written() const = 0;
  /// Returns the deadline of an operation that begins now.
  [[nodiscard]] virtual async::TimePoint deadline() = 0;
  /// Returns the name of the file for errors.
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// Returns a number that increases whenever the server may have restarted: with each new connection to it,
  /// and when the server has lost the client's state.
  [[nodiscard]] virtual std::uint64_t server_instance() const = 0;
};

class UnstableData {
 public:
  /// `writer` must outlive this.
  UnstableData(async::Loop& loop, Writer& writer);
  ~UnstableData();
  UnstableData(const UnstableData&) = delete;
  UnstableData& operator=(const UnstableData&) = delete;

  /// Makes this one of the file's openers. Called once, before anything is written. `owner` refers to the
  /// object that this is a part of; a task that uses this data locks it.
  void join(std::shared_ptr<WriteRecord> record, std::weak_ptr<const void> owner);
  /// Called when the file has been closed, so that nothing can be committed or written again. Discards all
  /// data that is not stable. The caller has the error of close() already.
  void leave();
  [[nodiscard]] const std::shared_ptr<WriteRecord>& record() const { return record_; }

  /// Writes all of `data`, by as many WRITEs as it takes. `after` gets the attributes that came with the last
  /// WRITE. If `memory` is not empty it holds `data`, no other code changes it any more, and no copy is made.
  /// `origin` goes to the Writer with the data, also when the data is written again.
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, std::uint64_t offset, How how,
                                         After* after, async::Memory memory, OriginRef origin = nullptr);
  /// Makes stable what was written before. `after` gets the attributes that came with the last COMMIT; none
  /// if there was nothing to commit.
  async::Soon<Status> commit(After* after) { return commit_until(Goal::safe, after); }
  /// Makes stable what this opener wrote, like commit(), but on behalf of another task: an error of an
  /// earlier background COMMIT is left for this opener's own next call.
  async::Soon<Status> make_stable() { return commit_until(Goal::stable, nullptr); }
  /// Verifies the data by COMMITs until may_be_lost() is false, or returns an error.
  async::Soon<Status> make_certain() { return commit_until(Goal::certain, nullptr); }
  [[nodiscard]] bool empty() const { return uncommitted_.empty(); }
  /// Returns whether the server may have restarted since data that is not stable was written.
  [[nodiscard]] bool may_be_lost() const {
    return !uncommitted_.empty() && (in_doubt_ || instance_ != writer_.server_instance());
  }

  // ---- for the WriteRecord ----
  /// Returns the end of the last unstable byte; 0 if there is none.
  [[nodiscard]] std::uint64_t end() const { return uncommitted_.end(); }
  void doubt() { in_doubt_ = !uncommitted_.empty(); }
  void cover(std::uint64_t offset, std::uint64_t length) { uncommitted_.cover(offset, length); }

 private:
  /// The state in which commit_until() ends.
  enum class Goal : std::uint8_t {
    safe,     ///< all that was written before is stable, and no earlier error is left to be returned
    stable,   ///< all that was written before is stable
    certain,  ///< nothing may be lost
  };
  async::Task<Result<Writer::Written>> write_once(Writer::Piece piece, How how, After* after);
  async::Task<Status> notified(async::Event& event, async::TimePoint deadline);
  [[nodiscard]] Error too_late() const;
  [[nodiscard]] bool has_too_much() const;
  [[nodiscard]] bool commit_is_due() const;
  [[nodiscard]] bool tells_lost() const { return record_->all->lost != nullptr; }
  [[nodiscard]] bool gives_up(const Error& error) const;
  void tell_lost(const Error& error) { record_->all->lost(record_->file, error); }
  void start_commit();
  async::Task<Status> make_room();
  async::Task<void> commit_in_background();
  [[nodiscard]] bool has_reached(Goal goal, std::uint64_t number) const;
  async::Soon<Status> commit_until(Goal goal, After* after);
  async::Task<Status> commit_up_to(std::uint64_t number, Goal goal, After* after);
  async::Task<Status> commit_once(After* after, async::TimePoint deadline);
  void verified(const Verifier& verifier, std::uint64_t instance);
  async::Task<Status> rewrite(std::uint64_t number, Verifier verifier, async::TimePoint deadline);

  async::Loop& loop_;
  Writer& writer_;
  std::shared_ptr<WriteRecord> record_;  // null until join() is called
  Uncommitted uncommitted_;
  bool committing_ = false;
  std::uint64_t commit_task_ = 0;  // the task of commit_in_background(), for Loop::drop()
  async::Event committed_;
  unsigned mismatches_ = 0;          // COMMITs in a row that found something lost
  std::uint64_t stable_number_ = 0;  // data with numbers up to this one of `uncommitted_` is stable
  // Writer::server_instance() when the server was last known to have all unstable data of this opener.
  std::uint64_t instance_ = 0;
  bool in_doubt_ = false;            // a verifier has shown a restart since the data was written
  std::optional<Error> late_error_;  // error of commit_in_background(), unless AllFiles::lost reported it
};

}  // namespace nfsrdma::writing
