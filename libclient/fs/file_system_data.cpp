// FileSystem's operations on open files: data, locks, close-to-open.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "async/buggify.h"
#include "async/under_way.h"
#include "async/until.h"
#include "fs/file_system.h"

namespace nfsrdma::fs {
namespace {

constexpr auto kDropFor = std::chrono::milliseconds(10);
constexpr auto kEarlyWait = std::chrono::milliseconds(5);
// After a loss of data, close(2) waits for this long again.
constexpr auto kCarefulFor = std::chrono::seconds(60);

Access access_of(int flags) {
  switch (flags & O_ACCMODE) {
    case O_WRONLY:
      return Access::write;
    case O_RDWR:
      return Access::both;
    default:
      return Access::read;
  }
}

/// Sets the handle's state from the flags of open(2). No program can map a file that is open for writing
/// only, or miss its pages. So with O_APPEND the kernel caches no pages of it, which it would put where it
/// believes the end of the file to be.
void handle_open_flags(OpenHandle& handle, int flags) {
  handle.flags = flags;
  handle.direct = (flags & O_DIRECT) != 0;
  handle.uncached = (flags & O_ACCMODE) == O_WRONLY && (flags & O_APPEND) != 0;
}

}  // namespace

// ---- open, close ----

/// The first bytes of a file that is being opened.
struct FileSystem::Early {
  Early(async::Loop& loop, std::size_t size)
      : memory(loop.memory().take(size)), wanted(size), begun(loop.now()), ended(loop) {}
  async::Memory memory;
  const std::size_t wanted;
  const async::TimePoint begun;
  std::uint64_t changed = 0;  ///< KnownAttributes::changed() when the READ began
  bool done = false;
  std::optional<Engine::EarlyRead> got;
  async::Event ended;
};

/// Begins an early read. Returns null if one does not pay: for a large file, for a file whose pages the
/// kernel may have, and if recent early reads were not used.
std::shared_ptr<FileSystem::Early> FileSystem::begin_early(const Caller& caller, const Inode& inode,
                                                           int flags) {
  constexpr std::size_t kMost = 16U << 10, kPage = 4096;
  constexpr unsigned kNowAndThen = 16;
  const bool plain = access_of(flags) == Access::read && (flags & (O_TRUNC | O_DIRECT)) == 0;
  const std::uint64_t size = inode.end();
  if (!plain || size == 0 || size > kMost || inode.type != FileType::regular) return nullptr;
  if (inode.attributes.is_cached() || !inode.open.empty() || !inode.writes.empty()) return nullptr;
  if (engine_->promises().delegated(inode.handle)) return nullptr;
  if (early_worth_ <= 0 && ++early_tries_ % kNowAndThen != 0) return nullptr;
  const auto out = std::make_shared<Early>(loop(), (size + kPage - 1) / kPage * kPage);
  out->changed = inode.attributes.changed();
  background_.spawn(read_early(engine_, caller, inode.handle, out));
  return out;
}

async::Task<void> FileSystem::read_early(std::shared_ptr<Engine> engine, Caller caller, FileHandle handle,
                                         std::shared_ptr<Early> early) {
  auto got =
      co_await engine->read_early(std::move(caller), handle, {early->memory.data.get(), early->wanted});
  if (got) early->got = *got;
  early->done = true;
  early->ended.notify_all();
}

/// Gives the early bytes to the handle if they are valid. Their answer usually follows the answer to OPEN at
/// once; a later one is not waited for (kEarlyWait).
async::Task<void> FileSystem::take_early(std::shared_ptr<Early> early, std::shared_ptr<OpenHandle> file,
                                         Attributes told) {
  const auto last = loop().now() + kEarlyWait;
  while (!early->done) {
    const bool in_time = co_await early->ended.wait_until(last);
    if (!in_time) co_return;
  }
  const Inode& inode = file->inode();
  const bool same =
      early->got && early->got->change == told.change && inode.attributes.changed() == early->changed;
  if (same && inode.writes.empty())
    file->has_read(std::move(early->memory), early->wanted, early->got->size, early->begun);
}

/// Called when the file is closed. Notes whether its early bytes were used.
void FileSystem::judge_early(const OpenHandle& file) {
  if (file.early_read)
    early_worth_ = std::clamp(early_worth_ + (file.used_early() ? 1 : -1), 0, kMostEarlyWorth);
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
async::Task<Status> FileSystem::may_read(Caller caller, std::uint64_t id, int flags,
                                         const std::optional<Attributes>& told) {
  if (!options_.several_users || !caller) co_return Status();
  if ((flags & kForExecution) != 0) co_return co_await access(std::move(caller), id, X_OK);
  if (access_of(flags) == Access::write || !told || mode_lets_read(*told, *caller)) co_return Status();
  co_return co_await access(std::move(caller), id, R_OK);
}

/// Checks of the names in Inode::others, made while the file is being opened.
struct FileSystem::NameChecks {
  explicit NameChecks(async::Loop& loop) : ended(loop) {}
  std::size_t under_way = 0;
  std::vector<std::uint64_t> wrong;  ///< OtherNames::Name::found of the names that lead elsewhere
  std::optional<Error> failed;       ///< the server has not answered one of the questions
  async::Event ended;
};

std::shared_ptr<FileSystem::NameChecks> FileSystem::begin_name_checks(const Caller& caller,
                                                                      const Inode& inode) {
  std::vector<OtherNames::Name> names;
  const auto is_believed = [&](const OtherNames::Name& one) { return loop().now() < one.until; };
  std::ranges::copy_if(inode.others.all(), std::back_inserter(names), is_believed);
  if (names.empty()) return nullptr;
  const auto out = std::make_shared<NameChecks>(loop());
  out->under_way = names.size();
  for (OtherNames::Name& one : names)
    background_.spawn(check_name(caller, inodes_.find(inode.id), std::move(one), out));
  return out;
}

/// Errors count as in Engine::open(): a caller that got the file from somebody else may open it even if the caller may not
/// look the name up.
async::Task<void> FileSystem::check_name(Caller caller, std::shared_ptr<const Inode> inode,
                                         OtherNames::Name name, std::shared_ptr<NameChecks> checks) {
  // The kernel keeps a directory for as long as it knows names in it.
  if (const auto directory = inodes_.find(name.directory)) {
    auto found = co_await find_name(*engine_, std::move(caller), directory->handle, std::move(name.name));
    const bool elsewhere =
        found ? !*found || (*found)->handle != inode->handle : found.error().errno_value() == ESTALE;
    if (elsewhere) checks->wrong.push_back(name.found);
    if (!found && !elsewhere && found.error().kind() != ErrorKind::server) checks->failed = found.error();
  }
  --checks->under_way;
  checks->ended.notify_all();
}

/// Handles a name that leads elsewhere, the one at which the inode was found at the time `found`: the kernel drops its entry,
/// unless it got another inode for this name since.
void FileSystem::leads_elsewhere(const std::shared_ptr<Inode>& inode, std::uint64_t found) {
  const OtherNames::Name* const name = inodes_.lead_elsewhere(*inode, found);
  if (name == nullptr) return;
  if (inodes_.believed_at(name->directory, name->name).inode != inode) {
    inodes_.forget_other(*inode, found);
  } else if (drop_name_) {
    background_.spawn(drop_name(inode, *name));
  }
}

/// Called when the server has said that the file has no other name than the one where it was found just now.
void FileSystem::has_one_name(const std::shared_ptr<Inode>& inode) {
  std::vector<std::uint64_t> wrong;
  for (const OtherNames::Name& one : inode->others.all()) wrong.push_back(one.found);
  for (const std::uint64_t found : wrong) leads_elsewhere(inode, found);
}

async::Task<void> FileSystem::drop_name(std::shared_ptr<Inode> inode, OtherNames::Name name) {
  co_await drop_name_(name.directory, name.name);
  inodes_.forget_other(*inode, name.found);
}

/// Returns the error for an open by a name that leads elsewhere, or that may be such a name. The kernel then looks up each
/// name of the path again.
Error FileSystem::refused_by_name(Inode& inode, std::uint32_t thread) {
  for (const OtherNames::Name& one : inode.others.all())
    if (one.is_wrong) lookups_ahead_.drop(one.directory);
  inode.names.doubt();
  inode.others.refused(thread, inode.found);
  return refusal(ESTALE, "open", inode.label, "a name of this file now leads to another file");
}

async::Task<Result<OpenedFile>> FileSystem::open(Caller caller, std::uint64_t id, int flags,
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
  const auto refused_at = (*inode)->others.take_second_try(thread);
  if (checks_names() && !refused_at && (*inode)->others.any_wrong(loop().now()))
    co_return refused_by_name(**inode, thread);
  const Freshness::Asked asked = freshness_.opening(**inode);
  // A second try is checked only if a LOOKUP has found the file since the first.
  const std::uint64_t found = (*inode)->found;
  std::optional<Place> found_at = place_of(**inode, refused_at == found);
  const bool by_name = found_at && !found_at->fresh;
  std::shared_ptr<NameChecks> checks;
  if (checks_names() && !refused_at) checks = begin_name_checks(caller, **inode);
  const std::shared_ptr<Early> early = begin_early(caller, **inode, flags);
  auto opened = co_await engine_->open(caller, (*inode)->handle, (*inode)->label, access_of(flags),
                                       std::move(found_at));
  while (checks && checks->under_way != 0) (void)co_await checks->ended.wait_until(async::TimePoint::max());
  const bool is_gone = !opened && by_name && opened.error().errno_value() == ESTALE;
  if (is_gone) lookups_ahead_.drop((*inode)->parent);  // the kernel looks the name up again
  if (is_gone) leads_elsewhere(*inode, found);
  if (checks)
    for (const std::uint64_t wrong : checks->wrong) leads_elsewhere(*inode, wrong);
  if (is_gone || (checks && !checks->wrong.empty())) co_return refused_by_name(**inode, thread);
  if (checks && checks->failed) co_return *checks->failed;
  if (opened) removal_.retries().arrived(thread);
  if (!opened) co_return opened.error();
  const std::optional<Attributes>& told = opened->object.attributes;
  if (auto allowed = co_await may_read(caller, id, flags, told); !allowed) co_return allowed.error();
  if (told) freshness_.keep(**inode, *told, asked);
  OpenedFile out;
  out.handle =
      std::make_shared<OpenHandle>(loop(), counters_, read_window_, *inode, std::move(opened->file), caller);
  handle_open_flags(*out.handle, flags);
  if (early && told) {
    out.handle->early_read = true;
    co_await take_early(early, out.handle, *told);
  }
  if ((flags & O_TRUNC) != 0) {
    SetAttributes changes;
    changes.size = 0;
    auto cut = co_await set_attributes(std::move(caller), id, changes, out.handle);
    if (!cut) co_return cut.error();
    will_be_emptied(out.handle, cut->attributes.size);
    co_return out;
  }
  const auto change = told ? std::optional(told->change) : std::nullopt;
  // This applies also if the file is open here already, because another client may have written it since.
  out.keep_cache = (*inode)->attributes.cache(change) || !options_.close_to_open;
  const bool is_sent_to_kernel = change && (*inode)->attributes.is_sent_to_kernel(*change);
  out.keep_attributes = out.keep_cache || is_sent_to_kernel;
  if (!out.keep_attributes) (*inode)->attributes.tell_no_state();
  // Valid pages do not mean that the kernel knows the size, because tell_size() does nothing while a file is
  // open for writing only. Nor do valid attributes mean it, if a write that bypassed the kernel has enlarged
  // the file since.
  std::uint64_t size = 0;
  if ((*inode)->pages.lags()) size = (*inode)->writes.written_since(asked.as_of).value_or(0);
  if (told && options_.close_to_open && (!is_sent_to_kernel || (*inode)->pages.lags()))
    size = std::max(size, told->size);
  if (size != 0) co_await tell_size(out.handle, size);
  co_return out;
}

async::Task<Result<OpenedFile>> FileSystem::create(Caller caller, std::uint64_t directory, std::string name,
                                                   std::uint32_t mode, int flags) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Engine::Creation how;
  how.mode = mode;
  how.exclusive = (flags & O_EXCL) != 0;
  how.truncate = (flags & O_TRUNC) != 0;
  Naming naming(freshness_, *parent, name);
  const std::uint64_t as_of = freshness_.count();
  auto opened = co_await engine_->open_at(caller, (*parent)->handle, name, access_of(flags), how);
  if (!opened) co_return opened.error();
  naming.brought(opened->directory);
  naming.granted(caller);
  if (const auto known = inodes_.find(opened->object.handle)) known->attributes.valid_from(as_of);
  auto entered = co_await made(std::move(opened->object), *parent, std::move(name), as_of);
  if (!entered) co_return entered.error();
  OpenedFile out;
  out.entry = std::move(*entered);
  auto inode = inodes_.find(out.entry.inode);
  const bool was_changed = inode->attributes.changed() > as_of;
  if (how.truncate) freshness_.resized(*inode);  // the file may have existed before
  inode->attributes.cache(out.entry.attributes.change);
  out.handle = std::make_shared<OpenHandle>(loop(), counters_, read_window_, std::move(inode),
                                            std::move(opened->file), caller);
  handle_open_flags(*out.handle, flags);
  // The file may have been open here already. Its earlier answered writes must be cut as well, even if they
  // reach the server after the OPEN.
  Inode& opened_inode = out.handle->inode();
  if (how.truncate && (was_changed || !opened_inode.writes.empty())) {
    SetAttributes changes;
    changes.size = 0;
    std::shared_ptr<OpenHandle> writer;
    if (access_of(flags) != Access::read) writer = out.handle;
    auto cut = co_await set_attributes(std::move(caller), opened_inode.id, changes, std::move(writer));
    if (!cut) co_return cut.error();
    out.entry.attributes = std::move(cut->attributes);
    out.entry.attributes_valid = cut->valid;
  }
  if (how.truncate) will_be_emptied(out.handle, out.entry.attributes.size);
  co_return out;
}

async::Task<Status> FileSystem::sync(std::shared_ptr<OpenHandle> file, Heard heard) {
  auto saved = co_await writes_.save(file);
  if (heard && !heard()) co_return saved;
  co_return WriteBehind::told_at_fsync(*file, std::move(saved));
}

async::Task<Status> FileSystem::flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner,
                                      Heard heard) {
  const bool writes = file->file()->access() != Access::read;
  Status done;
  if (writes && may_close_early(*file)) {
    background_.spawn(deferred_closes_.save(file));  // all of the data is in flight after this
    engine_->promises().close_is_deferred(file->file());
  } else if (writes) {
    done = co_await writes_.save(file);
  } else if (file->file()->knows_owner(lock_owner)) {
    (void)co_await writes_.make_safe(file);  // an error is reported through the handles that may write
  }
  if (file->file()->knows_owner(lock_owner)) {
    auto released = co_await file->file()->release_locks(lock_owner);
    if (!released && done) done = released;
  }
  if (!writes || (heard && !heard())) co_return done;
  co_return WriteBehind::told_at_close(*file, lock_owner, std::move(done));
}

