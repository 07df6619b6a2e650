#include "fs/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nfsrdma::fs {
namespace {

constexpr std::string_view kUser = "user.";
/// Attributes are asked for again where the size was set meanwhile, but not for ever.
constexpr int kMostTries = 4;

}  // namespace

Error refusal(int code, const char* operation, const std::string& name, const char* why) {
  return {ErrorKind::usage, code, operation, name, why};
}

FileSystem::FileSystem(std::unique_ptr<Engine> engine, Options options, const Object& root)
    : engine_(std::move(engine)),
      loop_(engine_->loop()),
      options_(options),
      root_(root.attributes),
      inodes_(loop_, root.handle),
      less_behind_(loop_),
      less_closing_(loop_) {
  engine_->keep_delegated(options_.most_delegated);
  engine_->on_delegation_end([this](const FileHandle& handle) { delegation_ended(handle); });
  engine_->on_lost_data([this](const FileHandle& handle, const Error& error) {
    if (const auto inode = inodes_.find(handle)) lost(*inode, error);
  });
}

FileSystem::~FileSystem() {
  loop_.drop(sending_task_);
  engine_->on_delegation_end(nullptr);
  engine_->on_lost_data(nullptr);
}

void FileSystem::delegation_ended(const FileHandle& handle) {
  const auto inode = inodes_.find(handle);
  if (inode && std::exchange(inode->lifted, false) && doubt_) doubt_(inode->id);
}

void FileSystem::forget(std::uint64_t id, std::uint64_t lookups) {
  const auto forgotten = inodes_.forget(id, lookups);
  // It may have been removed: the server should not keep its blocks for us.
  if (forgotten) engine_->forget(forgotten->handle);
}

Holdings FileSystem::holdings() const {
  Holdings out;
  out.inodes = inodes_.size();
  out.files = engine_->open_files();
  out.bytes_behind = behind_;
  out.uncommitted_bytes = engine_->uncommitted_bytes();
  out.spare_bytes = loop_.memory().spare_bytes();
  return out;
}

Result<std::shared_ptr<Inode>> FileSystem::find(std::uint64_t id) const {
  auto inode = inodes_.find(id);
  if (!inode) return refusal(ESTALE, "", std::to_string(id), "no such inode is known");
  return inode;
}

/// Longer the longer ago it changed, as nfs(5) has it.
Seconds FileSystem::valid(const Attributes& attributes) const {
  const bool directory = attributes.type == FileType::directory;
  const Seconds least = directory ? options_.directory_min : options_.file_min;
  const Seconds most = std::max(least, directory ? options_.directory_max : options_.file_max);
  const auto age = static_cast<double>(loop().wall_seconds() - attributes.changed.seconds) / 10;
  return std::clamp(Seconds(age), least, most);
}

/// A delegation lifts the times, up to what the server promises to wait for us. Who wants no caching gets
/// none.
Seconds FileSystem::valid(Inode& inode, const Attributes& attributes) {
  const Seconds plain = valid(attributes);
  if (plain == Seconds(0) || !engine_->delegated(inode.handle)) return plain;
  inode.lifted = true;
  return std::max(plain, Seconds(engine_->delegated_for()));
}

/// A mount has one st_dev, and the server may have several file systems below the export. Without this two
/// files of theirs could pass for links of one.
Attributes FileSystem::numbered(Attributes attributes) const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  const std::uint64_t major = attributes.filesystem_major, minor = attributes.filesystem_minor;
  const bool known = attributes.type != FileType::unknown && root_;
  if (known && (major != root_->filesystem_major || minor != root_->filesystem_minor)) {
    const std::uint64_t where = (major * kOdd + minor) * kOdd;
    attributes.file_id ^= where | 1ULL << 63U;
  }
  return attributes;
}

