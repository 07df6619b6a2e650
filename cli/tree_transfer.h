// get -r, put -r, cp: copy trees with several threads (crowd.h). Small files go together (nfsrdma/many.h),
// the others each by itself.
//
// A failure is reported, and the rest goes on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/crowd.h"
#include "cli/part_file.h"
#include "cli/traits.h"
#include "cli/transfer.h"
#include "cli/tree_spot.h"

namespace nfsrdma::cli {

/// How files are copied.
struct CopyRules {
  Keep keep = Keep::nothing;
  bool is_hidden = false;  ///< each file has a temporary name until it is complete
  bool resumes = false;    ///< large files have parts (part_file.h)

  [[nodiscard]] bool keeps_holes() const { return keep != Keep::nothing; }
  [[nodiscard]] bool has_part(std::uint64_t size) const { return resumes && cli::has_part(size); }
};
/// Returns the rules of get, put and cp with the options of the command line.
CopyRules rules_of(const Call& call);

/// Two directories of a copy.
struct Between {
  TreeSpot from, to;
  /// Called with the name and the size of each file, and of each symbolic link, that was copied. May be empty.
  std::function<void(const std::string&, std::uint64_t)> copied;
};

/// Copies entries of directories, which need not be all that are there.
class EntryCopier {
 public:
  EntryCopier() = default;
  virtual ~EntryCopier() = default;
  EntryCopier(const EntryCopier&) = delete;
  EntryCopier& operator=(const EntryCopier&) = delete;
  /// Adds tasks that copy the entries, which are no directories. Failures are reported.
  virtual void copy(const std::shared_ptr<const Between>& where, std::vector<TreeEntry> entries) = 0;
};
// The copiers must live until all tasks have ended.
std::unique_ptr<EntryCopier> make_getter(Tree& tree, Crowd& crowd, const CopyRules& rules);
std::unique_ptr<EntryCopier> make_putter(Tree& tree, Crowd& crowd, const CopyRules& rules);
/// From a server to a server, the same one or another one.
std::unique_ptr<EntryCopier> make_server_copier(Tree& tree, Crowd& crowd, const CopyRules& rules);

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
/// Copies one file, of any size. With Keep::everything, if need_a_handle() is true, the copy is a new file that
/// replaces the existing one. `kept_mode`: its permissions, if they are not those of `attributes`.
Status copy_file(Tree& tree, const Remote& from, const Remote& to, const Attributes& attributes,
                 const CopyRules& rules, std::optional<std::uint32_t> kept_mode = {});

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
/// Writes the data of an open file, from an offset on, and gives the file back. A failure closes it.
using Fill = std::function<Result<std::unique_ptr<File>>(std::unique_ptr<File> file, std::uint64_t begin)>;
/// A file on a server that is to replace another one.
struct Replacement {
  Traits traits;
  std::uint64_t size = 0;
  std::uint32_t mode = 0;  ///< permissions, unless all traits are kept
};
/// Makes a new file that replaces `to` when it is complete. `fill` writes its data. If that fails, the new file is
/// removed, unless it is a part that a later copy can go on with.
Status replace_file(Tree& tree, const Remote& to, const Replacement& made, const CopyRules& rules,
                    const Fill& fill);

/// A small file that is to be written on a server.
struct SmallFile {
  std::string name;
  std::span<const std::byte> data;
  std::uint32_t mode = 0;  ///< permissions
  Traits traits;           ///< without set-id bits
};
/// Writes small files into the directory `to`, many of them with one request. Returns one result for each.
std::vector<Status> write_small(Tree& tree, const Remote& to, const std::vector<SmallFile>& files,
                                const CopyRules& rules);
/// Writes a local file to one of a server, from `begin` on. Bytes before a multiple of part_step are on the server's disk
/// before those behind it are written.
Result<std::uint64_t> run_in_steps(Upload& upload, int fd, const std::string& name, FileRange range,
                                   bool sparse, const Moved& moved);
/// Clears the set-id bits of a file that was written in place. `after`: its attributes after that, if the server gave them.
Status clear_set_ids(const Remote& file, const std::optional<Attributes>& after);
/// Makes a symbolic link. An existing link with this text counts as success. `replaces`: another file that has this
/// name is replaced.
Status make_symlink(const Remote& link, const std::string& text, bool replaces = false);

}  // namespace nfsrdma::cli