/// Returns whether close(2) may return before the data is safe. It must wait if data was lost, of this file
/// or lately of another one (a full disk), because the program then has to get the error. It also waits if
/// any lock on the file is held: flock(2) and locks of an open file description do not belong to the process
/// that closes, and must be gone when their last descriptor is.
bool FileSystem::may_close_early(const OpenHandle& file) const {
  const Inode& inode = file.inode();
  const auto locked = [](const OpenHandle* handle) { return handle->file()->has_locks(); };
  if (options_.sync || inode.writes.errors().failing() || loop_.now() < closes_early_from_ ||
      std::ranges::any_of(inode.open, locked) || async::buggify(loop_))
    return false;
  const std::uint64_t most = engine_->promises().max_size_for_deferred_close(inode.handle);
  return most != 0 && inode.end() <= most;
}

void FileSystem::write_out(const FileHandle& handle, std::shared_ptr<void> until) {
  if (auto inode = inodes_.find(handle))
    background_.spawn(settle_in_background(std::move(inode), std::move(until)));
}

async::Task<void> FileSystem::settle_in_background(std::shared_ptr<Inode> inode,
                                                   std::shared_ptr<void> /*until*/) {
  co_await writes_.settle(*inode);
  // Deferred data has to be stable by then, because it must not be written again once another client may
  // write the file.
  while (inode->writes.is_saving()) (void)co_await inode->settled.wait_until(async::TimePoint::max());
}

