// A tree on this machine, while it is made or read: directories by descriptors, so that nothing leads out of it, neither a
// symbolic link nor a name that a server gives.
//
// Thread-safety: a LocalDirectory is shared by the tasks that work in it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cli/local.h"

namespace nfsrdma::cli {

class LocalDirectory {
 public:
  using Ref = std::shared_ptr<LocalDirectory>;

  /// `path`: a directory that is there, links followed: what the user named.
  static Result<Ref> open(const std::string& path);
  /// The directory `name` in `above`; no link is followed.
  static Result<Ref> open_in(const Ref& above, const std::string& name);
  /// Makes the directory if it does not exist. With the last reference to it, it gets the mode of `traits`. `exact`: also
  /// if it existed, and with owner, group and times.
  static Result<Ref> make_in(const Ref& above, const std::string& name, const Attributes& traits, bool exact);
  ~LocalDirectory();
  LocalDirectory(const LocalDirectory&) = delete;
  LocalDirectory& operator=(const LocalDirectory&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// A file to write. What is there under this name is replaced by finish(), and stays where that is not called.
  struct New {
    Descriptor fd;
    std::string name, temporary;             ///< the same where nothing was there
    std::optional<std::uint32_t> kept_mode;  ///< permissions of a regular file that is replaced
  };
  Result<New> create(const std::string& name, std::uint32_t mode);
  /// `exact`: owner, mode and times as in `traits`; only its owner could use the file until then.
  Status finish(New& file, const Attributes& traits, bool exact);
  void discard(New& file);
  /// What is there stays where this fails.
  Status symlink(const std::string& text, const std::string& name);

 private:
  LocalDirectory(Descriptor fd, std::string path, Ref above)
      : fd_(std::move(fd)), path_(std::move(path)), above_(std::move(above)) {}

  Descriptor fd_;
  const std::string path_;  // for messages
  const Ref above_;         // finished behind this one
  std::optional<std::uint32_t> mode_;
  std::optional<Traits> exact_;
};

Status write_all(int fd, std::span<const std::byte> data, const std::string& path);

}  // namespace nfsrdma::cli
