// The data of one open file that the server has in its memory only: what is written unstably, COMMIT, and what
// is written again where the server forgot it (RFC 1813 3.3.7, 3.3.21, 4.8; RFC 8881 18.3, 18.32).
//
//     UnstableData data(loop, writer);            // `writer`: WRITE and COMMIT of the protocol's version
//     co_await data.write(bytes, offset, How::unstable, nullptr, memory);
//     co_await data.commit(nullptr);              // what was written before this is on the server's disk
//
// Ownership. What the server has not made stable is kept here (uncommitted.h), bounded: past kCommitAt a COMMIT
// goes out beside the writes, and where all files that share one AllFiles have more than kMostOfAll, writes wait for it. A
// file that has nothing to commit of its own writes stably while the others fill that.
//
// Several may have one file open, each with data of its own, in the file's record (write_record.h): what one of them
// writes replaces what the others wrote there before, so that none of them writes old data again.
//
// commit() makes stable what was written when commit() began; what comes later does not prolong it. One COMMIT
// is under way at a time.
//
// A restart of the server shows in the verifier of a COMMIT. Each piece that was lost is then written again in
// place of itself, while WRITEs of callers stand aside, whichever of the openers they are made by.
//
// Until then the server gives what was there before, and the file is in doubt. Every question about the file passes the
// gate in question.h, which has the doubt ended first.
//
// Termination. A verifier that differs each time would have data written again for ever: after three COMMITs in a row
// that did not match, lost data is written with FILE_SYNC. A deadline covers all of a commit(), with every WRITE and
// COMMIT that it takes; what has been written again by then need not be once more.
//
// Failure. Where the server refuses to make unstable data stable, or to take it again, commit() says so and may
// be tried again; what a COMMIT beside was told, the next write() or commit() says. Where AllFiles has a `lost`
// that is told instead, and the data is given up: among many users nobody would know that it is still to come.
// Errors that are not the server's answer (a lost connection, a deadline) give up nothing.
//
// Confined to the loop's thread. No call of write() or commit() may be under way when this is destroyed; a
// COMMIT beside ends with it.
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

/// How safe a WRITE is to be when it is answered: numbers of stable_how in NFSv3 and of stable_how4.
enum class How : std::uint32_t { unstable = 0, data_sync = 1, file_sync = 2 };

/// Attributes as of just behind a WRITE or COMMIT; none where the server did not tell them.
using After = std::optional<Attributes>;

/// What WRITE and COMMIT are in the protocol's version, for one file.
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

  /// One WRITE. `after`: filled where it is not null.
  virtual async::Task<Result<Written>> write_piece(std::span<const std::byte> data, std::uint64_t offset,
                                                   How how, After* after) = 0;
  /// write_piece() of data that `origin` wrote. Versions without delegations need not tell origins apart.
  virtual async::Task<Result<Written>> write_piece_of(OriginRef /*origin*/, std::span<const std::byte> data,
                                                      std::uint64_t offset, How how, After* after) {
    return write_piece(data, offset, how, after);
  }
  /// One COMMIT of the whole file: the server's verifier.
  virtual async::Task<Result<Verifier>> commit_file(After* after) = 0;
  /// The most bytes of one WRITE, as of now.
  [[nodiscard]] virtual std::size_t most_written() const = 0;
  /// Until when something that begins now may take.
  [[nodiscard]] virtual async::TimePoint deadline() = 0;
  /// What the file is called in errors.
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// A number that increases whenever the server may have restarted: with each connection that is made to it, and where
  /// it has lost the client's state.
  [[nodiscard]] virtual std::uint64_t server_instance() const = 0;
};

class UnstableData {
 public:
  /// `writer` must outlive it.
  UnstableData(async::Loop& loop, Writer& writer);
  ~UnstableData();
  UnstableData(const UnstableData&) = delete;
  UnstableData& operator=(const UnstableData&) = delete;

  /// From now on it is one of the file's openers. Called once, before anything is written. `owner`: what this is a part
  /// of.
  void join(std::shared_ptr<WriteRecord> record, std::weak_ptr<const void> owner);
  /// The file has been closed, so that nothing can be committed or written again: gives up all data that is not stable.
  /// close() has returned the error.
  void leave();
  [[nodiscard]] const std::shared_ptr<WriteRecord>& record() const { return record_; }

  /// All of `data`, by as many WRITEs as it takes. `after`: of the last WRITE. `memory`: if it holds `data`, and
  /// nobody will change it, no copy is made. `origin` goes to the Writer with the data, also when it is written again.
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, std::uint64_t offset, How how,
                                         After* after, async::Memory memory, OriginRef origin = nullptr);
  /// `after`: of the last COMMIT; none where nothing was to be committed.
  async::Task<Status> commit(After* after) { return commit_until(Goal::safe, after); }
  /// Makes stable what this opener wrote, like commit(), for a task other than his own: an error that he has yet to hear
  /// of stays his.
  async::Task<Status> make_stable() { return commit_until(Goal::stable, nullptr); }
  /// Ends with may_be_lost() false, unless there is an error.
  async::Task<Status> make_certain() { return commit_until(Goal::certain, nullptr); }
  [[nodiscard]] bool empty() const { return uncommitted_.empty(); }
  /// The server may have restarted since something that is not stable was written.
  [[nodiscard]] bool may_be_lost() const {
    return !uncommitted_.empty() && (in_doubt_ || instance_ != writer_.server_instance());
  }

  // ---- for the WriteRecord ----
  /// The end of the last unstable byte; 0 if there is none.
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
  async::Task<Result<Writer::Written>> write_once(std::span<const std::byte> data, std::uint64_t offset,
                                                  How how, After* after, async::Memory memory,
                                                  OriginRef origin);
  async::Task<Status> notified(async::Event& event, async::TimePoint deadline);
  [[nodiscard]] Error too_late() const;
  [[nodiscard]] bool has_too_much() const;
  [[nodiscard]] bool commit_is_due() const;
  [[nodiscard]] bool tells_lost() const { return record_->all->lost != nullptr; }
  [[nodiscard]] bool gives_up(const Error& error) const;
  void tell_lost(const Error& error) { record_->all->lost(record_->file, error); }
  void start_commit();
  async::Task<Status> make_room();
  async::Task<void> commit_beside();
  async::Task<Status> commit_until(Goal goal, After* after);
  async::Task<Status> commit_once(After* after, async::TimePoint deadline);
  void verified(const Verifier& verifier, std::uint64_t instance);
  async::Task<Status> rewrite(std::uint64_t number, Verifier verifier, async::TimePoint deadline);

  async::Loop& loop_;
  Writer& writer_;
  std::shared_ptr<WriteRecord> record_;  // null: join() has yet to be called
  Uncommitted uncommitted_;
  bool committing_ = false;
  std::uint64_t commit_task_ = 0;  // commit_beside(), for Loop::drop()
  async::Event committed_;
  unsigned mismatches_ = 0;          // COMMITs in a row that found something lost
  std::uint64_t stable_number_ = 0;  // uncommitted_'s number as of which all is stable
  // Writer::server_instance() when the server was last known to have all unstable data of this opener.
  std::uint64_t instance_ = 0;
  bool in_doubt_ = false;            // a verifier has shown a restart since the data was written
  std::optional<Error> late_error_;  // of commit_beside(), where nobody was told that the data is lost
};

}  // namespace nfsrdma::writing
