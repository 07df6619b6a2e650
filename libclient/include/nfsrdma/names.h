// Operations on names, by path. Names is the common base of Client, whose paths begin at the server's root,
// and of Directory, whose relative paths begin at that directory.
//
//     auto directory = client->open_directory("/export/photos");
//     auto picture = (*directory)->stat("1969/moon.jpg");   // one round trip, even if /export is renamed
//     auto file = (*directory)->open("1969/moon.jpg", nfsrdma::OpenMode::read);
//
// In a path "/" separates names; "." and ".." are resolved in the path's text, without asking the server. A
// path that begins with "/" always begins at the server's root. Symbolic links on the way are followed, and a
// link at the end if the call says so; more than forty are an error (ELOOP). A path without links takes one
// round trip, that of the operation itself, if the server accepts that many names in one request.
//
// Thread-safety, deadlines, interruption, and the limits of callbacks: see client.h, which describes them for
// all calls. A call that was started on a Directory continues after the Directory is destroyed.
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
  /// If the callback does not take the file, the file is closed.
  using Opened = std::function<void(Result<std::unique_ptr<File>>)>;

  virtual ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  virtual Result<Attributes> stat(std::string_view path, bool follow = true) = 0;
  virtual void start_stat(std::string_view path, Told done, bool follow = true) = 0;
  virtual Result<std::string> read_link(std::string_view path) = 0;
  virtual Result<FilesystemSpace> space(std::string_view path) = 0;
  /// Calls `entry` for each entry in the server's order, without "." and "..", until it returns false. The
  /// memory needed does not grow with the directory. `entry` may make other calls on this client, for example
  /// to read a symbolic link, because no lock is held while it runs.
  virtual Status list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry) = 0;
  virtual Status make_directory(std::string_view path, std::uint32_t mode) = 0;
  virtual Status symlink(std::string_view text, std::string_view created) = 0;
  /// Makes a fifo or a socket, or a character or block device with the given numbers.
  virtual Status make_node(std::string_view path, FileType type, std::uint32_t mode, std::uint32_t major = 0,
                           std::uint32_t minor = 0) = 0;
  virtual Status remove_file(std::string_view path) = 0;       ///< EISDIR for a directory
  virtual Status remove_directory(std::string_view path) = 0;  ///< ENOTDIR for anything else
  virtual Status rename(std::string_view from, std::string_view to) = 0;
  virtual Status link(std::string_view existing, std::string_view created) = 0;
  /// Like rename() and link() above, with the second path relative to `target`: the Client itself, or another
  /// Directory of the same Client. EXDEV for anything of another Client.
  virtual Status rename(std::string_view from, Names& target, std::string_view to) = 0;
  virtual Status link(std::string_view existing, Names& target, std::string_view created) = 0;
  virtual Status set_attributes(std::string_view path, const SetAttributes& changes, bool follow = true) = 0;
  /// `wanted`: bits of access(2): 4 read, 2 write, 1 execute. Returns those of them that the server grants.
  virtual Result<unsigned> access(std::string_view path, unsigned wanted) = 0;
  virtual Result<std::unique_ptr<File>> open(std::string_view path, OpenMode mode,
                                             const OpenFlags& flags = {}) = 0;
  virtual void start_open(std::string_view path, OpenMode mode, Opened done, const OpenFlags& flags = {}) = 0;
  /// ENOTDIR if the path leads to anything but a directory.
  virtual Result<std::unique_ptr<Directory>> open_directory(std::string_view path) = 0;

  // ---- many files at once (many.h): one result for each item, in the order of the items ----

  virtual std::vector<Result<FileRead>> read_many(std::span<const ReadItem> items) = 0;
  virtual std::vector<Result<FileWritten>> write_many(std::span<const WriteItem> items) = 0;
  virtual std::vector<Result<Attributes>> stat_many(std::span<const std::string> paths,
                                                    bool follow = true) = 0;

  // ---- extended attributes: `name` without "user."; ENODATA if no attribute has this name; EOPNOTSUPP if
  // the
  // server has no extended attributes ----

  virtual Result<std::vector<std::byte>> get_xattr(std::string_view path, std::string_view name,
                                                   bool follow = true) = 0;
  virtual Status set_xattr(std::string_view path, std::string_view name, std::span<const std::byte> value,
                           XattrMode mode = XattrMode::either, bool follow = true) = 0;
  virtual Status remove_xattr(std::string_view path, std::string_view name, bool follow = true) = 0;
  virtual Result<std::vector<std::string>> list_xattrs(std::string_view path, bool follow = true) = 0;

  // ---- access control lists; EOPNOTSUPP if the server has none for the object, or has only the other form
  // ----

  virtual Result<Acl> get_acl(std::string_view path, bool follow = true) = 0;
  /// Replaces the whole list. For POSIX lists both are replaced: the access list must be given (see
  /// completed() in acl.h), and an empty default list removes that of a directory.
  virtual Status set_acl(std::string_view path, const Acl& acl, bool follow = true) = 0;

 protected:
  Names() = default;
};

/// A directory that is identified by its file handle: it stays the same directory when it is renamed. The
/// server keeps no state for it. After the directory is removed, calls fail with ESTALE. A Directory must not
/// outlive its Client.
class NFSRDMA_API Directory : public Names {
 public:
  ~Directory() override;

 protected:
  Directory() = default;
};

}  // namespace nfsrdma
