#include "fs/opening.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nfsrdma::fs {

namespace {
/// Sets the handle's state from the flags of open(2). No program can map a file that is open for writing
/// only, or miss its pages. So with O_APPEND the kernel caches no pages of it, which it would put where it
/// believes the end of the file to be.
void handle_open_flags(OpenHandle& handle, int flags) {
  handle.flags = flags;
  handle.direct = (flags & O_DIRECT) != 0;
  handle.uncached = (flags & O_ACCMODE) == O_WRONLY && (flags & O_APPEND) != 0;
}
}  // namespace

/// Returns the place where the file was found that is being opened. `fresh`: it was found just now.
std::optional<Place> Opening::place_of(const Inode& inode, bool fresh) const {
  const auto directory = inodes_.find(inode.parent);
  if (!directory) return std::nullopt;
  return Place{directory->handle, inode.label, fresh || !options_.checks_names()};
}

namespace {
/// Returns whether the mode bits alone let the user read the file.
bool mode_lets_read(const Attributes& of, const security::Identity& who) {
  if (of.uid == who.uid) return (of.mode & S_IRUSR) != 0;
  const bool in_group =
      of.gid && (who.gid == *of.gid || std::ranges::find(who.groups, *of.gid) != who.groups.end());
  return (of.mode & (in_group ? S_IRGRP : S_IROTH)) != 0;
}
}  // namespace

/// Checks the right to read after the server has let the caller open the file. On a mount for several users
/// the kernel does not check it, and servers let a user who may only execute a file read it
/// (RFC 8881 6.2.1.3), and leave the distinction to the client. So ACCESS is asked if a file is opened for
/// execution, or is read by a user whom its mode bits do not let read it.
async::Task<Status> Opening::may_read(Caller caller, std::uint64_t id, int flags,
                                      const std::optional<Attributes>& told) {
  if (!options_.several_users || !caller) co_return Status();
  if ((flags & kForExecution) != 0) co_return co_await attributes_.access(std::move(caller), id, X_OK);
  if (access_of(flags) == Access::write || !told || mode_lets_read(*told, *caller)) co_return Status();
  co_return co_await attributes_.access(std::move(caller), id, R_OK);
}

/// Decides which cached pages and attributes of the file stay valid in the kernel. Returns the size that the
/// kernel must learn before the open ends, or 0.
std::uint64_t Opening::keep_in_kernel(OpenedFile& out, Inode& inode, const std::optional<Attributes>& told,
                                      const Freshness::Asked& asked) const {
  const auto change = told ? std::optional(told->change) : std::nullopt;
  // This applies also if the file is open here already, because another client may have written it since.
  out.keep_cache = inode.attributes.cache(change) || !options_.close_to_open;
  const bool is_sent_to_kernel = change && inode.attributes.is_sent_to_kernel(*change);
  out.keep_attributes = out.keep_cache || is_sent_to_kernel;
  if (!out.keep_attributes) inode.attributes.tell_no_state();
  // Valid pages do not mean that the kernel knows the size, because tell_size() does nothing while a file is
  // open for writing only. Nor do valid attributes mean it, if a write that bypassed the kernel has enlarged
  // the file since.
  std::uint64_t size = 0;
  if (inode.pages.lags()) size = inode.writes.written_since(asked.as_of).value_or(0);
  if (told && options_.close_to_open && (!is_sent_to_kernel || inode.pages.lags()))
    size = std::max(size, told->size);
  return size;
}