std::optional<std::uint64_t> FileSystem::written_size(const FileHandle& handle) const {
  const auto inode = inodes_.find(handle);
  if (!inode || !inode->writes.empty()) return std::nullopt;
  const Attributes* const attributes = freshness_.unchanged(*inode);
  return attributes != nullptr ? std::optional(attributes->size) : std::nullopt;
}

async::Task<Status> FileSystem::close(std::shared_ptr<OpenHandle> file) {
  file->closing = true;
  const async::Counted under_way(closing_, none_closing_);
  co_return co_await close_now(std::move(file));
}

async::Task<void> FileSystem::closed() {
  engine_->promises().hurry_closes();
  while (closing_ != 0) (void)co_await none_closing_.wait_until(async::TimePoint::max());
  co_await engine_->promises().forget_all();
}

namespace {
/// An open file that is being closed. It counts among the inode's open files until end(), or until this
/// object is destroyed, because the task of a close() may be destroyed earlier. If the kernel has forgotten
/// the inode by then, the close of its last file removes it from the table.
class Closing {
 public:
  Closing(FileSystem& files, OpenHandle& file) : files_(files), file_(&file), inode_(file.shared_inode()) {}
  ~Closing() {
    end();
    if (inode_->lookups == 0) files_.forget(inode_->id, 0);
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  void end() {
    if (std::erase(inode_->open, file_) != 0) inode_->settled.notify_all();
  }

 private:
  FileSystem& files_;
  OpenHandle* const file_;
  const std::shared_ptr<Inode> inode_;
};
}  // namespace

async::Task<Status> FileSystem::close_now(std::shared_ptr<OpenHandle> file) {
  const auto inode = file->shared_inode();
  Closing closing(*this, *file);
  co_await writes_.settle(*inode);
  judge_early(*file);
  file->drop_ahead();
  auto closed = co_await engine_->close(file->file());
  // This close() reports data that was lost after a close(2) which did not wait for it.
  if (file->deferred) {
    // No later COMMIT can have the data written again.
    if (!closed && file->file()->has_unstable_data()) writes_.lost(*inode, closed.error());
    auto untold = DeferredCloses::closed(*file);
    if (closed) closed = std::move(untold);
    if (!closed) closes_early_from_ = loop_.now() + kCarefulFor;
  }
  closing.end();
  if (file->deferred) deferred_closes_.review(*inode);
  if (inode->open.empty()) co_await removal_.closed(inode);
  co_return closed;
}

// ---- reading, writing ----

/// Makes the kernel drop its cached attributes and pages of a file that lost data.
void FileSystem::forget_pages(Inode& inode) {
  freshness_.doubt(inode);
  if (auto held = drop_pages_ ? inodes_.find(inode.id) : nullptr)
    background_.spawn(drop_lost_pages(std::move(held)));
}

async::Task<void> FileSystem::drop_lost_pages(std::shared_ptr<Inode> inode) {
  co_await drop_pages_from(*inode, 0);
}

namespace {
bool goes_past_pages(const OpenHandle& file) {
  return file.direct || file.uncached;
}
/// Guards a read by the kernel up to `end`, which puts pages into its cache.
struct Paging {
  Paging(KernelPages& all, std::uint64_t end) : pages(all) { pages.begin_read(end); }
  ~Paging() { pages.end_read(); }
  Paging(const Paging&) = delete;
  Paging& operator=(const Paging&) = delete;
  KernelPages& pages;
};
}  // namespace

async::Task<Result<ReadData>> FileSystem::read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                               std::size_t size) {
  Inode& inode = file->inode();
  std::optional<Paging> paging;
  if (!goes_past_pages(*file)) paging.emplace(inode.pages, offset + size);
  // Writes behind the range matter, too, because they show that the file does not end there.
  co_await writes_.settle_for_read(inode, offset, offset + size);
  const auto age = std::max(options_.file_max, Seconds(1));
  auto got = co_await file->read(offset, size,
                                 loop().now() - std::chrono::duration_cast<async::Clock::duration>(age));
  ++counters_.reads;
  if (!got) co_return got;
  counters_.bytes_read += got->size;
  if (got->size < size) has_ended(*file, offset + got->size);
  co_return got;
}

