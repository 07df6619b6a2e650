// get -r, put -r, cp: trees, by several threads (crowd.h). Small files go together (nfsrdma/many.h), the others each by
// itself.
//
// What fails is reported, and the rest goes on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/crowd.h"
#include "cli/traits.h"

namespace nfsrdma::cli {

/// The directory `from` becomes `to`, or `to`/NAME where that is a directory.
void get_tree(Call& call, const Remote& from, const std::string& to);
/// The same the other way.
void put_tree(Call& call, const std::string& from, const Remote& to);
/// On one server.
void copy_tree(Call& call, const Remote& from, const Remote& to);
/// Copies one file, of any size. With `preserve` and where need_a_handle() says so, the copy is a new file, which replaces what is
/// there.
Status copy_file(Tree& tree, const Remote& from, const Remote& to, const Attributes& attributes,
                 bool preserve);

// What put and cp have in common. Run again, they find what an earlier one has made.

/// A directory on the server that gets its mode, with -p also its owner and times, when all tasks below it are done. Each of
/// these holds a reference.
class RemoteDirectory {
 public:
  using Ref = std::shared_ptr<RemoteDirectory>;
  /// `finish` does it; it may be empty.
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

/// `made`: what became of making this directory. EEXIST is well where one is there. `follow`: or a symbolic link to one, as
/// in what the user named; a link inside of a tree may be somebody else's, and lead anywhere.
Status accept_existing(const Remote& directory, const Status& made, bool follow = true);
/// Writes the data of an open file and gives the file back. A failure closes it.
using Fill = std::function<Result<std::unique_ptr<File>>(std::unique_ptr<File> file)>;
/// A new file, written by `fill`, that replaces `to` when it is complete, with `traits`.
Status replace_exactly(Tree& tree, const Remote& to, const Traits& traits, const Fill& fill);
/// Clears the set-id bits of a file that was written in place. `after`: its attributes after that, if the server gave them.
Status clear_set_ids(const Remote& file, const std::optional<Attributes>& after);
/// A symbolic link; one that is there with this text is as good.
Status make_symlink(const Remote& link, const std::string& text);

}  // namespace nfsrdma::cli
