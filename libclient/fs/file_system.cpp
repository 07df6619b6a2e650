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
/// Attributes are requested again if the size was set meanwhile, up to this many times.
constexpr int kMostTries = 4;
/// On a mount for several users the kernel looks a name up for a program that walks through it, reads its
/// attributes, or wants to create it, and does not say which. A program that creates a name (mkdir(2),
/// O_EXCL) has to learn whether it exists now. So only names of directories that the caller has walked
/// through are valid for as long as attributes are, and other names for this time.
constexpr Seconds kLeafBelieved{0.2};
/// A bound on the time from an answer to LOOKUP until a program that has used it opens the file. The kernel counts a
/// name's validity from some time in between.
constexpr auto kDelivery = std::chrono::seconds(1);

bool changes_nothing(const SetAttributes& changes) {
  return !changes.mode && !changes.uid && !changes.gid && !changes.size && !changes.accessed &&
         !changes.modified && !changes.accessed_now && !changes.modified_now;
}

}  // namespace

Error refusal(int code, const char* operation, const std::string& name, const char* why) {
  return {ErrorKind::usage, code, operation, name, why};
}

FileSystem::FileSystem(std::shared_ptr<Engine> engine, CacheOptions options, const Object& root)
    : engine_(std::move(engine)),
      loop_(engine_->loop()),
      options_(options),
      numbering_(root.attributes),
      read_window_(loop_, options_.rsize, options_.most_ahead),
      freshness_(*engine_, numbering_, options_),
      inodes_(loop_, root.handle),
      writes_(loop_, freshness_, counters_, options_.wsize),
      deferred_closes_(*engine_, inodes_, writes_),
      removal_(*engine_, inodes_, freshness_, counters_),
      lookups_ahead_(loop_),
      none_closing_(loop_),
      background_(loop_) {
  if (root.attributes) freshness_.learn(*inodes_.find(Inodes::kRoot), *root.attributes, 0);
  engine_->promises().keep_delegated(options_.most_delegated);
  engine_->promises().write_back_owner(this);
  engine_->promises().hold_closes();
  engine_->promises().on_delegation_end([this](const FileHandle& handle) {
    if (const auto inode = inodes_.find(handle)) freshness_.delegation_ended(*inode);
  });
  engine_->on_lost_data([this](const FileHandle& handle, const Error& error) {
    if (const auto inode = inodes_.find(handle)) writes_.lost(*inode, error);
  });
  writes_.on_lost([this](Inode& inode) { forget_pages(inode); });
}

FileSystem::~FileSystem() {
  engine_->promises().write_back_owner(nullptr);
  engine_->promises().on_delegation_end(nullptr);
  engine_->on_lost_data(nullptr);
}

void FileSystem::forget(std::uint64_t id, std::uint64_t lookups) {
  const auto forgotten = inodes_.forget(id, lookups);
  if (!forgotten) return;
  freshness_.forgotten(*forgotten);
  deferred_closes_.forget(id);
  missing_names_.forget(id);
  // The file may have been removed. If it stayed open, the server would keep its blocks.
  engine_->promises().forget(forgotten->handle);
}

Holdings FileSystem::holdings() const {
  Holdings out;
  out.inodes = inodes_.size();
  out.files = engine_->open_files();
  out.bytes_behind = writes_.bytes_behind();
  out.bytes_ahead = read_window_.held();
  out.readers = read_window_.readers();
  out.bytes_listed = directory_pages_->bytes();
  out.read = read_window_.window();
  out.write = writes_.window();
  out.uncommitted_bytes = engine_->uncommitted_bytes();
  out.spare_bytes = loop_.memory().spare_bytes();
  return out;
}

Result<std::shared_ptr<Inode>> FileSystem::find(std::uint64_t id) const {
  auto inode = inodes_.find(id);
  if (!inode) return refusal(ESTALE, "", std::to_string(id), "this inode number is not known");
  return inode;
}

