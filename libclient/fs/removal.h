// Removes and renames files while they are open here.
//
// Silly rename. A file that is removed or replaced while it is open here lives on under a hidden name
// (".nfs...") until its last close, because the server does not know that it is open. A file that is to be
// replaced gets the hidden name beforehand, as a second link: then its name is never absent, and a rename
// that fails has changed nothing. If the server cannot make such a link, the file is renamed, and renamed
// back if the replacement fails.
//
// A file that keeps another name needs no hidden one. The link count in the answer to the lookup of the name
// tells that, provided that no other task of this mount takes a name from the file at that time. Once the
// file has lost all names but one, taking that one hides it. (Linux's client hides a name only if the file
// was opened by it. FUSE does not say by which name a file was opened.)
//
// Hidden names are recorded in the Inode, and are removed after its last close (closed()). Until then a
// removal of one, or a rename over one, fails with EBUSY. If the client ends before that, or if a server's
// answer is lost when the hidden name may be the only one left, hidden names stay: a file too many is better
// than a lost file. After an error that is not an answer of the server it is unknown whether the name is
// gone, and nothing is assumed about it.
//
// Any of these tasks may run at the same time, also in one directory; their arguments keep alive what they
// need. No task may outlive the Removal. Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/loop.h"
#include "engine/engine.h"
#include "fs/counters.h"
#include "fs/freshness.h"
#include "fs/inodes.h"

namespace nfsrdma::fs {

/// Looks the name up. Returns none if it does not exist.
async::Task<Result<std::optional<Object>>> find_name(Engine& engine, Caller caller, FileHandle directory,
                                                     std::string name);

/// Threads whose open(2) found that a removal or rename of this client had taken the name from the file. The
/// kernel looks the name up again for them, once. No name is taken away until they have opened what they
/// found, or until kMoment has passed.
class Retries {
 public:
  explicit Retries(async::Loop& loop) : loop_(loop), arrived_(loop) {}

  void expect(std::uint32_t thread) { until_[thread] = loop_.now() + kMoment; }
  void arrived(std::uint32_t thread) {
    if (until_.erase(thread) != 0) arrived_.notify_all();
  }
  async::Task<void> let_pass() {
    for (;;) {
      std::erase_if(until_, [&](const auto& one) { return one.second <= loop_.now(); });
      if (until_.empty()) co_return;
      (void)co_await arrived_.wait_until(until_.begin()->second);
    }
  }

 private:
  static constexpr async::Clock::duration kMoment = std::chrono::milliseconds(50);
  async::Loop& loop_;
  std::map<std::uint32_t, async::TimePoint> until_;
  async::Event arrived_;
};

class Removal {
 public:
  /// All arguments must outlive this.
  Removal(Engine& engine, Inodes& inodes, Freshness& freshness, Counters& counters)
      : engine_(engine),
        inodes_(inodes),
        freshness_(freshness),
        counters_(counters),
        retries_(engine.loop()),
        gone_(engine.loop()) {}
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  async::Task<Status> remove_file(Caller caller, std::shared_ptr<Inode> directory, std::string name);
  async::Task<Status> remove_directory(Caller caller, std::shared_ptr<Inode> directory, std::string name);
  /// The arguments of a rename.
  struct Renaming {
    Caller caller;
    std::shared_ptr<Inode> source;
    std::string old_name;
    std::shared_ptr<Inode> target;
    std::string new_name;
    std::optional<FileHandle> object = std::nullopt;  // that of the old name, once it was looked up
  };
  async::Task<Status> rename(Renaming what);
  /// Guards an open of the inode. While one lives, no task takes a name from the inode; while a task does, no
  /// open begins.
  class Opening {
   public:
    Opening(Removal& removal, Inode& inode) : removal_(removal), under_way_(inode.names.opening()) {
      ++removal_.opening_;
    }
    ~Opening() { --removal_.opening_; }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    Removal& removal_;
    const async::Counted under_way_;
  };
  [[nodiscard]] Retries& retries() { return retries_; }
  /// Called when the inode's last open file is closed. Removes its hidden names.
  async::Soon<> closed(std::shared_ptr<Inode> inode);

 private:
  async::Task<Status> remove_name(Naming& naming, Caller caller, std::shared_ptr<Inode> directory,
                                  std::string name, Engine::Removed what);
  HiddenName hiding_place(const Inode& directory, const Caller& caller);
  async::Task<Status> hide(Caller caller, std::shared_ptr<Inode> directory, std::string name,
                           std::shared_ptr<Inode> inode);
  /// Guards a task that takes a name from the inode.
  struct Leaving {
    Leaving(Freshness& all, std::shared_ptr<Inode> of)
        : freshness(all), inode(std::move(of)), under_way(inode->names.leaving()) {}
    ~Leaving() { freshness.unlinked(inode.get()); }
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;
    Freshness& freshness;
    const std::shared_ptr<Inode> inode;
    const async::Counted under_way;
  };
  class Unseen;
  /// The file that loses a name by a removal or rename.
  struct Target {
    std::shared_ptr<Inode> inode;  ///< null if no file of it is open here
    bool keeps_name = false;       ///< the file has another name, which stays
    std::shared_ptr<const Unseen> unseen;
    [[nodiscard]] bool needs_hidden_name() const { return inode && !keeps_name && !inode->names.is_hidden(); }
  };
  async::Task<std::shared_ptr<Leaving>> leave(std::shared_ptr<Inode> inode);
  async::Task<std::shared_ptr<Leaving>> leave_name(const Inode& directory, std::string name);
  async::Task<Result<Target>> open_target(Caller caller, FileHandle directory, std::string name,
                                          std::shared_ptr<Leaving>& leaving);
  async::Task<void> hidden(std::shared_ptr<Inode> inode, HiddenName where);
  async::Task<void> remove_hidden_names(std::shared_ptr<Inode> inode);
  async::Task<void> remove_hidden(HiddenName where);
  async::Task<Result<Renamed>> rename_over(Renaming what, std::shared_ptr<Inode> replaced);
  async::Task<Result<Renamed>> rename_over_linked(Renaming what, std::shared_ptr<Inode> replaced,
                                                  HiddenName where);
  async::Task<Result<Renamed>> rename_over_renamed(Renaming what, std::shared_ptr<Inode> replaced);
  async::Task<Status> look_up_old(Renaming& what);
  async::Task<Result<Renamed>> rename_now(Renaming what);
  void unlinked(const Inode& directory, const std::string& name, bool sure);
  class Going;
  async::Task<bool> await_emptying(std::shared_ptr<Inode> parent, std::string name);
  [[nodiscard]] bool is_being_emptied(const FileHandle& directory) const;

  Engine& engine_;
  Inodes& inodes_;
  Freshness& freshness_;
  Counters& counters_;
  Retries retries_;
  std::uint64_t opening_ = 0;  // number of opens under way
  // Number of removals and renames under way that did not look up which file loses its name.
  unsigned unseen_ = 0;
  std::uint64_t unseen_at_ = 0;  // Freshness::count() at the end of the last of them
  std::uint64_t last_hidden_ = 0;
  std::vector<std::weak_ptr<Inode>> with_hidden_;  // inodes that have hidden names, or had some
  std::vector<FileHandle> going_;                  // directories of hidden names that are being removed
  async::Event gone_;                              // notified when the removal of a hidden name has ended
};

}  // namespace nfsrdma::fs
