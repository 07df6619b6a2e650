// Operations on file handles: what a mount asks of the server, whose kernel has walked the path already.
//
//     Objects objects(session);
//     auto root = co_await objects.root(caller, path, attributes);
//     auto made = co_await objects.make_directory(caller, root->handle, "name", changes, {attributes,
//     changes});
//
// Each is one COMPOUND, which also brings the attributes that a mount wants to know afterwards (Wanted):
// those of the object, and those of its directory with change_info4. An operation that changed something has
// succeeded even where its attributes could not be had any more: they are then empty, to be asked for again.
//
// `caller` is whose rights count; null: those of the session. Names are single components, as they are; the
// server judges them. A symbolic link is never followed, except by root().
//
// A failed operation gives the server's status as an Error; DELAY and GRACE are waited for, and a lost Reply
// is had again from the session's slot (RFC 8881 2.10.6), so that nothing is executed twice while the server
// keeps its session. Where the session was lost, as in a restart of the server, the names tell whether it was
// done (outcome.cpp).
//
// Confined to the loop's thread. Arguments are taken by value: a task may outlive what it was called with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nfs4/path.h"
#include "nfs4/session.h"
#include "nfs4/types/attributes.h"
#include "nfsrdma/client.h"

namespace nfsrdma::nfs4 {

/// A file system object: its handle and what was asked of it.
struct Node {
  nfs_fh4 handle;
  WireAttributes attributes;
};

/// Which attributes are to come along; none of them: no GETATTR for it.
struct Wanted {
  bitmap4 object, directory;
};

/// What an operation did to a directory. `info.before` tells whether what was known of it still held; where
/// `info.atomic` is false somebody else may have changed it in between.
struct DirectoryChange {
  change_info4 info;
  std::optional<WireAttributes> attributes;
};

struct Created {
  Node node;
  DirectoryChange directory;
};

struct Renamed {
  DirectoryChange source, target;
};

struct Linked {
  std::optional<WireAttributes> object;
  DirectoryChange directory;
};

/// No node: there is no such name, as of the directory's attributes.
struct Looked {
  std::optional<Node> node;
  std::optional<WireAttributes> directory;
};

struct Granted {
  std::uint32_t supported = 0, access = 0;  ///< ACCESS4_*
  WireAttributes attributes;
};

struct DirectoryPage {
  struct Entry {
    nfs_cookie4 cookie = 0;  ///< where to go on behind it
    std::string name;
    /// rdattr_error, if asked for and set, says why there is nothing else.
    WireAttributes attributes;
  };
  std::vector<Entry> entries;
  verifier4 verifier{};
  bool eof = false;
};

class Objects {
 public:
  explicit Objects(Session& session) : session_(session) {}

  // ---- finding ----

  /// The export's directory: a walk that follows symbolic links.
  async::Task<Result<Node>> root(Caller caller, Path path, bitmap4 wanted);
  async::Task<Result<Looked>> lookup(Caller caller, nfs_fh4 directory, std::string name, Wanted wanted);
  /// ".."; NFS4ERR_NOENT at the root.
  async::Task<Result<Node>> lookup_parent(Caller caller, nfs_fh4 directory, bitmap4 wanted);

  // ---- attributes ----

  async::Task<Result<WireAttributes>> attributes(Caller caller, nfs_fh4 handle, bitmap4 wanted);
  /// `stateid`: of an open file where the size is set (OpenFile::stateid()), else zero (RFC 8881 18.30.3).
  /// Gives what was wanted, as it is afterwards. A size set here is to be told to
  /// OpenFiles::resized(): what is not committed behind it must not come back.
  async::Task<Result<WireAttributes>> set_attributes(Caller caller, nfs_fh4 handle, stateid4 stateid,
                                                     SetAttributes changes, bitmap4 wanted);
  async::Task<Result<Granted>> access(Caller caller, nfs_fh4 handle, std::uint32_t access, bitmap4 wanted);
  async::Task<Result<std::string>> read_link(Caller caller, nfs_fh4 handle);
  /// Of the file system that the object is in: FATTR4_SPACE_* and FATTR4_FILES_*, and MAXNAME.
  async::Task<Result<WireAttributes>> space(Caller caller, nfs_fh4 handle);

  // ---- directories ----