/// Handles ESTALE: the kernel then walks the path again, and must get the server's current answers for the
/// names.
template <class Answer>
void FileSystem::handle_stale(const Inode& inode, const Answer& answer) {
  if (answer || answer.error().errno_value() != ESTALE) return;
  lookups_ahead_.drop(inode.parent);
  const auto known = inodes_.find(inode.id);
  if (!known) return;
  known->names.doubt();
  known->attributes.forget();
}

/// Returns the place where the file was found that is being opened. `fresh`: it was found just now.
std::optional<Place> FileSystem::place_of(const Inode& inode, bool fresh) const {
  const auto directory = inodes_.find(inode.parent);
  if (!directory) return std::nullopt;
  return Place{directory->handle, inode.label, fresh || !checks_names()};
}

std::optional<std::string> FileSystem::known_path(std::uint64_t directory, const std::string& name) const {
  if (!inodes_.at(directory, name)) return std::nullopt;
  std::string out = name;
  constexpr std::size_t kLongest = 1U << 16;
  for (std::uint64_t id = directory; id != Inodes::kRoot;) {
    const auto inode = inodes_.find(id);
    if (!inode || inode->parent == 0 || out.size() > kLongest) return std::nullopt;
    out.insert(0, inode->label + "/");
    id = inode->parent;
  }
  return out;
}

Entry FileSystem::entry(const FileHandle& handle, const Inode& directory, const std::string& name,
                        const Attributes& told, std::uint64_t as_of, std::uint64_t when) {
  Entry out;
  const auto inode = inodes_.look_up(handle, name, told.type);
  out.inode = inode->id;
  inodes_.place(*inode, directory.id, name);
  inode->attributes.forget();  // the kept attributes are older than these
  Attributed now = freshness_.attributed(*inode, told, as_of, when);
  out.attributes = std::move(now.attributes);
  out.attributes_valid = now.valid;
  // The validity of a name depends on its directory, which has no delegation.
  const bool may_believe = options_.names && !inode->others.is_full();
  const Seconds believed = may_believe ? freshness_.valid(out.attributes) : Seconds(0);
  const bool is_leaf = told.type != FileType::directory;
  const Seconds known = options_.several_users && is_leaf ? std::min(believed, kLeafBelieved) : believed;
  const auto until = loop().now() + std::chrono::duration_cast<async::Clock::duration>(known);
  if (known > Seconds(0)) inode->believed_until = std::max(inode->believed_until, until + kDelivery);
  if (is_leaf && told.links == 1) has_one_name(inode);
  if (options_.several_users) {
    inode->names.believe(until);
    freshness_.keep_told(*inode, told, as_of);
  } else {
    out.name_valid = known;
  }
  return out;
}

/// Returns how long the absence of a name is valid. A change of the directory would end it, but this client
/// is not notified of one.
async::Clock::duration FileSystem::missing_for() const {
  return std::chrono::duration_cast<async::Clock::duration>(std::min(options_.file_min, Seconds(1)));
}

Entry FileSystem::absent() const {
  Entry out;
  if (options_.names && options_.negative_names && !options_.several_users) out.name_valid = missing_for();
  return out;
}

// ---- finding, attributes ----

Entry FileSystem::found_again(const FileHandle& handle, const Attributes& told, std::uint64_t as_of) {
  const auto inode = inodes_.look_up(handle, "a file that was opened by its handle", told.type);
  Attributed now = freshness_.attributed(*inode, told, as_of);
  Entry out;
  out.inode = inode->id;
  out.attributes = std::move(now.attributes);
  out.attributes_valid = now.valid;
  return out;
}

async::Task<Result<Entry>> FileSystem::find_again(Caller caller, std::uint64_t id) {
  const auto handle = inodes_.handle_of(id);
  if (!handle) co_return refusal(ESTALE, "LOOKUP", std::to_string(id), "this inode number is not known");
  const std::uint64_t as_of = freshness_.count();
  auto got = co_await engine_->attributes(std::move(caller), *handle);
  if (!got) co_return got.error();
  co_return found_again(*handle, *got, as_of);
}