Entry FileSystem::entry(const FileHandle& handle, const std::string& name, const Attributes& told,
                        std::uint64_t as_of) {
  Entry out;
  const auto inode = inodes_.look_up(handle, name, told.type);
  out.inode = inode->id;
  inode->fresh.reset();  // older than these
  Attributed now = attributed(*inode, told, as_of);
  out.attributes = std::move(now.attributes);
  out.attributes_valid = now.valid;
  // A name is its directory's, which has no delegation.
  if (options_.names) out.name_valid = valid(out.attributes);
  return out;
}

Attributed FileSystem::attributed(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  learn(inode, told);
  return corrected(inode, told, as_of);
}

/// Where writes were under way since they were asked for, the file is as large as these say at least, and the
/// rest is not believed for longer than it takes to tell it.
Attributed FileSystem::corrected(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  Attributed out;
  out.attributes = numbered(told);
  out.valid = valid(inode, out.attributes);
  if (inode.writes.empty() && inode.changed <= as_of) return out;
  out.valid = Seconds(0);
  out.attributes.size = std::max(out.attributes.size, inode.writes.written_since(as_of).value_or(0));
  return out;
}

/// What was read ahead of another state of the file is not given out any more.
void FileSystem::learn(Inode& inode, const Attributes& told) {
  inode.known_at = loop().now();
  if (inode.known_change != told.change) ++inode.contents;
  inode.known_change = told.change;
}

/// What may be told while writes are under way without asking anybody: what one that ended a moment ago
/// brought. The times are the server's, of that write; the next ones are still to be made.
std::optional<Attributed> FileSystem::while_writing(Inode& inode) {
  const auto& known = inode.brought;
  if (!known || inode.writes.empty()) return std::nullopt;
  const Seconds age = loop().now() - known->when;
  const bool old = age >= std::min(options_.file_min, Seconds(1));
  if (old || known->namings != namings_ || inode.resized > known->as_of) return std::nullopt;
  return corrected(inode, known->attributes, known->as_of);
}

/// A file's changes whenever this client may change it; a directory's when it may have got another place,
/// while Naming sees to the rest.
std::uint64_t FileSystem::freshness(const Inode& inode) const {
  return inode.type == FileType::directory ? renames_ : engine_->modifications(inode.handle);
}

/// FUSE drops attributes whenever it changes a file or a directory, and asks for them again at once.
void FileSystem::keep_fresh(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  learn(inode, told);
  if (freshness(inode) != as_of || !inode.writes.empty()) return;
  Inode::Fresh fresh;
  fresh.attributes = numbered(told);
  const Seconds time = valid(fresh.attributes);
  if (time == Seconds(0)) return;
  fresh.until = loop().now() + std::chrono::duration_cast<async::Clock::duration>(time);
  fresh.as_of = as_of;
  inode.fresh = std::move(fresh);
}

std::optional<Attributed> FileSystem::fresh(const Inode& inode) const {
  if (!inode.fresh || inode.fresh->as_of != freshness(inode)) return std::nullopt;
  const Seconds left = inode.fresh->until - loop().now();
  if (left <= Seconds(0)) return std::nullopt;
  return Attributed{inode.fresh->attributes, left};
}

Entry FileSystem::absent() const {
  Entry out;
  // Its directory would have to change: nothing tells us when it does.
  if (options_.names && options_.negative_names) out.name_valid = std::min(options_.file_min, Seconds(1));
  return out;
}

// ---- finding, attributes ----

async::Task<Result<Entry>> FileSystem::lookup(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  const std::uint64_t as_of = changes_;
  auto found = co_await engine_->lookup(std::move(caller), (*parent)->handle, name);
  if (!found) co_return found.error();
  if (!*found) co_return absent();
  co_return co_await made(std::move(**found), std::move(name), as_of);
}

async::Task<Result<Attributed>> FileSystem::attributes(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (!(*inode)->writes.empty()) {
    if (auto told = while_writing(**inode)) co_return *told;
    // Not for all of them: one that ends brings the times of a write, which is what may not be missing.
    co_await one_settled(**inode);
    if (auto told = while_writing(**inode)) co_return *told;
  }
  const auto known = fresh(**inode);
  if (known && !engine_->delegated((*inode)->handle)) co_return *known;
  for (int tries = 1;; ++tries) {
    const std::uint64_t as_of = changes_;
    auto got = co_await engine_->attributes(caller, (*inode)->handle);
    if (!got) co_return got.error();
    if ((*inode)->resized > as_of && tries < kMostTries) continue;
    co_return attributed(**inode, *got, as_of);
  }
}

