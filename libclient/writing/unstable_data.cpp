#include "writing/unstable_data.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "async/buggify.h"

namespace nfsrdma::writing {
namespace {

constexpr std::size_t kCommitAt = 32U << 20;
/// Limits for all files together: writes wait above kMostOfAll; above kCommitAllAt a file that has
/// kWorthCommit or more sends a COMMIT after its next WRITE.
constexpr std::size_t kMostOfAll = 64U << 20, kCommitAllAt = 48U << 20, kWorthCommit = 1U << 20;
/// After so many COMMITs in a row whose verifier did not match, lost data is written again with FILE_SYNC.
constexpr unsigned kMostMismatches = 3;

}  // namespace

UnstableData::UnstableData(async::Loop& loop, Writer& writer)
    : loop_(loop), writer_(writer), uncommitted_(loop.memory()), committed_(loop) {}

UnstableData::~UnstableData() {
  loop_.drop(commit_task_);
  leave();
}

void UnstableData::join(std::shared_ptr<WriteRecord> record, std::weak_ptr<const void> owner) {
  record_ = std::move(record);
  record_->openers.push_back({this, std::move(owner)});
  uncommitted_.count_into({record_->all, &record_->all->bytes});
}

void UnstableData::leave() {
  uncommitted_.give_up(uncommitted_.last_number());
  if (record_) std::erase_if(record_->openers, [this](const auto& one) { return one.data == this; });
}

// ---- writing ----

async::Task<Result<Writer::Written>> UnstableData::write_once(Writer::Piece piece, How how, After* after) {
  const std::uint64_t instance = writer_.server_instance();
  auto written = co_await writer_.write_piece(piece, how, after);
  if (!written) co_return written.error();
  const std::size_t count = written->count;
  if (count == 0 || count > piece.data.size()) {
    co_return Error(ErrorKind::protocol, EIO, "WRITE", writer_.path(),
                    "the server says it wrote " + std::to_string(count) + " of " +
                        std::to_string(piece.data.size()) + " bytes; please report this");
  }
  record_->replaced(piece.offset, count);
  const bool restarted = record_->tells_restart(written->verifier);
  if (written->stable) co_return written;
  if (uncommitted_.empty()) {
    instance_ = instance;
    in_doubt_ = false;
  }
  uncommitted_.add(piece.offset, piece.data.first(count), written->verifier, piece.memory,
                   std::move(piece.origin));
  // Answers may arrive out of order, so this one may be from before the restart.
  if (restarted) in_doubt_ = true;
  co_return written;
}

async::Task<Result<std::size_t>> UnstableData::write(std::span<const std::byte> data, std::uint64_t offset,
                                                     How how, After* after, async::Memory memory,
                                                     OriginRef origin) {
  if (after != nullptr) after->reset();
  std::size_t total = 0;
  bool all_stable = true;
  while (total < data.size()) {
    if (late_error_) co_return *late_error_;
    if (has_too_much()) {
      auto done = co_await make_room();
      if (!done) co_return done.error();
    }
    while (record_->turns.rewriting != 0) {
      auto done = co_await notified(record_->turns.ended, writer_.deadline());
      if (!done) co_return done.error();
    }
    const async::Counted under_way(record_->turns.writing, record_->turns.ended);
    const auto part = data.subspan(total, std::min(data.size() - total, writer_.most_written()));
    Writer::Piece piece{part, offset + total, memory, origin};
    auto written = co_await write_once(std::move(piece), has_too_much() ? How::file_sync : how, after);
    // The WRITE was built for a session that has since been replaced by one with smaller limits, so cut it
    // again.
    if (!written && part.size() > writer_.most_written()) continue;
    if (!written) co_return written.error();
    total += written->count;
    all_stable = all_stable && written->stable;
    if (commit_is_due()) start_commit();
  }
  // The server may write with less durability than asked for, so commit what is not stable.
  if (how != How::unstable && !all_stable) {
    if (auto done = co_await commit(nullptr); !done) co_return done.error();
  }
  co_return total;
}

/// Waits until `event`, the end of a COMMIT or of WRITEs, is notified once.
async::Task<Status> UnstableData::notified(async::Event& event, async::TimePoint deadline) {
  const bool in_time = co_await event.wait_until(deadline);
  if (in_time) co_return Status();
  if (&event == &committed_) co_return too_late();
  co_return Error(ErrorKind::timeout, ETIMEDOUT, "WRITE", writer_.path(),
                  "the server does not answer in time");
}

Error UnstableData::too_late() const {
  return {ErrorKind::timeout, ETIMEDOUT, "COMMIT", writer_.path(), "the server does not commit in time"};
}

bool UnstableData::has_too_much() const {
  return record_->all->bytes > kMostOfAll;
}

bool UnstableData::commit_is_due() const {
  const std::size_t mine = uncommitted_.bytes();
  return mine > kCommitAt || (mine != 0 && async::buggify(loop_)) ||
         (mine >= kWorthCommit && record_->all->bytes > kCommitAllAt);
}

/// Waits while all files together have too much unstable data and this opener can commit some of it.
async::Task<Status> UnstableData::make_room() {
  const async::TimePoint deadline = writer_.deadline();
  while (has_too_much() && !uncommitted_.empty()) {
    if (loop_.now() >= deadline) co_return too_late();
    start_commit();
    if (committing_) {
      auto done = co_await notified(committed_, deadline);
      if (!done) co_return done;
    }
    if (late_error_) co_return *late_error_;
  }
  co_return Status();
}

// ---- COMMIT ----

/// Returns whether the error discards data that is not stable: an answer of the server does, if
/// AllFiles::lost is set.
bool UnstableData::gives_up(const Error& error) const {
  return tells_lost() && error.kind() == ErrorKind::server;
}

void UnstableData::start_commit() {
  if (!committing_) commit_task_ = loop_.spawn(commit_in_background());
}

async::Task<void> UnstableData::commit_in_background() {
  const async::Flagged flag(committing_, committed_);
  // No caller waits for this COMMIT. It ends without a deadline: each lost piece is written once, and each
  // call has a deadline of its own.
  auto done = co_await commit_once(nullptr, async::TimePoint::max());
  if (!done && !gives_up(done.error()) && !late_error_) late_error_ = done.error();
}

/// Sends one COMMIT, and writes again what the server lost.
async::Task<Status> UnstableData::commit_once(After* after, async::TimePoint deadline) {
  const std::uint64_t number = uncommitted_.last_number();
  const std::uint64_t instance = writer_.server_instance();
  auto verifier = co_await writer_.commit_file(after);
  if (!verifier) {
    if (gives_up(verifier.error())) {
      uncommitted_.give_up(number);
      tell_lost(verifier.error());
    }
    co_return verifier.error();
  }
  (void)record_->tells_restart(*verifier);
  uncommitted_.committed(number, *verifier);
  Status done;
  if (uncommitted_.lost(number, *verifier, 0)) {
    ++mismatches_;
    done = co_await rewrite(number, *verifier, deadline);
  } else {
    mismatches_ = 0;
    stable_number_ = number;
  }
  if (done) verified(*verifier, instance);
  co_return done;
}

/// Ends the doubt after a COMMIT that was begun at `instance` and matched, or after the rewrite of what that
/// COMMIT found lost. A piece with another verifier was answered in between and stays in doubt.
void UnstableData::verified(const Verifier& verifier, std::uint64_t instance) {
  instance_ = instance;
  if (in_doubt_) in_doubt_ = uncommitted_.has_other(verifier);
}

namespace {

/// Marks a rewrite as under way while the object lives, for the tasks that have to detect one (Turns,
/// RewriteWatch).
class Rewriting {
 public:
  explicit Rewriting(WriteRecord& file) : file_(file), under_way_(file.turns.rewriting, file.turns.ended) {
    ++file_.all->rewriting;
    ++file_.all->rewrites;
    ++file_.turns.rewrites;
  }
  ~Rewriting() {
    --file_.all->rewriting;
    ++file_.turns.rewrites;
  }
  Rewriting(const Rewriting&) = delete;
  Rewriting& operator=(const Rewriting&) = delete;

