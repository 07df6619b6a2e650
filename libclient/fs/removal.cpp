#include "fs/removal.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <span>
#include <utility>

#include "fs/open_handle.h"

namespace nfsrdma::fs {
namespace {

/// Interval between checks for events that notify no waiter: a close that was abandoned, a directory that got
/// other names.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

/// Returns whether the server refused, so that nothing has changed. After any other error it may have
/// executed the request.
bool is_refusal(const Error& error) {
  return error.kind() == ErrorKind::server || error.kind() == ErrorKind::usage;
}

/// Returns whether a link of a file was refused because the file has no name any more: another client has removed it, or has
/// replaced it by another file, which is not to be taken for it.
bool is_nameless(const Error& error) {
  return is_refusal(error) && (error.errno_value() == ENOENT || error.errno_value() == ESTALE);
}

/// Returns whether a rename failed because the directory that it would replace is not empty: NFS4ERR_EXIST
/// (RFC 8881 18.26.3), or the error of the server's file system.
bool is_not_empty(const Error& error) {
  return error.errno_value() == EEXIST || error.errno_value() == ENOTEMPTY;
}

/// Returns the error for an operation on a hidden name: without it the server would delete the file although
/// it is open. Linux's client returns the same.
Error busy(const char* operation, const std::string& name) {
  return {ErrorKind::usage, EBUSY, operation, name,
          "a removed file is still open here under this name; close it first"};
}

}  // namespace

async::Task<Result<std::optional<Object>>> find_name(Engine& engine, Caller caller, FileHandle directory,
                                                     std::string name) {
  Spot spot(directory);
  spot.names.push_back(std::move(name));
  auto found = co_await engine.find(std::move(caller), std::move(spot));
  if (found) co_return std::optional<Object>(std::move(*found));
  const Error& refused = found.error();
  if (refused.kind() == ErrorKind::server && refused.errno_value() == ENOENT)
    co_return std::optional<Object>();
  co_return refused;
}

// ---- removing ----

/// Announces that the inode is about to lose a name. No open of it is under way when this ends.
async::Task<std::shared_ptr<Removal::Leaving>> Removal::leave(std::shared_ptr<Inode> inode) {
  auto out = std::make_shared<Leaving>(freshness_, inode);
  while (inode->names.is_being_opened()) (void)co_await inode->settled.wait_until(async::TimePoint::max());
  co_return out;
}
/// Does what leave() does, for the inode that is known to have the name; null if none is.
async::Task<std::shared_ptr<Removal::Leaving>> Removal::leave_name(const Inode& directory, std::string name) {
  co_await retries_.let_pass();
  auto inode = inodes_.at(directory.id, name);
  if (!inode) co_return nullptr;
  co_return co_await leave(std::move(inode));
}

/// Counts, while it lives, a removal or rename that did not look its name up because no file was open when it
/// began.
class Removal::Unseen {
 public:
  explicit Unseen(Removal& of) : of_(of) { ++of_.unseen_; }
  ~Unseen() {
    --of_.unseen_;
    of_.unseen_at_ = of_.freshness_.count();
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  Removal& of_;
};

/// Looks up the inode that the name leads to, and returns it if a file of it is open here. `leaving` guards
/// the inode that was known to have the name; it is replaced if another one has it.
async::Task<Result<Removal::Target>> Removal::open_target(Caller caller, FileHandle directory,
                                                          std::string name,
                                                          std::shared_ptr<Leaving>& leaving) {
  Target none;
  if (engine_.open_files() == engine_.promises().kept_files() && opening_ == 0) {
    none.unseen = std::make_shared<Unseen>(*this);
    co_return none;
  }
  const std::uint64_t as_of = freshness_.count();
  auto found = co_await find_name(engine_, std::move(caller), directory, std::move(name));
  if (!found) co_return found.error();
  if (!*found) co_return none;
  auto inode = inodes_.find((*found)->handle);
  if (!inode) co_return none;
  if (!leaving || leaving->inode != inode) leaving = co_await leave(inode);
  // close(2) returns before CLOSE ends. A program that then removes the file, and its directory, must not
  // meet a hidden name.
  while (!inode->open.empty() && std::ranges::all_of(inode->open, &OpenHandle::closing)) {
    engine_.promises().hurry_closes();
    (void)co_await inode->settled.wait_until(async::TimePoint::max());
  }
  if (inode->open.empty()) co_return none;
  // The link count dates from the lookup. Another task of this mount may take the other name meanwhile, or
  // may have taken it before the server answered.
  const bool counted = inode->names.counts_links(as_of) && unseen_ == 0 && unseen_at_ <= as_of;
  const std::optional<Attributes>& told = (*found)->attributes;
  Target out;
  out.keeps_name = counted && told && told->links > 1;
  out.inode = std::move(inode);
  co_return out;
}

async::Task<Status> Removal::remove_file(Caller caller, std::shared_ptr<Inode> directory, std::string name) {
  auto leaving = co_await leave_name(*directory, name);
  Naming naming(freshness_, directory, name);
  auto target = co_await open_target(caller, directory->handle, name, leaving);
  if (!target) co_return target.error();
  const std::shared_ptr<Inode>& inode = target->inode;
  if (inode && inode->names.is_hidden_at(directory->handle, name)) co_return busy("remove", name);
  if (target->needs_hidden_name()) {
    auto done = co_await hide(std::move(caller), directory, name, inode);
    if (done) naming.gone(name);
    co_return done;
  }
  // The file keeps another name, or a hidden one, so this one is simply removed.
  std::optional<Naming> losing;
  if (inode) losing.emplace(freshness_, inode);
  co_return co_await remove_name(naming, std::move(caller), std::move(directory), std::move(name),
                                 Engine::Removed::file);
}

async::Task<Status> Removal::remove_directory(Caller caller, std::shared_ptr<Inode> directory,
                                              std::string name) {
  Naming naming(freshness_, directory, name);
  for (;;) {
    auto removed = co_await remove_name(naming, caller, directory, name, Engine::Removed::directory);
    if (removed || removed.error().errno_value() != ENOTEMPTY) co_return removed;
    const bool again = co_await await_emptying(directory, name);
    if (!again) co_return removed;
  }
}

/// close(2) returns before a hidden name is removed. A program that then removes or replaces the directory
/// must not find the hidden name in it. Returns false if no such name is being removed.
async::Task<bool> Removal::await_emptying(std::shared_ptr<Inode> parent, std::string name) {
  const auto directory = inodes_.at(parent->id, name);
  if (!directory || !is_being_emptied(directory->handle)) co_return false;
  engine_.promises().hurry_closes();
  (void)co_await gone_.wait_until(engine_.loop().now() + kLookAgain);
  co_return true;
}

/// Returns whether a hidden name in the directory is being removed, or will be as soon as a close ends.
bool Removal::is_being_emptied(const FileHandle& directory) const {
  const auto is_last_closing = [&](const std::weak_ptr<Inode>& one) {
    const auto inode = one.lock();
    return inode && inode->names.is_hidden_in(directory) &&
           std::ranges::all_of(inode->open, &OpenHandle::closing);
  };
  return std::ranges::find(going_, directory) != going_.end() ||
         std::ranges::any_of(with_hidden_, is_last_closing);
}

async::Task<Status> Removal::remove_name(Naming& naming, Caller caller, std::shared_ptr<Inode> directory,
                                         std::string name, Engine::Removed what) {
  auto removed = co_await engine_.remove(caller, directory->handle, name, what);
  if (!removed && is_refusal(removed.error())) co_return removed.error();
  unlinked(*directory, name, removed.has_value());
  if (!removed) co_return removed.error();
  naming.gone(name);
  naming.brought(*removed);
  naming.granted(caller);
  co_return Status();
}

// ---- hidden names ----

/// Returns a hidden name that no other client uses, and this client only once: the client id, followed by a
/// number that counts up. The two are not combined into one number. Client ids of one server often differ in
/// a few low bits only, so combining them could give two clients one name, and the second rename to it would
/// destroy the first client's file.
HiddenName Removal::hiding_place(const Inode& directory, const Caller& caller) {
  char name[64];
  std::snprintf(name, sizeof name, ".nfs%016llx%08llx",
                static_cast<unsigned long long>(engine_.client_number()),
                static_cast<unsigned long long>(++last_hidden_));
  HiddenName out;
  out.directory = directory.handle;
  out.name = name;
  out.caller = caller;
  return out;
}

async::Task<void> Removal::remove_hidden(HiddenName where) {
  std::optional<Naming> naming;
  if (auto directory = inodes_.find(where.directory))
    naming.emplace(freshness_, std::move(directory), where.name);
  auto removed =
      co_await engine_.remove(std::move(where.caller), where.directory, where.name, Engine::Removed::file);
  if (removed && naming) naming->gone(where.name);
}

/// Records a hidden name, which the inode keeps until its last close.
async::Task<void> Removal::hidden(std::shared_ptr<Inode> inode, HiddenName where) {
  // The last open file was closed meanwhile, so no later close removes the name.
  if (inode->open.empty()) {
    co_await remove_hidden(std::move(where));
  } else {
    std::erase_if(with_hidden_, [](const auto& one) {
      const auto known = one.lock();
      return !known || !known->names.any_hidden();
    });
    if (!inode->names.any_hidden()) with_hidden_.push_back(inode);
    inode->names.hide(std::move(where));
  }
}

/// Marks hidden names as being removed while the object lives.
class Removal::Going {
 public:
  Going(Removal& of, std::span<const HiddenName> names) : of_(of), names_(names) {
    for (const HiddenName& one : names_) of_.going_.push_back(one.directory);
  }
  ~Going() {
    for (const HiddenName& one : names_) of_.going_.erase(std::ranges::find(of_.going_, one.directory));
    of_.gone_.notify_all();
  }
  Going(const Going&) = delete;
  Going& operator=(const Going&) = delete;

