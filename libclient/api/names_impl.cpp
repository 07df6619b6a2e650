#include "api/names_impl.h"

#include <cerrno>

#include "api/client_impl.h"
#include "engine/cookie_loop.h"

namespace nfsrdma {

Names::~Names() = default;
Directory::~Directory() = default;

namespace api {
namespace {

using engine::Engine;
using engine::Path;
using engine::Paths;

engine::Access access_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::read:
      return engine::Access::read;
    case OpenMode::write:
      return engine::Access::write;
    case OpenMode::read_write:
      break;
  }
  return engine::Access::both;
}

std::optional<Engine::Creation> creation_of(const OpenFlags& flags) {
  if (!flags.create) return std::nullopt;
  Engine::Creation out;
  out.mode = flags.mode;
  out.exclusive = flags.exclusive;
  out.truncate = flags.truncate && !flags.exclusive;
  return out;
}

/// An open file, and its path.
struct Found {
  engine::Opened opened;
  std::string path;
};

async::Task<Result<Found>> open_task(Engine& engine, Paths& paths, Path path, OpenMode mode,
                                     OpenFlags flags) {
  std::string text = path.text();
  auto opened = co_await paths.open(std::move(path), access_of(mode), creation_of(flags));
  if (!opened) co_return opened.error();
  // With `create` the server has truncated the file already.
  if (!flags.truncate || flags.create) co_return Found{std::move(*opened), std::move(text)};
  SetAttributes changes;
  changes.size = 0;
  auto cut = co_await engine.set_attributes(nullptr, opened->object.handle, changes, opened->file);
  if (cut) co_return Found{std::move(*opened), std::move(text)};
  (void)co_await engine.close(std::move(opened->file));
  co_return cut.error();
}

Result<std::unique_ptr<File>> as_file(ClientImpl& client, Result<Found> found) {
  if (!found) return found.error();
  return std::unique_ptr<File>(
      std::make_unique<FileImpl>(client, std::move(found->opened), std::move(found->path)));
}

async::Task<Result<Attributes>> find_attributes(Engine& engine, Paths& paths, Path path, bool follow) {
  auto object = co_await paths.find(std::move(path), follow);
  if (!object) co_return object.error();
  if (object->attributes) co_return *object->attributes;
  co_return co_await engine.attributes(nullptr, object->handle);
}

async::Task<Result<Attributes>> stat_task(Engine& engine, Paths& paths, Path path, bool follow) {
  return ClientImpl::with_ids(engine.loop(), find_attributes(engine, paths, std::move(path), follow));
}

template <class R, class Call>
async::Task<R> object_task(Engine& engine, Paths& paths, Path path, bool follow, Call call) {
  auto object = co_await paths.find(std::move(path), follow);
  if (!object) co_return object.error();
  co_return co_await call(engine, object->handle);
}

class DirectoryImpl final : public NamesImpl<Directory> {
 public:
  using NamesImpl::NamesImpl;
};

}  // namespace

PathBegin::~PathBegin() = default;

Result<Path> PathBegin::parse(std::string_view text) const {
  return directory_ ? Path::parse_at(*directory_, text) : Path::parse(text);
}

template <class Face>
template <class R, class Make>
async::Task<R> NamesImpl<Face>::begin(std::string_view text, Make& make) {
  auto path = parse(text);
  if (!path) return refused<R>(path.error());
  return make(std::move(*path), client().paths());
}

template <class Face>
template <class R, class Make>
R NamesImpl<Face>::on_path(std::string_view text, Make make) {
  return client().template run<R>([&] { return begin<R>(text, make); });
}

template <class Face>
template <class R, class Make>
void NamesImpl<Face>::start_on_path(std::string_view text, Make make, std::function<void(R)> done) {
  client().started().template start<R>([&] { return begin<R>(text, make); }, std::move(done));
}

template <class Face>
template <class Make>
Status NamesImpl<Face>::on_paths(std::string_view first, Names& target, std::string_view second, Make make) {
  const auto* begin = dynamic_cast<PathBegin*>(&target);
  if (begin == nullptr || &begin->client() != &client()) {
    return Error(ErrorKind::usage, EXDEV, "", std::string(second),
                 "the name is in a directory of another Client; use one Client for both names");
  }
  auto from = parse(first);
  if (!from) return from.error();
  auto to = begin->parse(second);
  if (!to) return to.error();
  return client().template run<Status>(
      [&] { return make(std::move(*from), std::move(*to), client().paths()); });
}

template <class Face>
template <class R, class Call>
R NamesImpl<Face>::on_object(std::string_view text, bool follow, Call call) {
  return on_path<R>(text, [&](Path path, Paths& paths) {
    return object_task<R>(client().engine(), paths, std::move(path), follow, call);
  });
}

