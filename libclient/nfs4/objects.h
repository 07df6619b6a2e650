// Operations on objects, wherever they are (Spot).
//
//     Objects objects(session);
//     auto root = co_await objects.find(caller, Spot(), attributes);
//     auto made = co_await objects.make_directory(caller, root->handle, "name", changes, wanted);
//
// Each is one COMPOUND, which walks to the spot first and also brings the attributes that are wanted
// afterwards (Wanted): those of the object, and those of its directory with change_info4. An operation that
// changed something has succeeded even where its attributes could not be had any more: they are then empty,
// to be asked for again.
//
// `caller` is whose rights count; null: those of the session. Names are single components, as they are; the
// server judges them. A symbolic link is never followed.
//
// A failed operation gives the server's status as an Error; DELAY and GRACE are waited for, and a lost Reply
// is had again from the session's slot (RFC 8881 2.10.6), so that nothing is executed twice while the server
// keeps its session. Where the session was lost, as in a restart of the server, the names tell whether it was
// done (outcome.cpp).
//
// Confined to the loop's thread. Arguments are taken by value: a task may outlive what it was called with.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "nfs4/session.h"
#include "nfs4/types/attributes.h"
#include "nfs4/walk.h"
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

struct RenameResult {
  DirectoryChange source, target;
};

struct Linked {
  nfs_fh4 handle;
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
  nfs_fh4 directory;
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

  async::Task<Result<Node>> find(Caller caller, Spot spot, bitmap4 wanted);
  async::Task<Result<Looked>> lookup(Caller caller, Spot directory, std::string name, Wanted wanted);
  /// ".."; NFS4ERR_NOENT at the root.
  async::Task<Result<Node>> lookup_parent(Caller caller, Spot directory, bitmap4 wanted);

  // ---- attributes ----

  async::Task<Result<WireAttributes>> attributes(Caller caller, Spot spot, bitmap4 wanted);
  /// `stateid`: of an open file where the size is set (OpenFile::stateid()), else zero (RFC 8881 18.30.3).
  /// Gives what was wanted, as it is afterwards. A size set here is to be told to
  /// OpenFiles::resized(): what is not committed behind it must not come back.
  async::Task<Result<WireAttributes>> set_attributes(Caller caller, Spot spot, stateid4 stateid,
                                                     SetAttributes changes, bitmap4 wanted);
  async::Task<Result<Granted>> access(Caller caller, Spot spot, std::uint32_t access, bitmap4 wanted);
  async::Task<Result<std::string>> read_link(Caller caller, Spot spot);
  /// Of the file system that the object is in: FATTR4_SPACE_* and FATTR4_FILES_*, and MAXNAME; and its TYPE.
  async::Task<Result<WireAttributes>> space(Caller caller, Spot spot);

  // ---- directories ----

  async::Task<Result<Created>> make_directory(Caller caller, Spot directory, std::string name,
                                              SetAttributes changes, Wanted wanted);
  async::Task<Result<Created>> make_symlink(Caller caller, Spot directory, std::string name, std::string text,
                                            SetAttributes changes, Wanted wanted);
  /// `type`: NF4FIFO, NF4SOCK, NF4CHR or NF4BLK; the device counts for the latter two. (A regular file is
  /// made by OpenFiles::open_at.)
  async::Task<Result<Created>> make_node(Caller caller, Spot directory, std::string name, nfs_ftype4 type,
                                         specdata4 device, SetAttributes changes, Wanted wanted);
  /// A file or an empty directory: whoever cares which looks first.
  async::Task<Result<DirectoryChange>> remove(Caller caller, Spot directory, std::string name,
                                              bitmap4 wanted);
  async::Task<Result<RenameResult>> rename(Caller caller, Spot from, std::string old_name, Spot to,
                                           std::string new_name, bitmap4 wanted);
  async::Task<Result<Linked>> link(Caller caller, Spot object, Spot directory, std::string name,
                                   Wanted wanted);
  /// One READDIR: entries behind `cookie` (0: the first), of at most about `most` bytes on the wire.
  /// `verifier` is that of the page before, zero for the first. NFS4ERR_NOT_SAME: begin again.
  /// "." and ".." are not among them (RFC 8881 18.23.3).
  async::Task<Result<DirectoryPage>> read_directory(Caller caller, Spot directory, nfs_cookie4 cookie,
                                                    verifier4 verifier, bitmap4 wanted, std::uint32_t most);

