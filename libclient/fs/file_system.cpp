#include "fs/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nfs4/convert.h"
#include "nfs4/types/status.h"

namespace nfsrdma::fs {
namespace {

using namespace nfs4;

SetAttributes with_mode(std::uint32_t mode) {
  SetAttributes changes;
  changes.mode = mode & 07777U;
  return changes;
}

bool is(const Error& error, nfsstat4 status) {
  return error.status() == static_cast<unsigned>(status);
}

constexpr std::string_view kUser = "user.";

}  // namespace

Wanted both() {
  Wanted wanted;
  wanted.object = wanted.directory = public_attributes();
  return wanted;
}

Error refusal(int code, const char* operation, const std::string& name, const char* why) {
  return {ErrorKind::usage, code, operation, name, why};
}

FileSystem::FileSystem(Session& session, Options options, const Node& root)
    : session_(session),
      options_(options),
      filesystem_(root.attributes.fsid.value_or(fsid4())),
      objects_(session),
      files_(session),
      locks_(session),
      inodes_(session.loop(), root.handle),
      less_behind_(session.loop()),
      less_closing_(session.loop()) {
  files_.keep_delegated(options_.most_delegated);
  session_.on_delegation_end([this](const nfs_fh4& handle) { delegation_ended(handle); });
}

FileSystem::~FileSystem() {
  session_.on_delegation_end(nullptr);
}

void FileSystem::delegation_ended(const nfs_fh4& handle) {
  const auto inode = inodes_.find(handle);
  if (inode && std::exchange(inode->lifted, false) && doubt_) doubt_(inode->id);
  files_.unpark(handle);
}

void FileSystem::forget(std::uint64_t id, std::uint64_t lookups) {
  const auto forgotten = inodes_.forget(id, lookups);
  // It may have been removed: the server should not keep its blocks for us.
  if (forgotten) files_.unpark(forgotten->handle);
}

Holdings FileSystem::holdings() const {
  Holdings out;
  out.inodes = inodes_.size();
  out.files = files_.count();
  out.bytes_behind = behind_;
  out.uncommitted_bytes = files_.uncommitted_bytes();
  out.spare_read_bytes = pool_.spare_bytes();
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
  if (plain == Seconds(0) || !files_.delegated(inode.handle)) return plain;
  inode.lifted = true;
  return std::max(plain, Seconds(session_.facts().lease_seconds));
}

/// A mount has one st_dev, and the server may have several file systems below the export. Without this two
/// files of theirs could pass for links of one.
Attributes FileSystem::attributes_of(const WireAttributes& wire) const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  Attributes out = to_public(wire);
  if (wire.fsid && *wire.fsid != filesystem_) {
    const std::uint64_t where = (wire.fsid->major * kOdd + wire.fsid->minor) * kOdd;
    out.file_id ^= where | 1ULL << 63U;
  }
  return out;
}

Entry FileSystem::entry(const nfs_fh4& handle, const std::string& name, const WireAttributes& wire) {
  Entry out;
  out.attributes = attributes_of(wire);
  const auto inode = inodes_.look_up(handle, name, out.attributes.type);
  out.inode = inode->id;
  inode->fresh.reset();  // older than these
  out.attributes_valid = valid(*inode, out.attributes);
  // A name is its directory's, which has no delegation.
  if (options_.names) out.name_valid = valid(out.attributes);
  return out;
}

Attributed FileSystem::attributed(Inode& inode, const WireAttributes& wire) {
  Attributed out;
  out.attributes = attributes_of(wire);
  out.valid = valid(inode, out.attributes);
  return out;
}

/// A file's changes whenever this client may change it; a directory's when it may have got another place,
/// while Naming sees to the rest.
std::uint64_t FileSystem::freshness(const Inode& inode) const {
  return inode.type == FileType::directory ? renames_ : session_.modifications(inode.handle);
}

/// FUSE drops attributes whenever it changes a file or a directory, and asks for them again at once.
void FileSystem::keep_fresh(Inode& inode, const WireAttributes& wire, std::uint64_t as_of) {
  if (freshness(inode) != as_of) return;
  Inode::Fresh fresh;
  fresh.attributes = attributes_of(wire);
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
  Wanted wanted;
  wanted.object = public_attributes();
  auto found = co_await objects_.lookup(std::move(caller), (*parent)->handle, name, std::move(wanted));
  if (!found) co_return found.error();
  if (!found->node) co_return absent();
  // Its size may not yet be what the kernel was told that it had written.
  const auto known = inodes_.find(found->node->handle);
  if (known && (!known->writes.empty() || known->changed > as_of)) {
    co_await settle(*known);
    auto again = co_await objects_.attributes(nullptr, known->handle, public_attributes());
    if (!again) co_return again.error();
    co_return entry(known->handle, name, *again);
  }
  co_return entry(found->node->handle, name, found->node->attributes);
}