async::Task<Result<Entry>> FileSystem::find_above(Caller caller, std::uint64_t directory) {
  auto inode = find(directory);
  if (!inode) co_return inode.error();
  const std::uint64_t as_of = freshness_.count();
  auto got = co_await engine_->parent(caller, (*inode)->handle);
  if (!got) co_return got.error();
  if (got->attributes) co_return found_again(got->handle, *got->attributes, as_of);
  auto told = co_await engine_->attributes(std::move(caller), got->handle);
  if (!told) co_return told.error();
  co_return found_again(got->handle, *told, as_of);
}

async::Task<Result<Entry>> FileSystem::lookup(Caller caller, std::uint64_t directory, std::string name) {
  if (name == ".") co_return co_await find_again(std::move(caller), directory);
  if (name == "..") co_return co_await find_above(std::move(caller), directory);
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  if (may_search(**parent, caller)) {
    if (missing_names_.has(**parent, name, loop().now())) co_return absent();
    if (auto known = find_ahead(caller, **parent, name)) co_return std::move(*known);
    auto known = co_await find_known(caller, *parent, name);
    if (!known) co_return known.error();
    if (*known) co_return std::move(**known);
  }
  const std::uint64_t as_of = freshness_.count();
  const async::TimePoint asked = loop().now();
  auto found = co_await find_name(*engine_, caller, (*parent)->handle, name);
  handle_stale(**parent, found);
  if (!found) co_return found.error();
  may_search_from_now(**parent, caller, as_of, asked);
  if (!*found) {
    if (options_.several_users && options_.names && options_.negative_names)
      missing_names_.add(**parent, name, as_of, asked + missing_for());
    co_return absent();
  }
  look_ahead(caller, *parent);
  co_return co_await made(std::move(**found), *parent, std::move(name), as_of);
}

/// Returns whether the caller may learn of names in the directory without a question to the server.
bool FileSystem::may_search(const Inode& directory, const Caller& caller) const {
  return !options_.several_users || directory.searchers.has(caller, loop().now());
}

/// Called when the server, at the time `asked`, has let the caller look a name up.
void FileSystem::may_search_from_now(Inode& directory, const Caller& caller, std::uint64_t as_of,
                                     async::TimePoint asked) {
  if (!directory.attributes.altered_since(as_of)) freshness_.search_granted(directory, caller, asked);
}

/// Returns the object that the name led to a while ago, with attributes that are valid now; none if the
/// server has to be asked.
async::Task<Result<std::optional<Entry>>> FileSystem::find_known(Caller caller,
                                                                 std::shared_ptr<Inode> directory,
                                                                 std::string name) {
  const std::optional<Entry> none;
  if (!options_.several_users || !names_believed()) co_return none;
  const auto inode = inodes_.at(directory->id, name);
  if (!inode || !inode->names.is_believed(loop().now())) co_return none;
  if (inode->type == FileType::directory && !may_search(*inode, caller)) co_return none;
  auto told = co_await attributes(std::move(caller), inode->id);
  if (!told && told.error().errno_value() != ESTALE) co_return told.error();
  if (!told || inodes_.at(directory->id, name) != inode) co_return none;
  Entry out;
  out.inode = inodes_.look_up(inode->handle, name, told->attributes.type)->id;
  inodes_.place(*inode, directory->id, name);  // as after every LOOKUP
  out.attributes = std::move(told->attributes);
  out.attributes_valid = told->valid;
  co_return out;
}