async::Task<Result<OpenedFile>> Opening::open(Caller caller, std::uint64_t id, int flags,
                                              std::uint32_t thread) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const bool must_wait = (*inode)->names.is_being_left();
  while ((*inode)->names.is_being_left())
    (void)co_await (*inode)->settled.wait_until(async::TimePoint::max());
  const Removal::Opening opening(removal_, **inode);
  if (must_wait) {
    removal_.retries().expect(thread);
  } else {
    removal_.retries().arrived(thread);
  }
  const auto refused_at = name_checks_.take_second_try(thread, **inode);
  if (options_.checks_names() && !refused_at && (*inode)->others.any_wrong(loop_.now()))
    co_return name_checks_.refused_by_name(**inode, thread);
  const Freshness::Asked asked = freshness_.opening(**inode);
  // A second try is checked only if a LOOKUP has found the file since the first.
  const std::uint64_t found = (*inode)->found;
  std::optional<Place> found_at = place_of(**inode, refused_at == found);
  const bool by_name = found_at && !found_at->fresh;
  // The engine checks the place, but not under a delegation.
  const std::uint64_t ended = (*inode)->delegations_ended;
  const bool own_place =
      by_name && engine_->promises().delegated((*inode)->handle) && (*inode)->place_checked_under != ended;
  std::shared_ptr<NameChecks::Checks> checks;
  if (options_.checks_names() && !refused_at) checks = name_checks_.begin(caller, **inode, own_place);
  std::optional<EarlyReads::Early> early = early_reads_.begin(**inode, flags);
  auto opening_file =
      early ? engine_->open_and_read(caller, (*inode)->handle, (*inode)->label, std::move(found_at),
                                     early->room())
            : engine_->open(caller, (*inode)->handle, (*inode)->label, access_of(flags), std::move(found_at));
  auto opened = co_await std::move(opening_file);
  while (checks && checks->under_way != 0) (void)co_await checks->ended.wait_until(async::TimePoint::max());
  const bool is_gone = !opened && by_name && opened.error().errno_value() == ESTALE;
  if (is_gone) lookups_ahead_.drop((*inode)->parent);  // the kernel looks the name up again
  if (is_gone) name_checks_.leads_elsewhere(*inode, found);
  if (checks)
    for (const std::uint64_t wrong : checks->wrong) name_checks_.leads_elsewhere(*inode, wrong);
  if (is_gone || (checks && !checks->wrong.empty())) co_return name_checks_.refused_by_name(**inode, thread);
  if (checks && checks->failed) co_return *checks->failed;
  if (opened) removal_.retries().arrived(thread);
  if (!opened) co_return opened.error();
  if (by_name && (*inode)->found == found && engine_->promises().delegated((*inode)->handle))
    (*inode)->place_checked_under = ended;
  const std::optional<Attributes>& told = opened->object.attributes;
  if (auto allowed = co_await may_read(caller, id, flags, told); !allowed) co_return allowed.error();
  if (told) freshness_.keep(**inode, *told, asked);
  OpenedFile out;
  out.handle = std::make_shared<OpenHandle>(loop_, counters_, read_window_, *inode, std::move(opened->file),
                                            caller, reads_elsewhere_);
  handle_open_flags(*out.handle, flags);
  if (early) EarlyReads::take(*std::move(early), *out.handle, *opened);
  if ((flags & O_TRUNC) != 0) {
    SetAttributes changes;
    changes.size = 0;
    auto cut = co_await attributes_.set_attributes(std::move(caller), id, changes, out.handle);
    if (!cut) co_return cut.error();
    kernel_.will_be_emptied(out.handle, cut->attributes.size);
    co_return out;
  }
  if (const std::uint64_t size = keep_in_kernel(out, **inode, told, asked); size != 0)
    co_await kernel_.tell_size(out.handle, size);
  co_return out;
}

async::Task<Result<OpenedFile>> Opening::create(Caller caller, std::uint64_t directory, std::string name,
                                                std::uint32_t mode, int flags, std::uint32_t thread) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  name_checks_.forget_second_try(thread);
  Engine::Creation how;
  how.mode = mode;
  how.exclusive = (flags & O_EXCL) != 0;
  how.truncate = (flags & O_TRUNC) != 0;
  Naming naming(freshness_, *parent, name);
  const std::uint64_t as_of = naming.as_of();
  auto opened = co_await engine_->open_at(caller, (*parent)->handle, std::move(name), access_of(flags), how);
  if (!opened) co_return opened.error();
  if (const auto known = inodes_.find(opened->object.handle)) known->attributes.valid_from(as_of);
  Result<Made> made = Made{std::move(opened->object), std::move(opened->directory)};
  auto entered = co_await entries_.entered(naming, caller, std::move(made));
  if (!entered) co_return entered.error();
  OpenedFile out;
  out.entry = std::move(*entered);
  auto inode = inodes_.find(out.entry.inode);
  const bool was_changed = inode->attributes.changed() > as_of;
  if (how.truncate) freshness_.resized(*inode);  // the file may have existed before
  inode->attributes.cache(out.entry.attributes.change);
  out.handle = std::make_shared<OpenHandle>(loop_, counters_, read_window_, std::move(inode),
                                            std::move(opened->file), caller, reads_elsewhere_);
  handle_open_flags(*out.handle, flags);
  // The file may have been open here already. Its earlier answered writes must be cut as well, even if they
  // reach the server after the OPEN.
  Inode& opened_inode = out.handle->inode();
  if (how.truncate && (was_changed || !opened_inode.writes.empty())) {
    SetAttributes changes;
    changes.size = 0;
    std::shared_ptr<OpenHandle> writer;
    if (access_of(flags) != Access::read) writer = out.handle;
    auto cut =
        co_await attributes_.set_attributes(std::move(caller), opened_inode.id, changes, std::move(writer));
    if (!cut) co_return cut.error();
    out.entry.attributes = std::move(cut->attributes);
    out.entry.attributes_valid = cut->valid;
  }
  if (how.truncate) kernel_.will_be_emptied(out.handle, out.entry.attributes.size);
  co_return out;
}

}  // namespace nfsrdma::fs
