// The functions of the C interface on names: attributes, links, directories, extended attributes.
#include "api/names.h"

#include <cerrno>
#include <cstring>

#include "api/file_core.h"

namespace nfsrdma::api {
namespace {

using engine::Engine;
using engine::Path;
using engine::Paths;

/// Makes a call on two paths; both directories must be of one client.
template <class Make>
std::int64_t on_paths(nfsrdma_dir* first_dir, const char* first, nfsrdma_dir* second_dir, const char* second,
                      const nfsrdma_call* call, nfsrdma_error** error, Make make) {
  if (second_dir == nullptr || second == nullptr) return fail(error, missing("second path"));
  const auto begin = [&](ClientCore& client, Path from) -> async::Task<Status> {
    if (&second_dir->client != &client) {
      return refused<Status>({ErrorKind::usage, EXDEV, "", second,
                              "the name is in a directory of another client; use one client for both names"});
    }
    auto to = second_dir->parse(second);
    if (!to) return refused<Status>(to.error());
    return make(client.paths(), std::move(from), std::move(*to));
  };
  return on_path<Status>(first_dir, first, call, error, begin, nothing);
}

constexpr std::uint32_t kOpenFlags =
    NFSRDMA_READ | NFSRDMA_WRITE | NFSRDMA_CREATE | NFSRDMA_EXCLUSIVE | NFSRDMA_TRUNCATE;

std::optional<engine::Access> access_of(std::uint32_t flags) {
  switch (flags & (NFSRDMA_READ | NFSRDMA_WRITE)) {
    case NFSRDMA_READ:
      return engine::Access::read;
    case NFSRDMA_WRITE:
      return engine::Access::write;
    case NFSRDMA_READ | NFSRDMA_WRITE:
      return engine::Access::both;
    default:
      return std::nullopt;
  }
}

std::optional<Engine::Creation> creation_of(std::uint32_t flags, std::uint32_t mode) {
  if ((flags & NFSRDMA_CREATE) == 0) return std::nullopt;
  Engine::Creation out;
  out.mode = mode;
  out.exclusive = (flags & NFSRDMA_EXCLUSIVE) != 0;
  out.truncate = (flags & NFSRDMA_TRUNCATE) != 0 && !out.exclusive;
  return out;
}

using Opened = Result<std::unique_ptr<nfsrdma_file>>;

/// Opens a file. Destroying a result that no program has received closes the file.
async::Task<Opened> open_task(ClientCore& client, Path path, engine::Access access, std::uint32_t flags,
                              std::uint32_t mode) {
  std::string text = path.text();
  auto creation = creation_of(flags, mode);
  auto opened = co_await client.paths().open(std::move(path), access, creation);
  if (!opened) co_return opened.error();
  // With a creation the server has truncated the file already.
  if ((flags & NFSRDMA_TRUNCATE) != 0 && !creation) {
    SetAttributes changes;
    changes.size = 0;
    auto cut = co_await client.engine().set_attributes(nullptr, opened->object.handle, changes, opened->file);
    if (!cut) {
      (void)co_await client.engine().close(std::move(opened->file));
      co_return cut.error();
    }
  }
  co_return std::make_unique<nfsrdma_file>(client, std::move(*opened), std::move(text));
}

async::Task<Result<engine::Object>> find_directory(ClientCore& client, Path path) {
  std::string text = path.text();
  auto object = co_await client.paths().find(std::move(path), true);
  if (object && object->attributes && object->attributes->type != FileType::directory)
    co_return Error(ErrorKind::server, ENOTDIR, "open_directory", text, "this is not a directory");
  co_return object;
}

Result<XattrMode> xattr_mode(std::uint32_t how) {
  switch (how) {
    case 0:
      return XattrMode::either;
    case NFSRDMA_XATTR_CREATE:
      return XattrMode::create;
    case NFSRDMA_XATTR_REPLACE:
      return XattrMode::replace;
    default:
      return missing("how");
  }
}

std::optional<FileType> node_type(std::uint32_t type) {
  switch (type) {
    case NFSRDMA_TYPE_FIFO:
    case NFSRDMA_TYPE_SOCKET:
    case NFSRDMA_TYPE_CHARACTER:
    case NFSRDMA_TYPE_BLOCK:
      return static_cast<FileType>(type);
    default:
      return std::nullopt;
  }
}

}  // namespace

async::Task<Result<Attributes>> find_attributes(ClientCore& client, Path path, bool follow) {
  auto object = co_await client.paths().find(std::move(path), follow);
  if (!object) co_return object.error();
  if (object->attributes) co_return *object->attributes;
  co_return co_await client.engine().attributes(nullptr, object->handle);
}
}  // namespace nfsrdma::api

using namespace nfsrdma;
using namespace nfsrdma::api;
using engine::FileHandle;

// ---- attributes ----

