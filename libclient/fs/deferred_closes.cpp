#include "fs/deferred_closes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fs/removal.h"

namespace nfsrdma::fs {

async::Task<void> DeferredCloses::save(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  const auto saving = inode.writes.saving();
  deferred_[inode.id] = file->shared_inode();
  file->deferred = true;
  ++file->deferred_saves;
  auto saved = co_await writes_.save(file);
  const bool is_last = --file->deferred_saves == 0;
  const Status untold = file->errors.untold();
  if (saved && untold && is_last) file->deferred = false;
  review(inode);
}

Status DeferredCloses::closed(OpenHandle& file) {
  auto untold = file.errors.untold();
  if (untold) return untold;
  file.inode().writes.errors().add_behind_close(untold.error());
  return untold;
}

bool DeferredCloses::is_deferred(const Inode& inode) {
  return inode.writes.errors().behind_close() || std::ranges::any_of(inode.open, &OpenHandle::deferred);
}

void DeferredCloses::review(const Inode& inode) {
  if (!is_deferred(inode)) deferred_.erase(inode.id);
}

async::Task<Status> DeferredCloses::make_safe(std::shared_ptr<Inode> inode) {
  std::vector<std::shared_ptr<OpenHandle>> files;
  for (OpenHandle* file : inode->open) {
    if (file->deferred) files.push_back(file->shared_from_this());
  }
  for (const auto& file : files) {
    auto saved = co_await writes_.save(file);
    if (!saved) co_return saved;
    auto untold = file->errors.untold();
    if (!untold) {
      inode->writes.errors().was_told();
      co_return untold;
    }
  }
  if (const auto& lost = inode->writes.errors().behind_close()) {
    inode->writes.errors().was_told();
    co_return *lost;
  }
  co_return Status();
}

/// Returns the inode at the name. A file with deferred data is preferred to another inode that was once found
/// there, because another client may have replaced the other one.
std::shared_ptr<Inode> DeferredCloses::known_at(const Inode& directory, const std::string& name) const {
  for (const auto& [number, one] : deferred_) {
    auto inode = one.lock();
    if (inode && inode->is_at(directory.id, name)) return inode;
  }
  return inodes_.at(directory.id, name);
}

bool DeferredCloses::is_below(const Inode& inode, const Inode& directory) const {
  // The depth is limited, because directories that another client moved may be remembered as below each
  // other.
  constexpr int kDeepest = 1000;
  std::uint64_t at = inode.parent;
  for (int depth = 0; at != 0 && depth < kDeepest; ++depth) {
    if (at == directory.id) return true;
    const auto parent = inodes_.find(at);
    at = parent ? parent->parent : 0;
  }
  return false;
}

async::Task<Status> DeferredCloses::make_name_safe(Caller caller, std::shared_ptr<Inode> directory,
                                                   std::string name) {
  if (deferred_.empty()) co_return Status();
  auto named = known_at(*directory, name);
  if (!named) {
    auto found = co_await find_name(engine_, std::move(caller), directory->handle, std::move(name));
    if (!found) co_return found.error();
    if (*found) named = inodes_.find((*found)->handle);
    if (!named) co_return Status();
  }
  if (named->type != FileType::directory) co_return co_await make_safe(std::move(named));
  std::vector<std::shared_ptr<Inode>> below;
  for (const auto& [number, one] : deferred_) {
    auto inode = one.lock();
    if (inode && is_below(*inode, *named)) below.push_back(std::move(inode));
  }
  for (auto& inode : below) {
    auto safe = co_await make_safe(std::move(inode));
    if (!safe) co_return safe;
  }
  co_return Status();
}

}  // namespace nfsrdma::fs
