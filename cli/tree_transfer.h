// get -r, put -r, cp: copy trees with several threads (crowd.h). Small files go together (nfsrdma/many.h),
// the others each by itself.
//
// A failure is reported, and the rest goes on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/crowd.h"
#include "cli/traits.h"

namespace nfsrdma::cli {

// Copies of a directory `from` to `to`, or to `to`/NAME if `to` is a directory and --no-target-directory is
// not given.

/// Copies a tree from a server.
void get_tree(Call& call, const Remote& from, const std::string& to);
/// Copies a local directory to a server.
void put_tree(Call& call, const std::string& from, const Remote& to);
/// Copies a tree within one server, to exactly `to`.
void copy_tree(Call& call, const Remote& from, const Remote& to);
/// Reports that a signal has ended a copy, with the command that makes it again in the same place.
void say_interrupted(const Call& call, const std::string& from, const std::string& to);
/// Copies one file, of any size. With `preserve`, if need_a_handle() is true, the copy is a new file that
/// replaces the existing one.
Status copy_file(Tree& tree, const Remote& from, const Remote& to, const Attributes& attributes,
                 bool preserve);

// Functions that put and cp share. If a command is run again, they accept what an earlier run has made.

/// A directory on the server that gets its mode, with -p also its owner and times, when all tasks below it are
/// done. Each of these tasks holds a reference.
class RemoteDirectory {
 public:
  using Ref = std::shared_ptr<RemoteDirectory>;
  /// `finish` sets the mode and more; it may be empty.
  RemoteDirectory(Tree& tree, Remote remote, std::function<Status()> finish, Ref above)
      : tree_(tree), remote_(std::move(remote)), finish_(std::move(finish)), above_(std::move(above)) {}
  ~RemoteDirectory() {
    if (finish_) tree_.complete(std::move(finish_));
  }
  RemoteDirectory(const RemoteDirectory&) = delete;
  RemoteDirectory& operator=(const RemoteDirectory&) = delete;
  [[nodiscard]] const Remote& remote() const { return remote_; }

 private:
  Tree& tree_;
  const Remote remote_;
  std::function<Status()> finish_;
  const Ref above_;
};

/// Accepts an existing directory. `made` is the result of making it, and EEXIST counts as success if it is a
/// directory. With `follow` a symbolic link to a directory counts as well, which is right for a path that the
/// user named. A link inside a tree may be another user's, and lead anywhere.
Status accept_existing(const Remote& directory, const Status& made, bool follow = true);
/// Writes the data of an open file and gives the file back. A failure closes it.
using Fill = std::function<Result<std::unique_ptr<File>>(std::unique_ptr<File> file)>;
/// Makes a new file with `traits` that replaces `to` when it is complete. `fill` writes its data.
Status replace_exactly(Tree& tree, const Remote& to, const Traits& traits, const Fill& fill);
/// Clears the set-id bits of a file that was written in place. `after`: its attributes after that, if the server gave them.
Status clear_set_ids(const Remote& file, const std::optional<Attributes>& after);
/// Makes a symbolic link. An existing link with this text counts as success.
Status make_symlink(const Remote& link, const std::string& text);

}  // namespace nfsrdma::cli
