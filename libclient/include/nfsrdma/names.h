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
// Each operation exists as a blocking call, such as stat(), and as a call that is only started, such as
// start_stat(), whose callback receives the result. A call that was started on a Directory continues after
// the Directory is destroyed; the destructor of the Client cancels it. client.h describes for all calls:
// thread-safety, callbacks, deadlines, interruption, and memory. CallOptions is in calling.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfsrdma/acl.h"
#include "nfsrdma/calling.h"
#include "nfsrdma/file.h"
#include "nfsrdma/listing.h"
#include "nfsrdma/many.h"
#include "nfsrdma/many_operations.h"
#include "nfsrdma/names_operations.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

class Directory;

class Names {
  // First, because the functions below need its type.
  [[nodiscard]] auto file_maker() const {
    return [client = client_](nfsrdma_file* file) { return std::unique_ptr<File>(new File(file, client)); };
  }
  [[nodiscard]] auto directory_maker() const;

 public:
  using Ended = File::Ended;
  using Told = File::Told;
  /// If the callback does not take the file, the file is closed.
  using Opened = std::function<void(Result<std::unique_ptr<File>>)>;
  using OpenedDirectory = std::function<void(Result<std::unique_ptr<Directory>>)>;
  using ToldText = std::function<void(Result<std::string>)>;
  using ToldTexts = std::function<void(Result<std::vector<std::string>>)>;
  using ToldBytes = std::function<void(Result<std::vector<std::byte>>)>;
  using ToldSpace = std::function<void(Result<FilesystemSpace>)>;
  using ToldAccess = std::function<void(Result<unsigned>)>;
  using ToldAcl = std::function<void(Result<Acl>)>;
  using ManyRead = std::function<void(std::vector<Result<FileRead>>)>;
  using ManyWritten = std::function<void(std::vector<Result<FileWritten>>)>;
  using ManyTold = std::function<void(std::vector<Result<Attributes>>)>;

  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  // ---- attributes ----

  Result<Attributes> stat(std::string_view path, bool follow = true, const CallOptions& options = {}) {
    return api_detail::run(api_detail::stat_operation(dir_, path, follow), options);
  }
  void start_stat(std::string_view path, Told done, bool follow = true, const CallOptions& options = {}) {
    start(api_detail::stat_operation(dir_, path, follow), std::move(done), options);
  }
  Status set_attributes(std::string_view path, const SetAttributes& changes, bool follow = true,
                        const CallOptions& options = {}) {
    return api_detail::run(api_detail::set_attributes_operation(dir_, path, changes, follow), options);
  }
  void start_set_attributes(std::string_view path, const SetAttributes& changes, Ended done,
                            bool follow = true, const CallOptions& options = {}) {
    start(api_detail::set_attributes_operation(dir_, path, changes, follow), std::move(done), options);
  }
  /// `wanted`: bits of access(2): 4 read, 2 write, 1 execute. Returns those of them that the server grants.
  Result<unsigned> access(std::string_view path, unsigned wanted, const CallOptions& options = {}) {
    return api_detail::run(api_detail::access_operation(dir_, path, wanted), options);
  }
  void start_access(std::string_view path, unsigned wanted, ToldAccess done,
                    const CallOptions& options = {}) {
    start(api_detail::access_operation(dir_, path, wanted), std::move(done), options);
  }
  Result<FilesystemSpace> space(std::string_view path, const CallOptions& options = {}) {
    return api_detail::run(api_detail::space_operation(dir_, path), options);
  }
  void start_space(std::string_view path, ToldSpace done, const CallOptions& options = {}) {
    start(api_detail::space_operation(dir_, path), std::move(done), options);
  }
  Result<std::string> read_link(std::string_view path, const CallOptions& options = {}) {
    const auto make = [&](std::size_t room) { return api_detail::read_link_operation(dir_, path, room); };
    return api_detail::run_growing(make, api_detail::kPathRoom, options);
  }
  /// ERANGE if the link has more than 4096 bytes.
  void start_read_link(std::string_view path, ToldText done, const CallOptions& options = {}) {
    start(api_detail::read_link_operation(dir_, path, api_detail::kPathRoom), std::move(done), options);
  }

  // ---- listing a directory ----