async::Task<Result<Attributed>> FileSystem::attributes(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_await settle(**inode);
  if (const auto file = files_.delegated((*inode)->handle)) {
    auto known = co_await file->attributes(public_attributes());
    if (known) co_return attributed(**inode, *known);
  }
  if (const auto known = fresh(**inode)) co_return *known;
  auto got = co_await objects_.attributes(std::move(caller), (*inode)->handle, public_attributes());
  if (!got) co_return got.error();
  co_return attributed(**inode, *got);
}

async::Task<Result<Attributed>> FileSystem::set_attributes(Caller caller, std::uint64_t id,
                                                           SetAttributes changes,
                                                           std::shared_ptr<OpenHandle> file) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_await settle(**inode);
  const Naming naming(*this, *inode);
  stateid4 stateid{};
  if (changes.size) {
    // The server may want to see that the file is open for writing (RFC 8881 18.30.3).
    std::shared_ptr<OpenFile> open =
        file ? file->ref().file() : files_.find(caller, (*inode)->handle, OPEN4_SHARE_ACCESS_WRITE);
    if (open && open->is_open()) stateid = open->stateid();
  }
  auto got =
      co_await objects_.set_attributes(caller, (*inode)->handle, stateid, changes, public_attributes());
  if (!got && stateid != stateid4() && Session::is_lost_state(static_cast<nfsstat4>(got.error().status()))) {
    // A CLOSE came first, or the server has restarted. The file that is given is opened again; without one
    // none is needed.
    if (file) {
      auto done = co_await file->ref()->set_attributes(changes);
      if (!done) co_return done.error();
      got = co_await objects_.attributes(std::move(caller), (*inode)->handle, public_attributes());
    } else {
      got = co_await objects_.set_attributes(std::move(caller), (*inode)->handle, stateid4(), changes,
                                             public_attributes());
    }
  }
  if (!got) co_return got.error();
  if (changes.size) {
    files_.resized((*inode)->handle, *changes.size);
    changed_here(**inode);
  }
  co_return attributed(**inode, *got);
}

async::Task<Status> FileSystem::access(Caller caller, std::uint64_t id, unsigned mode) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  const bool directory = (*inode)->type == FileType::directory;
  std::uint32_t wanted = 0;
  if ((mode & R_OK) != 0) wanted |= ACCESS4_READ;
  if ((mode & W_OK) != 0) wanted |= ACCESS4_MODIFY | ACCESS4_EXTEND;
  if ((mode & X_OK) != 0) wanted |= directory ? ACCESS4_LOOKUP : ACCESS4_EXECUTE;
  auto granted = co_await objects_.access(std::move(caller), (*inode)->handle, wanted, bitmap4());
  if (!granted) co_return granted.error();
  if ((granted->access & wanted) != wanted) {
    co_return refusal(EACCES, "ACCESS", (*inode)->label, "permission denied by the server");
  }
  co_return Status();
}

async::Task<Result<std::string>> FileSystem::read_link(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  co_return co_await objects_.read_link(std::move(caller), (*inode)->handle);
}

async::Task<Result<FilesystemSpace>> FileSystem::space(Caller caller, std::uint64_t id,
                                                       std::uint32_t& longest_name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto got = co_await objects_.space(std::move(caller), (*inode)->handle);
  if (!got) co_return got.error();
  FilesystemSpace out;
  out.total = got->space_total.value_or(0);
  out.free = got->space_free.value_or(0);
  out.available = got->space_avail.value_or(0);
  out.files_total = got->files_total.value_or(0);
  out.files_free = got->files_free.value_or(0);
  out.files_available = got->files_avail.value_or(0);
  longest_name = got->maxname.value_or(255);
  co_return out;
}

// ---- making, removing, renaming ----

/// Of what was just made. Its attributes may not have come along.
async::Task<Result<Entry>> FileSystem::made(Node node, std::string name) {
  if (node.attributes.type) co_return entry(node.handle, name, node.attributes);
  auto got = co_await objects_.attributes(nullptr, node.handle, public_attributes());
  if (!got) co_return got.error();
  co_return entry(node.handle, name, *got);
}

async::Task<Result<Entry>> FileSystem::make_directory(Caller caller, std::uint64_t directory,
                                                      std::string name, std::uint32_t mode) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto created =
      co_await objects_.make_directory(std::move(caller), (*parent)->handle, name, with_mode(mode), both());
  if (!created) co_return created.error();
  naming.brought(created->directory.attributes);
  co_return co_await made(std::move(created->node), std::move(name));
}