async::Task<Result<Attributed>> FileSystem::set_attributes(Caller caller, std::uint64_t id,
                                                           SetAttributes changes,
                                                           std::shared_ptr<OpenHandle> file) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_await settle(**inode);
  const Naming naming(*this, *inode);
  const ServerFileRef open = file ? file->file() : nullptr;
  std::uint64_t as_of = changes_;
  auto got = co_await engine_->set_attributes(std::move(caller), (*inode)->handle, changes, open);
  if (changes.size) {
    resized(**inode);
    as_of = changes_;
  }
  if (!got) co_return got.error();
  co_return attributed(**inode, *got, as_of);
}

async::Task<Status> FileSystem::access(Caller caller, std::uint64_t id, unsigned mode) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const unsigned wanted = mode & (R_OK | W_OK | X_OK);
  auto granted = co_await engine_->access(std::move(caller), (*inode)->handle, (*inode)->type, wanted);
  if (!granted) co_return granted.error();
  if (*granted != wanted) {
    co_return refusal(EACCES, "ACCESS", (*inode)->label, "permission denied by the server");
  }
  co_return Status();
}

async::Task<Result<std::string>> FileSystem::read_link(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_return co_await engine_->read_link(std::move(caller), (*inode)->handle);
}

async::Task<Result<Space>> FileSystem::space(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_return co_await engine_->space(std::move(caller), (*inode)->handle);
}

// ---- making, removing, renaming ----

/// Of what was found or made. Its attributes may not have come along, or its size may have been set since.
async::Task<Result<Entry>> FileSystem::made(Object object, std::string name, std::uint64_t as_of) {
  const auto known = inodes_.find(object.handle);
  for (int tries = 1;; ++tries) {
    const bool old = known && known->resized > as_of && tries < kMostTries;
    if (object.attributes && !old) co_return entry(object.handle, name, *object.attributes, as_of);
    as_of = changes_;
    auto got = co_await engine_->attributes(nullptr, object.handle);
    if (!got) co_return got.error();
    object.attributes = std::move(*got);
  }
}

async::Task<Result<Entry>> FileSystem::entered(Naming& naming, Result<Made> result, std::string name) {
  if (!result) co_return result.error();
  naming.brought(result->directory);
  co_return co_await made(std::move(result->object), std::move(name), naming.as_of());
}

async::Task<Result<Entry>> FileSystem::make_directory(Caller caller, std::uint64_t directory,
                                                      std::string name, std::uint32_t mode) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto created = co_await engine_->make_directory(std::move(caller), (*parent)->handle, name, mode);
  co_return co_await entered(naming, std::move(created), std::move(name));
}

async::Task<Result<Entry>> FileSystem::make_symlink(Caller caller, std::uint64_t directory, std::string name,
                                                    std::string text) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto created = co_await engine_->make_symlink(std::move(caller), (*parent)->handle, name, std::move(text));
  co_return co_await entered(naming, std::move(created), std::move(name));
}

async::Task<Result<Entry>> FileSystem::make_node(Caller caller, std::uint64_t directory, std::string name,
                                                 std::uint32_t mode, std::uint64_t device) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  if (S_ISREG(mode)) {
    Engine::Creation how;
    how.mode = mode;
    how.exclusive = true;
    auto opened = co_await engine_->create(std::move(caller), (*parent)->handle, name, Access::write, how);
    if (!opened) co_return opened.error();
    naming.brought(opened->directory);
    (void)co_await engine_->close(std::move(opened->file));
    co_return co_await made(std::move(opened->object), std::move(name), naming.as_of());
  }
  FileType type = FileType::fifo;
  if (S_ISSOCK(mode)) type = FileType::socket;
  if (S_ISCHR(mode)) type = FileType::character;
  if (S_ISBLK(mode)) type = FileType::block;
  Engine::Device numbers;
  numbers.major = major(device);
  numbers.minor = minor(device);
  auto created = co_await engine_->make_node(std::move(caller), (*parent)->handle, name, type, numbers, mode);
  co_return co_await entered(naming, std::move(created), std::move(name));
}