int64_t nfsrdma_stat(nfsrdma_dir* dir, const char* path, uint32_t flags, nfsrdma_attributes* attributes,
                     const nfsrdma_call* call, nfsrdma_error** error) {
  if (auto why = unfit(attributes)) return fail(error, *why);
  const auto find = [&](ClientCore& client, Path at) {
    return with_ids(client.loop(), find_attributes(client, std::move(at), follows(flags)));
  };
  return on_path<Result<Attributes>>(
      dir, path, call, error, find,
      [attributes](const Attributes& found) -> Result<std::int64_t> {
        (void)store(found, attributes);
        return 0;
      },
      flags);
}

int64_t nfsrdma_set_attributes(nfsrdma_dir* dir, const char* path, uint32_t flags,
                               const nfsrdma_changes* changes, const nfsrdma_call* call,
                               nfsrdma_error** error) {
  const auto given = changes_from(changes);
  if (!given) return fail(error, given.error());
  const auto set = [&](ClientCore& client, Path at) {
    return client.paths().set_attributes(std::move(at), *given, follows(flags));
  };
  return on_path<Status>(dir, path, call, error, set, nothing, flags);
}

int64_t nfsrdma_access(nfsrdma_dir* dir, const char* path, uint32_t wanted, const nfsrdma_call* call,
                       nfsrdma_error** error) {
  const auto ask = [&](ClientCore& client, Path at) { return client.paths().access(std::move(at), wanted); };
  return on_path<Result<engine::Rights>>(dir, path, call, error, ask, [](const engine::Rights& rights) {
    return static_cast<std::int64_t>(rights.granted);
  });
}

int64_t nfsrdma_statfs(nfsrdma_dir* dir, const char* path, nfsrdma_space* space, const nfsrdma_call* call,
                       nfsrdma_error** error) {
  constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(nfsrdma_space, files_available);
  if (auto why = short_struct("nfsrdma_space", space, kShortest)) return fail(error, *why);
  const auto ask = [](ClientCore& client, Path at) { return client.paths().space(std::move(at)); };
  return on_path<Result<engine::Space>>(dir, path, call, error, ask, [space](const engine::Space& told) {
    const FilesystemSpace& s = told.space;
    const nfsrdma_space out{0, s.total, s.free, s.available, s.files_total, s.files_free, s.files_available};
    (void)store(out, space, kShortest);
    return std::int64_t{0};
  });
}

// ---- links ----

int64_t nfsrdma_readlink(nfsrdma_dir* dir, const char* path, char* text, size_t room,
                         const nfsrdma_call* call, nfsrdma_error** error) {
  const auto read = [](ClientCore& client, Path at) { return client.paths().read_link(std::move(at)); };
  return on_path<Result<std::string>>(dir, path, call, error, read, [text, room](const std::string& target) {
    return copy_out(std::as_bytes(std::span(target)), text, room, "the symbolic link");
  });
}

int64_t nfsrdma_symlink(nfsrdma_dir* dir, const char* text, const char* created, const nfsrdma_call* call,
                        nfsrdma_error** error) {
  if (text == nullptr) return fail(error, missing("text"));
  const auto make = [&](ClientCore& client, Path at) {
    return client.paths().make_symlink(text, std::move(at));
  };
  return on_path<Status>(dir, created, call, error, make, nothing);
}

int64_t nfsrdma_link(nfsrdma_dir* existing_dir, const char* existing, nfsrdma_dir* created_dir,
                     const char* created, const nfsrdma_call* call, nfsrdma_error** error) {
  const auto make = [](Paths& paths, Path from, Path to) {
    return paths.link(std::move(from), std::move(to));
  };
  return on_paths(existing_dir, existing, created_dir, created, call, error, make);
}

// ---- making, renaming, removing ----

int64_t nfsrdma_mkdir(nfsrdma_dir* dir, const char* path, uint32_t mode, const nfsrdma_call* call,
                      nfsrdma_error** error) {
  const auto make = [&](ClientCore& client, Path at) {
    return client.paths().make_directory(std::move(at), mode);
  };
  return on_path<Status>(dir, path, call, error, make, nothing);
}

int64_t nfsrdma_mknod(nfsrdma_dir* dir, const char* path, uint32_t type, uint32_t mode, uint32_t major,
                      uint32_t minor, const nfsrdma_call* call, nfsrdma_error** error) {
  const auto make = [&](ClientCore& client, Path at) -> async::Task<Status> {
    const auto kind = node_type(type);
    if (kind) return client.paths().make_node(std::move(at), *kind, {major, minor}, mode);
    return refused<Status>({ErrorKind::usage, EINVAL, "mknod", path,
                            "mknod does not create files, directories or symbolic links; use open, mkdir or "
                            "symlink"});
  };
  return on_path<Status>(dir, path, call, error, make, nothing);
}

int64_t nfsrdma_unlink(nfsrdma_dir* dir, const char* path, const nfsrdma_call* call, nfsrdma_error** error) {
  const auto remove = [](ClientCore& client, Path at) {
    return client.paths().remove(std::move(at), Engine::Removed::file);
  };
  return on_path<Status>(dir, path, call, error, remove, nothing);
}