async::Task<Result<Entry>> FileSystem::make_symlink(Caller caller, std::uint64_t directory, std::string name,
                                                    std::string text) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto created = co_await objects_.make_symlink(std::move(caller), (*parent)->handle, name, std::move(text),
                                                SetAttributes(), both());
  if (!created) co_return created.error();
  naming.brought(created->directory.attributes);
  co_return co_await made(std::move(created->node), std::move(name));
}

async::Task<Result<Entry>> FileSystem::make_node(Caller caller, std::uint64_t directory, std::string name,
                                                 std::uint32_t mode, std::uint64_t device) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  if (S_ISREG(mode)) {
    auto opened = co_await files_.create(std::move(caller), (*parent)->handle, name, OPEN4_SHARE_ACCESS_WRITE,
                                         Creation::guarded, with_mode(mode), both());
    if (!opened) co_return opened.error();
    if (opened->directory) naming.brought(opened->directory->attributes);
    (void)co_await files_.close(std::move(opened->file));
    co_return co_await made(std::move(opened->node), std::move(name));
  }
  nfs_ftype4 type = NF4FIFO;
  if (S_ISSOCK(mode)) type = NF4SOCK;
  if (S_ISCHR(mode)) type = NF4CHR;
  if (S_ISBLK(mode)) type = NF4BLK;
  specdata4 numbers;
  numbers.specdata1 = major(device);
  numbers.specdata2 = minor(device);
  auto created = co_await objects_.make_node(std::move(caller), (*parent)->handle, name, type, numbers,
                                             with_mode(mode), both());
  if (!created) co_return created.error();
  naming.brought(created->directory.attributes);
  co_return co_await made(std::move(created->node), std::move(name));
}

async::Task<Result<Entry>> FileSystem::link(Caller caller, std::uint64_t id, std::uint64_t directory,
                                            std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto linked = co_await objects_.link(std::move(caller), (*inode)->handle, (*parent)->handle, name, both());
  if (!linked) co_return linked.error();
  naming.brought(linked->directory.attributes);
  Node node;
  node.handle = (*inode)->handle;
  if (linked->object) node.attributes = *linked->object;
  co_return co_await made(std::move(node), std::move(name));
}

/// The inode that the name leads to, if a file of it is open here.
async::Task<Result<std::shared_ptr<Inode>>> FileSystem::open_target(Caller caller, nfs_fh4 directory,
                                                                    std::string name) {
  std::shared_ptr<Inode> none;
  if (files_.count() == files_.parked()) co_return none;
  Wanted wanted;
  auto found = co_await objects_.lookup(std::move(caller), directory, std::move(name), wanted);
  if (!found) co_return found.error();
  if (!found->node) co_return none;
  auto inode = inodes_.find(found->node->handle);
  if (!inode) co_return none;
  // close(2) is over before CLOSE is: whoever then removes the file, and its directory, finds no hidden one.
  while (!inode->open.empty() && std::ranges::all_of(inode->open, &OpenHandle::closing)) {
    (void)co_await inode->settled.wait_until(async::TimePoint::max());
  }
  if (inode->open.empty()) co_return none;
  co_return inode;
}

