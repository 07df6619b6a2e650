// Names that are taken away from files: removing and renaming, while the files are open here.
//
// A file that is removed or replaced while it is open here lives on under a name of its own (".nfs…") until
// its last close, since the server does not know that it is open. One that is replaced gets that name as a
// second link first: then the name is never absent, and a rename that fails has changed nothing. Where the
// server makes no such link the file is renamed, and back if need be.
//
// A file that keeps another name needs no hidden one: the link count that comes with the look at the name says so, as
// long as no other task of this mount takes a name from the file at that time. Once the file has lost all names but one,
// taking that one hides it. (Linux's client hides a name only where the file was opened by it. FUSE does not say by which
// name a file was opened.)
//
// Hidden names stand in the Inode, and are removed behind its last close (closed()). Until then who removes
// them, or renames something over them, gets EBUSY. If the client ends before, or the server's answer is lost
// where the hidden name may be the only one that is left, they stay: a file too many is better than one that is
// lost. An error that is no answer of the server leaves it open whether the name is gone; then nothing is
// believed of it.
//
// Any of these tasks may run at the same time, in one directory, too; their caller keeps nothing for them. None
// may outlive the Removal. Confined to the loop's thread.
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

/// What the name leads to. None: there is no such name.
async::Task<Result<std::optional<Object>>> find_name(Engine& engine, Caller caller, FileHandle directory,
                                                     std::string name);

/// Threads whose open(2) found the file gone that a removal or a renaming of this client has taken the name from. The kernel
/// looks the name up again for them, once; no name is taken away until they have opened what they found, or for a moment.
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
  /// All of them must outlive it.
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
  /// A rename that is under way.
  struct Renaming {
    Caller caller;
    std::shared_ptr<Inode> source;
    std::string old_name;
    std::shared_ptr<Inode> target;
    std::string new_name;
  };
  async::Task<Status> rename(Renaming what);
  /// An open of the inode is under way: nothing takes a name from it meanwhile. While something does, none is begun.
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
  /// The inode's last open file is closed: its hidden names go.
  async::Task<void> closed(std::shared_ptr<Inode> inode);

 private:
  async::Task<Status> remove_name(Naming& naming, Caller caller, std::shared_ptr<Inode> directory,
                                  std::string name, Engine::Removed what);
  HiddenName hiding_place(const Inode& directory, const Caller& caller);
  async::Task<Status> hide(Caller caller, std::shared_ptr<Inode> directory, std::string name,
                           std::shared_ptr<Inode> inode);
  /// A task that takes a name from the inode, while it lives.
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
  /// The file that loses a name by a removal or renaming.
  struct Target {
    std::shared_ptr<Inode> inode;  ///< null: no file of it is open here
    bool keeps_name = false;       ///< the file has another name, which stays
    std::shared_ptr<const Unseen> unseen;
    [[nodiscard]] bool needs_hidden_name() const { return inode && !keeps_name && !inode->names.is_hidden(); }
  };
  async::Task<std::shared_ptr<Leaving>> leave(std::shared_ptr<Inode> inode);
  async::Task<std::shared_ptr<Leaving>> leave_name(const Inode& directory, std::string name);
  async::Task<Result<Target>> open_target(Caller caller, FileHandle directory, std::string name,
                                          std::shared_ptr<Leaving>& leaving);
  async::Task<void> hidden(std::shared_ptr<Inode> inode, HiddenName where);
  async::Task<void> remove_hidden(HiddenName where);
  async::Task<Result<Renamed>> rename_over(Renaming what, std::shared_ptr<Inode> replaced);
  async::Task<Result<Renamed>> rename_over_linked(Renaming what, std::shared_ptr<Inode> replaced,
                                                  HiddenName where);
  async::Task<Result<Renamed>> rename_over_renamed(Renaming what, std::shared_ptr<Inode> replaced);
  async::Task<Result<Renamed>> rename_now(Renaming what);
  void unlinked(const Inode& directory, const std::string& name);
  class Going;
  async::Task<bool> await_emptying(std::shared_ptr<Inode> parent, std::string name);
  [[nodiscard]] bool is_being_emptied(const FileHandle& directory) const;

  Engine& engine_;
  Inodes& inodes_;
  Freshness& freshness_;
  Counters& counters_;
  Retries retries_;
  std::uint64_t opening_ = 0;  // opens under way
  unsigned unseen_ =
      0;  // removals and renamings under way of which it is not known what they take a name from
  std::uint64_t unseen_at_ = 0;  // Freshness::count() at the end of the last of them
  std::uint64_t last_hidden_ = 0;
  std::vector<std::weak_ptr<Inode>> with_hidden_;  // those that have hidden names, or had
  std::vector<FileHandle> going_;                  // directories of hidden names that are being removed
  async::Event gone_;                              // one of these
};

}  // namespace nfsrdma::fs
