#include "fs/name_requests.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <utility>

namespace nfsrdma::fs {

// ---- finding ----

async::Task<Result<Entry>> NameRequests::find_again(Caller caller, std::uint64_t id) {
  const auto handle = inodes_.handle_of(id);
  if (!handle) co_return refusal(ESTALE, "LOOKUP", std::to_string(id), "this inode number is not known");
  const std::uint64_t as_of = freshness_.count();
  auto got = co_await engine_->attributes(std::move(caller), *handle);
  if (!got) co_return got.error();
  co_return entries_.found_again(*handle, *got, as_of);
}

async::Task<Result<Entry>> NameRequests::find_above(Caller caller, std::uint64_t directory) {
  auto inode = find(directory);
  if (!inode) co_return inode.error();
  const std::uint64_t as_of = freshness_.count();
  auto got = co_await engine_->parent(caller, (*inode)->handle);
  if (!got) co_return got.error();
  if (got->attributes) co_return entries_.found_again(got->handle, *got->attributes, as_of);
  auto told = co_await engine_->attributes(std::move(caller), got->handle);
  if (!told) co_return told.error();
  co_return entries_.found_again(got->handle, *told, as_of);
}

async::Task<Result<Entry>> NameRequests::lookup(Caller caller, std::uint64_t directory, std::string name) {
  if (auto known = known_entry(caller, directory, name)) co_return std::move(*known);
  co_return co_await look_up_unknown(std::move(caller), directory, std::move(name));
}

async::Task<Result<Entry>> NameRequests::look_up_unknown(Caller caller, std::uint64_t directory,
                                                         std::string name) {
  if (name == ".") co_return co_await find_again(std::move(caller), directory);
  if (name == "..") co_return co_await find_above(std::move(caller), directory);
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  const std::uint64_t kernel_asked = freshness_.count();
  const auto believed = may_search(**parent, caller) ? believed_at(**parent, caller, name) : nullptr;
  if (believed) {
    auto known = co_await find_known(caller, *parent, name, believed);
    if (!known) co_return known.error();
    if (*known) co_return std::move(**known);
  }
  const std::uint64_t as_of = freshness_.count();
  const async::TimePoint asked = loop_.now();
  auto found = co_await find_name(*engine_, caller, (*parent)->handle, name);
  handle_stale(**parent, found);
  if (!found) co_return found.error();
  may_search_from_now(**parent, caller, as_of, asked);
  name_checks_.looked_up(directory, name, *found ? &(*found)->handle : nullptr);
  if (!*found) {
    if (options_.several_users && options_.names && options_.negative_names)
      missing_names_.add(**parent, name, as_of, asked + entries_.missing_for());
    co_return entries_.absent();
  }
  listing_.look_ahead(caller, *parent);
  co_return co_await entries_.made(std::move(**found), *parent, std::move(name), as_of, kernel_asked);
}

/// Returns whether the caller may learn of names in the directory without a question to the server.
bool NameRequests::may_search(const Inode& directory, const Caller& caller) const {
  return !options_.several_users || directory.may_search(caller, loop_.now());
}

/// Called when the server, at the time `asked`, has let the caller look a name up.
void NameRequests::may_search_from_now(Inode& directory, const Caller& caller, std::uint64_t as_of,
                                       async::TimePoint asked) {
  if (!directory.attributes.altered_since(as_of)) freshness_.search_granted(directory, caller, asked);
}

/// Returns the object that the name led to a while ago; null if the server must be asked for this caller.
std::shared_ptr<Inode> NameRequests::believed_at(const Inode& directory, const Caller& caller,
                                                 const std::string& name) const {
  if (!options_.several_users || !options_.names_believed()) return nullptr;
  auto inode = inodes_.at(directory.id, name);
  if (!inode || !inode->names.is_believed(loop_.now())) return nullptr;
  if (inode->type == FileType::directory && !may_search(*inode, caller)) return nullptr;
  return inode;
}

/// Returns the answer to the kernel for an object of believed_at(), as after a LOOKUP.
Entry NameRequests::found_there(const std::shared_ptr<Inode>& inode, const Inode& directory,
                                const std::string& name, Attributed told) {
  Inodes::look_up_again(*inode, told.attributes.type);
  inodes_.place(*inode, directory.id, name);
  Entry out;
  out.inode = inode->id;
  out.attributes = std::move(told.attributes);
  out.attributes_valid = told.valid;
  return out;
}

std::optional<Entry> NameRequests::known_entry(const Caller& caller, std::uint64_t id,
                                               const std::string& name) {
  const auto directory = inodes_.find(id);
  if (!directory || name == "." || name == ".." || !may_search(*directory, caller)) return std::nullopt;
  if (missing_names_.has(*directory, name, loop_.now())) {
    name_checks_.looked_up(id, name, nullptr);
    return entries_.absent();
  }
  if (auto ahead = listing_.find_ahead(caller, *directory, name)) return ahead;
  const auto inode = believed_at(*directory, caller, name);
  auto told = inode ? attributes_.known_attributes(inode->id) : std::nullopt;
  if (!told) return std::nullopt;
  return found_there(inode, *directory, name, std::move(*told));
}

/// Returns the object that the name led to a while ago, which is `inode`, with attributes that are valid now; none if the
/// name has to be looked up.
async::Task<Result<std::optional<Entry>>> NameRequests::find_known(Caller caller,
                                                                   std::shared_ptr<Inode> directory,
                                                                   std::string name,
                                                                   std::shared_ptr<Inode> inode) {
  const std::optional<Entry> none;
  auto told = co_await attributes_.attributes(std::move(caller), inode->id);
  if (!told && told.error().errno_value() != ESTALE) co_return told.error();
  if (!told || inodes_.at(directory->id, name) != inode) co_return none;
  co_return found_there(inode, *directory, name, std::move(*told));
}

std::optional<std::string> NameRequests::known_path(std::uint64_t directory, const std::string& name) const {
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

// ---- making, removing, renaming ----

async::Task<Result<Entry>> NameRequests::make_directory(Caller caller, std::uint64_t directory,
                                                        std::string name, std::uint32_t mode) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(freshness_, *parent, name);
  auto created = co_await engine_->make_directory(caller, (*parent)->handle, std::move(name), mode);
  co_return co_await entries_.entered(naming, caller, std::move(created));
}

async::Task<Result<Entry>> NameRequests::make_symlink(Caller caller, std::uint64_t directory,
                                                      std::string name, std::string text) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(freshness_, *parent, name);
  auto created = co_await engine_->make_symlink(caller, (*parent)->handle, std::move(name), std::move(text));
  co_return co_await entries_.entered(naming, caller, std::move(created));
}

