// A tree on this machine, while it is made or read. Directories are used by descriptors, so that nothing
// leads out of the tree, neither a symbolic link nor a name that a server gives.
//
// Thread-safety: a LocalDirectory is shared by the tasks that work in it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/local.h"
#include "cli/part_file.h"

namespace nfsrdma::cli {

struct LocalEntry {
  std::string name;
  struct stat facts{};
  std::optional<std::uint32_t> kept_mode =
      {};  ///< permissions that the copy gets instead of those of `facts`
  [[nodiscard]] FileType type() const;
  [[nodiscard]] std::uint64_t size() const { return static_cast<std::uint64_t>(facts.st_size); }
};
Attributes attributes_of(const struct stat& facts);

class LocalDirectory {
 public:
  using Ref = std::shared_ptr<LocalDirectory>;

  /// Opens an existing directory that the user has named. Symbolic links are followed.
  static Result<Ref> open(const std::string& path);
  /// Opens the directory `name` in `above`. A symbolic link is not followed.
  static Result<Ref> open_in(const Ref& above, const std::string& name);
  /// Makes the directory if it does not exist. When the last reference is dropped, a new directory gets the
  /// mode of `traits`. With Keep::everything an existing one gets the mode as well, and both get owner, group and
  /// times.
  static Result<Ref> make_in(const Ref& above, const std::string& name, const Attributes& traits, Keep keep);
  ~LocalDirectory();
  LocalDirectory(const LocalDirectory&) = delete;
  LocalDirectory& operator=(const LocalDirectory&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Gives the directory what it keeps of its source when the last reference is dropped. Before there are tasks
  /// that use it.
  void finish_with(const Attributes& traits, Keep keep);
  /// Lets the owner in until the last reference is dropped, if the mode does not.
  void open_up();
  /// Returns all entries. Those whose attributes cannot be read are handed to `failed`, and left out.
  Result<std::vector<LocalEntry>> list(const std::function<void(const Error&)>& failed) const;
  Result<LocalEntry> entry(const std::string& name) const;
  /// Opens a regular file to be read, and renews its attributes: since it was listed, it may have become longer,
  /// or another file.
  Result<Descriptor> open_file(LocalEntry& entry, const char* operation) const;

  /// A file to write. finish() replaces a file that exists under this name. If finish() is not called, that
  /// file stays.
  struct New {
    Descriptor fd;
    std::string name, temporary;             ///< equal if no file existed
    std::optional<std::uint32_t> kept_mode;  ///< permissions of a regular file that is replaced
    std::uint64_t begin = 0;                 ///< of a part: the bytes that it has already
    bool is_part = false;                    ///< stays if it is not finished
  };
  /// The name of a new file until it is complete.
  enum class Naming : std::uint8_t { its_own, temporary };
  Result<New> create(const std::string& name, std::uint32_t mode, Naming naming = Naming::its_own);
  /// Opens the part of a copy that was cut off, or begins one (part_file.h).
  Result<New> create_part(const std::string& name, std::uint32_t mode, const PartOf& of);
  /// With Keep::everything the file gets owner, mode and times of `traits`. Until then only its owner can use it.
  Status finish(New& file, const Attributes& traits, Keep keep);
  void discard(New& file);
  /// Makes a symbolic link. If this fails, a file that exists under this name stays.
  Status symlink(const std::string& text, const std::string& name);

 private:
  LocalDirectory(Descriptor fd, std::string path, Ref above)
      : fd_(std::move(fd)), path_(std::move(path)), above_(std::move(above)) {}

  Descriptor fd_;
  const std::string path_;  // for messages
  const Ref above_;         // is finished after this one
  Result<New> create_temporary(New file, std::uint32_t mode) const;

  // Mode, traits and time that the destructor sets.
  std::optional<std::uint32_t> mode_;
  std::optional<Traits> exact_;
  std::optional<Time> modified_;
};

Status write_all(int fd, std::span<const std::byte> data, const std::string& path);

}  // namespace nfsrdma::cli