int64_t nfsrdma_rmdir(nfsrdma_dir* dir, const char* path, const nfsrdma_call* call, nfsrdma_error** error) {
  const auto remove = [](ClientCore& client, Path at) {
    return client.paths().remove(std::move(at), Engine::Removed::directory);
  };
  return on_path<Status>(dir, path, call, error, remove, nothing);
}

int64_t nfsrdma_rename(nfsrdma_dir* from_dir, const char* from, nfsrdma_dir* to_dir, const char* to,
                       const nfsrdma_call* call, nfsrdma_error** error) {
  const auto rename = [](Paths& paths, Path old_name, Path new_name) {
    return paths.rename(std::move(old_name), std::move(new_name));
  };
  return on_paths(from_dir, from, to_dir, to, call, error, rename);
}

// ---- opening ----

int64_t nfsrdma_open(nfsrdma_dir* dir, const char* path, uint32_t flags, uint32_t mode, nfsrdma_file** file,
                     const nfsrdma_call* call, nfsrdma_error** error) {
  const auto access = access_of(flags);
  if (file == nullptr || !access) return fail(error, missing(file == nullptr ? "file" : "flags"));
  const auto open = [&](ClientCore& client, Path at) {
    return open_task(client, std::move(at), *access, flags, mode);
  };
  return on_path<Opened>(
      dir, path, call, error, open,
      [file](std::unique_ptr<nfsrdma_file> opened) {
        *file = opened.release();
        return std::int64_t{0};
      },
      flags, kOpenFlags);
}

int64_t nfsrdma_open_dir(nfsrdma_dir* dir, const char* path, nfsrdma_dir** opened, const nfsrdma_call* call,
                         nfsrdma_error** error) {
  if (dir == nullptr || opened == nullptr) return fail(error, missing(dir == nullptr ? "dir" : "opened"));
  const auto find = [](ClientCore& client, Path at) { return find_directory(client, std::move(at)); };
  return on_path<Result<engine::Object>>(dir, path, call, error, find,
                                         [opened, &client = dir->client](const engine::Object& object) {
                                           *opened = new nfsrdma_dir(client, object.handle);
                                           return std::int64_t{0};
                                         });
}

void nfsrdma_dir_free(nfsrdma_dir* dir) {
  if (dir != nullptr && dir != &dir->client.root()) delete dir;
}

// ---- extended attributes ----

int64_t nfsrdma_get_xattr(nfsrdma_dir* dir, const char* path, uint32_t flags, const char* name, void* value,
                          size_t room, const nfsrdma_call* call, nfsrdma_error** error) {
  if (name == nullptr) return fail(error, missing("name"));
  using Value = std::vector<std::byte>;
  const auto get = [name = std::string(name)](Engine& engine, const FileHandle& object) {
    return engine.get_xattr(nullptr, object, name);
  };
  return on_object<Result<Value>>(dir, path, flags, call, error, get, [value, room](const Value& found) {
    return copy_out(found, value, room, "the value");
  });
}

int64_t nfsrdma_set_xattr(nfsrdma_dir* dir, const char* path, uint32_t flags, const char* name,
                          const void* value, size_t size, uint32_t how, const nfsrdma_call* call,
                          nfsrdma_error** error) {
  const auto mode = xattr_mode(how);
  if (name == nullptr || !mode || (value == nullptr && size != 0))
    return fail(error, missing(name == nullptr ? "name" : !mode ? "how" : "value"));
  const auto* const begin = static_cast<const std::byte*>(value);
  const auto set = [name = std::string(name), bytes = std::vector<std::byte>(begin, begin + size),
                    mode = *mode](Engine& engine, const FileHandle& object) {
    return engine.set_xattr(nullptr, object, name, bytes, mode);
  };
  return on_object<Status>(dir, path, flags, call, error, set, nothing);
}

int64_t nfsrdma_remove_xattr(nfsrdma_dir* dir, const char* path, uint32_t flags, const char* name,
                             const nfsrdma_call* call, nfsrdma_error** error) {
  if (name == nullptr) return fail(error, missing("name"));
  const auto remove = [name = std::string(name)](Engine& engine, const FileHandle& object) {
    return engine.remove_xattr(nullptr, object, name);
  };
  return on_object<Status>(dir, path, flags, call, error, remove, nothing);
}

int64_t nfsrdma_list_xattrs(nfsrdma_dir* dir, const char* path, uint32_t flags, char* names, size_t room,
                            const nfsrdma_call* call, nfsrdma_error** error) {
  using Names = std::vector<std::string>;
  const auto list = [](Engine& engine, const FileHandle& object) {
    return engine.list_xattrs(nullptr, object);
  };
  return on_object<Result<Names>>(dir, path, flags, call, error, list, [names, room](const Names& found) {
    std::string all;
    for (const std::string& one : found) all.append(one.c_str(), one.size() + 1);
    return copy_out(std::as_bytes(std::span(all)), names, room, "the list of names");
  });
}