async::Task<Result<Entry>> NameRequests::make_node(Caller caller, std::uint64_t directory, std::string name,
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
    co_return co_await entries_.made(std::move(opened->object), *parent, std::move(name), naming.as_of(),
                                     naming.as_of());
  }
  FileType type = FileType::fifo;
  if (S_ISSOCK(mode)) type = FileType::socket;
  if (S_ISCHR(mode)) type = FileType::character;
  if (S_ISBLK(mode)) type = FileType::block;
  Engine::Device numbers;
  numbers.major = major(device);
  numbers.minor = minor(device);
  auto created = co_await engine_->make_node(caller, (*parent)->handle, std::move(name), type, numbers, mode);
  co_return co_await entries_.entered(naming, caller, std::move(created));
}

async::Task<Result<Entry>> NameRequests::link(Caller caller, std::uint64_t id, std::uint64_t directory,
                                              std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  const std::uint64_t kernel_asked = freshness_.count();
  auto safe = co_await deferred_closes_.make_safe(*inode);
  if (!safe) co_return safe.error();
  Naming naming(freshness_, *parent, name, kernel_asked);
  const Naming linking(freshness_, *inode);  // the link count changes, too
  auto linked = co_await engine_->link(caller, (*inode)->handle, (*parent)->handle, std::move(name));
  co_return co_await entries_.entered(naming, caller, std::move(linked));
}

async::Task<Status> NameRequests::remove_file(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  co_return co_await removal_.remove_file(std::move(caller), *parent, std::move(name));
}

async::Task<Status> NameRequests::remove_directory(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  co_return co_await removal_.remove_directory(std::move(caller), *parent, std::move(name));
}

async::Task<Status> NameRequests::rename(Caller caller, std::uint64_t from, std::string old_name,
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

}  // namespace nfsrdma::fs
