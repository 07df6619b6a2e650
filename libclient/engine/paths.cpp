#include "engine/paths.h"

#include <cerrno>

namespace nfsrdma::engine {
namespace {

/// Returns whether the error may mean that a name on the path is a symbolic link.
bool may_be_link(const Error& error) {
  return error.kind() == ErrorKind::server &&
         (error.errno_value() == ENOTDIR || error.errno_value() == ELOOP);
}

Error refused(int code, const char* what, const Path& path, const char* why) {
  return {ErrorKind::server, code, what, path.text(), why};
}

/// Returns the error for an operation that has succeeded on a symbolic link instead of its target.
Error is_link(const char* what, const Path& path) {
  return refused(ELOOP, what, path, "this is a symbolic link");
}

const char* name_of(Engine::Removed what) {
  return what == Engine::Removed::directory ? "rmdir" : "remove";
}

/// Discards the value of a result, because callers of Paths only need the status.
template <class T>
async::Task<Status> without_value(async::Task<Result<T>> task) {
  auto result = co_await std::move(task);
  if (!result) co_return result.error();
  co_return Status();
}

constexpr const char* kBegin = "the directory where the path begins cannot be created, removed or renamed";

}  // namespace

// ---- symbolic links ----

/// Replaces the beginning of a path that leads out of it ("../x") by the directory above, as often as
/// necessary.
async::Task<Status> Paths::rise(Path& path) {
  while (path.above() != 0) {
    auto above = co_await engine_.parent(caller_, *path.begin());
    if (above) {
      path.rise(above->handle);
      continue;
    }
    if (above.error().errno_value() != ENOENT) co_return above.error();
    path.rise(*path.begin());  // no directory is above the server's root
  }
  co_return Status();
}

async::Task<Result<bool>> Paths::replace_links(Path& path, bool last) {
  bool replaced = false;
  for (std::size_t at = 0; at < path.names().size() - (last || path.is_begin() ? 0 : 1);) {
    auto text = co_await engine_.read_link(caller_, path.spot(at + 1));
    if (text) {
      auto stayed = path.substitute(at, *text);
      if (!stayed) co_return stayed.error();
      auto risen = co_await rise(path);
      if (!risen) co_return risen.error();
      replaced = true;
      at = *stayed;
      continue;
    }
    const Error& why = text.error();
    // The last name does not exist, so it is no link. The operation itself reports that, or creates it.
    if (why.errno_value() == ENOENT && at + 1 == path.names().size()) break;
    if (why.errno_value() != EINVAL) co_return why;
    ++at;
  }
  co_return replaced;
}

template <class R, class Run>
async::Task<R> Paths::following(Path path, bool last, Run run) {
  auto risen = co_await rise(path);
  if (!risen) co_return risen.error();
  for (;;) {
    R result = co_await run(path);
    if (result || !may_be_link(result.error())) co_return result;
    auto replaced = co_await replace_links(path, last);
    if (!replaced) co_return replaced.error();
    if (!*replaced) co_return result;
  }
}

template <class R, class Run>
async::Task<R> Paths::following_both(Path first, Path second, Run run) {
  auto risen = co_await rise(first);
  if (risen) risen = co_await rise(second);
  if (!risen) co_return risen.error();
  for (;;) {
    R result = co_await run(first, second);
    if (result || !may_be_link(result.error())) co_return result;
    auto replaced = co_await replace_links(first, false);
    if (!replaced) co_return replaced.error();
    auto other = co_await replace_links(second, false);
    if (!other) co_return other.error();
    if (!*replaced && !*other) co_return result;
  }
}

// ---- operations ----

async::Task<Result<Object>> Paths::find_once(const Path& path, bool follow) {
  auto object = co_await engine_.find(caller_, path.spot());
  const bool link = object && object->attributes && object->attributes->type == FileType::symlink && follow;
  if (link) co_return is_link("LOOKUP", path);
  co_return object;
}

async::Task<Result<Object>> Paths::find(Path path, bool follow) {
  return following<Result<Object>>(std::move(path), follow,
                                   [this, follow](const Path& at) { return find_once(at, follow); });
}

async::Task<Result<std::string>> Paths::read_link(Path path) {
  return following<Result<std::string>>(
      std::move(path), false, [this](const Path& at) { return engine_.read_link(caller_, at.spot()); });
}

async::Task<Result<Rights>> Paths::access_once(const Path& path, unsigned wanted) {
  auto rights = co_await engine_.access(caller_, path.spot(), wanted);
  if (rights && rights->type == FileType::symlink) co_return is_link("ACCESS", path);
  co_return rights;
}

async::Task<Result<Rights>> Paths::access(Path path, unsigned wanted) {
  return following<Result<Rights>>(std::move(path), true,
                                   [this, wanted](const Path& at) { return access_once(at, wanted); });
}

async::Task<Result<Space>> Paths::space_once(const Path& path) {
  auto space = co_await engine_.space(caller_, path.spot());
  if (space && space->type == FileType::symlink) co_return is_link("space", path);
  co_return space;
}

async::Task<Result<Space>> Paths::space(Path path) {
  return following<Result<Space>>(std::move(path), true, [this](const Path& at) { return space_once(at); });
}

async::Task<Result<Page>> Paths::list(Path path) {
  return following<Result<Page>>(std::move(path), true, [this](const Path& at) {
    return engine_.list(caller_, at.spot(), 0, ListVerifier());
  });
}

async::Task<Status> Paths::make_directory(Path path, std::uint32_t mode) {
  if (path.is_begin()) co_return refused(EEXIST, "mkdir", path, kBegin);
  co_return co_await following<Status>(std::move(path), false, [this, mode](const Path& at) {
    return without_value(engine_.make_directory(caller_, at.directory(), at.last(), mode));
  });
}

async::Task<Status> Paths::make_symlink(std::string text, Path created) {
  if (created.is_begin()) co_return refused(EEXIST, "symlink", created, kBegin);
  co_return co_await following<Status>(std::move(created), false, [this, &text](const Path& at) {
    return without_value(engine_.make_symlink(caller_, at.directory(), at.last(), text));
  });
}

async::Task<Status> Paths::make_node(Path path, FileType type, Engine::Device device, std::uint32_t mode) {
  if (path.is_begin()) co_return refused(EEXIST, "mknod", path, kBegin);
  co_return co_await following<Status>(std::move(path), false, [=, this](const Path& at) {
    return without_value(engine_.make_node(caller_, at.directory(), at.last(), type, device, mode));
  });
}

/// Checks the kind before removing the name, because a server may remove either kind (RFC 8881 18.25).
async::Task<Status> Paths::remove_once(const Path& path, Engine::Removed what) {
  const char* operation = name_of(what);
  auto found = co_await engine_.find(caller_, path.spot());
  if (!found) co_return found.error();
  const bool is_directory = found->attributes && found->attributes->type == FileType::directory;
  if (is_directory && what == Engine::Removed::file) {
    co_return refused(EISDIR, operation, path, "this is a directory; use rmdir");
  }
  if (!is_directory && what == Engine::Removed::directory) {
    co_return refused(ENOTDIR, operation, path, "this is not a directory");
  }
  co_return co_await without_value(engine_.remove(caller_, path.directory(), path.last(), what));
}

async::Task<Status> Paths::remove(Path path, Engine::Removed what) {
  if (path.is_begin()) co_return refused(EACCES, name_of(what), path, kBegin);
  co_return co_await following<Status>(std::move(path), false,
                                       [=, this](const Path& at) { return remove_once(at, what); });
}

async::Task<Status> Paths::rename(Path from, Path to) {
  if (from.is_begin()) co_return refused(EACCES, "rename", from, kBegin);
  if (to.is_begin()) co_return refused(EACCES, "rename", to, kBegin);
  co_return co_await following_both<Status>(
      std::move(from), std::move(to), [this](const Path& first, const Path& second) {
        return without_value(engine_.rename(caller_, first.directory(), first.last(), second.directory(),
                                            second.last(), std::nullopt));
      });
}

async::Task<Status> Paths::link(Path existing, Path created) {
  if (created.is_begin()) co_return refused(EEXIST, "link", created, kBegin);
  co_return co_await following_both<Status>(
      std::move(existing), std::move(created), [this](const Path& object, const Path& name) {
        return without_value(engine_.link(caller_, object.spot(), name.directory(), name.last()));
      });
}

async::Task<Status> Paths::set_attributes(Path path, SetAttributes changes, bool follow) {
  auto object = co_await find(std::move(path), follow);
  if (!object) co_return object.error();
  co_return co_await without_value(engine_.set_attributes(caller_, object->handle, changes, nullptr));
}

async::Task<Result<Opened>> Paths::open_once(const Path& path, Access access,
                                             std::optional<Engine::Creation> creation) {
  // The caller may have asked for a directory, or a symbolic link may have led to one.
  if (path.is_begin()) co_return refused(EISDIR, "open", path, "this is a directory");
  co_return co_await engine_.open_at(caller_, path.directory(), path.last(), access, creation);
}

async::Task<Result<Opened>> Paths::open(Path path, Access access, std::optional<Engine::Creation> creation) {
  const bool follow = !creation || !creation->exclusive;
  return following<Result<Opened>>(std::move(path), follow,
                                   [=, this](const Path& at) { return open_once(at, access, creation); });
}

}  // namespace nfsrdma::engine
