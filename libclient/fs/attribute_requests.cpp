#include "fs/attribute_requests.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

namespace nfsrdma::fs {

namespace {
/// A value for `kernel_asked`: the kernel takes the answer to SETATTR in any case.
constexpr std::uint64_t kTaken = std::numeric_limits<std::uint64_t>::max();

bool changes_nothing(const SetAttributes& changes) {
  return !changes.mode && !changes.uid && !changes.gid && !changes.size && !changes.accessed &&
         !changes.modified && !changes.accessed_now && !changes.modified_now;
}

bool changes_only_times(const SetAttributes& changes) {
  return !changes.mode && !changes.uid && !changes.gid && !changes.size;
}
}  // namespace

/// Returns the attributes that were kept, unless the kernel may use those of a delegation for longer.
std::optional<Attributed> AttributeRequests::kept(const Inode& inode) const {
  std::optional<Attributed> known = freshness_.kept(inode);
  if (known && engine_->promises().delegated(inode.handle)) known.reset();
  return known;
}

std::optional<Attributed> AttributeRequests::known_attributes(std::uint64_t id) const {
  const auto inode = inodes_.find(id);
  if (!inode || inode->pages.is_changing() || inode->writes.is_saving() || !inode->writes.empty())
    return std::nullopt;
  return kept(*inode);
}

async::Task<Result<Attributed>> AttributeRequests::attributes(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const std::uint64_t kernel_asked = freshness_.count();
  while ((*inode)->pages.is_changing()) (void)co_await (*inode)->settled.wait_until(async::TimePoint::max());
  co_return co_await attributes_now(std::move(caller), std::move(*inode), kernel_asked);
}

/// Does what attributes() does without waiting until pages are dropped. SETATTR needs this, because the
/// kernel holds back writes of dirty pages while it waits for SETATTR.
async::Task<Result<Attributed>> AttributeRequests::attributes_now(Caller caller, std::shared_ptr<Inode> inode,
                                                                  std::uint64_t kernel_asked) {
  // A program that has closed the file expects its final attributes.
  if (inode->writes.is_saving()) co_await writes_.settle(*inode);
  if (!inode->writes.empty()) {
    if (auto told = freshness_.while_writing(*inode)) co_return *told;
    // Wait for one write only: the first that ends returns the times of a write, which must not be missing.
    co_await writes_.one_settled(*inode);
    if (auto told = freshness_.while_writing(*inode)) co_return *told;
  }
  if (auto known = kept(*inode)) co_return std::move(*known);
  for (int tries = 1;; ++tries) {
    const std::uint64_t as_of = freshness_.count();
    auto got = co_await engine_->attributes(caller, inode->handle);
    handle_stale(*inode, got);
    if (!got) co_return got.error();
    if (inode->attributes.resized_since(as_of) && tries < kMostTries) continue;
    if (options_.several_users) freshness_.keep_told(*inode, *got, as_of);
    co_return freshness_.attributed(*inode, *got, as_of, freshness_.count(), kernel_asked);
  }
}

/// truncate(2): the kernel may have left the check of rights to us, and servers let a file's owner cut the file whatever its
/// mode is. Other errors are the server's to report, because the file system may be read-only.
async::Task<Status> AttributeRequests::may_truncate(Caller caller, std::shared_ptr<Inode> inode) {
  auto allowed = co_await access(caller, inode->id, W_OK);
  const bool denied = !allowed && allowed.error().errno_value() == EACCES;
  if (!allowed && !denied) co_return allowed.error();
  if (!denied) co_return Status();
  auto now = co_await attributes_now(std::move(caller), inode, kTaken);
  if (!now || (now->attributes.mode & S_IWUSR) == 0) co_return allowed.error();
  co_return Status();
}

/// A server that loses data behind a SETATTR gets it again, and that would change the time. So the data is on the server's
/// disk before a time is set, also under a delegation, and close(2) finds nothing to save; an error is reported by close(2).
/// A kernel that gathers writes sets the time at each write-back, also of files that programs go on writing: there the data
/// is only sent.
async::Task<std::optional<Attributed>> AttributeRequests::write_before(Caller caller,
                                                                       std::shared_ptr<Inode> inode,
                                                                       const SetAttributes& changes) {
  if (!changes.modified || changes.size || options_.kernel_gathers) {
    co_await writes_.settle(*inode);
    co_return std::nullopt;
  }
  std::optional<Naming> naming;
  std::shared_ptr<WriteBehind::Times> times;
  if (changes_only_times(changes) && writes_.may_set_times(*inode, caller)) {
    naming.emplace(freshness_, inode);
    times = std::make_shared<WriteBehind::Times>(WriteBehind::Times{caller, changes, std::nullopt});
  }
  const std::uint64_t as_of = freshness_.count();
  co_await writes_.settle_last(*inode, times);
  if (times && times->after) {
    if (auto known = kept(*inode)) co_return std::move(*known);
    co_return freshness_.attributed(*inode, *times->after, as_of, freshness_.count(), kTaken);
  }
  const auto unsaved = std::ranges::find_if(
      inode->open, [](const OpenHandle* one) { return one->file()->has_unstable_data(); });
  if (unsaved != inode->open.end()) (void)co_await writes_.save((*unsaved)->shared_from_this());
  co_return std::nullopt;
}

async::Task<Result<Attributed>> AttributeRequests::set_attributes(Caller caller, std::uint64_t id,
                                                                  SetAttributes changes,
                                                                  std::shared_ptr<OpenHandle> file) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (changes.size && !file) {
    auto allowed = co_await may_truncate(caller, *inode);
    if (!allowed) co_return allowed.error();
  }
  // ftruncate(2): the right was checked when the file was opened for writing, so the opener's credential
  // counts.
  if (file) caller = file->caller();
  auto set = co_await write_before(caller, *inode, changes);
  if (set) co_return std::move(*set);
  // Linux sends a SETATTR without changes if the kernel would clear set-id bits but leaves that to the
  // server.
  if (changes_nothing(changes)) co_return co_await attributes_now(std::move(caller), *inode, kTaken);
  const Naming naming(freshness_, *inode);
  (*inode)->forget_searchers();
  const ServerFileRef open = file ? file->file() : nullptr;
  std::uint64_t as_of = freshness_.count();
  const std::uint64_t ended = (*inode)->writes.ended();
  auto got = co_await engine_->set_attributes(caller, (*inode)->handle, changes, open);
  if (changes.size) {
    freshness_.resized(**inode);
    as_of = freshness_.count();
  }
  if (!got) co_return got.error();
  // The server may have executed a write that ended meanwhile before the SETATTR, or after it: then the size in this answer is
  // too old, and resized() has made the mount forget the end of the write.
  if (changes.size && (*inode)->writes.ended() != ended) {
    if (auto now = co_await attributes_now(std::move(caller), *inode, kTaken)) co_return now;
  }
  co_return freshness_.attributed(**inode, *got, as_of, freshness_.count(), kTaken);
}

async::Task<Status> AttributeRequests::access(Caller caller, std::uint64_t id, unsigned mode) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const unsigned wanted = mode & (R_OK | W_OK | X_OK);
  auto rights = co_await engine_->access(std::move(caller), (*inode)->handle, wanted);
  handle_stale(**inode, rights);
  if (!rights) co_return rights.error();
  if (rights->granted != wanted) {
    co_return refusal(EACCES, "ACCESS", (*inode)->label, "permission denied by the server");
  }
  co_return Status();
}

async::Task<Result<std::string>> AttributeRequests::read_link(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto text = co_await engine_->read_link(std::move(caller), (*inode)->handle);
  handle_stale(**inode, text);
  co_return text;
}

async::Task<Result<Space>> AttributeRequests::space(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_return co_await engine_->space(std::move(caller), (*inode)->handle);
}

}  // namespace nfsrdma::fs