async::Task<Result<Entry>> FileSystem::link(Caller caller, std::uint64_t id, std::uint64_t directory,
                                            std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto linked = co_await engine_->link(std::move(caller), (*inode)->handle, (*parent)->handle, name);
  co_return co_await entered(naming, std::move(linked), std::move(name));
}

/// The inode that the name leads to, if a file of it is open here.
async::Task<Result<std::shared_ptr<Inode>>> FileSystem::open_target(Caller caller, FileHandle directory,
                                                                    std::string name) {
  std::shared_ptr<Inode> none;
  if (engine_->open_files() == engine_->kept_files()) co_return none;
  auto found = co_await engine_->lookup(std::move(caller), directory, std::move(name));
  if (!found) co_return found.error();
  if (!*found) co_return none;
  auto inode = inodes_.find((*found)->handle);
  if (!inode) co_return none;
  // close(2) is over before CLOSE is: whoever then removes the file, and its directory, finds no hidden one.
  while (!inode->open.empty() && std::ranges::all_of(inode->open, &OpenHandle::closing)) {
    (void)co_await inode->settled.wait_until(async::TimePoint::max());
  }
  if (inode->open.empty()) co_return none;
  co_return inode;
}

async::Task<Status> FileSystem::hide(Caller caller, FileHandle directory, std::string name,
                                     std::shared_ptr<Inode> inode) {
  // Nobody else's: the client id is in it, and what it is for.
  char hidden[64];
  std::snprintf(hidden, sizeof hidden, ".nfs%016llx%08llx",
                static_cast<unsigned long long>(engine_->client_number() ^ inode->id),
                static_cast<unsigned long long>(++last_hidden_));
  auto renamed = co_await engine_->rename(caller, directory, std::move(name), directory, std::string(hidden));
  if (!renamed) co_return renamed.error();
  ++counters_.hidden;
  // The last one was closed meanwhile: nobody else would remove it.
  if (inode->open.empty()) {
    (void)co_await engine_->remove(std::move(caller), directory, std::string(hidden));
    co_return Status();
  }
  Inode::Hidden where;
  where.directory = directory;
  where.name = hidden;
  inode->hidden = std::move(where);
  co_return Status();
}

async::Task<Status> FileSystem::remove_file(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto target = co_await open_target(caller, (*parent)->handle, name);
  // Another link of a file that is hidden already just goes.
  if (target && *target && !(*target)->hidden) {
    co_return co_await hide(std::move(caller), (*parent)->handle, std::move(name), *target);
  }
  auto removed = co_await engine_->remove(std::move(caller), (*parent)->handle, std::move(name));
  if (!removed) co_return removed.error();
  naming.brought(*removed);
  co_return Status();
}

async::Task<Status> FileSystem::remove_directory(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto removed = co_await engine_->remove(std::move(caller), (*parent)->handle, std::move(name));
  if (!removed) co_return removed.error();
  naming.brought(*removed);
  co_return Status();
}

async::Task<Status> FileSystem::rename(Caller caller, std::uint64_t from, std::string old_name,
                                       std::uint64_t to, std::string new_name) {
  auto source = find(from);
  if (!source) co_return source.error();
  auto target = find(to);
  if (!target) co_return target.error();
  ++renames_;
  Naming leaving(*this, *source);
  std::optional<Naming> entering;
  if (*source != *target) entering.emplace(*this, *target);
  // Two links of one file: POSIX has rename() do nothing then, and so do servers.
  auto replaced = co_await open_target(caller, (*target)->handle, new_name);
  if (replaced && *replaced && !(*replaced)->hidden) {
    auto moved = co_await open_target(caller, (*source)->handle, old_name);
    if (!(moved && *moved == *replaced)) {
      auto hidden = co_await hide(caller, (*target)->handle, new_name, *replaced);
      if (!hidden) co_return hidden;
    }
  }
  auto renamed = co_await engine_->rename(std::move(caller), (*source)->handle, std::move(old_name),
                                          (*target)->handle, std::move(new_name));
  ++renames_;
  if (!renamed) co_return renamed.error();
  leaving.brought(renamed->source);
  if (entering) entering->brought(renamed->target);
  co_return Status();
}

