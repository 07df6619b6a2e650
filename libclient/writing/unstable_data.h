// The data of one open file that the server has in its memory only: what is written unstably, COMMIT, and what
// is written again where the server forgot it (RFC 1813 3.3.7, 3.3.21, 4.8; RFC 8881 18.3, 18.32).
//
//     UnstableData data(loop, writer);            // `writer`: WRITE and COMMIT of the protocol's version
//     co_await data.write(bytes, offset, How::unstable, nullptr, memory);
//     co_await data.commit(nullptr);              // what was written before this is on the server's disk
//
// Ownership. What the server has not made stable is kept here (uncommitted.h), bounded: past kCommitAt a COMMIT
// goes out beside the writes, past kMostUncommitted writes wait for it. All files that share one AllFiles have a
// lower bound in common; a file that has nothing to commit of its own writes stably while the others fill it.
//
// Several may have one file open, each with data of its own (Openers): what one of them writes replaces what
// the others wrote there before, so that none of them writes old data again.
//
// commit() makes stable what was written when commit() began; what comes later does not prolong it. One COMMIT
// is under way at a time.
//
// A restart of the server shows in the verifier of a COMMIT. Each piece that was lost is then written again in
// place of itself, while WRITEs of callers stand aside, whichever of the openers they are made by. Until then the
// server gives what was there before: whoever reads asks may_be_lost(), and has it committed.
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
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "async/event.h"
#include "async/loop.h"
#include "async/under_way.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"
#include "writing/uncommitted.h"
#include "xdr/xdr.h"

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
    Verifier verifier{};  ///< where it is not stable
  };
  Writer() = default;
  virtual ~Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// One WRITE. `after`: filled where it is not null.
  virtual async::Task<Result<Written>> write_piece(std::span<const std::byte> data, std::uint64_t offset,
                                                   How how, After* after) = 0;
  /// One COMMIT of the whole file: the server's verifier.
  virtual async::Task<Result<Verifier>> commit_file(After* after) = 0;
  /// The most bytes of one WRITE, as of now.
  [[nodiscard]] virtual std::size_t most_written() const = 0;
  /// Until when something that begins now may take.
  [[nodiscard]] virtual async::TimePoint deadline() = 0;
  /// What the file is called in errors.
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// Another number where the server may have restarted since; always the same where only a verifier would tell.
  [[nodiscard]] virtual std::uint64_t server_instance() const { return 0; }
};

/// As in engine/spot.h, which stands above this layer.
using FileHandle = xdr::ShortOpaque<128>;

/// What the files of one engine have in common.
struct AllFiles {
  std::size_t bytes = 0;  ///< kept for all of them
  /// Told of a file, and why, where unstable data of it is lost; none: commit() says it.
  std::function<void(const FileHandle&, const Error&)> lost;
};

class UnstableData;

/// Who may change one file now: what is written again comes before what callers write, since it is older.
struct Turns {
  explicit Turns(async::Loop& loop) : ended(loop) {}
  unsigned writing = 0;    ///< WRITEs of callers under way
  unsigned rewriting = 0;  ///< those who write again what the server lost: callers' WRITEs wait for them
  async::Event ended;
};
/// One of a file, which may be closed meanwhile.
struct Turn {
  std::shared_ptr<Turns> of;
  async::Use writing;
};
/// For what changes the file by something else than a WRITE, `what`: it waits as a caller's WRITE does, and is one while
/// it has what this gives, which is until replaced() has been called. Who has a turn must not wait for another.
/// `turns`: null where nobody has the file open, so that there is nothing to wait for.
async::Task<Result<Turn>> take_turn(std::shared_ptr<Turns> turns, async::TimePoint deadline,
                                    const char* what);

/// Those who have one file open.
struct Openers {
  Openers(std::shared_ptr<AllFiles> among, const FileHandle& handle) : all(std::move(among)), file(handle) {}
  const std::shared_ptr<AllFiles> all;
  const FileHandle file;
  std::vector<UnstableData*> data;
  std::shared_ptr<Turns> turns;
};

class UnstableData {
 public:
  /// `writer` must outlive it.
  UnstableData(async::Loop& loop, Writer& writer);
  ~UnstableData();
  UnstableData(const UnstableData&) = delete;
  UnstableData& operator=(const UnstableData&) = delete;

  /// From now on it is one of these. Once, before anything is written.
  void join(std::shared_ptr<Openers> openers);
  [[nodiscard]] const std::shared_ptr<Openers>& openers() const { return openers_; }

  /// All of `data`, by as many WRITEs as it takes. `after`: of the last WRITE. `memory`: if it holds `data`, and
  /// nobody will change it, no copy is made.
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, std::uint64_t offset, How how,
                                         After* after, async::Memory memory);
  /// `after`: of the last COMMIT; none where nothing was to be committed.
  async::Task<Status> commit(After* after);
  /// Something else than write() changed the file there: what is not stable there must not be written again,
  /// whoever of the openers wrote it.
  void replaced(std::uint64_t offset, std::uint64_t length);
  [[nodiscard]] bool empty() const { return uncommitted_.empty(); }
  /// The server may have restarted since something that is not stable was written.
  [[nodiscard]] bool may_be_lost() const {
    return !uncommitted_.empty() && instance_ != writer_.server_instance();
  }
  /// How far reaches what may be lost, whichever of the openers wrote it: the file is as large as that, whatever
  /// the server says before it is written again. 0: there is none.
  [[nodiscard]] std::uint64_t end_in_doubt() const;
  /// How often what was lost has been written again: what was read in between may be of before.
  [[nodiscard]] std::uint64_t rewrites() const { return rewrites_; }
  [[nodiscard]] const std::shared_ptr<Turns>& turns() const { return turns_; }

 private:
  async::Task<Result<Writer::Written>> write_once(std::span<const std::byte> data, std::uint64_t offset,
                                                  How how, After* after, async::Memory memory);
  async::Task<Status> notified(async::Event& event, async::TimePoint deadline);
  [[nodiscard]] Error too_late() const;
  [[nodiscard]] bool has_too_much() const;
  [[nodiscard]] bool commit_is_due() const;
  [[nodiscard]] bool tells_lost() const { return openers_ && openers_->all->lost; }
  [[nodiscard]] bool gives_up(const Error& error) const;
  void tell_lost(const Error& error) { openers_->all->lost(openers_->file, error); }
  void start_commit();
  async::Task<Status> make_room();
  async::Task<void> commit_beside();
  async::Task<Status> commit_once(After* after, async::TimePoint deadline);
  async::Task<Status> rewrite(std::uint64_t number, Verifier verifier, async::TimePoint deadline);

  async::Loop& loop_;
  Writer& writer_;
  std::shared_ptr<Openers> openers_;  // null: it is by itself
  Uncommitted uncommitted_;
  bool committing_ = false;
  std::uint64_t commit_task_ = 0;  // commit_beside(), for Loop::drop()
  async::Event committed_;
  unsigned mismatches_ = 0;          // COMMITs in a row that found something lost
  std::uint64_t stable_number_ = 0;  // uncommitted_'s number as of which all is stable
  std::uint64_t instance_ = 0;  // Writer::server_instance(), no later than of the oldest that is not stable
  std::uint64_t rewrites_ = 0;
  std::shared_ptr<Turns> turns_;     // in common with all openers of the file
  std::optional<Error> late_error_;  // of commit_beside(), where nobody was told that the data is lost
};

}  // namespace nfsrdma::writing
