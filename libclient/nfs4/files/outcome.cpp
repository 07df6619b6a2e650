// Outcome of an operation whose answer is lost for good (ErrorKind::unknown_outcome: its session was lost
// while it was under way, as in a restart of the server). Each operation that makes, removes or replaces a
// name looks at the names. It is then done, or is tried again, or ends with that Error if the names do not
// tell, or cannot be looked at.
//
// In NFSv4.0 the server may forget its answer, and say EXIST or NOENT to a request that was sent twice. If
// the directory's change attribute is known to be as it was before the first transmission, the request had no
// effect, and that refusal is the result. Otherwise an object that is there now counts as this client's own.
//
// The names cannot tell whether another client did the same at the same time. A directory that another client
// made under the name at that moment counts as this client's own if its type and permission bits are those
// asked for. A file that another client made again under a name that was removed here is removed. Which object
// under the new name of a rename counts as the renamed one, engine::is_renamed says.
#include <cerrno>

#include "async/backoff.h"
#include "engine/expected.h"
#include "nfs4/files/convert.h"
#include "nfs4/files/object_operations.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

/// Whether the names may be looked at, because the server will not execute the request any more. If a
/// deadline passed while the request was under way, the server may still execute it. The caller then gets
/// that Error.
bool is_lost(const Error& error) {
  const auto status = static_cast<nfsstat4>(error.status());
  return error.kind() == ErrorKind::unknown_outcome &&
         (CallLayer::is_lost_session(status) || status == NFS4ERR_RETRY_UNCACHED_REP ||
          status == NFS4ERR_EXIST || status == NFS4ERR_NOENT);
}

/// Bound on looking and trying again: the time that a call is tried, however often the server restarts
/// meanwhile. For a hard mount there is no bound.
class Tries {
 public:
  explicit Tries(ClientLease& session) : loop_(session.loop()), until_(session.default_deadline()) {}
  /// Waits for a pause, and returns whether to look at the names. If not, `done` is the result for the
  /// caller.
  template <class T>
  async::Task<bool> look(const Result<T>& done) {
    if (done || !is_lost(done.error()) || loop_.now() + pause_.next() >= until_) co_return false;
    co_await loop_.sleep_for(pause_.take());
    co_return true;
  }

 private:
  async::Loop& loop_;
  const async::TimePoint until_;
  async::Backoff pause_{5ms, 2s};
};

}  // namespace

/// Returns the server's refusal of a request that was sent twice, if the directory is as it was before the
/// first transmission: the request had no effect then.
std::optional<Error> ObjectOperations::refusal(const Error& error, const Spot& directory, const Stamp& before,
                                               const std::optional<Attributes>& now) {
  if (now) saw(directory, now);
  const bool genuine = before && now && now->change == *before;
  if (!genuine) return std::nullopt;
  return status_error(static_cast<nfsstat4>(error.status()), error.operation(), error.peer());
}

async::Task<Result<Made>> ObjectOperations::create(Caller caller, Spot directory, std::string name,
                                                   createtype4 type, SetAttributes changes, std::string text,
                                                   const char* what) {
  const Stamp before = stamp_of(directory);
  for (Tries tries(session_);;) {
    auto made = co_await create_once(caller, directory, name, type, changes, what);
    if (made) saw(directory, made->directory);
    const bool looks = co_await tries.look(made);
    if (!looks) co_return made;
    auto looked = co_await lookup(caller, directory, name);
    if (!looked) co_return made;
    if (auto refused = refusal(made.error(), directory, before, looked->directory))
      co_return *std::move(refused);
    if (!looked->object) continue;
    const engine::Expected expected{to_public(type.tag()), changes.mode, text, true};
    const bool mine = co_await engine::is_as_made(*this, caller, *looked->object, expected);
    if (!mine) co_return status_error(NFS4ERR_EXIST, what, directory.text(name));
    co_return Made{std::move(*looked->object), std::move(looked->directory)};
  }
}