bool FileSystem::begin_plain_read(OpenHandle& file, std::uint64_t offset, std::size_t size) {
  Inode& inode = file.inode();
  if (!WriteBehind::may_read_at_once(inode, offset, offset + size)) return false;
  if (!file.begin_plain_read(offset, size)) return false;
  if (!goes_past_pages(file)) inode.pages.begin_read(offset + size);
  return true;
}

void FileSystem::end_plain_read(OpenHandle& file, std::optional<std::size_t> got) {
  if (!goes_past_pages(file)) file.inode().pages.end_read();
  if (!got) return;
  ++counters_.reads;
  ++counters_.server_reads;
  counters_.bytes_read += *got;
  counters_.server_bytes_read += *got;
}

bool FileSystem::Writing::appends() const {
  return (flags & O_APPEND) != 0;
}
bool FileSystem::Writing::is_stable() const {
  return (flags & (O_SYNC | O_DSYNC)) != 0;
}

/// Returns how many bytes of a page that the kernel writes back are within the file. The kernel writes up to the end that it
/// believes in, but another client may have cut the file since, and FUSE has no way to tell the kernel that a file is shorter.
/// A store in a mapping enlarges no file (mmap(2)), so what lies behind the end is not written: it would put zeros there.
async::Task<std::size_t> FileSystem::cropped(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                             std::size_t size) {
  const Inode& inode = file->inode();
  if (inode.attributes.is_current() && offset + size <= inode.end()) co_return size;
  // The server is asked, because the file may have been enlarged since the end was learned.
  const auto end = co_await writes_.ask_end(file);
  if (!end) co_return size;  // the write meets the same error
  co_return static_cast<std::size_t>(std::min<std::uint64_t>(size, *end - std::min(*end, offset)));
}