/// Looks the name up in the pages of the directory that are in memory.
std::optional<Entry> FileSystem::find_ahead(const Caller& caller, const Inode& directory,
                                            const std::string& name) {
  const auto found = lookups_ahead_.take(directory, caller, name);
  if (!found) return std::nullopt;
  Entry out;
  if (!is_gone(*found->page, *found->listed)) out = entry_in_page(*found->page, *found->listed);
  if (auto more = lookups_ahead_.given(found->page))
    background_.spawn(read_ahead(std::move(more->page), more->cookie));
  if (out.inode == 0) return std::nullopt;
  return out;
}

void FileSystem::look_ahead(const Caller& caller, const std::shared_ptr<Inode>& directory) {
  if (!options_.names || options_.file_max == Seconds(0)) return;
  if (auto wanted = lookups_ahead_.asked(directory, caller))
    background_.spawn(read_ahead(std::move(wanted->page), wanted->cookie));
}

async::Task<void> FileSystem::read_ahead(std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie) {
  auto read = co_await read_page(directory, cookie);
  if (read) {
    lookups_ahead_.came(directory);
  } else {
    lookups_ahead_.failed(directory);
  }
}

/// Handles the kernel's GETATTR, which a read(2) sends before it looks at the cached pages and the cached
/// size. The kernel ignores the answer if a notification for the file arrives meanwhile. So the answer is
/// held back until notifications that drop pages or enlarge the file have ended; the cached pages and the
/// cached size are then correct in any case.
async::Task<Result<Attributed>> FileSystem::attributes(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  while ((*inode)->pages.is_changing()) (void)co_await (*inode)->settled.wait_until(async::TimePoint::max());
  co_return co_await attributes_now(std::move(caller), std::move(*inode));
}

/// Does what attributes() does without waiting until pages are dropped. SETATTR needs this, because the
/// kernel holds back writes of dirty pages while it waits for SETATTR.
async::Task<Result<Attributed>> FileSystem::attributes_now(Caller caller, std::shared_ptr<Inode> inode) {
  // A program that has closed the file expects its final attributes.
  if (inode->writes.is_saving()) co_await writes_.settle(*inode);
  if (!inode->writes.empty()) {
    if (auto told = freshness_.while_writing(*inode)) co_return *told;
    // Wait for one write only: the first that ends returns the times of a write, which must not be missing.
    co_await writes_.one_settled(*inode);
    if (auto told = freshness_.while_writing(*inode)) co_return *told;
  }
  const auto known = freshness_.kept(*inode);
  if (known && !engine_->promises().delegated(inode->handle)) co_return *known;
  for (int tries = 1;; ++tries) {
    const std::uint64_t as_of = freshness_.count();
    auto got = co_await engine_->attributes(caller, inode->handle);
    handle_stale(*inode, got);
    if (!got) co_return got.error();
    if (inode->attributes.resized_since(as_of) && tries < kMostTries) continue;
    if (options_.several_users) freshness_.keep_told(*inode, *got, as_of);
    co_return freshness_.attributed(*inode, *got, as_of);
  }
}

async::Task<Result<Attributed>> FileSystem::set_attributes(Caller caller, std::uint64_t id,
                                                           SetAttributes changes,
                                                           std::shared_ptr<OpenHandle> file) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  // truncate(2): the kernel may have left the check of rights to us, and servers let a file's owner cut the
  // file whatever its mode is. Other errors are the server's to report, because the file system may be
  // read-only.
  if (changes.size && !file) {
    auto allowed = co_await access(caller, id, W_OK);
    const bool denied = !allowed && allowed.error().errno_value() == EACCES;
    if (!allowed && !denied) co_return allowed.error();
    if (denied) {
      auto now = co_await attributes_now(caller, *inode);
      if (!now || (now->attributes.mode & S_IWUSR) == 0) co_return allowed.error();
    }
  }
  co_await writes_.settle(**inode);
  // Linux sends a SETATTR without changes if the kernel would clear set-id bits but leaves that to the
  // server.
  if (changes_nothing(changes)) co_return co_await attributes_now(std::move(caller), *inode);
  const Naming naming(freshness_, *inode);
  (*inode)->searchers.forget();
  const ServerFileRef open = file ? file->file() : nullptr;
  std::uint64_t as_of = freshness_.count();
  // ftruncate(2): the right was checked when the file was opened for writing, so the opener's credential
  // counts.
  if (file) caller = file->caller();
  const std::uint64_t ended = (*inode)->writes.ended();
  auto got = co_await engine_->set_attributes(caller, (*inode)->handle, changes, open);
  if (changes.size) {
    freshness_.resized(**inode);
    as_of = freshness_.count();
  }
  if (!got) co_return got.error();
  // The server may have executed a write that ended meanwhile before the SETATTR, or after it: then the size in this answer is
  // too old, and resized() has made the mount forget the end of the write.
  if (changes.size && (*inode)->writes.ended() != ended) {
    if (auto now = co_await attributes_now(std::move(caller), *inode)) co_return now;
  }
  co_return freshness_.attributed(**inode, *got, as_of);
}

