// The kernel's requests, one function each. A function copies its arguments, which libfuse keeps valid during
// the call only, and starts a task that answers. Lambdas that are coroutines take what they need as
// parameters, because their captures would be destroyed together with the lambda.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "fuse/directory_offsets.h"
#include "fuse/mount.h"
#include "fuse/ring_ioctl.h"
#include "ids/id_names.h"

namespace nfsrdma::fuse {
namespace {

using fs::Caller;
using RequestRef = std::shared_ptr<Request>;
using Handle = std::shared_ptr<fs::OpenHandle>;
using async::Task;

Mount& mount_of(fuse_req_t request) {
  return *static_cast<Mount*>(fuse_req_userdata(request));
}

/// A request, and what every operation needs for it.
struct Begun {
  explicit Begun(fuse_req_t raw)
      : mount(mount_of(raw)), request(Request::begin(mount.loop(), mount.request_counters(), raw)) {}
  void go(Task<void> task) const {
    mount.loop().spawn(std::move(task));
    request->await_interrupts();
  }
  Mount& mount;
  RequestRef request;
};
/// A request for which it matters which user asks.
struct Asked : Begun {
  explicit Asked(fuse_req_t raw) : Begun(raw), caller(mount.caller(raw)) {}
  Caller caller;
};

/// Starts the task that `make(begun, file)` returns, for a request on an open file.
template <class Make>
void on_file(fuse_req_t raw, const fuse_file_info* info, Make make) {
  const Begun b(raw);
  Handle file = b.mount.file(info->fh);
  if (!file) return b.request->code(EBADF);
  b.go(make(b, std::move(file)));
}

/// Answers with the result of the task. `answer` sends the value and has no captures.
template <class T, class Answer>
Task<void> value_task(RequestRef request, Task<Result<T>> task, Answer answer) {
  auto value = co_await std::move(task);
  if (value) {
    answer(*request, *value);
  } else {
    request->error(value.error());
  }
}
Task<void> status_task(RequestRef request, Task<Status> task) {
  auto done = co_await std::move(task);
  request->status(done);
}

SetAttributes changes_of(const struct stat& attr, int to_set) {
  SetAttributes out;
  const auto time = [](const timespec& t) { return Time{t.tv_sec, static_cast<std::uint32_t>(t.tv_nsec)}; };
  if ((to_set & FUSE_SET_ATTR_MODE) != 0) out.mode = attr.st_mode & 07777U;
  if ((to_set & FUSE_SET_ATTR_UID) != 0) out.uid = attr.st_uid;
  if ((to_set & FUSE_SET_ATTR_GID) != 0) out.gid = attr.st_gid;
  if ((to_set & FUSE_SET_ATTR_SIZE) != 0) out.size = static_cast<std::uint64_t>(attr.st_size);
  if ((to_set & FUSE_SET_ATTR_ATIME_NOW) != 0) {
    out.accessed_now = true;
  } else if ((to_set & FUSE_SET_ATTR_ATIME) != 0) {
    out.accessed = time(attr.st_atim);
  }
  if ((to_set & FUSE_SET_ATTR_MTIME_NOW) != 0) {
    out.modified_now = true;
  } else if ((to_set & FUSE_SET_ATTR_MTIME) != 0) {
    out.modified = time(attr.st_mtim);
  }
  return out;
}

// ---- names ----

/// Answers with an entry. If the kernel does not get the answer, the lookup that the entry counts as is taken
/// back.
void answer(Mount& mount, const RequestRef& request, const Result<fs::Entry>& entry) {
  if (!entry) return request->error(entry.error());
  // The name does not exist, and the kernel may not cache that. ENOENT says this in a shorter answer than an
  // entry.
  if (entry->inode == 0 && entry->name_valid.count() <= 0) return request->code(ENOENT);
  if (!request->entry(*entry) && entry->inode != 0) mount.files().forget(entry->inode, 1);
}
/// Learns the numbers of those owners that the server gives as names.
Task<void> learn_owners(Mount& mount, const Attributes& attributes) {
  std::vector<ids::Principal> wanted;
  ids::IdNames::system().add_wanted(attributes, wanted);
  if (!wanted.empty()) co_await ids::IdNames::system().learn(mount.loop(), std::move(wanted));
}
/// Learns the numbers of the owners of a whole page together.
Task<void> learn_owners(Mount& mount, std::span<const fs::Listed> page) {
  std::vector<ids::Principal> wanted;
  for (const fs::Listed& one : page) ids::IdNames::system().add_wanted(one.attributes, wanted);
  if (!wanted.empty()) co_await ids::IdNames::system().learn(mount.loop(), std::move(wanted));
}
bool has_owners(const Attributes& attributes) {
  return attributes.uid.has_value() && attributes.gid.has_value();
}

Task<void> entry_task(Mount& mount, RequestRef request, Task<Result<fs::Entry>> task) {
  auto entry = co_await std::move(task);
  if (entry && !has_owners(entry->attributes)) co_await learn_owners(mount, entry->attributes);
  answer(mount, request, entry);
}

Task<void> entry_task(Mount& mount, RequestRef request, Result<fs::Entry> entry) {
  if (entry && !has_owners(entry->attributes)) co_await learn_owners(mount, entry->attributes);
  answer(mount, request, entry);
}
/// Upon any error but ENOMEM and EINTR the kernel drops the name that it has cached, and unmounts what is
/// mounted there or below. A user who may not look the name up must not be able to do that to others, so such
/// a user gets ENOMEM if there is a mount.
Task<void> lookup_task(Mount& mount, RequestRef request, Caller caller, fuse_ino_t parent, std::string name) {
  auto entry = co_await mount.files().look_up_unknown(std::move(caller), parent, name);
  const bool refused =
      !entry && (entry.error().errno_value() == EACCES || entry.error().errno_value() == EPERM);
  if (refused && mount.leads_to_mount(parent, name)) {
    request->code(ENOMEM);
    co_return;
  }
  co_await entry_task(mount, std::move(request), std::move(entry));
}
void op_lookup(fuse_req_t raw, fuse_ino_t parent, const char* name) {
  const Asked b(raw);
  const std::string wanted = name;
  auto known = b.mount.files().known_entry(b.caller, parent, wanted);
  if (!known) return b.go(lookup_task(b.mount, b.request, b.caller, parent, wanted));
  if (known->inode != 0 && !has_owners(known->attributes))
    return b.go(entry_task(b.mount, b.request, std::move(*known)));
  answer(b.mount, b.request, std::move(*known));
}
void op_forget(fuse_req_t raw, fuse_ino_t ino, std::uint64_t lookups) {
  mount_of(raw).files().forget(ino, lookups);
  fuse_reply_none(raw);
}
void op_forget_multi(fuse_req_t raw, std::size_t count, fuse_forget_data* forgets) {
  for (std::size_t i = 0; i < count; ++i) mount_of(raw).files().forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(raw);
}

Task<void> attributes_task(Mount& mount, RequestRef request, Task<Result<fs::Attributed>> task) {
  auto got = co_await std::move(task);
  if (!got) {
    request->error(got.error());
    co_return;
  }
  if (!has_owners(got->attributes)) co_await learn_owners(mount, got->attributes);
  request->attributes(*got);
}
void op_getattr(fuse_req_t raw, fuse_ino_t ino, fuse_file_info*) {
  const Asked b(raw);
  if (auto known = b.mount.files().known_attributes(ino); known && has_owners(known->attributes))
    return b.request->attributes(*known);
  b.go(attributes_task(b.mount, b.request, b.mount.files().attributes(b.caller, ino)));
}
void op_setattr(fuse_req_t raw, fuse_ino_t ino, struct stat* attr, int to_set, fuse_file_info* info) {
  const Asked b(raw);
  const Handle file = info != nullptr ? b.mount.file(info->fh) : nullptr;
  b.go(attributes_task(b.mount, b.request,
                       b.mount.files().set_attributes(b.caller, ino, changes_of(*attr, to_set), file)));
}
void op_access(fuse_req_t raw, fuse_ino_t ino, int mask) {
  const Asked b(raw);
  b.go(status_task(b.request, b.mount.files().access(b.caller, ino, static_cast<unsigned>(mask))));
}
void op_readlink(fuse_req_t raw, fuse_ino_t ino) {
  const Asked b(raw);
  b.go(value_task(b.request, b.mount.files().read_link(b.caller, ino),
                  [](Request& request, const std::string& text) { request.text(text); }));
}
/// Returns the mode less the umask. The operation that creates the object waits for this, because the server
/// may have to be asked.
async::Soon<std::uint32_t> masked(Mount& mount, Caller caller, fuse_ino_t parent, mode_t mode, mode_t umask) {
  return mount.creation_mode().of(mount.files(), mount.loop(), std::move(caller), parent, mode, umask);
}
Task<void> mknod_task(Mount& mount, RequestRef request, Caller caller, fuse_ino_t parent, std::string name,
                      mode_t mode, mode_t umask, dev_t device) {
  const mode_t less = co_await masked(mount, caller, parent, mode, umask);
  auto made = mount.files().make_node(std::move(caller), parent, std::move(name), less, device);
  co_await entry_task(mount, std::move(request), std::move(made));
}
void op_mknod(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  const Asked b(raw);
  b.go(mknod_task(b.mount, b.request, b.caller, parent, name, mode, fuse_req_ctx(raw)->umask, device));
}
Task<void> mkdir_task(Mount& mount, RequestRef request, Caller caller, fuse_ino_t parent, std::string name,
                      mode_t mode, mode_t umask) {
  const mode_t less = co_await masked(mount, caller, parent, mode, umask);
  auto made = mount.files().make_directory(std::move(caller), parent, std::move(name), less);
  co_await entry_task(mount, std::move(request), std::move(made));
}
void op_mkdir(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode) {
  const Asked b(raw);
  b.go(mkdir_task(b.mount, b.request, b.caller, parent, name, mode, fuse_req_ctx(raw)->umask));
}
void op_symlink(fuse_req_t raw, const char* text, fuse_ino_t parent, const char* name) {
  const Asked b(raw);
  b.go(entry_task(b.mount, b.request, b.mount.files().make_symlink(b.caller, parent, name, text)));
}
void op_link(fuse_req_t raw, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
  const Asked b(raw);
  b.go(entry_task(b.mount, b.request, b.mount.files().link(b.caller, ino, parent, name)));
}
void op_unlink(fuse_req_t raw, fuse_ino_t parent, const char* name) {
  const Asked b(raw);
  b.go(status_task(b.request, b.mount.files().remove_file(b.caller, parent, name)));
}
void op_rmdir(fuse_req_t raw, fuse_ino_t parent, const char* name) {
  const Asked b(raw);
  b.go(status_task(b.request, b.mount.files().remove_directory(b.caller, parent, name)));
}
void op_rename(fuse_req_t raw, fuse_ino_t from, const char* name, fuse_ino_t to, const char* new_name,
               unsigned flags) {
  const Asked b(raw);
  // NFS has no atomic operation for RENAME_NOREPLACE and RENAME_EXCHANGE.
  if (flags != 0) return b.request->code(EINVAL);
  b.go(status_task(b.request, b.mount.files().rename(b.caller, from, name, to, new_name)));
}
Task<void> statfs_task(Mount& mount, RequestRef request, Caller caller, fuse_ino_t ino) {
  constexpr std::uint32_t kBlock = 4096;
  auto space = co_await mount.files().space(std::move(caller), ino == 0 ? fs::Inodes::kRoot : ino);
  if (space) {
    request->space(space->space, kBlock, space->longest_name);
  } else {
    request->error(space.error());
  }
}
void op_statfs(fuse_req_t raw, fuse_ino_t ino) {
  const Asked b(raw);
  b.go(statfs_task(b.mount, b.request, b.caller, ino));
}

// ---- directories. Offsets: directory_offsets.h ----

Task<void> opendir_task(Mount& mount, RequestRef request, Caller caller, fuse_ino_t ino,
                        fuse_file_info info) {
  auto directory = co_await mount.files().open_directory(std::move(caller), ino, info.flags);
  if (!directory) {
    request->error(directory.error());
    co_return;
  }
  info.fh = mount.keep(std::move(*directory));
  if (!request->opened(info)) mount.drop_directory(info.fh);
}
void op_opendir(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info) {
  const Asked b(raw);
  b.go(opendir_task(b.mount, b.request, b.caller, ino, *info));
}
void op_releasedir(fuse_req_t raw, fuse_ino_t, fuse_file_info* info) {
  mount_of(raw).drop_directory(info->fh);
  fuse_reply_err(raw, 0);
}

class DirectoryReply {
 public:
  DirectoryReply(fuse_req_t raw, std::size_t size, bool plus) : raw_(raw), buffer_(size), plus_(plus) {}
  /// Returns false if the entry does not fit any more.
  bool add(const std::string& name, const fuse_entry_param& entry, std::uint64_t next) {
    char* at = buffer_.data() + used_;
    const std::size_t left = buffer_.size() - used_;
    const auto offset = static_cast<off_t>(next);
    const std::size_t need = plus_ ? fuse_add_direntry_plus(raw_, at, left, name.c_str(), &entry, offset)
                                   : fuse_add_direntry(raw_, at, left, name.c_str(), &entry.attr, offset);
    if (need > left) return false;
    used_ += need;
    return true;
  }
  [[nodiscard]] std::span<const char> bytes() const { return std::span(buffer_).first(used_); }
  [[nodiscard]] bool empty() const { return used_ == 0; }