async::Task<Result<std::optional<Attributes>>> ObjectOperations::remove(Caller caller, Spot directory,
                                                                        std::string name, Removed /*what*/) {
  const Stamp before = stamp_of(directory);
  for (Tries tries(session_);;) {
    auto removed = co_await remove_once(caller, directory, name);
    if (removed) saw(directory, *removed);
    const bool looks = co_await tries.look(removed);
    if (!looks) co_return removed;
    auto looked = co_await lookup(caller, directory, name, false);
    if (!looked) co_return removed;
    if (auto refused = refusal(removed.error(), directory, before, looked->directory))
      co_return *std::move(refused);
    if (!looked->object) co_return std::move(looked->directory);
  }
}

async::Task<Result<Renamed>> ObjectOperations::rename(Caller caller, Spot from, std::string old_name, Spot to,
                                                      std::string new_name,
                                                      std::optional<FileHandle> object) {
  const Stamp before = stamp_of(from);
  std::optional<OpenRecovery::Renaming> renaming;
  if (object && from.is_handle() && to.is_handle()) renaming.emplace(session_.open_recovery(), *object);
  const auto made = [&] {
    if (renaming) renaming->made({*from.from, old_name}, {*to.from, new_name});
  };
  for (Tries tries(session_);;) {
    auto renamed = co_await rename_once(caller, from, old_name, to, new_name);
    if (renamed) {
      made();
      saw(from, renamed->source);
      saw(to, renamed->target);
    }
    const bool looks = co_await tries.look(renamed);
    if (!looks) co_return renamed;
    auto source = co_await lookup(caller, from, old_name, false);
    if (!source) co_return renamed;
    if (auto refused = refusal(renamed.error(), from, before, source->directory))
      co_return *std::move(refused);
    if (source->object) continue;
    auto target = co_await lookup(caller, to, new_name, false);
    if (!target) co_return renamed;
    // The object has been removed under one of the two names, was renamed by another call, or never existed, which nothing
    // tells.
    if (!engine::is_renamed(target->object, object)) co_return renamed;
    made();
    co_return Renamed{std::move(source->directory), std::move(target->directory)};
  }
}

async::Task<Result<Made>> ObjectOperations::link(Caller caller, Spot object, Spot directory,
                                                 std::string name) {
  const Stamp before = stamp_of(directory);
  for (Tries tries(session_);;) {
    auto linked = co_await link_once(caller, object, directory, name);
    if (linked) saw(directory, linked->directory);
    const bool looks = co_await tries.look(linked);
    if (!looks) co_return linked;
    auto looked = co_await lookup(caller, directory, name);
    if (!looked) co_return linked;
    if (auto refused = refusal(linked.error(), directory, before, looked->directory))
      co_return *std::move(refused);
    if (!looked->object) continue;
    if (!object.is_handle()) {
      auto handle = co_await walk(session_, caller, object);
      if (!handle) co_return linked;
      object = Spot(*handle);
    }
    if (looked->object->handle != *object.from)
      co_return status_error(NFS4ERR_EXIST, "link", directory.text(name));
    co_return Made{std::move(*looked->object), std::move(looked->directory)};
  }
}

async::Task<Status> ObjectOperations::set_xattr(Caller caller, FileHandle object, std::string name,
                                                std::vector<std::byte> value, XattrMode mode) {
  for (Tries tries(session_);;) {
    auto set = co_await set_xattr_once(caller, object, name, value, mode);
    const bool looks = co_await tries.look(set);
    if (!looks) co_return set;
    auto there = co_await get_xattr(caller, object, name);
    if (!there && there.error().errno_value() == ENODATA) continue;
    if (!there) co_return set;
    if (*there != value) co_return status_error(NFS4ERR_EXIST, "SETXATTR", name);
    co_return Status();
  }
}

async::Task<Status> ObjectOperations::remove_xattr(Caller caller, FileHandle object, std::string name) {
  for (Tries tries(session_);;) {
    auto removed = co_await remove_xattr_once(caller, object, name);
    const bool looks = co_await tries.look(removed);
    if (!looks) co_return removed;
    auto there = co_await get_xattr(caller, object, name);
    if (there) continue;
    if (there.error().errno_value() == ENODATA) co_return Status();
    co_return removed;
  }
}

}  // namespace nfsrdma::nfs4