  async::Task<Result<Created>> make_directory(Caller caller, nfs_fh4 directory, std::string name,
                                              SetAttributes changes, Wanted wanted);
  async::Task<Result<Created>> make_symlink(Caller caller, nfs_fh4 directory, std::string name,
                                            std::string text, SetAttributes changes, Wanted wanted);
  /// `type`: NF4FIFO, NF4SOCK, NF4CHR or NF4BLK; the device counts for the latter two. (A regular file is
  /// made by OpenFiles::create.)
  async::Task<Result<Created>> make_node(Caller caller, nfs_fh4 directory, std::string name, nfs_ftype4 type,
                                         specdata4 device, SetAttributes changes, Wanted wanted);
  /// A file or an empty directory: whoever cares which looks first.
  async::Task<Result<DirectoryChange>> remove(Caller caller, nfs_fh4 directory, std::string name,
                                              bitmap4 wanted);
  async::Task<Result<Renamed>> rename(Caller caller, nfs_fh4 from, std::string old_name, nfs_fh4 to,
                                      std::string new_name, bitmap4 wanted);
  async::Task<Result<Linked>> link(Caller caller, nfs_fh4 object, nfs_fh4 directory, std::string name,
                                   Wanted wanted);
  /// One READDIR: entries behind `cookie` (0: the first), of at most about `most` bytes on the wire.
  /// `verifier` is that of the page before, zero for the first. NFS4ERR_NOT_SAME: begin again.
  /// "." and ".." are not among them (RFC 8881 18.23.3).
  async::Task<Result<DirectoryPage>> read_directory(Caller caller, nfs_fh4 directory, nfs_cookie4 cookie,
                                                    verifier4 verifier, bitmap4 wanted, std::uint32_t most);

  // ---- extended attributes (RFC 8276; xattrs.cpp). Names are without "user.". FATTR4_XATTR_SUPPORT says
  // whether the file system has them; NFSv4.1 has not: NFS4ERR_NOTSUPP ----

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, nfs_fh4 handle, std::string name);
  /// SETXATTR4_CREATE: NFS4ERR_EXIST if it is there; SETXATTR4_REPLACE: NFS4ERR_NOXATTR if it is not.
  async::Task<Result<change_info4>> set_xattr(Caller caller, nfs_fh4 handle, std::string name,
                                              std::vector<std::byte> value, setxattr_option4 option);
  async::Task<Result<change_info4>> remove_xattr(Caller caller, nfs_fh4 handle, std::string name);
  /// All of them, page by page.
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, nfs_fh4 handle);

  [[nodiscard]] Session& session() { return session_; }

 private:
  template <class Add, class Take>
  async::Task<Status> on_handle(Caller caller, nfs_fh4 handle, const char* what, Add add, Take take);
  // outcome.cpp
  /// `text`: of a symbolic link.
  async::Task<Result<Created>> create(Caller caller, nfs_fh4 directory, std::string name, createtype4 type,
                                      SetAttributes changes, Wanted wanted, std::string text,
                                      const char* what);
  async::Task<bool> is_as_made(Caller caller, Node node, createtype4 type, std::string text,
                               SetAttributes changes);
  // Each of these ends with ErrorKind::unknown_outcome where its session is lost while it is under way.
  async::Task<Result<Created>> create_once(Caller caller, nfs_fh4 directory, std::string name,
                                           createtype4 type, SetAttributes changes, Wanted wanted,
                                           const char* what);
  async::Task<Result<DirectoryChange>> remove_once(Caller caller, nfs_fh4 directory, std::string name,
                                                   bitmap4 wanted);
  async::Task<Result<Renamed>> rename_once(Caller caller, nfs_fh4 from, std::string old_name, nfs_fh4 to,
                                           std::string new_name, bitmap4 wanted);
  async::Task<Result<Linked>> link_once(Caller caller, nfs_fh4 object, nfs_fh4 directory, std::string name,
                                        Wanted wanted);
  async::Task<Result<change_info4>> set_xattr_once(Caller caller, nfs_fh4 handle, std::string name,
                                                   std::vector<std::byte> value, setxattr_option4 option);
  async::Task<Result<change_info4>> remove_xattr_once(Caller caller, nfs_fh4 handle, std::string name);

  Session& session_;
};

// ---- for what else ends in attributes (open_files.cpp) ----

/// GETATTR if anything is wanted, and its result. take: false if the Reply is at fault; where the server
/// refused, `out` stays empty.
void add_getattr(Compound& compound, const bitmap4& wanted);
bool take_getattr(CompoundReply& reply, const bitmap4& wanted, std::optional<WireAttributes>& out);

// ---- and in READLINK (namespace.cpp) ----

inline constexpr std::size_t kLinkText = 4096;
bool take_link(CompoundReply& reply, std::string& text);

}  // namespace nfsrdma::nfs4