 private:
  fuse_req_t raw_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
  bool plus_;
};

fuse_entry_param dot(std::uint64_t number) {
  fuse_entry_param out{};
  out.attr.st_ino = number;
  out.attr.st_mode = S_IFDIR;
  return out;
}

/// Adds one entry. An entry with attributes counts as a lookup, if the kernel gets it.
bool add_entry(Mount& mount, DirectoryReply& reply, const fs::DirectoryHandle& directory,
               const fs::Listed& listed, bool plus) {
  fs::Entry entry;
  if (plus) entry = mount.files().entry_of(directory, listed);
  fuse_entry_param param = to_entry(entry);
  if (entry.inode == 0) {
    const Attributes brief = mount.files().brief_of(listed);
    param.attr.st_ino = brief.file_id;
    param.attr.st_mode = type_bits(brief.type);
  }
  if (reply.add(listed.name, param, offset_behind(listed.cookie))) return true;
  if (entry.inode != 0) mount.files().forget(entry.inode, 1);
  return false;
}

/// Adds the names that the kernel may see. Returns false if one did not fit any more.
bool add_entries(Mount& mount, DirectoryReply& reply, const fs::DirectoryHandle& directory,
                 std::span<const fs::Listed> names, bool plus) {
  for (const fs::Listed& one : names) {
    if (StatisticsFiles::find(directory.inode->id, one.name) != 0) continue;
    if (fs::FileSystem::is_gone(directory, one)) continue;
    if (!add_entry(mount, reply, directory, one, plus)) return false;
  }
  return true;
}

Task<void> readdir_task(Mount& mount, RequestRef request, std::shared_ptr<fs::DirectoryHandle> directory,
                        std::size_t size, std::uint64_t offset, bool plus) {
  if (!directory) {
    request->code(EBADF);
    co_return;
  }
  DirectoryReply reply(request->raw(), size, plus);
  const bool with_dots = offset < kBeforeNames;
  if (with_dots) {
    const auto numbers = co_await mount.files().dots(directory);
    if (offset < kBeforeDotDot) reply.add(".", dot(numbers.self), kBeforeDotDot);
    reply.add("..", dot(numbers.parent), kBeforeNames);
  }
  bool full = with_dots && size < 512;
  for (std::uint64_t cookie = cookie_at(offset); !full;) {
    auto listed = co_await mount.files().list(directory, cookie);
    if (!listed) {
      request->error(listed.error());
      co_return;
    }
    if (plus) co_await learn_owners(mount, *listed);
    if (request->answered()) co_return;
    full = !add_entries(mount, reply, *directory, *listed, plus) || listed->empty() || !reply.empty();
    // An answer without any name would say that the directory ends here.
    if (!full) cookie = listed->back().cookie;
  }
  request->bytes(reply.bytes());
}
void read_directory(fuse_req_t raw, std::size_t size, off_t offset, const fuse_file_info* info, bool plus) {
  const Begun b(raw);
  b.go(readdir_task(b.mount, b.request, b.mount.directory(info->fh), size, static_cast<std::uint64_t>(offset),
                    plus));
}
void op_readdir(fuse_req_t raw, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  read_directory(raw, size, offset, info, false);
}
void op_readdirplus(fuse_req_t raw, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  read_directory(raw, size, offset, info, true);
}
void op_fsyncdir(fuse_req_t raw, fuse_ino_t, int, fuse_file_info*) {
  // The server has a change of names on its disk when it has answered (RFC 8881 18.4 and the like).
  fuse_reply_err(raw, 0);
}

// ---- files ----

/// Closes a file that the kernel will not close, because it has not received the answer to its open.
Task<void> close_unheard(Mount& mount, Handle file) {
  auto closed = co_await mount.files().close(std::move(file));
  (void)closed;
}

/// Returns the flags to open a file with. With a write-back cache the kernel reads the page that it writes a
/// part of, and decides itself where an append goes.
int flags_for(const Mount& mount, int flags) {
  if (!mount.options().cache.kernel_gathers) return flags;
  if ((flags & O_ACCMODE) == O_WRONLY) flags = (flags & ~O_ACCMODE) | O_RDWR;
  return flags & ~O_APPEND;
}

/// Returns the id of the thread that made the system call.
std::uint32_t thread_of(fuse_req_t raw) {
  return static_cast<std::uint32_t>(fuse_req_ctx(raw)->pid);
}

Task<void> open_task(Mount& mount, RequestRef request, Caller caller, fuse_ino_t ino, fuse_file_info info,
                     std::uint32_t thread) {
  const int flags = flags_for(mount, info.flags);
  auto opened = co_await mount.files().open(caller, ino, flags, thread);
  const bool unreadable = !opened && flags != info.flags && opened.error().errno_value() == EACCES;
  // A user who may write the file but not read it bypasses the cache.
  if (unreadable) opened = co_await mount.files().open(std::move(caller), ino, info.flags | O_DIRECT, thread);
  if (!opened) {
    request->error(opened.error());
    co_return;
  }
  info.fh = mount.keep(opened->handle);
  info.keep_cache = opened->keep_cache;
  if (unreadable) opened->handle->uncached = true;
  info.direct_io = opened->handle->uncached;
  // O_DIRECT does not get direct_io: with it Linux 6.1 neither writes dirty pages out before nor drops stale
  // ones. Without keep_cache the kernel drops only the pages, and would go on using the size that it knows.
  const bool keep = mount.options().cache.kernel_gathers ? opened->keep_cache : opened->keep_attributes;
  if (!keep) mount.forget_attributes(ino);
  if (request->opened(info)) co_return;
  mount.drop_file(info.fh);
  co_await close_unheard(mount, opened->handle);
}
void op_open(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info) {
  const Asked b(raw);
  b.go(open_task(b.mount, b.request, b.caller, ino, *info, thread_of(raw)));
}

Task<void> create_task(Mount& mount, RequestRef request, Caller caller, fuse_ino_t parent, std::string name,
                       mode_t mode, mode_t umask, fuse_file_info info, std::uint32_t thread) {
  mode = co_await masked(mount, caller, parent, mode, umask);
  auto created = co_await mount.files().create(std::move(caller), parent, std::move(name), mode,
                                               flags_for(mount, info.flags), thread);
  if (!created) {
    request->error(created.error());
    co_return;
  }
  if (!has_owners(created->entry.attributes)) co_await learn_owners(mount, created->entry.attributes);
  info.fh = mount.keep(created->handle);
  info.direct_io = created->handle->uncached;
  if (request->created(created->entry, info)) co_return;
  mount.drop_file(info.fh);
  mount.files().forget(created->entry.inode, 1);
  co_await close_unheard(mount, created->handle);
}
void op_create(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  const Asked b(raw);
  b.go(create_task(b.mount, b.request, b.caller, parent, name, mode, fuse_req_ctx(raw)->umask, *info,
                   thread_of(raw)));
}

Task<void> read_task(Mount& mount, RequestRef request, std::size_t size, Task<Result<fs::ReadData>> task) {
  auto data = co_await std::move(task);
  if (!data) {
    request->error(data.error());
    co_return;
  }
  if (!mount.shard_answers().send(*request, size, *data)) request->data(*data);
}
void op_read(fuse_req_t raw, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  const Begun b(raw);
  Handle file = b.mount.file(info->fh);
  if (!file) return b.request->code(EBADF);
  const auto from = static_cast<std::uint64_t>(offset);
  if (b.mount.plain_reads().start(b.request, file, from, size)) return b.request->await_interrupts();
  b.go(read_task(b.mount, b.request, size, b.mount.files().read(std::move(file), from, size)));
}

Task<void> write_task(Mount& mount, RequestRef request, Handle file, async::Memory memory,
                      std::span<const std::byte> data, std::uint64_t offset, int flags) {
  auto done = co_await mount.files().write(std::move(file), std::move(memory), data, offset, flags);
  if (done) {
    request->written(data.size());
  } else {
    request->error(done.error());
  }
}
void op_write(fuse_req_t raw, fuse_ino_t, const char* bytes, std::size_t size, off_t offset,
              fuse_file_info* info) {
  on_file(raw, info, [&](const Begun& b, Handle file) {
    const std::span data(reinterpret_cast<const std::byte*>(bytes), size);
    // A page that is written back goes to its own offset, whatever flags the file was opened with.
    const int flags = info->writepage != 0 ? fs::FileSystem::kWrittenBack : flags_for(b.mount, info->flags);
    return write_task(b.mount, b.request, std::move(file), b.mount.take_memory(), data,
                      static_cast<std::uint64_t>(offset), flags);
  });
}

/// Returns a function that says whether the request still waits, because errors of late writes are reported
/// only to a caller that receives them.
fs::StillWaits still_waits(const RequestRef& request) {
  return [request] { return !request->answered(); };
}
/// `elsewhere` holds the other open files of this inode through which the owner has locked.
Task<void> flush_task(Mount& mount, RequestRef request, Handle file, std::uint64_t owner,
                      std::vector<Handle> elsewhere) {
  auto done = co_await mount.files().flush(std::move(file), owner, still_waits(request));
  for (Handle& other : elsewhere) {
    auto released = co_await mount.files().release_locks(std::move(other), owner);
    if (done && !released) done = released;
  }
  request->status(done);
}
void op_flush(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info) {
  on_file(raw, info, [&](const Begun& b, Handle file) {
    std::vector<Handle> elsewhere;
    for (const std::uint64_t number : b.mount.lock_owners().closes(ino, info->lock_owner)) {
      Handle other = b.mount.file(number);
      if (other && other != file) elsewhere.push_back(std::move(other));
    }
    b.request->handle_exit();
    return flush_task(b.mount, b.request, std::move(file), info->lock_owner, std::move(elsewhere));
  });
}
void op_fsync(fuse_req_t raw, fuse_ino_t, int, fuse_file_info* info) {
  on_file(raw, info, [&](const Begun& b, Handle file) {
    return status_task(b.request, b.mount.files().sync(std::move(file), still_waits(b.request)));
  });
}
Task<void> release_task(Mount& mount, RequestRef request, Handle file, std::vector<std::uint64_t> owners) {
  for (const std::uint64_t owner : owners) {
    auto released = co_await mount.files().release_locks(file, owner);
    (void)released;  // no caller is left to report an error to
  }
  co_await mount.part_from_rings(file);
  auto closed = co_await mount.files().close(file);
  mount.has_left(file);
  if (!closed) mount.log(file->inode().label + ": " + closed.error().text());
  request->status(closed);  // the kernel reports this to no program
}
void op_release(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info) {
  on_file(raw, info, [&](const Begun& b, Handle file) {
    auto owners = b.mount.lock_owners().releases(ino, info->fh);
    b.mount.leaves(info->fh);
    return release_task(b.mount, b.request, std::move(file), std::move(owners));
  });
}

/// Runs `then` after the kernel has sent what its write-back cache has gathered. For operations before which
/// the kernel does not do that by itself.
Task<void> when_written(Mount& mount, fuse_ino_t ino, Task<void> then) {
  if (mount.options().cache.kernel_gathers) co_await mount.drop_cached(ino);
  co_await std::move(then);
}
void op_lseek(fuse_req_t raw, fuse_ino_t ino, off_t offset, int whence, fuse_file_info* info) {
  const Begun b(raw);
  Handle file = b.mount.file(info->fh);
  if (!file) return b.request->code(EBADF);
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return b.request->code(EINVAL);
  auto task =
      value_task(b.request, b.mount.files().seek(std::move(file), static_cast<std::uint64_t>(offset), whence),
                 [](Request& request, std::uint64_t found) { request.offset(found); });
  b.go(when_written(b.mount, ino, std::move(task)));
}
void op_fallocate(fuse_req_t raw, fuse_ino_t, int mode, off_t offset, off_t length, fuse_file_info* info) {
  on_file(raw, info, [&](const Begun& b, Handle file) {
    return status_task(b.request,
                       b.mount.files().allocate(std::move(file), mode, static_cast<std::uint64_t>(offset),
                                                static_cast<std::uint64_t>(length)));
  });
}
void op_copy_file_range(fuse_req_t raw, fuse_ino_t, off_t from_offset, fuse_file_info* from_info, fuse_ino_t,
                        off_t to_offset, fuse_file_info* to_info, std::size_t count, int flags) {
  const Begun b(raw);
  Handle from = b.mount.file(from_info->fh);
  Handle to = b.mount.file(to_info->fh);
  if (!from || !to) return b.request->code(EBADF);
  if (flags != 0) return b.request->code(EINVAL);
  b.go(value_task(b.request,
                  b.mount.files().copy(std::move(from), static_cast<std::uint64_t>(from_offset),
                                       std::move(to), static_cast<std::uint64_t>(to_offset), count),
                  [](Request& request, std::uint64_t copied) { request.written(copied); }));
}

// ---- locks ----

LockRequest lock_request(std::uint64_t owner, const struct flock& lock) {
  LockRequest out;
  out.owner = owner;
  out.write = lock.l_type == F_WRLCK;
  out.range.offset = static_cast<std::uint64_t>(lock.l_start);
  if (lock.l_len != 0) out.range.length = static_cast<std::uint64_t>(lock.l_len);
  return out;
}
/// `process` is the holder's, or 0 if the lock was not made through this mount.
void answer_holder(Request& request, const std::optional<LockHolder>& holder, pid_t process) {
  struct flock out{};
  out.l_type = F_UNLCK;
  out.l_whence = SEEK_SET;
  if (holder) {
    out.l_type = holder->write ? F_WRLCK : F_RDLCK;
    // The kernel's offsets are signed, and it accepts none beyond their range: a lock that ends further out
    // is reported as one to the end.
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    out.l_start = static_cast<off_t>(std::min(holder->range.offset, kMost));
    const bool to_the_end = holder->range.end() > kMost;
    out.l_len = to_the_end ? 0 : static_cast<off_t>(holder->range.length);
    out.l_pid = process;
  }
  request.lock(out);
}
Task<void> getlk_task(Mount& mount, RequestRef request, fuse_ino_t ino,
                      Task<Result<std::optional<LockHolder>>> task) {
  auto holder = co_await std::move(task);
  if (!holder) {
    request->error(holder.error());
    co_return;
  }
  const bool ours = *holder && (*holder)->ours;
  answer_holder(*request, *holder, ours ? mount.lock_owners().process(ino, (*holder)->owner) : 0);
}
void op_getlk(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info, struct flock* lock) {
  on_file(raw, info, [&](const Begun& b, Handle file) {
    auto test = fs::FileSystem::test_lock(std::move(file), lock_request(info->lock_owner, *lock));
    return getlk_task(b.mount, b.request, ino, std::move(test));
  });
}

/// A lock that a process asks for through an open file.
struct Locking {
  fuse_ino_t inode;
  std::uint64_t number;  ///< of the open file (fuse_file_info::fh)
  Handle file;
  LockRequest wanted;
  pid_t process;
};
Task<void> lock_task(Mount& mount, RequestRef request, Locking lock,
                     std::shared_ptr<locking::LockWait> wait) {
  mount.lock_owners().locks(lock.inode, lock.number, lock.wanted.owner, lock.process);
  auto done = co_await mount.files().lock(lock.file, lock.wanted, std::move(wait));
  if (done && (request->answered() || !mount.file(lock.number))) {
    // No thread waits for the lock any more, and the close that would have released it may be over.
    done = co_await mount.files().unlock(lock.file, lock.wanted.owner, lock.wanted.range);
    request->code(EINTR);
    co_return;
  }
  if (done) {
    mount.lock_owners().locks(lock.inode, lock.number, lock.wanted.owner, lock.process);
  }
  request->status(done);
}
void set_lock(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info, const struct flock& lock, bool sleep) {
  on_file(raw, info, [&](const Begun& b, Handle file) {
    const LockRequest wanted = lock_request(info->lock_owner, lock);
    if (lock.l_type == F_UNLCK) {
      // Data that was written under the lock is on the server before the lock ends.
      auto unlock = b.mount.files().unlock(std::move(file), wanted.owner, wanted.range);
      return when_written(b.mount, ino, status_task(b.request, std::move(unlock)));
    }
    std::shared_ptr<locking::LockWait> wait;
    if (sleep) {
      wait = std::make_shared<locking::LockWait>(b.mount.loop());
      b.request->set_wait(wait);
    }
    return lock_task(b.mount, b.request, Locking{ino, info->fh, std::move(file), wanted, lock.l_pid},
                     std::move(wait));
  });
}
void op_setlk(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info, struct flock* lock, int sleep) {
  set_lock(raw, ino, info, *lock, sleep != 0);
}
/// Makes a lock on the whole file, as Linux's NFS client does, so that other clients see it.
void op_flock(fuse_req_t raw, fuse_ino_t ino, fuse_file_info* info, int operation) {
  struct flock lock{};
  const int kind = operation & ~LOCK_NB;
  lock.l_type = kind == LOCK_UN ? F_UNLCK : kind == LOCK_SH ? F_RDLCK : F_WRLCK;
  lock.l_pid = fuse_req_ctx(raw)->pid;
  set_lock(raw, ino, info, lock, (operation & LOCK_NB) == 0);
}

// ---- extended attributes ----

/// `size` 0 asks how much there is.
void answer_sized(Request& request, std::span<const char> all, std::size_t size) {
  if (size == 0) {
    request.xattr_size(all.size());
  } else if (all.size() > size) {
    request.code(ERANGE);
  } else {
    request.bytes(all);
  }
}
Task<void> getxattr_task(RequestRef request, Task<Result<std::vector<std::byte>>> task, std::size_t size) {
  auto value = co_await std::move(task);
  if (value) {
    answer_sized(*request, std::span(reinterpret_cast<const char*>(value->data()), value->size()), size);
  } else {
    request->error(value.error());
  }
}
void op_getxattr(fuse_req_t raw, fuse_ino_t ino, const char* name, std::size_t size) {
  const Asked b(raw);
  b.go(getxattr_task(b.request, b.mount.files().get_xattr(b.caller, ino, name), size));
}
void op_setxattr(fuse_req_t raw, fuse_ino_t ino, const char* name, const char* value, std::size_t size,
                 int flags) {
  const Asked b(raw);
  const auto* first = reinterpret_cast<const std::byte*>(value);
  std::vector<std::byte> bytes(first, first + size);
  b.go(status_task(b.request, b.mount.files().set_xattr(b.caller, ino, name, std::move(bytes), flags)));
}
void op_removexattr(fuse_req_t raw, fuse_ino_t ino, const char* name) {
  const Asked b(raw);
  b.go(status_task(b.request, b.mount.files().remove_xattr(b.caller, ino, name)));
}
Task<void> listxattr_task(RequestRef request, Task<Result<std::vector<std::string>>> task, std::size_t size) {
  auto names = co_await std::move(task);
  if (!names) {
    request->error(names.error());
    co_return;
  }
  std::string out;
  for (const std::string& name : *names) out.append(name).push_back('\0');
  answer_sized(*request, out, size);
}
void op_listxattr(fuse_req_t raw, fuse_ino_t ino, std::size_t size) {
  const Asked b(raw);
  b.go(listxattr_task(b.request, b.mount.files().list_xattrs(b.caller, ino), size));
}

void op_init(void* mount, fuse_conn_info* connection) {
  constexpr unsigned kBackground = 64;  // as many as a session has slots
  connection->max_background = kBackground;
  connection->congestion_threshold = kBackground * 3 / 4;
  // Lookups and listings of one directory are concurrent (init_reply.h). They may be: cached knowledge of a
  // directory counts the changes to it (fs::FileSystem), and each listing has a page of its own.
  connection->want |= connection->capable & (FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS);
  // For open_by_handle_at(2) the kernel looks up "." and ".." of inodes that it has forgotten
  // (fs::NameRequests::lookup).
  connection->want |= connection->capable & FUSE_CAP_EXPORT_SUPPORT;
  connection->want |= connection->capable & FUSE_CAP_DONT_MASK;  // creation_mode.h
  // The kernel drops the pages of a file whose attributes show another size or time of change.
  connection->want |= connection->capable & FUSE_CAP_AUTO_INVAL_DATA;
  if (static_cast<const Mount*>(mount)->options().cache.kernel_gathers) {
    connection->want |= connection->capable & FUSE_CAP_WRITEBACK_CACHE;
  }
}

}  // namespace

fuse_lowlevel_ops operations(const MountOptions& options) {
  fuse_lowlevel_ops table{};
  table.init = op_init;
  table.lookup = op_lookup;
  table.forget = op_forget;
  table.forget_multi = op_forget_multi;
  table.getattr = op_getattr;
  table.setattr = op_setattr;
  table.access = op_access;
  table.readlink = op_readlink;
  table.mknod = op_mknod;
  table.mkdir = op_mkdir;
  table.symlink = op_symlink;
  table.link = op_link;
  table.unlink = op_unlink;
  table.rmdir = op_rmdir;
  table.rename = op_rename;
  table.statfs = op_statfs;
  table.opendir = op_opendir;
  table.releasedir = op_releasedir;
  table.readdir = op_readdir;
  table.readdirplus = op_readdirplus;
  table.fsyncdir = op_fsyncdir;
  table.open = op_open;
  table.create = op_create;
  table.read = op_read;
  table.write = op_write;
  table.flush = op_flush;
  table.fsync = op_fsync;
  table.release = op_release;
  table.lseek = op_lseek;
  table.fallocate = op_fallocate;
  table.copy_file_range = op_copy_file_range;
  if (!options.local_posix) {
    table.getlk = op_getlk;
    table.setlk = op_setlk;
  }
  if (!options.local_flock) table.flock = op_flock;
  if (options.ring) table.ioctl = op_ring_ioctl;
  table.getxattr = op_getxattr;
  table.setxattr = op_setxattr;
  table.removexattr = op_removexattr;
  table.listxattr = op_listxattr;
  return table;
}

}  // namespace nfsrdma::fuse
