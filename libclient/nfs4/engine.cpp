#include "nfs4/engine.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "nfs4/convert.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

constexpr std::uint32_t kPage = 128U << 10;  // of a directory, on the wire

/// Attributes of an object and of its directory.
Wanted both() {
  Wanted wanted;
  wanted.object = wanted.directory = public_attributes();
  return wanted;
}

SetAttributes with_mode(std::uint32_t mode) {
  SetAttributes changes;
  changes.mode = mode & 07777U;
  return changes;
}

/// Attributes that did not come along have no type.
Object to_object(const Node& node) {
  Object out;
  out.handle = node.handle;
  if (node.attributes.type) out.attributes = to_public(node.attributes);
  return out;
}

Made to_made(const Created& created) {
  return {to_object(created.node), to_public(created.directory.attributes)};
}

/// What the server does not do, whatever it says about that.
Error judged(const Error& error) {
  if (!OpenFile::is_unsupported(error)) return error;
  return {ErrorKind::server, EOPNOTSUPP, error.operation(), error.peer(), "the server does not do it"};
}
Status judged(Status status) {
  if (status) return status;
  return judged(status.error());
}

/// RFC 8276 8.4.1: what is not there has a status of its own.
Error of_xattr(const Error& error) {
  if (error.status() != static_cast<unsigned>(NFS4ERR_NOXATTR)) return error;
  return {ErrorKind::usage, ENODATA, "xattr", error.peer(), "no such extended attribute"};
}

static_assert(static_cast<std::uint32_t>(Access::read) == OPEN4_SHARE_ACCESS_READ &&
              static_cast<std::uint32_t>(Access::write) == OPEN4_SHARE_ACCESS_WRITE &&
              static_cast<std::uint32_t>(Access::both) == OPEN4_SHARE_ACCESS_BOTH);
std::uint32_t share_access(Access access) {
  return static_cast<std::uint32_t>(access);
}

class Nfs4File final : public ServerFile {
 public:
  explicit Nfs4File(OpenRef ref) : ref_(std::move(ref)), file_(ref_.file()), locks_(file_->session()) {}

  Access access() const override { return static_cast<Access>(ref_.access()); }
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset) override {
    return file_->read(data, offset);
  }
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, async::Memory memory,
                                         std::uint64_t offset, Stability stability,
                                         std::optional<Attributes>* after) override {
    const stable_how4 stable = stability == Stability::unstable ? UNSTABLE4 : FILE_SYNC4;
    return file_->write(data, offset, stable, after, std::move(memory));
  }
  async::Task<Status> commit(std::optional<Attributes>* after) override { return file_->commit(after); }
  bool has_unstable_data() const override { return file_->has_unstable_data(); }
  async::Task<Result<Attributes>> attributes() override { return attributes_of(file_); }
  async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, bool hole) override {
    return seek_in(file_, offset, hole ? NFS4_CONTENT_HOLE : NFS4_CONTENT_DATA);
  }
  async::Task<Status> allocate(std::uint64_t offset, std::uint64_t length) override {
    return judge(file_, file_->allocate(offset, length));
  }
  async::Task<Status> deallocate(std::uint64_t offset, std::uint64_t length) override {
    return judge(file_, file_->deallocate(offset, length));
  }

  async::Task<Result<std::optional<LockHolder>>> test_lock(LockRequest request) override {
    return locks_.test(file_, request);
  }
  async::Task<Result<std::optional<LockHolder>>> lock(LockRequest request) override {
    return locks_.set(file_, request);
  }
  async::Task<Status> wait_for_lock(LockRequest request, std::shared_ptr<LockWait> cancelled) override {
    return locks_.wait(file_, request, std::move(cancelled));
  }
  async::Task<Status> unlock(std::uint64_t owner, LockRange range) override {
    return locks_.clear(file_, owner, range);
  }
  async::Task<Status> release_locks(std::uint64_t owner) override { return locks_.release(file_, owner); }
  bool knows_owner(std::uint64_t owner) const override {
    const Open& state = file_->state();
    return state.locks.contains(owner) || state.lost_locks.contains(owner);
  }

  [[nodiscard]] const std::shared_ptr<OpenFile>& file() const { return file_; }
  [[nodiscard]] OpenRef take_ref() { return std::move(ref_); }

 private:
  using File = std::shared_ptr<OpenFile>;
  static async::Task<Result<Attributes>> attributes_of(File file) {
    auto wire = co_await file->attributes(public_attributes());
    if (!wire) co_return wire.error();
    co_return to_public(*wire);
  }
  static async::Task<Result<std::optional<std::uint64_t>>> seek_in(File file, std::uint64_t offset,
                                                                   data_content4 what) {
    auto found = co_await file->seek(offset, what);
    if (!found) co_return judged(found.error());
    co_return found;
  }
  static async::Task<Status> judge(File /*file*/, async::Task<Status> task) {
    auto done = co_await std::move(task);
    co_return judged(std::move(done));
  }

  OpenRef ref_;
  const File file_;  // also when it is closed: tasks may be in it
  Locks locks_;
};