async::Task<Status> FileSystem::write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                      std::uint64_t offset, std::optional<int> flags) {
  Inode& inode = file->inode();
  Writing how;
  how.flags = flags.value_or(file->flags);
  how.written_back = flags == kWrittenBack;
  how.kernels_offset = offset;
  how.page_reads = inode.pages.reads();
  how.paging = inode.pages.reading() != 0;
  if (how.appends()) {
    auto end = co_await writes_.place_append(file);
    if (!end) co_return end.error();
    offset = *end;
  }
  if (how.written_back && !options_.kernel_gathers) {
    data = data.first(co_await cropped(file, offset, data.size()));
    if (data.empty()) co_return Status();
  }
  ++counters_.writes;
  counters_.bytes_written += data.size();
  WriteBehind::How sent;
  sent.append = how.appends();
  sent.stable = options_.sync || how.is_stable();
  const std::byte last = data.empty() ? std::byte{} : data.back();
  auto done = co_await writes_.write(file, std::move(memory), data, offset, sent);
  if (done) co_await drop_stale_pages(file, how, offset, data.size(), last);
  co_return done;
}

namespace {
struct Correction {
  explicit Correction(async::Loop& loop) : changed(loop) {}
  bool drops = false;
  bool done = false;
  async::Event changed;
};
async::Task<void> run_correction(std::shared_ptr<Correction> correction, std::shared_ptr<OpenHandle> /*file*/,
                                 async::Task<void> lengthening, async::Task<void> dropping) {
  co_await std::move(lengthening);
  correction->drops = true;
  correction->changed.notify_all();
  co_await std::move(dropping);
  correction->done = true;
  correction->changed.notify_all();
}
}  // namespace

