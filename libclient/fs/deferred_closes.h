// Files whose close(2) returned before their data was on the server's disk, and what became of that data.
//
// Under a write delegation close(2) may return while WRITEs and COMMIT are under way
// (Closing::may_close_early() decides). No other client sees the file meanwhile, but a rename or link of it
// would outlast a crash of this client, and the data would not. So make_safe() comes before either: it saves what a deferred close left, and
// reports a failure, so that the caller leaves the names as they are. Data that was lost stays lost:
// make_safe() of that file fails until the file has been written again and a later fsync(2) or close(2) of it
// went well (LateErrors::behind_close).
//
// A renamed directory makes every file below it visible: the places where the mount found its files
// (Inodes::place()) tell which of them those are.
//
// DeferredCloses remembers only files with such data, so a mount that has none pays nothing. Any of its tasks
// may run at the same time, for one file, too; none may outlive it. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "fs/inodes.h"
#include "fs/write_behind.h"

namespace nfsrdma::fs {

class DeferredCloses {
 public:
  /// `engine`, `inodes` and `writes` must outlive this.
  DeferredCloses(Engine& engine, Inodes& inodes, WriteBehind& writes)
      : engine_(engine), inodes_(inodes), writes_(writes) {}
  DeferredCloses(const DeferredCloses&) = delete;
  DeferredCloses& operator=(const DeferredCloses&) = delete;

  /// Saves what was written through `file`. Its close(2) returns without waiting for this task.
  async::Task<void> save(std::shared_ptr<OpenHandle> file);
  /// Called when the CLOSE of `file` has ended, so that no COMMIT of it will follow. Returns an error that
  /// neither fsync(2) nor close(2) of this handle reported.
  static Status closed(OpenHandle& file);
  /// Forgets the inode if it has no deferred data any more. Called after a file has been saved, or has left
  /// the inode.
  void review(const Inode& inode);
  /// Called when the inode is removed from the table.
  void forget(std::uint64_t inode) { deferred_.erase(inode); }
  /// Saves what deferred closes left of the file. Writes that begin later do not prolong it.
  async::Task<Status> make_safe(std::shared_ptr<Inode> inode);
  /// Calls make_safe() for the file with this name, or for all files below the directory with this name. The
  /// server is asked for the name only where deferred data exists and no inode is known by that name.
  async::Task<Status> make_name_safe(Caller caller, std::shared_ptr<Inode> directory, std::string name);

 private:
  [[nodiscard]] static bool is_deferred(const Inode& inode);
  [[nodiscard]] std::shared_ptr<Inode> known_at(const Inode& directory, const std::string& name) const;
  [[nodiscard]] bool is_below(const Inode& inode, const Inode& directory) const;

  Engine& engine_;
  Inodes& inodes_;
  WriteBehind& writes_;
  std::map<std::uint64_t, std::weak_ptr<Inode>> deferred_;  // by number: files that may have deferred data
};

}  // namespace nfsrdma::fs
