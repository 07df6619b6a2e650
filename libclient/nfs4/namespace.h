// Names on the server: finding, listing, making, renaming, removing (RFC 8881 18).
//
// A path is walked in the same COMPOUND as the operation on it: PUTROOTFH, a LOOKUP for each name, the
// operation. Where that meets a symbolic link, the path is made canonical (a slower walk that sees the types)
// and the operation tried again.
//
// Confined to the loop's thread.
#pragma once

#include <string>
#include <string_view>

#include "listing/cookie_loop.h"
#include "nfs4/convert.h"
#include "nfs4/objects.h"
#include "nfs4/path.h"
#include "nfs4/session.h"
#include "nfs4/types/attributes.h"
#include "nfsrdma/client.h"

namespace nfsrdma::nfs4 {

class Namespace {
 public:
  explicit Namespace(Session& session, Caller caller = nullptr)
      : session_(session), caller_(std::move(caller)) {}

  async::Task<Result<Node>> find(Path path, bool follow, bitmap4 wanted);
  async::Task<Result<std::string>> read_link(Path path);
  /// A directory being listed: one READDIR's entries at a time.
  struct Listing {
    nfs_fh4 directory;
    std::string path;
    READDIR4args next;
    bool eof = false;
    listing::CookieLoop circle;
  };
  async::Task<Result<Listing>> begin_list(Path path, bitmap4 wanted);
  async::Task<Result<std::vector<entry4>>> list_some(Listing& listing);
  async::Task<Status> make_directory(Path path, std::uint32_t mode);
  async::Task<Status> symlink(std::string text, Path created);
  async::Task<Status> remove(Path path, bool directory);
  async::Task<Status> rename(Path from, Path to);
  async::Task<Status> link(Path existing, Path created);
  async::Task<Status> set_attributes(Path path, SetAttributes changes, bool follow);
  async::Task<Result<unsigned>> access(Path path, unsigned wanted);

  /// Replaces every symbolic link on the way (and at the end, if `last` says so) by what it points to. True
  /// if there was one.
  async::Task<Result<bool>> canonicalise(Path& path, bool last);

  /// A COMPOUND that begins with the walk to the path without its last `without` names.
  struct Walk {
    Compound compound;
    std::size_t lookups = 0;
    bool from_root = true;  // PUTROOTFH; else PUTFH of what a long path's first part led to
    /// Takes the results of the walk.
    bool take(CompoundReply& reply) const;
  };
  async::Task<Result<Walk>> begin_at(const Path& path, std::size_t without, const char* what);

  /// One operation on a path: the walk, what `add(compound, path)` adds, then `take(reply)` takes those
  /// results. Where a symbolic link is in the way the path is made canonical and it is tried again.
  template <class Add, class Take>
  async::Task<Status> on_path(Path& path, std::size_t without, const char* what, Add add, Take take) {
    for (;;) {
      Status done;
      auto walk = co_await begin_at(path, without, what);
      if (walk) {
        add(walk->compound, path);
        auto reply = co_await session_.call(std::move(walk->compound));
        if (!reply) co_return reply.error();
        if (walk->take(*reply) && take(*reply)) co_return Status();
        done = session_.error_of(*reply, what, path.text());
      } else {
        done = walk.error();
      }
      const Error refused = done.error();
      if (!may_be_link(static_cast<nfsstat4>(refused.status()))) co_return refused;
      auto changed = co_await canonicalise(path, false);
      if (!changed) co_return changed.error();
      if (!*changed) co_return refused;
    }
  }

 private:
  /// Whether the status says that a symbolic link may be in the way.
  static bool may_be_link(nfsstat4 status) { return status == NFS4ERR_SYMLINK || status == NFS4ERR_NOTDIR; }
  async::Task<Result<Node>> find_once(Path& path, const bitmap4& wanted);
  async::Task<Status> create(Path path, createtype4 type, fattr4 attributes, const char* what);
  template <class Op>
  async::Task<Status> two_paths(Path from, Path to, bool from_parent, typename Op::Args args,
                                const char* what);
  async::Task<Result<nfs_fh4>> walk_long(const Path& path, std::size_t count);
  /// As many as fit into one COMPOUND beside the operations around them.
  [[nodiscard]] std::size_t most_lookups() const { return session_.facts().max_operations - 7; }

  Session& session_;
  const Caller caller_;
};

}  // namespace nfsrdma::nfs4
