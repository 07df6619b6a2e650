// What became of an operation whose answer is lost for good (ErrorKind::unknown_outcome: its session went
// while it was under way, as in a restart of the server). Each of those that make, remove or replace a name
// looks at the names, and is done, or is tried again, or ends with that Error where the names do not tell.
//
// What the names cannot tell is whether somebody else did the same at the same time: a directory that another
// client made under the name in just that moment is taken for the own one if its owner and mode are the same,
// and a file that another client made again under a name that was removed here is removed.
#include "async/backoff.h"
#include "nfs4/convert.h"
#include "nfs4/objects.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

/// Whether to look: the server will not do it later than now. It may where a deadline has passed while the
/// request was under way; that Error is the caller's.
bool is_lost(const Error& error) {
  const auto status = static_cast<nfsstat4>(error.status());
  return error.kind() == ErrorKind::unknown_outcome &&
         (Session::is_lost_session(status) || status == NFS4ERR_RETRY_UNCACHED_REP);
}

/// As long as a call is tried, however often the server restarts meanwhile: a hard mount's goes on for ever.
class Tries {
 public:
  explicit Tries(Session& session) : loop_(session.loop()), until_(session.default_deadline()) {}
  /// Whether to look what became of it, after a pause; else the Error is the caller's.
  async::Task<bool> look(const Error& error) {
    const bool looks = is_lost(error) && loop_.now() + pause_.next() < until_;
    if (looks) co_await loop_.sleep_for(pause_.take());
    co_return looks;
  }

 private:
  async::Loop& loop_;
  const async::TimePoint until_;
  async::Backoff pause_{5ms, 2s};
};

/// What tells one object from another that could stand in its place.
Wanted marks_of(const Wanted& wanted) {
  Wanted out = wanted;
  out.object = union_of(wanted.object, public_attributes());
  return out;
}

/// g++ 12 destroys an aggregate twice that is made in a co_await expression.
Wanted of_directory(const bitmap4& wanted) {
  Wanted out;
  out.directory = wanted;
  return out;
}

}  // namespace

/// Whether the node is what the CREATE would have made for this caller.
async::Task<bool> Objects::is_as_made(Caller caller, Node node, createtype4 type, std::string text,
                                      SetAttributes changes) {
  const WireAttributes& marks = node.attributes;
  if (!marks.type || *marks.type != type.tag()) co_return false;
  if (type.tag() == NF4LNK) {
    auto there = co_await read_link(std::move(caller), node.handle);
    const bool same = there && *there == text;
    co_return same;
  }
  constexpr std::uint32_t kPermissions = 0777;
  if (changes.mode && marks.mode && ((*changes.mode ^ *marks.mode) & kPermissions) != 0) co_return false;
  co_return true;
}

async::Task<Result<Created>> Objects::create(Caller caller, Spot directory, std::string name,
                                             createtype4 type, SetAttributes changes, Wanted wanted,
                                             std::string text, const char* what) {
  for (Tries tries(session_);;) {
    auto made = co_await create_once(caller, directory, name, type, changes, wanted, what);
    if (made) co_return made;
    const bool looks = co_await tries.look(made.error());
    if (!looks) co_return made;
    auto looked = co_await lookup(caller, directory, name, marks_of(wanted));
    if (!looked) co_return looked.error();
    if (!looked->node) continue;
    const bool mine = co_await is_as_made(caller, *looked->node, type, text, changes);
    if (!mine) co_return status_error(NFS4ERR_EXIST, what, directory.text(name));
    Created out;
    out.node = std::move(*looked->node);
    out.directory.attributes = std::move(looked->directory);
    co_return out;
  }
}

async::Task<Result<DirectoryChange>> Objects::remove(Caller caller, Spot directory, std::string name,
                                                     bitmap4 wanted) {
  for (Tries tries(session_);;) {
    auto removed = co_await remove_once(caller, directory, name, wanted);
    if (removed) co_return removed;
    const bool looks = co_await tries.look(removed.error());
    if (!looks) co_return removed;
    auto looked = co_await lookup(caller, directory, name, of_directory(wanted));
    if (!looked) co_return looked.error();
    if (looked->node) continue;
    DirectoryChange out;
    out.attributes = std::move(looked->directory);
    co_return out;
  }
}

async::Task<Result<RenameResult>> Objects::rename(Caller caller, Spot from, std::string old_name, Spot to,
                                                  std::string new_name, bitmap4 wanted) {
  for (Tries tries(session_);;) {
    auto renamed = co_await rename_once(caller, from, old_name, to, new_name, wanted);
    if (renamed) co_return renamed;
    const bool looks = co_await tries.look(renamed.error());
    if (!looks) co_return renamed;
    auto source = co_await lookup(caller, from, old_name, of_directory(wanted));
    if (!source) co_return source.error();
    if (source->node) continue;
    auto target = co_await lookup(caller, to, new_name, of_directory(wanted));
    if (!target) co_return target.error();
    if (!target->node) co_return renamed;  // somebody has removed it under one name or the other
    RenameResult out;
    out.source.attributes = std::move(source->directory);
    out.target.attributes = std::move(target->directory);
    co_return out;
  }
}

async::Task<Result<Linked>> Objects::link(Caller caller, Spot object, Spot directory, std::string name,
                                          Wanted wanted) {
  for (Tries tries(session_);;) {
    auto linked = co_await link_once(caller, object, directory, name, wanted);
    if (linked) co_return linked;
    const bool looks = co_await tries.look(linked.error());
    if (!looks) co_return linked;
    auto looked = co_await lookup(caller, directory, name, wanted);
    if (!looked) co_return looked.error();
    if (!looked->node) continue;
    if (!object.is_handle()) {
      auto handle = co_await walk(session_, caller, object);
      if (!handle) co_return handle.error();
      object = Spot(*handle);
    }
    if (looked->node->handle != *object.from) {
      co_return status_error(NFS4ERR_EXIST, "link", directory.text(name));
    }
    Linked out;
    out.handle = *object.from;
    out.object = std::move(looked->node->attributes);
    out.directory.attributes = std::move(looked->directory);
    co_return out;
  }
}

async::Task<Result<change_info4>> Objects::set_xattr(Caller caller, Spot spot, std::string name,
                                                     std::vector<std::byte> value, setxattr_option4 option) {
  for (Tries tries(session_);;) {
    auto set = co_await set_xattr_once(caller, spot, name, value, option);
    if (set) co_return set;
    const bool looks = co_await tries.look(set.error());
    if (!looks) co_return set;
    auto there = co_await get_xattr(caller, spot, name);
    if (!there && there.error().status() == NFS4ERR_NOXATTR) continue;
    if (!there) co_return there.error();
    if (*there != value) co_return status_error(NFS4ERR_EXIST, "SETXATTR", name);
    co_return change_info4();
  }
}

async::Task<Result<change_info4>> Objects::remove_xattr(Caller caller, Spot spot, std::string name) {
  for (Tries tries(session_);;) {
    auto removed = co_await remove_xattr_once(caller, spot, name);
    if (removed) co_return removed;
    const bool looks = co_await tries.look(removed.error());
    if (!looks) co_return removed;
    auto there = co_await get_xattr(caller, spot, name);
    if (there) continue;
    if (there.error().status() != NFS4ERR_NOXATTR) co_return there.error();
    co_return change_info4();
  }
}

}  // namespace nfsrdma::nfs4