/// Corrects what the kernel has cached of an append that it put in the wrong place: it is notified of the new
/// size, and drops its pages. The kernel waits for the answer to this write. If the last page of the write
/// was not cached whole, the kernel keeps that page locked until then, and neither notification can end
/// before. So their ends are awaited here only for kDropFor each, for the sake of mappings; programs that call
/// read(2) wait in attributes(). As soon as the drop begins, the kernel ignores answers to GETATTRs that it had
/// sent before. If the file is shorter than the kernel believes, only the answer to its next GETATTR corrects
/// that.
async::Task<void> FileSystem::correct_pages(std::shared_ptr<OpenHandle> file, std::uint64_t end,
                                            std::byte last) {
  const auto correction = std::make_shared<Correction>(loop());
  Inode& inode = file->inode();
  auto lengthening = tell_length(inode, end, last);
  auto dropping = drop_pages_from(inode, 0);
  loop().spawn(run_correction(correction, std::move(file), std::move(lengthening), std::move(dropping)));
  const auto until = [&](bool& happened) {
    return async::until(correction->changed, loop().now() + kDropFor, [&happened] { return happened; });
  };
  const bool drops = co_await until(correction->drops);
  if (drops) (void)co_await until(correction->done);
}

/// Called after a write. Drops or corrects the kernel's pages that do not match the file any more. The kernel
/// caches pages of what it writes, and drops the pages in the range of an O_DIRECT write before it sends the
/// write.
async::Task<void> FileSystem::drop_stale_pages(std::shared_ptr<OpenHandle> file, Writing how,
                                               std::uint64_t offset, std::size_t size, std::byte last) {
  Inode& inode = file->inode();
  if (!drop_pages_) co_return;
  if (!how.written_back) inode.pages.reaches(how.kernels_offset + size);
  if (how.written_back) {
    // The kernel drops a page that it writes back only after the write is answered, so waiting for a drop
    // here would never end. The kernel uses any open file for such a write, also one that bypasses its pages.
    inode.pages.put(how.kernels_offset + size);
  } else if (file->uncached) {
    // For a write that bypasses the kernel's pages the kernel has neither cached nor dropped any. The pages
    // in front of the write stay cached, with what was stored in them.
    if (inode.pages.any_from(offset)) co_await drop_pages_from(inode, offset);
    if (offset != how.kernels_offset) co_await tell_appended(inode, offset + size, last);
  } else if (file->direct) {
    // Pages that were read meanwhile may be older than the write.
    const bool read = how.paging || inode.pages.reads() != how.page_reads;
    if (read) co_await drop_pages_(inode.id, offset, size);
    if (offset != how.kernels_offset) co_await tell_appended(inode, offset + size, last);
  } else {
    inode.pages.put(how.kernels_offset + size);
    if (offset != how.kernels_offset) co_await correct_pages(std::move(file), offset + size, last);
  }
}