Nfs4File& ours(const ServerFileRef& file) {
  return static_cast<Nfs4File&>(*file);
}

}  // namespace

Nfs4Engine::Nfs4Engine(Session& session) : session_(session), objects_(session), files_(session) {
  session_.delegations().on_end([this](const nfs_fh4& handle) {
    if (delegation_end_) delegation_end_(handle);
    files_.unpark(handle);
  });
}

Nfs4Engine::~Nfs4Engine() {
  session_.delegations().on_end(nullptr);
}

// ---- names and objects ----

async::Task<Status> Nfs4Engine::ping() {
  auto reply = co_await session_.call(session_.begin("SEQUENCE"));
  if (!reply) co_return reply.error();
  co_return Status();
}

async::Task<Result<Object>> Nfs4Engine::find(Caller caller, Spot spot) {
  auto node = co_await objects_.find(std::move(caller), std::move(spot), public_attributes());
  if (!node) co_return node.error();
  co_return to_object(*node);
}

async::Task<Result<Object>> Nfs4Engine::parent(Caller caller, FileHandle directory) {
  auto node = co_await objects_.lookup_parent(std::move(caller), directory, public_attributes());
  if (!node) co_return node.error();
  co_return to_object(*node);
}

async::Task<Result<Attributes>> Nfs4Engine::attributes(Caller caller, FileHandle object) {
  if (const auto file = files_.delegated(object)) {
    auto known = co_await file->attributes(public_attributes());
    if (known) co_return to_public(*known);
  }
  auto got = co_await objects_.attributes(std::move(caller), object, public_attributes());
  if (!got) co_return got.error();
  co_return to_public(*got);
}

async::Task<Result<Attributes>> Nfs4Engine::set_attributes(Caller caller, FileHandle object,
                                                           SetAttributes changes, ServerFileRef file) {
  stateid4 stateid{};
  if (changes.size) {
    // The server may want to see that the file is open for writing (RFC 8881 18.30.3).
    const std::shared_ptr<OpenFile> open =
        file ? ours(file).file() : files_.find(caller, object, OPEN4_SHARE_ACCESS_WRITE);
    if (open && open->is_open()) stateid = open->stateid();
  }
  auto got = co_await objects_.set_attributes(caller, object, stateid, changes, public_attributes());
  if (!got && stateid != stateid4() && Session::is_lost_state(static_cast<nfsstat4>(got.error().status()))) {
    // A CLOSE came first, or the server has restarted. The file that is given is opened again; without one
    // none is needed.
    if (file) {
      auto done = co_await ours(file).file()->set_attributes(changes);
      if (!done) co_return done.error();
      got = co_await objects_.attributes(caller, object, public_attributes());
    } else {
      got = co_await objects_.set_attributes(caller, object, stateid4(), changes, public_attributes());
    }
  }
  if (!got) co_return got.error();
  if (changes.size) files_.resized(object, *changes.size);
  // They were set, and could not be had behind that.
  if (!got->type) co_return co_await attributes(std::move(caller), object);
  co_return to_public(*got);
}

namespace {

/// The bits of ACCESS that make up one of access(2), by what the object is (as Linux has it).
struct Right {
  unsigned asked;
  std::uint32_t of_directory, of_others;
};
constexpr std::array<Right, 3> kRights{{
    {R_OK, ACCESS4_READ, ACCESS4_READ},
    {W_OK, ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE, ACCESS4_MODIFY | ACCESS4_EXTEND},
    {X_OK, ACCESS4_LOOKUP, ACCESS4_EXECUTE},
}};

/// g++ 12 does not take a braced list inside a coroutine.
const bitmap4& type_only() {
  static const bitmap4 map = bitmap_of({FATTR4_TYPE});
  return map;
}

}  // namespace

async::Task<Result<Rights>> Nfs4Engine::access(Caller caller, Spot spot, unsigned wanted) {
  std::uint32_t asked = 0;
  for (const Right& right : kRights) {
    if ((wanted & right.asked) != 0) asked |= right.of_directory | right.of_others;
  }
  auto granted = co_await objects_.access(std::move(caller), std::move(spot), asked, type_only());
  if (!granted) co_return granted.error();
  Rights out;
  out.type = to_public(granted->attributes).type;
  for (const Right& right : kRights) {
    const std::uint32_t bits = out.type == FileType::directory ? right.of_directory : right.of_others;
    // What the server cannot tell is not held against the caller (RFC 8881 18.1.3), as long as it tells some.
    const std::uint32_t told = bits & granted->supported;
    if (told != 0 && (granted->access & told) == told) out.granted |= wanted & right.asked;
  }
  co_return out;
}