 private:
  Removal& of_;
  const std::span<const HiddenName> names_;
};

/// Called when, as far as is known, the name does not exist any more. Unless this is `sure` the kernel gets an error, and
/// may go on to believe the name.
void Removal::unlinked(const Inode& directory, const std::string& name, bool sure) {
  const auto inode = inodes_.at(directory.id, name);
  freshness_.unlinked(inode.get());
  if (inode) inodes_.displace(*inode);
  if (sure) inodes_.left(directory.id, name);
}

async::Task<Status> Removal::hide(Caller caller, std::shared_ptr<Inode> directory, std::string name,
                                  std::shared_ptr<Inode> inode) {
  const Naming hiding(freshness_, inode);
  HiddenName where = hiding_place(*directory, caller);
  auto renamed = co_await engine_.rename(std::move(caller), directory->handle, name, directory->handle,
                                         where.name, inode->handle);
  if (!renamed && is_refusal(renamed.error())) co_return renamed.error();
  where.sure = renamed.has_value();
  unlinked(*directory, name, where.sure);
  co_await hidden(std::move(inode), std::move(where));
  if (!renamed) co_return renamed.error();
  ++counters_.hidden;
  co_return Status();
}

async::Soon<> Removal::closed(std::shared_ptr<Inode> inode) {
  if (!inode->names.any_hidden()) return {};
  return remove_hidden_names(std::move(inode));
}

async::Task<void> Removal::remove_hidden_names(std::shared_ptr<Inode> inode) {
  const auto leaving = co_await leave(inode);
  // A program has opened the file again; its close removes the names.
  if (!inode->open.empty()) co_return;
  const auto hidden = inode->names.take_hidden();
  const Going going(*this, hidden);
  for (const HiddenName& where : hidden) co_await remove_hidden(where);
}

// ---- renaming ----

async::Task<Status> Removal::rename(Renaming what) {
  auto replacing = co_await leave_name(*what.target, what.new_name);
  freshness_.renaming();
  Naming leaving(freshness_, what.source, what.old_name);
  std::optional<Naming> entering;
  if (what.source == what.target) {
    leaving.changes(what.new_name);
  } else {
    entering.emplace(freshness_, what.target, what.new_name);
  }
  auto replaced = co_await open_target(what.caller, what.target->handle, what.new_name, replacing);
  if (!replaced) co_return replaced.error();
  std::optional<Naming> losing;
  if (replaced->inode) {
    if (replaced->inode->names.is_hidden_at(what.target->handle, what.new_name))
      co_return busy("rename", what.new_name);
    losing.emplace(freshness_, replaced->inode);
  }
  const auto hides = replaced->needs_hidden_name() ? replaced->inode : nullptr;
  auto renamed = co_await rename_over(what, hides);
  while (!renamed && is_not_empty(renamed.error())) {
    const bool again = co_await await_emptying(what.target, what.new_name);
    if (!again) break;
    renamed = co_await rename_over(what, hides);
  }
  freshness_.renaming();
  if (!renamed) co_return renamed.error();
  leaving.brought(renamed->source);
  leaving.granted(what.caller);
  if (!entering) co_return Status();
  entering->brought(renamed->target);
  entering->granted(what.caller);
  co_return Status();
}

/// Asks the server for the object that the old name leads to.
async::Task<Status> Removal::look_up_old(Renaming& what) {
  const auto found = co_await find_name(engine_, what.caller, what.source->handle, what.old_name);
  if (!found) co_return found.error();
  if (!*found) co_return Error(ErrorKind::usage, ENOENT, "rename", what.old_name, "there is no such name");
  what.object = (*found)->handle;
  co_return Status();
}

async::Task<Result<Renamed>> Removal::rename_now(Renaming what) {
  // If the answer is lost, the place of the object shows whether the rename was made. The server is hardly ever asked for it,
  // because the kernel looks a name up before it renames it.
  if (const auto believed = inodes_.believed_at(what.source->id, what.old_name).inode;
      believed && !what.object)
    what.object = believed->handle;
  if (!what.object) {
    const auto looked = co_await look_up_old(what);
    if (!looked) co_return looked.error();
  }
  auto renamed = co_await engine_.rename(what.caller, what.source->handle, what.old_name, what.target->handle,
                                         what.new_name, what.object);
  if (!renamed && is_refusal(renamed.error())) co_return renamed;
  // The kernel gives the new name to the inode that it believes to have the old one, until the same time.
  const auto [moved, until] = inodes_.believed_at(what.source->id, what.old_name);
  unlinked(*what.target, what.new_name, renamed.has_value());
  unlinked(*what.source, what.old_name, renamed.has_value());
  if (renamed && moved) {
    inodes_.place(*moved, what.target->id, what.new_name);
    moved->believed_until = until;
  }
  if (moved) moved->names.unhide(what.source->handle, what.old_name, renamed.has_value());
  co_return renamed;
}

/// Renames over `replaced`, which is null, or is open here and needs a hidden name when it loses its name.
async::Task<Result<Renamed>> Removal::rename_over(Renaming what, std::shared_ptr<Inode> replaced) {
  if (!replaced || replaced->names.is_hidden()) co_return co_await rename_now(std::move(what));
  const auto looked = co_await look_up_old(what);
  if (!looked) co_return looked.error();
  // The two names are links of one file: POSIX demands that rename() does nothing then, and servers comply.
  if (what.object == replaced->handle) co_return co_await rename_now(std::move(what));
  // In a sticky directory the caller might be able to make a link to another user's file, but not to remove
  // it.
  if (what.target->attributes.is_sticky())
    co_return co_await rename_over_renamed(std::move(what), std::move(replaced));
  HiddenName where = hiding_place(*what.target, what.caller);
  auto linked = co_await engine_.link(what.caller, replaced->handle, where.directory, where.name);
  if (linked) co_return co_await rename_over_linked(std::move(what), std::move(replaced), std::move(where));
  if (is_nameless(linked.error())) co_return co_await rename_now(std::move(what));
  if (is_refusal(linked.error()))
    co_return co_await rename_over_renamed(std::move(what), std::move(replaced));
  where.sure = false;
  co_await hidden(std::move(replaced), std::move(where));
  co_return linked.error();
}

/// Renames after the replaced file has got its hidden name as a second link.
async::Task<Result<Renamed>> Removal::rename_over_linked(Renaming what, std::shared_ptr<Inode> replaced,
                                                         HiddenName where) {
  auto renamed = co_await rename_now(std::move(what));
  if (!renamed && is_refusal(renamed.error())) {
    co_await remove_hidden(std::move(where));
    co_return renamed;
  }
  // If it is unknown whether the rename was executed, the link does no harm until the file is closed.
  ++counters_.hidden;
  co_await hidden(std::move(replaced), std::move(where));
  co_return renamed;
}

/// Renames over a file on servers without hard links: other clients find the name absent for a moment.
async::Task<Result<Renamed>> Removal::rename_over_renamed(Renaming what, std::shared_ptr<Inode> replaced) {
  HiddenName where = hiding_place(*what.target, what.caller);
  auto away = co_await engine_.rename(what.caller, where.directory, what.new_name, where.directory,
                                      where.name, replaced->handle);
  // The file that was to be replaced has been removed by another client.
  if (!away && away.error().errno_value() == ENOENT) co_return co_await rename_now(std::move(what));
  if (!away) co_return away.error();
  auto renamed = co_await rename_now(what);
  if (renamed) {
    ++counters_.hidden;
    co_await hidden(std::move(replaced), std::move(where));
    co_return renamed;
  }
  // If the hidden name may be the only one that is left, it stays, also after the close: a file too many is
  // better than a lost file.
  if (!is_refusal(renamed.error())) co_return renamed;
  auto taken = co_await find_name(engine_, what.caller, where.directory, what.new_name);
  if (!taken || *taken) co_return renamed;
  (void)co_await engine_.rename(what.caller, where.directory, where.name, where.directory, what.new_name,
                                replaced->handle);
  co_return renamed;
}

}  // namespace nfsrdma::fs