 private:
  WriteRecord& file_;
  const async::Counted under_way_;
};

}  // namespace

/// Writes lost data again, each piece at its place. Callers' WRITEs wait, because one that is newer than a
/// piece must not reach the server before the piece.
async::Task<Status> UnstableData::rewrite(std::uint64_t number, Verifier verifier,
                                          async::TimePoint deadline) {
  const Rewriting under_way(*record_);
  const How how = mismatches_ < kMostMismatches ? How::unstable : How::file_sync;
  while (record_->turns.writing != 0) {
    auto done = co_await notified(record_->turns.ended, deadline);
    if (!done) co_return done;
  }
  Status done;
  for (auto piece = uncommitted_.lost(number, verifier, 0); piece;
       piece = uncommitted_.lost(number, verifier, piece->offset)) {
    if (loop_.now() >= deadline) {
      done = too_late();
      break;
    }
    // If the limits have become smaller, the rest of the piece is found as the next piece.
    const auto part = piece->bytes.first(std::min(piece->bytes.size(), writer_.most_written()));
    Writer::Piece again{part, piece->offset, piece->memory, piece->origin};
    auto written = co_await write_once(std::move(again), how, nullptr);
    if (written) continue;
    done = written.error();
    if (!gives_up(written.error())) break;
    uncommitted_.cover(piece->offset, piece->bytes.size());
    tell_lost(written.error());
  }
  co_return done;
}

/// Returns whether the data up to this number is in the state.
bool UnstableData::has_reached(Goal goal, std::uint64_t number) const {
  if (goal == Goal::certain) return !may_be_lost();
  return uncommitted_.empty() || stable_number_ >= number;
}

async::Soon<Status> UnstableData::commit_until(Goal goal, After* after) {
  if (after != nullptr) after->reset();
  const std::uint64_t number = uncommitted_.last_number();
  const bool has_error = late_error_ && goal == Goal::safe;
  if (!committing_ && !has_error && has_reached(goal, number)) return Status();
  return commit_up_to(number, goal, after);
}

async::Task<Status> UnstableData::commit_up_to(std::uint64_t number, Goal goal, After* after) {
  const async::TimePoint deadline = writer_.deadline();
  for (;;) {
    while (committing_) {
      auto done = co_await notified(committed_, deadline);
      if (!done) co_return done;
    }
    if (late_error_ && goal == Goal::safe) {
      const Error late = *std::exchange(late_error_, std::nullopt);
      // AllFiles::lost has reported each error that discarded data. After any other late error the data is
      // still here, and the COMMIT below tries again.
      if (!tells_lost()) co_return late;
    }
    if (has_reached(goal, number)) co_return Status();
    if (loop_.now() >= deadline) co_return too_late();
    const async::Flagged flag(committing_, committed_);
    auto done = co_await commit_once(after, deadline);
    if (!done) co_return done;
  }
}

}  // namespace nfsrdma::writing