async::Task<Result<std::string>> Nfs4Engine::read_link(Caller caller, Spot spot) {
  auto text = co_await objects_.read_link(std::move(caller), std::move(spot));
  if (text) co_return text;
  const Error refused = text.error();
  switch (refused.status()) {
    case NFS4ERR_WRONG_TYPE:
    case NFS4ERR_NOTSUPP:
      co_return Error(ErrorKind::server, EINVAL, refused.status(), refused.operation(), refused.peer(),
                      refused.message());
    default:
      co_return refused;
  }
}

async::Task<Result<Space>> Nfs4Engine::space(Caller caller, Spot spot) {
  auto got = co_await objects_.space(std::move(caller), std::move(spot));
  if (!got) co_return got.error();
  Space out;
  out.type = to_public(*got).type;
  out.space.total = got->space_total.value_or(0);
  out.space.free = got->space_free.value_or(0);
  out.space.available = got->space_avail.value_or(0);
  out.space.files_total = got->files_total.value_or(0);
  out.space.files_free = got->files_free.value_or(0);
  out.space.files_available = got->files_avail.value_or(0);
  out.longest_name = got->maxname.value_or(out.longest_name);
  co_return out;
}

async::Task<Result<Made>> Nfs4Engine::make_directory(Caller caller, Spot directory, std::string name,
                                                     std::uint32_t mode) {
  auto created = co_await objects_.make_directory(std::move(caller), std::move(directory), std::move(name),
                                                  with_mode(mode), both());
  if (!created) co_return created.error();
  co_return to_made(*created);
}

async::Task<Result<Made>> Nfs4Engine::make_symlink(Caller caller, Spot directory, std::string name,
                                                   std::string text) {
  auto created = co_await objects_.make_symlink(std::move(caller), std::move(directory), std::move(name),
                                                std::move(text), SetAttributes(), both());
  if (!created) co_return created.error();
  co_return to_made(*created);
}

async::Task<Result<Made>> Nfs4Engine::make_node(Caller caller, Spot directory, std::string name,
                                                FileType type, Device device, std::uint32_t mode) {
  nfs_ftype4 wire = NF4FIFO;
  if (type == FileType::socket) wire = NF4SOCK;
  if (type == FileType::character) wire = NF4CHR;
  if (type == FileType::block) wire = NF4BLK;
  specdata4 numbers;
  numbers.specdata1 = device.major;
  numbers.specdata2 = device.minor;
  auto created = co_await objects_.make_node(std::move(caller), std::move(directory), std::move(name), wire,
                                             numbers, with_mode(mode), both());
  if (!created) co_return created.error();
  co_return to_made(*created);
}

async::Task<Result<Made>> Nfs4Engine::link(Caller caller, Spot object, Spot directory, std::string name) {
  auto linked = co_await objects_.link(std::move(caller), std::move(object), std::move(directory),
                                       std::move(name), both());
  if (!linked) co_return linked.error();
  Made out;
  out.object.handle = linked->handle;
  if (linked->object && linked->object->type) out.object.attributes = to_public(linked->object);
  out.directory = to_public(linked->directory.attributes);
  co_return out;
}

async::Task<Result<std::optional<Attributes>>> Nfs4Engine::remove(Caller caller, Spot directory,
                                                                  std::string name, Removed /*what*/) {
  auto removed =
      co_await objects_.remove(std::move(caller), std::move(directory), std::move(name), public_attributes());
  if (!removed) co_return removed.error();
  co_return to_public(removed->attributes);
}

async::Task<Result<Renamed>> Nfs4Engine::rename(Caller caller, Spot from, std::string old_name, Spot to,
                                                std::string new_name) {
  auto renamed = co_await objects_.rename(std::move(caller), std::move(from), std::move(old_name),
                                          std::move(to), std::move(new_name), public_attributes());
  if (!renamed) co_return renamed.error();
  co_return Renamed{to_public(renamed->source.attributes), to_public(renamed->target.attributes)};
}

