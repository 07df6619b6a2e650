#include "fs/closing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "async/buggify.h"
#include "async/under_way.h"

namespace nfsrdma::fs {

namespace {
// After a loss of data, close(2) waits for this long again.
constexpr auto kCarefulFor = std::chrono::seconds(60);
}  // namespace

Closing::Closing(MountState& state, DeferredCloses& deferred_closes, EarlyReads& early_reads,
                 Removal& removal)
    : Part(state),
      missing_names_(state.missing_names),
      deferred_closes_(deferred_closes),
      early_reads_(early_reads),
      removal_(removal),
      none_closing_(loop_) {
  engine_->promises().write_back_owner(this);
}

Closing::~Closing() {
  engine_->promises().write_back_owner(nullptr);
}

void Closing::forget(std::uint64_t id, std::uint64_t lookups) {
  const auto forgotten = inodes_.forget(id, lookups);
  if (!forgotten) return;
  freshness_.forgotten(*forgotten);
  deferred_closes_.forget(id);
  missing_names_.forget(id);
  // The file may have been removed. If it stayed open, the server would keep its blocks.
  engine_->promises().forget(forgotten->handle);
}

async::Task<Status> Closing::flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner,
                                   StillWaits still_waits) {
  const bool writes = file->file()->access() != Access::read;
  Status done;
  if (writes && may_close_early(*file)) {
    background_.spawn(deferred_closes_.save(file));  // all of the data is in flight after this
    engine_->promises().close_is_deferred(file->file());
  } else if (writes) {
    done = co_await writes_.save(file);
  } else if (file->file()->knows_owner(lock_owner)) {
    (void)co_await writes_.make_safe(file);  // an error is reported through the handles that may write
  }
  if (file->file()->knows_owner(lock_owner)) {
    auto released = co_await file->file()->release_locks(lock_owner);
    if (!released && done) done = released;
  }
  if (!writes || (still_waits && !still_waits())) co_return done;
  co_return WriteBehind::told_at_close(*file, lock_owner, std::move(done));
}

/// Returns whether close(2) may return before the data is safe. It must wait if data was lost, of this file
/// or lately of another one (a full disk), because the program then has to get the error. It also waits if
/// any lock on the file is held: flock(2) and locks of an open file description do not belong to the process
/// that closes, and must be gone when their last descriptor is.
bool Closing::may_close_early(const OpenHandle& file) const {
  const Inode& inode = file.inode();
  const auto locked = [](const OpenHandle* handle) { return handle->file()->has_locks(); };
  if (options_.sync || inode.writes.errors().failing() || loop_.now() < closes_early_from_ ||
      std::ranges::any_of(inode.open, locked) || async::buggify(loop_))
    return false;
  const std::uint64_t most = engine_->promises().max_size_for_deferred_close(inode.handle);
  return most != 0 && inode.end() <= most;
}

void Closing::write_out(const FileHandle& handle, std::shared_ptr<void> until) {
  if (auto inode = inodes_.find(handle))
    background_.spawn(settle_in_background(std::move(inode), std::move(until)));
}

async::Task<void> Closing::settle_in_background(std::shared_ptr<Inode> inode,
                                                std::shared_ptr<void> /*until*/) {
  co_await writes_.settle(*inode);
  // Deferred data has to be stable by then, because it must not be written again once another client may
  // write the file.
  while (inode->writes.is_saving()) (void)co_await inode->settled.wait_until(async::TimePoint::max());
}

std::optional<std::uint64_t> Closing::written_size(const FileHandle& handle) const {
  const auto inode = inodes_.find(handle);
  if (!inode || !inode->writes.empty()) return std::nullopt;
  const Attributes* const attributes = freshness_.unchanged(*inode);
  return attributes != nullptr ? std::optional(attributes->size) : std::nullopt;
}

async::Task<Status> Closing::close(std::shared_ptr<OpenHandle> file) {
  file->closing = true;
  const async::Counted under_way(closing_, none_closing_);
  co_return co_await close_now(std::move(file));
}

async::Task<void> Closing::closed() {
  engine_->promises().hurry_closes();
  while (closing_ != 0) (void)co_await none_closing_.wait_until(async::TimePoint::max());
  co_await engine_->promises().forget_all();
}

namespace {
/// An open file that is being closed. It counts among the inode's open files until end(), or until this
/// object is destroyed, because the task of a close() may be destroyed earlier. If the kernel has forgotten
/// the inode by then, the close of its last file removes it from the table.
class ClosingFile {
 public:
  ClosingFile(Closing& files, OpenHandle& file) : files_(files), file_(&file), inode_(file.shared_inode()) {}
  ~ClosingFile() {
    end();
    if (inode_->lookups == 0) files_.forget(inode_->id, 0);
  }
  ClosingFile(const ClosingFile&) = delete;
  ClosingFile& operator=(const ClosingFile&) = delete;
  void end() {
    if (std::erase(inode_->open, file_) != 0) inode_->settled.notify_all();
  }

 private:
  Closing& files_;
  OpenHandle* const file_;
  const std::shared_ptr<Inode> inode_;
};
}  // namespace

async::Task<Status> Closing::close_now(std::shared_ptr<OpenHandle> file) {
  const auto inode = file->shared_inode();
  ClosingFile closing(*this, *file);
  co_await writes_.settle(*inode);
  early_reads_.judge(*file);
  file->drop_ahead();
  auto closed = co_await engine_->close(file->file());
  // This close() reports data that was lost after a close(2) which did not wait for it.
  if (file->deferred) {
    // No later COMMIT can have the data written again.
    if (!closed && file->file()->has_unstable_data()) writes_.lost(*inode, closed.error());
    auto untold = DeferredCloses::closed(*file);
    if (closed) closed = std::move(untold);
    if (!closed) closes_early_from_ = loop_.now() + kCarefulFor;
  }
  closing.end();
  if (file->deferred) deferred_closes_.review(*inode);
  if (inode->open.empty()) co_await removal_.closed(inode);
  co_return closed;
}

}  // namespace nfsrdma::fs
