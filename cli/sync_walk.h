// Walks through two trees at once, compares them, and has copied what differs: sync, get -ru, put -ru and cp -ru.
//
// A directory costs one listing on each side. What is to be copied in it goes to an EntryCopier, which is the pipeline
// of get, put or cp (tree_transfer.h). A SyncNode stands for a directory for as long as there are tasks in it or below
// it. Its end gives the directory its times, because everything that is done in the directory changes them.
//
// Nothing is removed before all sources were read. What is to be removed is noted meanwhile, without keeping the
// directories open, and finish() does it if every listing of the sources was complete.
//
// Failures are reported, and the rest goes on.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cli/sync_filter.h"
#include "cli/sync_plan.h"
#include "cli/sync_report.h"
#include "cli/tree_spot.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {

class SyncRun;

/// A directory of the source, and its copy.
struct SyncNode : std::enable_shared_from_this<SyncNode> {
  using Ref = std::shared_ptr<SyncNode>;

  SyncNode(SyncRun& its_run, TreeSpot source_spot, std::string its_path)
      : run(its_run), from(std::move(source_spot)), path(std::move(its_path)) {}
  ~SyncNode();
  SyncNode(const SyncNode&) = delete;
  SyncNode& operator=(const SyncNode&) = delete;

  SyncRun& run;
  const TreeSpot from;
  std::optional<TreeSpot> to;  ///< none: it does not exist, and would be made
  const std::string path;      ///< below DESTINATION; "" for DESTINATION itself
  Attributes source;
  std::optional<Attributes> there;  ///< attributes of the copy before; none: it is new
  Ref above;                        ///< ends later
  bool is_named = true;  ///< false: a directory that only holds the copies of sources, and stays as it is
  std::atomic<bool> is_touched = false, is_opened_up = false;
};

class SyncRun {
 public:
  /// The objects that the run works with. All of them outlive it.
  struct Means {
    Tree& tree;
    Crowd& crowd;
    EntryCopier& copier;
    const SyncFilter filter;
    SyncReport* report;  ///< null: none
  };
  SyncRun(const Means& means, const SyncRules& rules) : means_(means), rules_(rules) {}

  /// The directory that is not entered as a source, because the copy is made there. On one server only.
  void set_copy(const Attributes& copy) { copy_ = copy; }
  /// Directories that are never removed: the sources, if they are on the server of the copy.
  void protect(const Attributes& source) { protected_.push_back(source); }

  /// Compares all entries of a directory, in a task.
  void add(SyncNode::Ref node);
  /// Compares some entries of a directory: files that were named.
  void entries(const SyncNode::Ref& node, const std::vector<TreeEntry>& source,
               const std::vector<TreeEntry>& there);
  /// Compares a directory that was named, as `name` in the directory of `above`.
  void enter(const SyncNode::Ref& above, const SyncStep& step);
  /// A source could not be read: nothing is removed.
  void unread() { has_read_all_ = false; }
  /// Removes what is to be removed. For the main thread, when no task runs.
  void finish();

  void end(SyncNode& node);

 private:
  /// Removals in a directory, which wait until all sources were read.
  struct Later {
    SyncNode::Ref root;  ///< the directory from which `path` leads here
    std::string path;
    Attributes source, there;
    std::vector<TreeEntry> extraneous;
    std::vector<SyncStep> blocked;  ///< directories stand in their place
  };

  void walk(const SyncNode::Ref& node);
  [[nodiscard]] Result<std::vector<TreeEntry>> list_there(const SyncNode& node);
  void carry_out(const SyncNode::Ref& node, const SyncPlan& plan);
  void act(const SyncNode::Ref& node, const SyncStep& step);
  [[nodiscard]] bool clear_way(const SyncNode::Ref& node, const SyncStep& step);
  void copy(const SyncNode::Ref& node, const char* reason, std::vector<TreeEntry> entries);
  void compare_contents(const SyncNode::Ref& node, const SyncStep& step);
  void compare_texts(const SyncNode::Ref& node, const SyncStep& step);
  void set_traits(const SyncNode::Ref& node, const SyncStep& step);
  void copied(SyncNode& node, const std::string& name, const char* reason, std::uint64_t size);
  /// Compares a copy with its source. A copy that differs is removed.
  [[nodiscard]] bool is_verified(SyncNode& node, const std::string& name);
  void touch(SyncNode& node);
  [[nodiscard]] bool is_left_out(const std::string& path, const TreeEntry& entry) const;
  [[nodiscard]] bool is_kept(const std::string& path, const TreeEntry& entry) const;
  void note(SyncNode& node, std::vector<TreeEntry> extraneous, std::vector<SyncStep> blocked);

  void do_later(const Later& later);
  [[nodiscard]] Result<SyncNode::Ref> reopen(const Later& later);
  /// Removes the entries with all that is in them, apart from what is kept. Returns true if nothing was left.
  bool remove(const TreeSpot& in, const std::string& path, const std::vector<TreeEntry>& entries);
  bool remove_directory(const TreeSpot& in, const std::string& path, const TreeEntry& entry);

  void did(SyncAction action, const std::string& path, const char* reason, std::uint64_t bytes = 0) {
    if (means_.report != nullptr) means_.report->did(action, path, reason, bytes);
  }
  void count_unchanged() {
    if (means_.report != nullptr) means_.report->unchanged();
  }

  const Means means_;
  const SyncRules rules_;
  std::optional<Attributes> copy_;
  std::vector<Attributes> protected_;
  std::atomic<bool> has_read_all_ = true;
  std::mutex mutex_;
  std::vector<Later> later_;  // guarded by mutex_
};

/// The directory that a tree is copied to.
struct TreeRoot {
  TreeSpot spot;
  Attributes attributes;
  bool is_new = false;
};
/// Makes a directory on a server with the permissions of its source, or accepts one that exists.
Result<TreeRoot> make_root(const Remote& to, std::uint32_t source_mode);
/// Copies what is not up to date: get -ru, put -ru, cp -ru. Returns when all is copied.
void update_tree(const SyncRun::Means& means, Keep keep, const TreeSpot& from, const Attributes& source,
                 const TreeRoot& to);

/// "a/b" for "a" and "b", and "b" for "" and "b".
std::string path_below(const std::string& directory, const std::string& name);

}  // namespace nfsrdma::cli