async::Task<Result<Page>> Nfs4Engine::list(Caller caller, Spot directory, std::uint64_t cookie,
                                           ListVerifier verifier) {
  bitmap4 wanted = public_attributes();
  set_bit(wanted, FATTR4_FILEHANDLE);
  set_bit(wanted, FATTR4_RDATTR_ERROR);
  set_bit(wanted, FATTR4_MOUNTED_ON_FILEID);
  auto page = co_await objects_.read_directory(std::move(caller), std::move(directory), cookie, verifier,
                                               wanted, kPage);
  if (!page) co_return page.error();
  Page out;
  out.directory = page->directory;
  out.verifier = page->verifier;
  out.eof = page->eof;
  out.entries.reserve(page->entries.size());
  for (DirectoryPage::Entry& entry : page->entries) {
    const WireAttributes& wire = entry.attributes;
    Listed listed;
    listed.cookie = entry.cookie;
    listed.name = std::move(entry.name);
    // Linux tells NFS4_OK for entries that are in order, others nothing (RFC 8881 5.8.1.12).
    const bool told = wire.rdattr_error.value_or(NFS4_OK) == NFS4_OK;
    if (told) listed.attributes = to_public(wire);
    listed.attributes.file_id = wire.fileid ? *wire.fileid : wire.mounted_on_fileid.value_or(0);
    if (told && wire.type) listed.handle = wire.filehandle;
    out.entries.push_back(std::move(listed));
  }
  co_return out;
}

// ---- extended attributes ----

async::Task<Result<std::vector<std::byte>>> Nfs4Engine::get_xattr(Caller caller, FileHandle object,
                                                                  std::string name) {
  auto got = co_await objects_.get_xattr(std::move(caller), object, std::move(name));
  if (!got) co_return of_xattr(got.error());
  co_return got;
}

async::Task<Status> Nfs4Engine::set_xattr(Caller caller, FileHandle object, std::string name,
                                          std::vector<std::byte> value, XattrMode mode) {
  setxattr_option4 option = SETXATTR4_EITHER;
  if (mode == XattrMode::create) option = SETXATTR4_CREATE;
  if (mode == XattrMode::replace) option = SETXATTR4_REPLACE;
  auto done =
      co_await objects_.set_xattr(std::move(caller), object, std::move(name), std::move(value), option);
  if (!done) co_return of_xattr(done.error());
  co_return Status();
}

async::Task<Status> Nfs4Engine::remove_xattr(Caller caller, FileHandle object, std::string name) {
  auto done = co_await objects_.remove_xattr(std::move(caller), object, std::move(name));
  if (!done) co_return of_xattr(done.error());
  co_return Status();
}

async::Task<Result<std::vector<std::string>>> Nfs4Engine::list_xattrs(Caller caller, FileHandle object) {
  return objects_.list_xattrs(std::move(caller), object);
}

// ---- files ----

Opened Nfs4Engine::opened(OpenResult from) {
  Opened out;
  out.object = to_object(from.node);
  if (from.directory) out.directory = to_public(from.directory->attributes);
  out.file = std::make_shared<Nfs4File>(std::move(from.file));
  return out;
}

async::Task<Result<Opened>> Nfs4Engine::open(Caller caller, FileHandle file, std::string label, Access access,
                                             std::optional<Place> found_at) {
  std::optional<Name> name;
  if (found_at) name.emplace(found_at->directory, std::move(found_at->name));
  auto got = co_await files_.open_handle(std::move(caller), file, std::move(label), share_access(access),
                                         public_attributes(), std::move(name));
  if (!got) co_return got.error();
  co_return opened(std::move(*got));
}

async::Task<Result<Opened>> Nfs4Engine::open_at(Caller caller, Spot directory, std::string name,
                                                Access access, std::optional<Creation> creation) {
  SetAttributes changes;
  std::optional<CreateMode> how;
  if (creation) {
    changes = with_mode(creation->mode);
    if (creation->truncate) changes.size = 0;
    how = creation->exclusive ? CreateMode::exclusive : CreateMode::unchecked;
  }
  auto got = co_await files_.open_at(std::move(caller), std::move(directory), std::move(name),
                                     share_access(access), how, changes, both());
  if (!got) co_return got.error();
  co_return opened(std::move(*got));
}

async::Task<Status> Nfs4Engine::close(ServerFileRef file) {
  return files_.close(ours(file).take_ref());
}

async::Task<Result<std::uint64_t>> Nfs4Engine::copy(ServerFileRef from, std::uint64_t from_offset,
                                                    ServerFileRef to, std::uint64_t to_offset,
                                                    std::uint64_t count) {
  auto copied =
      co_await OpenFile::clone_or_copy(*ours(from).file(), from_offset, *ours(to).file(), to_offset, count);
  if (!copied) co_return judged(copied.error());
  co_return copied;
}

// ---- what is known without asking ----

std::uint64_t Nfs4Engine::modifications(const FileHandle& object) const {
  return session_.modifications().of(object);
}

std::uint64_t Nfs4Engine::modifications_after_call(const FileHandle& object) const {
  return session_.modifications().after_call(object);
}

std::chrono::seconds Nfs4Engine::delegated_for() const {
  return std::chrono::seconds(session_.facts().lease_seconds);
}

void Nfs4Engine::on_delegation_end(std::function<void(const FileHandle&)> sink) {
  delegation_end_ = std::move(sink);
}

}  // namespace nfsrdma::nfs4