// ---- reading attributes and names ----

template <class Face>
Result<Attributes> NamesImpl<Face>::stat(std::string_view path, bool follow) {
  return on_path<Result<Attributes>>(path, [&](Path at, Paths& paths) {
    return stat_task(client().engine(), paths, std::move(at), follow);
  });
}

template <class Face>
void NamesImpl<Face>::start_stat(std::string_view path, Names::Told done, bool follow) {
  const auto find = [&](Path at, Paths& paths) {
    return stat_task(client().engine(), paths, std::move(at), follow);
  };
  start_on_path<Result<Attributes>>(path, find, std::move(done));
}

template <class Face>
Result<std::string> NamesImpl<Face>::read_link(std::string_view path) {
  return on_path<Result<std::string>>(path,
                                      [](Path at, Paths& paths) { return paths.read_link(std::move(at)); });
}

template <class Face>
Result<FilesystemSpace> NamesImpl<Face>::space(std::string_view path) {
  auto space =
      on_path<Result<engine::Space>>(path, [](Path at, Paths& paths) { return paths.space(std::move(at)); });
  if (!space) return space.error();
  return space->space;
}

template <class Face>
Status NamesImpl<Face>::list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry) {
  using Listing = Result<engine::Page>;
  auto page = on_path<Listing>(path, [](Path at, Paths& paths) { return paths.list(std::move(at)); });
  engine::CookieLoop circle;
  for (std::uint64_t cookie = 0;;) {
    if (!page) return page.error();
    if (circle.closes_with_page(cookie, page->entries)) {
      return engine::CookieLoop::error("READDIR", std::string(path));
    }
    std::vector<Attributes> attributes;
    attributes.reserve(page->entries.size());
    for (engine::Listed& one : page->entries) attributes.push_back(std::move(one.attributes));
    client().add_ids(attributes);
    for (std::size_t i = 0; i < attributes.size(); ++i) {
      engine::Listed& from = page->entries[i];
      DirectoryEntry out;
      out.name = std::move(from.name);
      out.cookie = cookie = from.cookie;
      if (attributes[i].type != FileType::unknown) out.attributes.emplace(std::move(attributes[i]));
      if (!entry(out)) return {};
    }
    if (page->eof) return {};
    const engine::Page last = std::move(*page);
    page = client().template run<Listing>(
        [&] { return client().engine().list(nullptr, last.directory, cookie, last.verifier); });
  }
}

template <class Face>
Result<unsigned> NamesImpl<Face>::access(std::string_view path, unsigned wanted) {
  auto rights = on_path<Result<engine::Rights>>(
      path, [&](Path at, Paths& paths) { return paths.access(std::move(at), wanted); });
  if (!rights) return rights.error();
  return rights->granted;
}

// ---- making, changing, removing ----

template <class Face>
Status NamesImpl<Face>::make_directory(std::string_view path, std::uint32_t mode) {
  return on_path<Status>(path,
                         [&](Path at, Paths& paths) { return paths.make_directory(std::move(at), mode); });
}

template <class Face>
Status NamesImpl<Face>::symlink(std::string_view text, std::string_view created) {
  return on_path<Status>(
      created, [&](Path at, Paths& paths) { return paths.make_symlink(std::string(text), std::move(at)); });
}

template <class Face>
Status NamesImpl<Face>::make_node(std::string_view path, FileType type, std::uint32_t mode,
                                  std::uint32_t major, std::uint32_t minor) {
  switch (type) {
    case FileType::fifo:
    case FileType::socket:
    case FileType::character:
    case FileType::block:
      break;
    default:
      return Error(
          ErrorKind::usage, EINVAL, "mknod", std::string(path),
          "mknod does not create files, directories or symbolic links; use open, make_directory or symlink");
  }
  return on_path<Status>(path, [&](Path at, Paths& paths) {
    return paths.make_node(std::move(at), type, {major, minor}, mode);
  });
}

template <class Face>
Status NamesImpl<Face>::remove_file(std::string_view path) {
  return on_path<Status>(
      path, [](Path at, Paths& paths) { return paths.remove(std::move(at), Engine::Removed::file); });
}

template <class Face>
Status NamesImpl<Face>::remove_directory(std::string_view path) {
  return on_path<Status>(
      path, [](Path at, Paths& paths) { return paths.remove(std::move(at), Engine::Removed::directory); });
}

template <class Face>
Status NamesImpl<Face>::rename(std::string_view from, Names& target, std::string_view to) {
  return on_paths(from, target, to,
                  [](Path a, Path b, Paths& paths) { return paths.rename(std::move(a), std::move(b)); });
}