// ---- directories ----

std::shared_ptr<DirectoryHandle> FileSystem::open_directory(std::uint64_t id) {
  auto inode = inodes_.find(id);
  if (!inode) return nullptr;
  auto out = std::make_shared<DirectoryHandle>();
  out->inode = std::move(inode);
  return out;
}

async::Task<Result<std::span<const Listed>>> FileSystem::list(Caller caller,
                                                              std::shared_ptr<DirectoryHandle> directory,
                                                              std::uint64_t cookie) {
  DirectoryHandle& at = *directory;
  const auto inside = [&] {
    if (!at.loaded) return false;
    if (cookie == at.page_begin) return true;
    return std::ranges::any_of(at.page.entries, [&](const auto& entry) { return entry.cookie == cookie; }) &&
           (at.page.eof || at.page.entries.back().cookie != cookie);
  };
  if (cookie == 0 || !inside()) {
    if (cookie == 0) at.page.verifier = {};
    const std::uint64_t as_of = changes_;
    auto page = co_await engine_->list(std::move(caller), at.inode->handle, cookie, at.page.verifier);
    if (!page) co_return page.error();
    at.page = std::move(*page);
    at.as_of = as_of;
    at.page_begin = cookie;
    at.loaded = true;
  }
  const std::span<const Listed> all(at.page.entries);
  if (cookie == at.page_begin) co_return all;
  const auto before = std::ranges::find(all, cookie, &Listed::cookie);
  co_return all.subspan(static_cast<std::size_t>(before - all.begin()) + 1);
}

Attributes FileSystem::brief_of(const Listed& listed) const {
  return numbered(listed.attributes);
}

Entry FileSystem::entry_of(const DirectoryHandle& directory, const Listed& listed) {
  if (!listed.handle) return {};
  // What has been written has another size by now than the server said.
  const auto known = inodes_.find(*listed.handle);
  if (known && (!known->writes.empty() || known->changed > directory.as_of)) return {};
  return entry(*listed.handle, listed.name, listed.attributes, directory.as_of);
}

// ---- extended attributes ----

Status FileSystem::refused_xattr(const std::string& name) const {
  if (name.starts_with(kUser) && name.size() > kUser.size()) return {};
  return refusal(EOPNOTSUPP, "xattr", name, "NFS carries attributes of the user namespace only");
}

async::Task<Result<std::vector<std::byte>>> FileSystem::get_xattr(Caller caller, std::uint64_t id,
                                                                  std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed.error();
  co_return co_await engine_->get_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
}

async::Task<Status> FileSystem::set_xattr(Caller caller, std::uint64_t id, std::string name,
                                          std::vector<std::byte> value, int flags) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  auto mode = Engine::XattrMode::either;
  if ((flags & XATTR_CREATE) != 0) mode = Engine::XattrMode::create;
  if ((flags & XATTR_REPLACE) != 0) mode = Engine::XattrMode::replace;
  const Naming naming(*this, *inode);
  co_return co_await engine_->set_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()),
                                        std::move(value), mode);
}

async::Task<Status> FileSystem::remove_xattr(Caller caller, std::uint64_t id, std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  const Naming naming(*this, *inode);
  co_return co_await engine_->remove_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
}

async::Task<Result<std::vector<std::string>>> FileSystem::list_xattrs(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto names = co_await engine_->list_xattrs(std::move(caller), (*inode)->handle);
  if (!names) co_return names.error();
  for (std::string& name : *names) name.insert(0, kUser);
  co_return names;
}

}  // namespace nfsrdma::fs