async::Task<Status> FileSystem::access(Caller caller, std::uint64_t id, unsigned mode) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const unsigned wanted = mode & (R_OK | W_OK | X_OK);
  auto rights = co_await engine_->access(std::move(caller), (*inode)->handle, wanted);
  handle_stale(**inode, rights);
  if (!rights) co_return rights.error();
  if (rights->granted != wanted) {
    co_return refusal(EACCES, "ACCESS", (*inode)->label, "permission denied by the server");
  }
  co_return Status();
}

async::Task<Result<std::string>> FileSystem::read_link(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto text = co_await engine_->read_link(std::move(caller), (*inode)->handle);
  handle_stale(**inode, text);
  co_return text;
}

async::Task<Result<Space>> FileSystem::space(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_return co_await engine_->space(std::move(caller), (*inode)->handle);
}

// ---- making, removing, renaming ----

/// Returns the entry of an object that was found or made. Attributes are requested if none came with the
/// answer, or if the size has been set since.
async::Task<Result<Entry>> FileSystem::made(Object object, std::shared_ptr<Inode> directory, std::string name,
                                            std::uint64_t as_of) {
  const auto known = inodes_.find(object.handle);
  for (int tries = 1;; ++tries) {
    const bool old = known && known->attributes.resized_since(as_of) && tries < kMostTries;
    if (object.attributes && !old) {
      co_return entry(object.handle, *directory, name, *object.attributes, as_of, freshness_.count());
    }
    as_of = freshness_.count();
    auto got = co_await engine_->attributes(nullptr, object.handle);
    if (!got) co_return got.error();
    object.attributes = std::move(*got);
  }
}

async::Task<Result<Entry>> FileSystem::entered(Naming& naming, Caller caller, Result<Made> result,
                                               std::shared_ptr<Inode> directory, std::string name) {
  if (!result) co_return result.error();
  naming.brought(result->directory);
  naming.granted(caller);
  co_return co_await made(std::move(result->object), std::move(directory), std::move(name), naming.as_of());
}

async::Task<Result<Entry>> FileSystem::make_directory(Caller caller, std::uint64_t directory,
                                                      std::string name, std::uint32_t mode) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(freshness_, *parent, name);
  auto created = co_await engine_->make_directory(caller, (*parent)->handle, name, mode);
  co_return co_await entered(naming, std::move(caller), std::move(created), *parent, std::move(name));
}

async::Task<Result<Entry>> FileSystem::make_symlink(Caller caller, std::uint64_t directory, std::string name,
                                                    std::string text) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(freshness_, *parent, name);
  auto created = co_await engine_->make_symlink(caller, (*parent)->handle, name, std::move(text));
  co_return co_await entered(naming, std::move(caller), std::move(created), *parent, std::move(name));
}