  /// Calls `entry` for each entry in the server's order, without "." and "..", until it returns false. The
  /// memory needed does not grow with the directory. `entry` may make other calls on this client, for example
  /// to read a symbolic link, because no lock is held while it runs.
  Status list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry,
              const CallOptions& options = {}) {
    const Result<std::unique_ptr<Listing>> listing = open_listing(path);
    if (!listing) return listing.error();
    while (true) {
      const Result<Listing::Page> page = (*listing)->next(options);
      if (!page) return page.error();
      if (page->empty()) return {};
      for (const DirectoryEntry& one : *page) {
        if (!entry(one)) return {};
      }
    }
  }
  /// Makes a Listing (listing.h), which asks the server nothing yet: its first next() reports a path that
  /// leads to no directory.
  Result<std::unique_ptr<Listing>> open_listing(std::string_view path) {
    if (api_detail::has_nul(path)) return api_detail::nul_error(path);
    api_detail::OwnedError error;
    nfsrdma_listing* const listing = nfsrdma_listing_new(dir_, std::string(path).c_str(), error.room());
    if (listing == nullptr) return error_from(error.get());
    return std::unique_ptr<Listing>(new Listing(listing, client_));
  }

  // ---- making, removing and renaming ----

  Status make_directory(std::string_view path, std::uint32_t mode, const CallOptions& options = {}) {
    return api_detail::run(api_detail::make_directory_operation(dir_, path, mode), options);
  }
  void start_make_directory(std::string_view path, std::uint32_t mode, Ended done,
                            const CallOptions& options = {}) {
    start(api_detail::make_directory_operation(dir_, path, mode), std::move(done), options);
  }
  Status symlink(std::string_view text, std::string_view created, const CallOptions& options = {}) {
    return api_detail::run(api_detail::symlink_operation(dir_, text, created), options);
  }
  void start_symlink(std::string_view text, std::string_view created, Ended done,
                     const CallOptions& options = {}) {
    start(api_detail::symlink_operation(dir_, text, created), std::move(done), options);
  }
  /// Makes a fifo or a socket, or a character or block device with the given numbers.
  Status make_node(std::string_view path, FileType type, std::uint32_t mode, std::uint32_t major = 0,
                   std::uint32_t minor = 0, const CallOptions& options = {}) {
    return api_detail::run(api_detail::make_node_operation(dir_, path, type, mode, major, minor), options);
  }
  void start_make_node(std::string_view path, FileType type, std::uint32_t mode, Ended done,
                       std::uint32_t major = 0, std::uint32_t minor = 0, const CallOptions& options = {}) {
    start(api_detail::make_node_operation(dir_, path, type, mode, major, minor), std::move(done), options);
  }
  /// EISDIR for a directory.
  Status remove_file(std::string_view path, const CallOptions& options = {}) {
    return api_detail::run(api_detail::remove_file_operation(dir_, path), options);
  }
  void start_remove_file(std::string_view path, Ended done, const CallOptions& options = {}) {
    start(api_detail::remove_file_operation(dir_, path), std::move(done), options);
  }
  /// ENOTDIR for anything but a directory.
  Status remove_directory(std::string_view path, const CallOptions& options = {}) {
    return api_detail::run(api_detail::remove_directory_operation(dir_, path), options);
  }
  void start_remove_directory(std::string_view path, Ended done, const CallOptions& options = {}) {
    start(api_detail::remove_directory_operation(dir_, path), std::move(done), options);
  }
  Status rename(std::string_view from, std::string_view to, const CallOptions& options = {}) {
    return rename(from, *this, to, options);
  }
  void start_rename(std::string_view from, std::string_view to, Ended done, const CallOptions& options = {}) {
    start_rename(from, *this, to, std::move(done), options);
  }
  Status link(std::string_view existing, std::string_view created, const CallOptions& options = {}) {
    return link(existing, *this, created, options);
  }
  void start_link(std::string_view existing, std::string_view created, Ended done,
                  const CallOptions& options = {}) {
    start_link(existing, *this, created, std::move(done), options);
  }
  // With the second path relative to `target`: the Client itself, or another Directory of the same Client.
  // EXDEV for anything of another Client.
  Status rename(std::string_view from, Names& target, std::string_view to, const CallOptions& options = {}) {
    return api_detail::run(api_detail::rename_operation(dir_, from, target.dir_, to), options);
  }
  void start_rename(std::string_view from, Names& target, std::string_view to, Ended done,
                    const CallOptions& options = {}) {
    start(api_detail::rename_operation(dir_, from, target.dir_, to), std::move(done), options);
  }
  Status link(std::string_view existing, Names& target, std::string_view created,
              const CallOptions& options = {}) {
    return api_detail::run(api_detail::link_operation(dir_, existing, target.dir_, created), options);
  }
  void start_link(std::string_view existing, Names& target, std::string_view created, Ended done,
                  const CallOptions& options = {}) {
    start(api_detail::link_operation(dir_, existing, target.dir_, created), std::move(done), options);
  }

  // ---- opening ----

  Result<std::unique_ptr<File>> open(std::string_view path, OpenMode mode, const OpenFlags& flags = {},
                                     const CallOptions& options = {}) {
    return api_detail::run(api_detail::open_operation(dir_, path, mode, flags, file_maker()), options);
  }
  void start_open(std::string_view path, OpenMode mode, Opened done, const OpenFlags& flags = {},
                  const CallOptions& options = {}) {
    start(api_detail::open_operation(dir_, path, mode, flags, file_maker()), std::move(done), options);
  }
  /// ENOTDIR if the path leads to anything but a directory.
  Result<std::unique_ptr<Directory>> open_directory(std::string_view path, const CallOptions& options = {});
  void start_open_directory(std::string_view path, OpenedDirectory done, const CallOptions& options = {});

  // ---- many files at once (many.h): one result for each item, in the order of the items. The items of a
  // call that is started are copied; the data that they lead to must stay valid until `done` runs ----

  std::vector<Result<FileRead>> read_many(std::span<const ReadItem> items, const CallOptions& options = {}) {
    return api_detail::run(api_detail::read_many_operation(dir_, items), options);
  }
  void start_read_many(std::span<const ReadItem> items, ManyRead done, const CallOptions& options = {}) {
    start(api_detail::read_many_operation(dir_, items), std::move(done), options);
  }
  std::vector<Result<FileWritten>> write_many(std::span<const WriteItem> items,
                                              const CallOptions& options = {}) {
    return api_detail::run(api_detail::write_many_operation(dir_, items), options);
  }
  void start_write_many(std::span<const WriteItem> items, ManyWritten done, const CallOptions& options = {}) {
    start(api_detail::write_many_operation(dir_, items), std::move(done), options);
  }
  std::vector<Result<Attributes>> stat_many(std::span<const std::string> paths, bool follow = true,
                                            const CallOptions& options = {}) {
    return api_detail::run(api_detail::stat_many_operation(dir_, paths, follow), options);
  }
  void start_stat_many(std::span<const std::string> paths, ManyTold done, bool follow = true,
                       const CallOptions& options = {}) {
    start(api_detail::stat_many_operation(dir_, paths, follow), std::move(done), options);
  }

  // ---- extended attributes: `name` without "user."; ENODATA if no attribute has this name; EOPNOTSUPP if
  // the server has no extended attributes. The calls that are started take values and lists of names of up to
  // 64 KiB, as Linux does; ERANGE for longer ones ----

  Result<std::vector<std::byte>> get_xattr(std::string_view path, std::string_view name, bool follow = true,
                                           const CallOptions& options = {}) {
    const auto make = [&](std::size_t room) {
      return api_detail::get_xattr_operation(dir_, path, name, follow, room);
    };
    return api_detail::run_growing(make, api_detail::kXattrRoom, options);
  }
  void start_get_xattr(std::string_view path, std::string_view name, ToldBytes done, bool follow = true,
                       const CallOptions& options = {}) {
    start(api_detail::get_xattr_operation(dir_, path, name, follow, api_detail::kXattrRoom), std::move(done),
          options);
  }
  Status set_xattr(std::string_view path, std::string_view name, std::span<const std::byte> value,
                   XattrMode mode = XattrMode::either, bool follow = true, const CallOptions& options = {}) {
    return api_detail::run(api_detail::set_xattr_operation(dir_, path, name, value, mode, follow), options);
  }
  /// `value` must stay valid until `done` runs.
  void start_set_xattr(std::string_view path, std::string_view name, std::span<const std::byte> value,
                       Ended done, XattrMode mode = XattrMode::either, bool follow = true,
                       const CallOptions& options = {}) {
    start(api_detail::set_xattr_operation(dir_, path, name, value, mode, follow), std::move(done), options);
  }
  Status remove_xattr(std::string_view path, std::string_view name, bool follow = true,
                      const CallOptions& options = {}) {
    return api_detail::run(api_detail::remove_xattr_operation(dir_, path, name, follow), options);
  }
  void start_remove_xattr(std::string_view path, std::string_view name, Ended done, bool follow = true,
                          const CallOptions& options = {}) {
    start(api_detail::remove_xattr_operation(dir_, path, name, follow), std::move(done), options);
  }
  Result<std::vector<std::string>> list_xattrs(std::string_view path, bool follow = true,
                                               const CallOptions& options = {}) {
    const auto make = [&](std::size_t room) {
      return api_detail::list_xattrs_operation(dir_, path, follow, room);
    };
    return api_detail::run_growing(make, api_detail::kXattrRoom, options);
  }
  void start_list_xattrs(std::string_view path, ToldTexts done, bool follow = true,
                         const CallOptions& options = {}) {
    start(api_detail::list_xattrs_operation(dir_, path, follow, api_detail::kXattrRoom), std::move(done),
          options);
  }

  // ---- access control lists; EOPNOTSUPP if the server has none for the object, or only the other form ----

  Result<Acl> get_acl(std::string_view path, bool follow = true, const CallOptions& options = {}) {
    return api_detail::run(api_detail::get_acl_operation(dir_, path, follow), options);
  }
  void start_get_acl(std::string_view path, ToldAcl done, bool follow = true,
                     const CallOptions& options = {}) {
    start(api_detail::get_acl_operation(dir_, path, follow), std::move(done), options);
  }
  /// Replaces the whole list. For POSIX lists both are replaced: the access list must be given (see
  /// completed() in acl.h), and an empty default list removes that of a directory.
  Status set_acl(std::string_view path, const Acl& acl, bool follow = true, const CallOptions& options = {}) {
    return api_detail::run(api_detail::set_acl_operation(dir_, path, acl, follow), options);
  }
  void start_set_acl(std::string_view path, const Acl& acl, Ended done, bool follow = true,
                     const CallOptions& options = {}) {
    start(api_detail::set_acl_operation(dir_, path, acl, follow), std::move(done), options);
  }

  /// Returns the directory of the C interface. It stays this object's.
  [[nodiscard]] nfsrdma_dir* directory_handle() const { return dir_; }

 protected:
  Names(nfsrdma_dir* dir, std::shared_ptr<api_detail::ClientState> client)
      : dir_(dir), client_(std::move(client)) {}
  ~Names() = default;

  [[nodiscard]] api_detail::ClientState& state() { return *client_; }
  template <class Op, class Done>
  void start(Op&& operation, Done&& done, const CallOptions& options) {
    api_detail::start(*client_, std::shared_ptr<api_detail::Life>(client_, &client_->life),
                      std::forward<Op>(operation), std::forward<Done>(done), options);
  }

 private:
  nfsrdma_dir* const dir_;
  const std::shared_ptr<api_detail::ClientState> client_;
};

/// A directory that is identified by its file handle: it stays the same directory when it is renamed. The
/// server keeps no state for it. After the directory is removed, calls fail with ESTALE. A Directory must not
/// outlive its Client.
class Directory : public Names {
 public:
  ~Directory() { nfsrdma_dir_free(directory_handle()); }

 private:
  friend class Names;
  using Names::Names;
};

inline auto Names::directory_maker() const {
  return
      [client = client_](nfsrdma_dir* dir) { return std::unique_ptr<Directory>(new Directory(dir, client)); };
}
inline Result<std::unique_ptr<Directory>> Names::open_directory(std::string_view path,
                                                                const CallOptions& options) {
  return api_detail::run(api_detail::open_directory_operation(dir_, path, directory_maker()), options);
}
inline void Names::start_open_directory(std::string_view path, OpenedDirectory done,
                                        const CallOptions& options) {
  start(api_detail::open_directory_operation(dir_, path, directory_maker()), std::move(done), options);
}

}  // namespace nfsrdma