template <class Face>
Status NamesImpl<Face>::link(std::string_view existing, Names& target, std::string_view created) {
  return on_paths(existing, target, created,
                  [](Path a, Path b, Paths& paths) { return paths.link(std::move(a), std::move(b)); });
}

template <class Face>
Status NamesImpl<Face>::set_attributes(std::string_view path, const SetAttributes& changes, bool follow) {
  return on_path<Status>(
      path, [&](Path at, Paths& paths) { return paths.set_attributes(std::move(at), changes, follow); });
}

// ---- opening ----

template <class Face>
Result<std::unique_ptr<File>> NamesImpl<Face>::open(std::string_view path, OpenMode mode,
                                                    const OpenFlags& flags) {
  return as_file(client(), on_path<Result<Found>>(path, [&](Path at, Paths& paths) {
                   return open_task(client().engine(), paths, std::move(at), mode, flags);
                 }));
}

template <class Face>
void NamesImpl<Face>::start_open(std::string_view path, OpenMode mode, Names::Opened done,
                                 const OpenFlags& flags) {
  const auto open = [&](Path at, Paths& paths) {
    return open_task(client().engine(), paths, std::move(at), mode, flags);
  };
  start_on_path<Result<Found>>(path, open, [&client = client(), done = std::move(done)](Result<Found> found) {
    done(as_file(client, std::move(found)));
  });
}

template <class Face>
Result<std::unique_ptr<Directory>> NamesImpl<Face>::open_directory(std::string_view path) {
  auto object = on_path<Result<engine::Object>>(
      path, [](Path at, Paths& paths) { return paths.find(std::move(at), true); });
  if (!object) return object.error();
  if (object->attributes && object->attributes->type != FileType::directory) {
    return Error(ErrorKind::server, ENOTDIR, "open_directory", std::string(path), "this is not a directory");
  }
  return std::unique_ptr<Directory>(std::make_unique<DirectoryImpl>(client(), object->handle));
}

// ---- extended attributes ----

template <class Face>
Result<std::vector<std::byte>> NamesImpl<Face>::get_xattr(std::string_view path, std::string_view name,
                                                          bool follow) {
  return on_object<Result<std::vector<std::byte>>>(
      path, follow, [&](Engine& engine, const engine::FileHandle& object) {
        return engine.get_xattr(nullptr, object, std::string(name));
      });
}

template <class Face>
Status NamesImpl<Face>::set_xattr(std::string_view path, std::string_view name,
                                  std::span<const std::byte> value, XattrMode mode, bool follow) {
  return on_object<Status>(path, follow, [&](Engine& engine, const engine::FileHandle& object) {
    return engine.set_xattr(nullptr, object, std::string(name), {value.begin(), value.end()}, mode);
  });
}

template <class Face>
Status NamesImpl<Face>::remove_xattr(std::string_view path, std::string_view name, bool follow) {
  return on_object<Status>(path, follow, [&](Engine& engine, const engine::FileHandle& object) {
    return engine.remove_xattr(nullptr, object, std::string(name));
  });
}

template <class Face>
Result<std::vector<std::string>> NamesImpl<Face>::list_xattrs(std::string_view path, bool follow) {
  return on_object<Result<std::vector<std::string>>>(
      path, follow,
      [](Engine& engine, const engine::FileHandle& object) { return engine.list_xattrs(nullptr, object); });
}

// ---- access control lists ----

template <class Face>
Result<Acl> NamesImpl<Face>::get_acl(std::string_view path, bool follow) {
  return on_object<Result<Acl>>(path, follow, [](Engine& engine, const engine::FileHandle& object) {
    return engine.get_acl(nullptr, object);
  });
}

template <class Face>
Status NamesImpl<Face>::set_acl(std::string_view path, const Acl& acl, bool follow) {
  Acl whole = acl;
  if (auto* lists = std::get_if<PosixAcls>(&whole)) {
    if (lists->access.empty())
      return Error(ErrorKind::usage, EINVAL, "acl", std::string(path), "the access ACL is missing; give one");
    for (PosixAcl* list : {&lists->access, &lists->inherited}) {
      auto good = ordered(std::move(*list));
      if (!good) return good.error();
      *list = std::move(*good);
    }
  }
  return on_object<Status>(path, follow, [&](Engine& engine, const engine::FileHandle& object) {
    return engine.set_acl(nullptr, object, whole);
  });
}

template class NamesImpl<Client>;
template class NamesImpl<Directory>;

}  // namespace api
}  // namespace nfsrdma