async::Task<Result<Entry>> FileSystem::make_node(Caller caller, std::uint64_t directory, std::string name,
                                                 std::uint32_t mode, std::uint64_t device) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(freshness_, *parent, name);
  if (S_ISREG(mode)) {
    Engine::Creation how;
    how.mode = mode;
    how.exclusive = true;
    auto opened = co_await engine_->open_at(caller, (*parent)->handle, name, Access::write, how);
    if (!opened) co_return opened.error();
    naming.brought(opened->directory);
    naming.granted(caller);
    (void)co_await engine_->close(std::move(opened->file));
    co_return co_await made(std::move(opened->object), *parent, std::move(name), naming.as_of());
  }
  FileType type = FileType::fifo;
  if (S_ISSOCK(mode)) type = FileType::socket;
  if (S_ISCHR(mode)) type = FileType::character;
  if (S_ISBLK(mode)) type = FileType::block;
  Engine::Device numbers;
  numbers.major = major(device);
  numbers.minor = minor(device);
  auto created = co_await engine_->make_node(caller, (*parent)->handle, name, type, numbers, mode);
  co_return co_await entered(naming, std::move(caller), std::move(created), *parent, std::move(name));
}

async::Task<Result<Entry>> FileSystem::link(Caller caller, std::uint64_t id, std::uint64_t directory,
                                            std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  auto safe = co_await deferred_closes_.make_safe(*inode);
  if (!safe) co_return safe.error();
  Naming naming(freshness_, *parent, name);
  const Naming linking(freshness_, *inode);  // the link count changes, too
  auto linked = co_await engine_->link(caller, (*inode)->handle, (*parent)->handle, name);
  co_return co_await entered(naming, std::move(caller), std::move(linked), *parent, std::move(name));
}

async::Task<Status> FileSystem::remove_file(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  co_return co_await removal_.remove_file(std::move(caller), *parent, std::move(name));
}

async::Task<Status> FileSystem::remove_directory(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  co_return co_await removal_.remove_directory(std::move(caller), *parent, std::move(name));
}

async::Task<Status> FileSystem::rename(Caller caller, std::uint64_t from, std::string old_name,
                                       std::uint64_t to, std::string new_name) {
  auto source = find(from);
  if (!source) co_return source.error();
  auto target = find(to);
  if (!target) co_return target.error();
  auto safe = co_await deferred_closes_.make_name_safe(caller, *source, old_name);
  if (!safe) co_return safe;
  Removal::Renaming what;
  what.caller = std::move(caller);
  what.source = *source;
  what.old_name = std::move(old_name);
  what.target = *target;
  what.new_name = std::move(new_name);
  co_return co_await removal_.rename(std::move(what));
}

// ---- directories ----

async::Task<Result<std::shared_ptr<DirectoryHandle>>> FileSystem::open_directory(Caller caller,
                                                                                 std::uint64_t id,
                                                                                 int flags) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto out = std::make_shared<DirectoryHandle>(*inode, std::move(caller));
  if ((flags & O_DIRECTORY) == 0) co_return out;
  auto read = co_await read_page(out, 0);
  handle_stale(**inode, read);
  if (!read) co_return read.error();
  keep_for_lookups(*out);
  hold_page(*out);
  out->loaded = DirectoryHandle::Loaded::for_open;
  co_return out;
}

/// Counts the page of a directory that a program has open as memory of the user who opened it.
void FileSystem::hold_page(DirectoryHandle& directory) {
  const auto user = directory.caller ? std::optional(directory.caller->uid) : std::nullopt;
  const std::size_t size = sizeof(ReadPage) + DirectoryPages::size_of(directory.read->page);
  DirectoryPages::held(directory_pages_, directory, user, size);
}

async::Task<Result<std::shared_ptr<const ReadPage>>> FileSystem::read_page(
    std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie) {
  DirectoryHandle& at = *directory;
  const auto read = std::make_shared<ReadPage>();
  read->begin = cookie;
  read->as_of = freshness_.count();
  read->names_as_of = at.inode->entries.now();
  const ListVerifier verifier = cookie == 0 ? ListVerifier() : at.read->page.verifier;
  auto page = co_await engine_->list(at.caller, at.inode->handle, cookie, verifier);
  if (!page) co_return page.error();
  if (at.circle.closes_with_page(cookie, page->entries))
    co_return engine::CookieLoop::error("READDIR", at.inode->label);
  read->page = std::move(*page);
  read->came = loop().now();
  at.read = read;
  at.loaded = DirectoryHandle::Loaded::yes;
  co_return read;
}