  // ---- extended attributes (RFC 8276; xattrs.cpp). Names are without "user.". FATTR4_XATTR_SUPPORT says
  // whether the file system has them; NFSv4.1 has not: NFS4ERR_NOTSUPP ----

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, Spot spot, std::string name);
  /// SETXATTR4_CREATE: NFS4ERR_EXIST if it is there; SETXATTR4_REPLACE: NFS4ERR_NOXATTR if it is not.
  async::Task<Result<change_info4>> set_xattr(Caller caller, Spot spot, std::string name,
                                              std::vector<std::byte> value, setxattr_option4 option);
  async::Task<Result<change_info4>> remove_xattr(Caller caller, Spot spot, std::string name);
  /// All of them, page by page.
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, Spot spot);

  [[nodiscard]] Session& session() { return session_; }

 private:
  /// An Error names the object at the spot, or the one in it that is called `name`. A spot that it takes too
  /// many names to walk to is replaced by its handle.
  template <class Add, class Take>
  async::Task<Status> at(Caller caller, Spot& spot, std::string_view name, const char* what, Add add,
                         Take take);
  template <class Add, class Take>
  async::Task<Status> at_both(Caller caller, Spot& first, Spot& second, const std::string& names,
                              const char* what, Add add, Take take);
  // outcome.cpp
  /// `text`: of a symbolic link.
  async::Task<Result<Created>> create(Caller caller, Spot directory, std::string name, createtype4 type,
                                      SetAttributes changes, Wanted wanted, std::string text,
                                      const char* what);
  async::Task<bool> is_as_made(Caller caller, Node node, createtype4 type, std::string text,
                               SetAttributes changes);
  // Each of these ends with ErrorKind::unknown_outcome where its session is lost while it is under way.
  async::Task<Result<Created>> create_once(Caller caller, Spot directory, std::string name, createtype4 type,
                                           SetAttributes changes, Wanted wanted, const char* what);
  async::Task<Result<DirectoryChange>> remove_once(Caller caller, Spot directory, std::string name,
                                                   bitmap4 wanted);
  async::Task<Result<RenameResult>> rename_once(Caller caller, Spot from, std::string old_name, Spot to,
                                                std::string new_name, bitmap4 wanted);
  async::Task<Result<Linked>> link_once(Caller caller, Spot object, Spot directory, std::string name,
                                        Wanted wanted);
  async::Task<Result<change_info4>> set_xattr_once(Caller caller, Spot spot, std::string name,
                                                   std::vector<std::byte> value, setxattr_option4 option);
  async::Task<Result<change_info4>> remove_xattr_once(Caller caller, Spot spot, std::string name);

  Session& session_;
};

/// One COMPOUND that begins with the walk: what `add(compound)` adds, then `take(reply)` takes those results.
template <class Add, class Take>
async::Task<Status> Objects::at(Caller caller, Spot& spot, std::string_view name, const char* what, Add add,
                                Take take) {
  std::array<Spot*, 1> spots{&spot};
  const std::string text = spot.text(std::string(name));
  auto compound = co_await compound_at(session_, what, std::move(caller), spots, [&](Compound& out) {
    add_walk(out, spot);
    add(out);
  });
  if (!compound) co_return compound.error();
  auto reply = co_await session_.call(std::move(*compound));
  if (!reply) co_return reply.error();
  if (take_walk(*reply, spot) && take(*reply)) co_return Status();
  co_return session_.error_of(*reply, what, text);
}

/// The same with two walks, and SAVEFH between them.
template <class Add, class Take>
async::Task<Status> Objects::at_both(Caller caller, Spot& first, Spot& second, const std::string& names,
                                     const char* what, Add add, Take take) {
  std::array<Spot*, 2> spots{&first, &second};
  auto compound = co_await compound_at(session_, what, std::move(caller), spots, [&](Compound& out) {
    add_walk(out, first);
    out.add<op::SAVEFH>();
    add_walk(out, second);
    add(out);
  });
  if (!compound) co_return compound.error();
  auto reply = co_await session_.call(std::move(*compound));
  if (!reply) co_return reply.error();
  if (take_walk(*reply, first) && reply->template take<op::SAVEFH>() && take_walk(*reply, second) &&
      take(*reply)) {
    co_return Status();
  }
  co_return session_.error_of(*reply, what, names);
}

// ---- for what else ends in attributes (open_files.cpp) ----

/// GETATTR if anything is wanted, and its result. take: false if the Reply is at fault; where the server
/// refused, `out` stays empty.
void add_getattr(Compound& compound, const bitmap4& wanted);
bool take_getattr(CompoundReply& reply, const bitmap4& wanted, std::optional<WireAttributes>& out);

}  // namespace nfsrdma::nfs4