async::Task<Status> FileSystem::hide(Caller caller, nfs_fh4 directory, std::string name,
                                     std::shared_ptr<Inode> inode) {
  // Nobody else's: the client id is in it, and what it is for.
  char hidden[64];
  std::snprintf(hidden, sizeof hidden, ".nfs%016llx%08llx",
                static_cast<unsigned long long>(session_.facts().client_id ^ inode->id),
                static_cast<unsigned long long>(++last_hidden_));
  auto renamed =
      co_await objects_.rename(caller, directory, std::move(name), directory, std::string(hidden), bitmap4());
  if (!renamed) co_return renamed.error();
  ++counters_.hidden;
  // The last one was closed meanwhile: nobody else would remove it.
  if (inode->open.empty()) {
    (void)co_await objects_.remove(std::move(caller), directory, std::string(hidden), bitmap4());
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
  auto removed =
      co_await objects_.remove(std::move(caller), (*parent)->handle, std::move(name), public_attributes());
  if (!removed) co_return removed.error();
  naming.brought(removed->attributes);
  co_return Status();
}

async::Task<Status> FileSystem::remove_directory(Caller caller, std::uint64_t directory, std::string name) {
  auto parent = find(directory);
  if (!parent) co_return parent.error();
  Naming naming(*this, *parent);
  auto removed =
      co_await objects_.remove(std::move(caller), (*parent)->handle, std::move(name), public_attributes());
  if (!removed) co_return removed.error();
  naming.brought(removed->attributes);
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
  auto renamed = co_await objects_.rename(std::move(caller), (*source)->handle, std::move(old_name),
                                          (*target)->handle, std::move(new_name), public_attributes());
  ++renames_;
  if (!renamed) co_return renamed.error();
  leaving.brought(renamed->source.attributes);
  if (entering) entering->brought(renamed->target.attributes);
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
  constexpr std::uint32_t kPage = 128U << 10;
  DirectoryHandle& at = *directory;
  const auto inside = [&] {
    if (!at.loaded) return false;
    if (cookie == at.page_begin) return true;
    return std::ranges::any_of(at.page.entries, [&](const auto& entry) { return entry.cookie == cookie; }) &&
           (at.page.eof || at.page.entries.back().cookie != cookie);
  };
  if (cookie == 0 || !inside()) {
    bitmap4 wanted = public_attributes();
    set_bit(wanted, FATTR4_FILEHANDLE);
    set_bit(wanted, FATTR4_RDATTR_ERROR);
    set_bit(wanted, FATTR4_MOUNTED_ON_FILEID);
    if (cookie == 0) at.verifier = verifier4();
    const std::uint64_t as_of = changes_;
    auto page = co_await objects_.read_directory(std::move(caller), at.inode->handle, cookie, at.verifier,
                                                 wanted, kPage);
    if (!page) co_return page.error();
    at.verifier = page->verifier;
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
  WireAttributes wire;
  wire.fileid = listed.attributes.fileid ? listed.attributes.fileid : listed.attributes.mounted_on_fileid;
  if (!listed.attributes.rdattr_error) {
    wire.type = listed.attributes.type;
    wire.fsid = listed.attributes.fsid;
  }
  return attributes_of(wire);
}

Entry FileSystem::entry_of(const DirectoryHandle& directory, const Listed& listed) {
  const WireAttributes& wire = listed.attributes;
  if (!wire.type || !wire.filehandle || wire.rdattr_error) return {};
  // What has been written has another size by now than the server said.
  const auto known = inodes_.find(*wire.filehandle);
  if (known && (!known->writes.empty() || known->changed > directory.as_of)) return {};
  return entry(*wire.filehandle, listed.name, wire);
}

// ---- extended attributes ----

Status FileSystem::refused_xattr(const std::string& name) const {
  if (name.starts_with(kUser) && name.size() > kUser.size()) return {};
  return refusal(EOPNOTSUPP, "xattr", name, "NFS carries attributes of the user namespace only");
}

namespace {
Error of_xattr(const Error& error) {
  // RFC 8276 8.4.1: what is not there has a status of its own.
  if (is(error, NFS4ERR_NOXATTR))
    return refusal(ENODATA, "xattr", error.peer(), "no such extended attribute");
  return error;
}
}  // namespace

async::Task<Result<std::vector<std::byte>>> FileSystem::get_xattr(Caller caller, std::uint64_t id,
                                                                  std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed.error();
  auto got = co_await objects_.get_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
  if (!got) co_return of_xattr(got.error());
  co_return got;
}

async::Task<Status> FileSystem::set_xattr(Caller caller, std::uint64_t id, std::string name,
                                          std::vector<std::byte> value, int flags) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  setxattr_option4 option = SETXATTR4_EITHER;
  if ((flags & XATTR_CREATE) != 0) option = SETXATTR4_CREATE;
  if ((flags & XATTR_REPLACE) != 0) option = SETXATTR4_REPLACE;
  const Naming naming(*this, *inode);
  auto done = co_await objects_.set_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()),
                                          std::move(value), option);
  if (!done) co_return of_xattr(done.error());
  co_return Status();
}

async::Task<Status> FileSystem::remove_xattr(Caller caller, std::uint64_t id, std::string name) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  if (auto allowed = refused_xattr(name); !allowed) co_return allowed;
  const Naming naming(*this, *inode);
  auto done = co_await objects_.remove_xattr(std::move(caller), (*inode)->handle, name.substr(kUser.size()));
  if (!done) co_return of_xattr(done.error());
  co_return Status();
}

async::Task<Result<std::vector<std::string>>> FileSystem::list_xattrs(Caller caller, std::uint64_t id) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto names = co_await objects_.list_xattrs(std::move(caller), (*inode)->handle);
  if (!names) co_return names.error();
  for (std::string& name : *names) name.insert(0, kUser);
  co_return names;
}

}  // namespace nfsrdma::fs