// ---- more of NFSv4.2 ----

async::Task<Result<std::uint64_t>> FileSystem::seek(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                                    int whence) {
  co_await send_out(file->inode());
  auto attributes = co_await file->file()->attributes();
  if (!attributes) co_return attributes.error();
  const std::uint64_t size = attributes->size;
  if (offset >= size)
    co_return refusal(ENXIO, "SEEK", file->inode().label, "the offset is beyond the end of the file");
  auto found = co_await file->file()->seek(offset, whence == SEEK_HOLE);
  if (!found) {
    if (found.error().errno_value() != EOPNOTSUPP) co_return found.error();
    co_return whence == SEEK_HOLE ? size : offset;  // lseek(2) allows treating the whole file as data
  }
  if (*found) co_return **found;
  if (whence == SEEK_HOLE) co_return size;
  co_return refusal(ENXIO, "SEEK", file->inode().label, "there is no data after the offset");
}

async::Task<Status> FileSystem::allocate(std::shared_ptr<OpenHandle> file, int mode, std::uint64_t offset,
                                         std::uint64_t length) {
  co_await writes_.settle(file->inode());
  if (mode != 0 && mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) {
    co_return refusal(EOPNOTSUPP, "fallocate", file->inode().label, "NFS does not support this mode");
  }
  // Uncommitted data must not be written again into a hole.
  auto committed = co_await writes_.commit_all(file, nullptr);
  if (!committed) co_return committed;
  Status done;
  if (mode == 0) {
    done = co_await file->file()->allocate(offset, length);
  } else {
    done = co_await file->file()->deallocate(offset, length);
  }
  freshness_.resized(file->inode());
  co_return done;
}