/// Keeps the page of a directory that a program lists, because the kernel does not take along all attributes
/// in it.
void FileSystem::keep_for_lookups(const DirectoryHandle& directory) {
  if (options_.names && !directory.read->page.entries.empty()) lookups_ahead_.keep(directory);
}

async::Task<Result<ListedNames>> FileSystem::list(std::shared_ptr<DirectoryHandle> directory,
                                                  std::uint64_t cookie) {
  using Loaded = DirectoryHandle::Loaded;
  DirectoryHandle& at = *directory;
  const auto inside = [&] {
    if (at.loaded == Loaded::no) return false;
    // From the beginning the names are read anew, as rewinddir(3) demands. The first time the page of the
    // open is used.
    if (cookie == 0) return std::exchange(at.loaded, Loaded::yes) == Loaded::for_open;
    // A page that ends with the cookie behind which it begins is requested again. The pages that follow show
    // whether the server makes progress at all (CookieLoop).
    const Page& page = at.read->page;
    if (cookie == at.read->begin) return page.entries.empty() || page.entries.back().cookie != cookie;
    return std::ranges::any_of(page.entries, [&](const auto& entry) { return entry.cookie == cookie; }) &&
           (page.eof || page.entries.back().cookie != cookie);
  };
  std::shared_ptr<const ReadPage> page;
  if (inside()) {
    page = at.read;
    DirectoryPages::used(at);
  } else {
    auto read = co_await read_page(directory, cookie);
    handle_stale(*at.inode, read);
    if (!read) co_return read.error();
    page = std::move(*read);
    keep_for_lookups(at);
    hold_page(at);
  }
  const std::span<const Listed> all(page->page.entries);
  if (cookie == page->begin) co_return ListedNames(page, all);
  const auto before = std::ranges::find(all, cookie, &Listed::cookie);
  co_return ListedNames(page, all.subspan(static_cast<std::size_t>(before - all.begin()) + 1));
}

Attributes FileSystem::brief_of(const Listed& listed) {
  return numbering_.numbered(listed.attributes);
}

bool FileSystem::is_gone(const DirectoryHandle& directory, const Listed& listed) {
  return directory.inode->entries.judge(listed.name, directory.read->names_as_of) ==
         NameChanges::Verdict::gone;
}

/// Returns whether this mount has changed what the page says of the entry, or has given the kernel newer
/// attributes.
bool FileSystem::is_outdated(const DirectoryHandle& directory, const Listed& listed) const {
  const auto verdict = directory.inode->entries.judge(listed.name, directory.read->names_as_of);
  if (verdict != NameChanges::Verdict::as_listed) return true;
  return freshness_.is_outdated(listed.attributes, inodes_.find(*listed.handle).get(), directory.read->as_of);
}

Entry FileSystem::entry_of(const DirectoryHandle& directory, const Listed& listed) {
  Entry out = entry_in_page(directory, listed);
  if (out.inode != 0) lookups_ahead_.gave(directory, listed);
  return out;
}

Entry FileSystem::entry_in_page(const DirectoryHandle& directory, const Listed& listed) {
  if (!listed.handle || is_outdated(directory, listed)) return {};
  const auto passed = loop().now() - directory.read->came;
  const Seconds age = passed;
  if (freshness_.valid(listed.attributes) <= age) return {};
  const std::uint64_t as_of = directory.read->as_of;
  Entry out = entry(*listed.handle, *directory.inode, listed.name, listed.attributes, as_of, as_of);
  out.attributes_valid -= age;
  out.name_valid = std::max(Seconds(0), out.name_valid - age);
  if (options_.several_users) {
    const auto inode = inodes_.find(out.inode);
    inode->names.believe_less(passed);
    inode->attributes.keep_less(passed);
  }
  return out;
}

