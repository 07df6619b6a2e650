// A directory of a tree, on this machine or on a server: what a copy in any direction asks of its two sides.
//
// A spot on this machine holds a descriptor, so nothing leads out of the tree (local_tree.h). A spot on a server is
// a path. Names are those of entries, without a slash.
//
// Thread-safety: a spot is shared by the tasks that work in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/crowd.h"
#include "cli/file_sum.h"
#include "cli/local_tree.h"
#include "cli/traits.h"

namespace nfsrdma::cli {

class TreeSpot {
 public:
  TreeSpot(LocalDirectory::Ref local) : local_(std::move(local)) {}  // NOLINT: implicit on purpose
  TreeSpot(Remote remote) : remote_(std::move(remote)) {}            // NOLINT: implicit on purpose

  [[nodiscard]] bool is_local() const { return local_ != nullptr; }
  [[nodiscard]] const LocalDirectory::Ref& local() const { return local_; }
  [[nodiscard]] const Remote& remote() const { return remote_; }
  /// For messages.
  [[nodiscard]] std::string text(const std::string& name) const;

  struct Listing {
    std::vector<TreeEntry> entries;
    bool is_whole = true;  ///< false: some entries were reported and left out
  };
  [[nodiscard]] Result<Listing> list(Tree& tree) const;
  /// Returns an entry, a symbolic link itself.
  [[nodiscard]] Result<TreeEntry> entry(const std::string& name) const;
  /// Returns a directory that is there. On this machine, a symbolic link is not followed.
  [[nodiscard]] Result<TreeSpot> child(const std::string& name) const;
  /// Makes a directory that only its owner can use until finish_directory().
  [[nodiscard]] Result<TreeSpot> make_child(const std::string& name, const Attributes& traits) const;
  [[nodiscard]] Result<std::string> read_link(const std::string& name) const;
  [[nodiscard]] Result<FileSum> sum(const TreeEntry& file, Tree& tree, bool from_disk) const;

  /// Gives a regular file what a copy keeps of `traits`, without touching its contents.
  [[nodiscard]] Status set_traits(const std::string& name, const Attributes& traits, Keep keep) const;
  [[nodiscard]] Status remove(const TreeEntry& entry) const;
  /// Removes entries that are no directories. Returns one result for each.
  [[nodiscard]] std::vector<Status> remove_files(const std::vector<TreeEntry>& files) const;

 private:
  LocalDirectory::Ref local_;
  Remote remote_;
};

}  // namespace nfsrdma::cli