async::Task<Result<std::uint64_t>> FileSystem::copy(std::shared_ptr<OpenHandle> from,
                                                    std::uint64_t from_offset, std::shared_ptr<OpenHandle> to,
                                                    std::uint64_t to_offset, std::uint64_t count) {
  const std::uint64_t written = to->inode().writes.last_number();
  co_await send_out(from->inode());
  co_await writes_.settle(to->inode(), written);
  auto copied = co_await engine_->copy(from->file(), from_offset, to->file(), to_offset, count);
  freshness_.resized(to->inode());
  co_return copied;  // after EOPNOTSUPP the kernel copies by reading and writing
}

// ---- locks ----

async::Task<Result<std::optional<LockHolder>>> FileSystem::test_lock(std::shared_ptr<OpenHandle> file,
                                                                     LockRequest request) {
  co_return co_await file->file()->test_lock(request);
}

namespace {
/// Runs `task`, then sets `done` and wakes the waiter, which may also be woken by a cancellation.
async::Task<void> then_wake(std::shared_ptr<OpenHandle> /*file*/, async::Task<void> task,
                            std::shared_ptr<locking::LockWait> wait, std::shared_ptr<bool> done) {
  co_await std::move(task);
  *done = true;
  wait->wake();
}
}  // namespace

/// Does what send_out() does, but ends early if the wait is cancelled. Returns false then.
async::Task<bool> FileSystem::settle_or_cancel(std::shared_ptr<OpenHandle> file,
                                               std::shared_ptr<locking::LockWait> wait) {
  const auto done = std::make_shared<bool>(false);
  loop().spawn(then_wake(file, send_out(file->inode()), wait, done));
  while (!*done && !wait->cancelled()) co_await wait->until(async::TimePoint::max());
  co_return !wait->cancelled();
}

async::Task<Status> FileSystem::lock(std::shared_ptr<OpenHandle> file, LockRequest request,
                                     std::shared_ptr<locking::LockWait> wait) {
  // Data written before the lock must be visible to the next holder, and this client must see what others
  // wrote.
  Inode& inode = file->inode();
  if (wait) {
    const bool settled = co_await settle_or_cancel(file, wait);
    if (!settled) {
      co_return Error(ErrorKind::cancelled, EINTR, "LOCK", inode.label,
                      "the wait for the lock was interrupted");
    }
    auto done = co_await file->file()->wait_for_lock(request, std::move(wait));
    if (done) co_await see_as_locked(std::move(file));
    co_return done;
  }
  co_await send_out(inode);
  auto refused = co_await file->file()->lock(request);
  if (!refused) co_return refused.error();
  if (*refused)
    co_return refusal(EAGAIN, "LOCK", inode.label, "a conflicting lock is held by another process or client");
  co_await see_as_locked(std::move(file));
  co_return Status();
}

async::Task<Status> FileSystem::unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner,
                                       LockRange range) {
  // Data stored in mappings under the lock is written back, too. An owner without locks has nothing to send.
  Inode& inode = file->inode();
  if (file->file()->knows_owner(owner) && may_have_stores(inode)) co_await fetch_pages(inode);
  auto committed = co_await writes_.make_safe(file);
  auto done = co_await file->file()->unlock(owner, range);
  if (!committed) co_return committed;
  co_return done;
}

async::Task<Status> FileSystem::release_locks(std::shared_ptr<OpenHandle> file, std::uint64_t owner) {
  if (!file->file()->knows_owner(owner)) co_return Status();
  auto committed = co_await writes_.make_safe(file);
  auto done = co_await file->file()->release_locks(owner);
  if (!committed) co_return committed;
  co_return done;
}

}  // namespace nfsrdma::fs
