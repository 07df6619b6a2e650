// Names on the server, by path: of a Client, whose paths begin at the server's root, and of a Directory, whose
// relative paths begin there.
//
//     auto directory = client->open_directory("/export/photos");
//     auto picture = (*directory)->stat("1969/moon.jpg");        // one round trip, whatever renames /export
//     auto file = (*directory)->open("1969/moon.jpg", nfsrdma::OpenMode::read);
//
// A path has "/" between names; "." and ".." are resolved here, from its text. One that begins with "/" begins
// at the root in any case. Symbolic links are followed on the way, and at the end where it says so, forty of
// them at most (ELOOP). A path without links takes one round trip, its operation's, if the server takes as
// many names at once.
//
// Thread-safety, deadlines, interruption, and what a callback may do: as client.h says it for all calls. What is
// started on a Directory goes on when that is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/acl.h"
#include "nfsrdma/export.h"
#include "nfsrdma/file.h"
#include "nfsrdma/many.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

class Directory;

class NFSRDMA_API Names {
 public:
  using Told = File::Told;
  /// A file that the callback does not take is closed again.
  using Opened = std::function<void(Result<std::unique_ptr<File>>)>;

  virtual ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  virtual Result<Attributes> stat(std::string_view path, bool follow = true) = 0;
  virtual void start_stat(std::string_view path, Told done, bool follow = true) = 0;
  virtual Result<std::string> read_link(std::string_view path) = 0;
  virtual Result<FilesystemSpace> space(std::string_view path) = 0;
  /// Calls `entry` for each entry in the server's order, without "." and ".."; stops when it returns false.
  /// Memory does not grow with the directory. `entry` may make other calls on this client, as for the text of
  /// a symbolic link: no lock is held while it runs.
  virtual Status list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry) = 0;
  virtual Status make_directory(std::string_view path, std::uint32_t mode) = 0;
  virtual Status symlink(std::string_view text, std::string_view created) = 0;
  /// A fifo or socket, or, with its numbers, a character or block device.
  virtual Status make_node(std::string_view path, FileType type, std::uint32_t mode, std::uint32_t major = 0,
                           std::uint32_t minor = 0) = 0;
  virtual Status remove_file(std::string_view path) = 0;       ///< EISDIR for a directory
  virtual Status remove_directory(std::string_view path) = 0;  ///< ENOTDIR for anything else
  virtual Status rename(std::string_view from, std::string_view to) = 0;
  virtual Status link(std::string_view existing, std::string_view created) = 0;
  /// The same where the second path begins in `target`: the Client itself, or another Directory of it.
  virtual Status rename(std::string_view from, Names& target, std::string_view to) = 0;
  virtual Status link(std::string_view existing, Names& target, std::string_view created) = 0;
  virtual Status set_attributes(std::string_view path, const SetAttributes& changes, bool follow = true) = 0;
  /// Bits of access(2): 4 read, 2 write, 1 execute; gives those that the server grants.
  virtual Result<unsigned> access(std::string_view path, unsigned wanted) = 0;
  virtual Result<std::unique_ptr<File>> open(std::string_view path, OpenMode mode,
                                             const OpenFlags& flags = {}) = 0;
  virtual void start_open(std::string_view path, OpenMode mode, Opened done, const OpenFlags& flags = {}) = 0;
  /// ENOTDIR for anything else.
  virtual Result<std::unique_ptr<Directory>> open_directory(std::string_view path) = 0;

  // ---- many files at once (many.h): one result for each item, in their order ----

  virtual std::vector<Result<FileRead>> read_many(std::span<const ReadItem> items) = 0;
  virtual std::vector<Result<FileWritten>> write_many(std::span<const WriteItem> items) = 0;
  virtual std::vector<Result<Attributes>> stat_many(std::span<const std::string> paths,
                                                    bool follow = true) = 0;

  // ---- extended attributes: `name` without "user."; ENODATA: there is none of this name; EOPNOTSUPP: the
  // server has none ----

  virtual Result<std::vector<std::byte>> get_xattr(std::string_view path, std::string_view name,
                                                   bool follow = true) = 0;
  virtual Status set_xattr(std::string_view path, std::string_view name, std::span<const std::byte> value,
                           XattrMode mode = XattrMode::either, bool follow = true) = 0;
  virtual Status remove_xattr(std::string_view path, std::string_view name, bool follow = true) = 0;
  virtual Result<std::vector<std::string>> list_xattrs(std::string_view path, bool follow = true) = 0;

  // ---- access control lists; EOPNOTSUPP: the server has none for this, or those of the other form ----

  virtual Result<Acl> get_acl(std::string_view path, bool follow = true) = 0;
  /// Replaces what the object has, of POSIX lists both: the access list must be there (completed()), and an empty
  /// default list removes the one of a directory.
  virtual Status set_acl(std::string_view path, const Acl& acl, bool follow = true) = 0;

 protected:
  Names() = default;
};

/// A directory that is known by what it is, however it is called by now. The server keeps nothing for it: once
/// it is removed calls fail with ESTALE. Must not outlive its Client.
class NFSRDMA_API Directory : public Names {
 public:
  ~Directory() override;

 protected:
  Directory() = default;
};

}  // namespace nfsrdma
