// A tree on this machine, while it is made or read. Directories are used by descriptors, so that nothing
// leads out of the tree, neither a symbolic link nor a name that a server gives.
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

  /// Opens an existing directory that the user has named. Symbolic links are followed.
  static Result<Ref> open(const std::string& path);
  /// Opens the directory `name` in `above`. A symbolic link is not followed.
  static Result<Ref> open_in(const Ref& above, const std::string& name);
  /// Makes the directory if it does not exist. When the last reference is dropped, a new directory gets the
  /// mode of `traits`. With `exact` an existing one gets the mode as well, and both get owner, group and
  /// times.
  static Result<Ref> make_in(const Ref& above, const std::string& name, const Attributes& traits, bool exact);
  ~LocalDirectory();
  LocalDirectory(const LocalDirectory&) = delete;
  LocalDirectory& operator=(const LocalDirectory&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// A file to write. finish() replaces a file that exists under this name. If finish() is not called, that
  /// file stays.
  struct New {
    Descriptor fd;
    std::string name, temporary;             ///< equal if no file existed
    std::optional<std::uint32_t> kept_mode;  ///< permissions of a regular file that is replaced
  };
  Result<New> create(const std::string& name, std::uint32_t mode);
  /// With `exact` the file gets owner, mode and times of `traits`. Until then only its owner can use it.
  Status finish(New& file, const Attributes& traits, bool exact);
  void discard(New& file);
  /// Makes a symbolic link. If this fails, a file that exists under this name stays.
  Status symlink(const std::string& text, const std::string& name);

 private:
  LocalDirectory(Descriptor fd, std::string path, Ref above)
      : fd_(std::move(fd)), path_(std::move(path)), above_(std::move(above)) {}

  Descriptor fd_;
  const std::string path_;  // for messages
  const Ref above_;         // is finished after this one
  std::optional<std::uint32_t> mode_;
  std::optional<Traits> exact_;
};

Status write_all(int fd, std::span<const std::byte> data, const std::string& path);

}  // namespace nfsrdma::cli