async::Task<FileSystem::Dots> FileSystem::dots(std::shared_ptr<DirectoryHandle> directory) {
  const std::shared_ptr<Inode>& inode = directory->inode;
  if (inode->attributes.number() == 0) (void)co_await attributes(directory->caller, inode->id);
  Dots out;
  out.self = out.parent = inode->attributes.number();
  // Only the kernel knows the directory above the mount.
  if (inode->id == Inodes::kRoot) co_return out;
  const auto parent = inodes_.find(inode->parent);
  if (parent && parent->attributes.number() != 0) {
    out.parent = parent->attributes.number();
    co_return out;
  }
  auto found = co_await engine_->parent(directory->caller, inode->handle);
  if (found && found->attributes) out.parent = numbering_.numbered(*found->attributes).file_id;
  co_return out;
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
  if (const AclXattr acl = acl_xattr(name, engine_->acl_form()); acl != AclXattr::none)
    co_return co_await get_acl_xattr(*engine_, std::move(caller), (*inode)->handle, acl);
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed.error();
  auto value = co_await engine_->get_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
  handle_stale(**inode, value);
  co_return value;
}

/// An empty `value` removes the list.
async::Task<Status> FileSystem::set_acl(Caller caller, std::shared_ptr<Inode> inode, AclXattr acl,
                                        std::vector<std::byte> value) {
  Status set;
  {
    const Naming naming(freshness_, inode);
    inode->searchers.forget();
    set = co_await set_acl_xattr(*engine_, std::move(caller), inode->handle, acl, std::move(value));
  }
  // The mode has changed with the list, but the kernel's attributes show the old one.
  freshness_.doubt(*inode);
  co_return set;
}

async::Task<Status> FileSystem::set_xattr(Caller caller, std::uint64_t id, std::string name,
                                          std::vector<std::byte> value, int flags) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (const AclXattr acl = acl_xattr(name, engine_->acl_form()); acl != AclXattr::none)
    co_return co_await set_acl(std::move(caller), *inode, acl, std::move(value));
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  auto mode = XattrMode::either;
  if ((flags & XATTR_CREATE) != 0) mode = XattrMode::create;
  if ((flags & XATTR_REPLACE) != 0) mode = XattrMode::replace;
  const Naming naming(freshness_, *inode);
  auto set = co_await engine_->set_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()),
                                         std::move(value), mode);
  handle_stale(**inode, set);
  co_return set;
}

async::Task<Status> FileSystem::remove_xattr(Caller caller, std::uint64_t id, std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (const AclXattr acl = acl_xattr(name, engine_->acl_form()); acl != AclXattr::none)
    co_return co_await set_acl(std::move(caller), *inode, acl, std::vector<std::byte>());
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  const Naming naming(freshness_, *inode);
  auto removed =
      co_await engine_->remove_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
  handle_stale(**inode, removed);
  co_return removed;
}

async::Task<Result<std::vector<std::string>>> FileSystem::list_xattrs(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto names = co_await engine_->list_xattrs(caller, (*inode)->handle);
  handle_stale(**inode, names);
  const bool none = !names && names.error().errno_value() == EOPNOTSUPP;
  if (!names && (!none || engine_->acl_form() == engine::Engine::AclForm::none)) co_return names;
  std::vector<std::string> out;
  if (names) out = std::move(*names);
  for (std::string& name : out) name.insert(0, kUser);
  auto acls = co_await acl_xattrs(*engine_, std::move(caller), (*inode)->handle);
  if (!acls) co_return acls.error();
  out.insert(out.end(), acls->begin(), acls->end());
  co_return std::move(out);
}

}  // namespace nfsrdma::fs
