// The steps about the target's path: whether it exists, large replies about it, the rights on it, a small read, a small
// write.
//
// Three signs of a server that maps root to the anonymous user (root_squash): ACCESS denies root a right that root always
// has, ACCESS grants the owner of the directory more than root, and a new file does not belong to its maker.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "connect/exports.h"
#include "diagnosis/examination.h"

namespace nfsrdma::diagnosis {
namespace {

using namespace std::chrono_literals;

/// Larger than a packet, and small enough for any server.
constexpr std::size_t kSample = 16U << 10;
constexpr std::size_t kNamesShown = 8;
constexpr unsigned kAllRights = R_OK | W_OK | X_OK;
/// Kerberos refuses clocks that differ by more.
constexpr std::int64_t kMostClockDifference = 300;

// ---- what there is ----

async::Task<std::vector<std::string>> names_in(Examination& at, engine::Path directory) {
  std::vector<std::string> out;
  engine::Paths paths = at.paths();
  auto page = co_await paths.list(std::move(directory));
  if (!page) co_return out;
  for (const engine::Listed& one : page->entries) out.push_back(one.name);
  std::ranges::sort(out);
  co_return out;
}

/// Returns the nearest directory above the path that exists; nothing if not even the root does.
async::Task<std::optional<engine::Path>> nearest_directory(Examination& at, engine::Path path) {
  engine::Paths paths = at.paths();
  while (!path.is_begin()) {
    path = path.parent();
    auto object = co_await paths.find(path, true);
    if (object) co_return path;
  }
  co_return std::nullopt;
}

/// Lists the exports by the mount service, which only servers of NFSv3 and v2 have.
std::string listed_exports(Examination& at) {
  if (at.info.version.starts_with('4')) return "";
  const auto exports = connect::list_exports(at.target, at.until(kCallTime), at.interrupt);
  at.loop.time_passed();
  std::vector<std::string> names;
  if (exports) {
    for (const aux::Export& one : *exports) names.push_back(one.path);
  }
  return names.empty() ? "" : "; the server exports " + comma_list(names, kNamesShown);
}

async::Task<std::string> what_there_is(Examination& at, const engine::Path& path) {
  const std::string exports = listed_exports(at);
  if (!exports.empty()) co_return exports;
  auto nearest = co_await nearest_directory(at, path);
  if (!nearest) co_return "";
  const std::vector<std::string> names = co_await names_in(at, *nearest);
  const std::string where = nearest->text();
  co_return names.empty() ? "; " + where + " exists and is empty"
                          : "; " + where + " exists and has " + comma_list(names, kNamesShown);
}

async::Task<Finding> no_path(Examination& at, Error why) {
  auto path = engine::Path::parse(at.target.path);
  if (!path) co_return failure(path.error());
  const bool is_absent = why.errno_value() == ENOENT || why.errno_value() == ENOTDIR;
  Finding out = failure(why);
  if (is_absent) {
    out = failure(at.target.path + " does not exist on the server",
                  "check the path and its spelling, and export it on the server (Linux: /etc/exports, then "
                  "`exportfs -ra`; `exportfs -v` lists what is exported)");
  } else if (why.errno_value() == EACCES && !at.info.version.starts_with('4')) {
    out = failure("the server does not let this machine mount " + at.target.path,
                  "add this machine, " + at.way.source +
                      ", to the export on the server (/etc/exports), and allow ports from 1024 on (insecure) "
                      "if this user is not root");
  }
  out.seen += co_await what_there_is(at, *path);
  co_return out;
}

const char* kind_of(FileType type) {
  switch (type) {
    case FileType::directory:
      return "directory";
    case FileType::regular:
      return "file";
    case FileType::symlink:
      return "symbolic link";
    default:
      return "special file";
  }
}

// ---- large replies ----

/// This number of sets of attributes needs Replies that are larger than a packet of Ethernet.
constexpr std::size_t kManyAttributes = 48;

/// Returns a name that can be asked for: the target's, or the first one in the server's root; nothing if there is none.
async::Task<std::optional<engine::Path>> any_name(Examination& at) {
  auto path = engine::Path::parse(at.target.path);
  if (!path) co_return std::nullopt;
  if (!path->is_begin()) co_return *path;
  const std::vector<std::string> names = co_await names_in(at, *path);
  if (names.empty()) co_return std::nullopt;
  auto child = engine::Path::parse("/" + names.front());
  if (!child || child->is_begin()) co_return std::nullopt;
  co_return *child;
}

Finding replies_lost() {
  return failure(
      "small replies arrive, large ones do not: large packets from the server are lost on the way, an MTU "
      "black hole",
      "make the MTUs of both machines and of all switches the same, and let ICMP \"fragmentation needed\" "
      "pass the firewalls to the server");
}

// ---- rights ----

std::string rights_text(const engine::Rights& rights) {
  const bool is_directory = rights.type == FileType::directory;
  std::vector<std::string> words;
  if ((rights.granted & R_OK) != 0) words.emplace_back(is_directory ? "list" : "read");
  if ((rights.granted & W_OK) != 0) words.emplace_back(is_directory ? "make and remove names" : "write");
  if ((rights.granted & X_OK) != 0) words.emplace_back(is_directory ? "search" : "execute");
  return words.empty() ? "do nothing" : comma_list(words);
}

bool uses_sys(const Info& info) {
  return info.security == "sys";
}

/// Returns whether the owner of the object may write where this user may not. Root can ask in the owner's name.
async::Task<bool> may_owner_write(Examination& at, const engine::Path& path, const Attributes& attributes) {
  if (!attributes.uid || *attributes.uid == 0) co_return false;
  const security::Identity owner{*attributes.uid, attributes.gid.value_or(*attributes.uid), {}};
  engine::Paths paths = at.paths(std::make_shared<security::Identity>(owner));
  auto rights = co_await paths.access(path, W_OK);
  co_return rights && (rights->granted & W_OK) != 0;
}

Finding squashed(const std::string& seen, const std::string& reason) {
  return warning(
      seen + ": the server maps root to nobody (root_squash), because " + reason,
      "export it with no_root_squash if root has to write there, or work as a user who has the rights "
      "(uid= and gid=)");
}

/// Judges what root was denied.
async::Task<Finding> judge_root(Examination& at, const engine::Path& path, const engine::Rights& rights,
                                const Attributes& attributes, std::string seen) {
  constexpr std::uint32_t kOthersWrite = 0002;
  if ((rights.granted & R_OK) == 0) co_return squashed(seen, "root could otherwise read everything");
  if (co_await may_owner_write(at, path, attributes)) {
    co_return squashed(seen, "the owner, user " + std::to_string(*attributes.uid) + ", may write");
  }
  if ((attributes.mode & kOthersWrite) != 0) {
    co_return warning(seen + ": the export is read-only, because the mode lets everybody write",
                      "export it with rw on the server if it has to be written");
  }
  co_return warning(seen + ": the server maps root to nobody (root_squash), or the export is read-only",
                    "--write tells which of the two; no_root_squash or rw in the export changes it");
}

// ---- read and write ----

/// Returns what a failed READ or WRITE means after all small calls were answered.
Finding data_failure(const Error& why) {
  if (why.kind() != ErrorKind::timeout) return failure(why);
  return failure("small calls are answered, and data of " + std::to_string(kSample) +
                     " bytes does not come through: large packets may be lost on the way, an MTU black hole",
                 "make the MTUs of both machines and of all switches the same");
}

Result<engine::Path> file_to_read(const Examination& at) {
  const std::string& file = at.wanted.read;
  return engine::Path::parse(file.starts_with('/') ? file : at.target.path + "/" + file);
}

struct Sampled {
  std::size_t count = 0;
  std::chrono::nanoseconds took{0};
};

async::Task<Result<Sampled>> read_sample(engine::ServerFileRef file, std::span<std::byte> into) {
  const auto before = async::Clock::now();
  auto count = co_await file->read(into, 0);
  if (!count) co_return count.error();
  co_return Sampled{*count, async::Clock::now() - before};
}

std::string temporary_name(async::Loop& loop) {
  return ".nfsrdma-doctor-" + std::to_string(loop.random<std::uint32_t>());
}

Result<engine::Path> file_to_write(const Examination& at) {
  auto path = engine::Path::parse(at.target.path);
  if (!path) return path.error();
  const bool is_directory = at.object->attributes && at.object->attributes->type == FileType::directory;
  if (!is_directory && !path->is_begin()) *path = path->parent();
  return engine::Path::parse(path->text() + "/" + temporary_name(at.loop));
}

/// Results of writing a file and reading it back.
struct Written {
  Attributes attributes;
  std::chrono::nanoseconds took{0};
  bool is_same = false;  ///< the data came back as it was written
};

async::Task<Result<Written>> write_and_read(Examination& at, engine::ServerFileRef file) {
  const async::Memory memory = at.loop.memory().take(kSample);
  const std::span<std::byte> data(memory.data.get(), kSample);
  at.loop.random(data);
  Written out;
  const auto before = async::Clock::now();
  auto written = co_await file->write(data, memory, 0, Stability::on_disk, nullptr);
  if (!written) co_return written.error();
  out.took = async::Clock::now() - before;
  std::vector<std::byte> back(kSample);
  auto count = co_await file->read(back, 0);
  if (!count) co_return count.error();
  out.is_same = *count == kSample && std::ranges::equal(back, data);
  auto attributes = co_await file->attributes();
  if (!attributes) co_return attributes.error();
  out.attributes = std::move(*attributes);
  co_return out;
}

Finding cannot_create(const Error& why, const connect::Options& options) {
  if (why.errno_value() == EROFS) {
    return failure("no file can be made there: the export or its file system is read-only",
                   "export it with rw on the server, and mount its file system there for writing");
  }
  if (why.errno_value() == EACCES || why.errno_value() == EPERM) {
    const bool is_root = connect::own_identity(options).uid == 0;
    return failure(std::string("this user may not make a file there") +
                       (is_root ? ", although it is root: the server maps root to nobody (root_squash)" : ""),
                   is_root
                       ? "export it with no_root_squash, or work as a user who has the rights (uid=, gid=)"
                       : "change the directory's mode or owner on the server, or work as another user");
  }
  return failure(why);
}

Finding judge_written(Examination& at, const Written& written) {
  const security::Identity who = connect::own_identity(at.options());
  const Attributes& got = written.attributes;
  const std::int64_t clocks = got.modified.seconds - at.loop.wall_seconds();
  Finding out = found("wrote and read back " + std::to_string(kSample) + " bytes, to the disk in " +
                      text_of(written.took));
  if (!written.is_same) {
    out = failure("what was read back differs from what was written",
                  "report this, with the name and version of the server");
  } else if (uses_sys(at.info) && got.uid && *got.uid != who.uid) {
    out = warning(out.seen + "; the new file belongs to user " + std::to_string(*got.uid) + ", not " +
                      std::to_string(who.uid) + ": the server maps users (" +
                      (who.uid == 0 ? "root_squash)" : "all_squash)"),
                  "export it with no_root_squash if files have to belong to root");
  } else if (std::abs(clocks) > kMostClockDifference) {
    out = warning(out.seen + "; the server's clock is " + std::to_string(std::abs(clocks)) + " s " +
                      (clocks > 0 ? "ahead of" : "behind") + " this machine's",
                  "set both clocks (timedatectl); Kerberos fails from 300 s on");
  }
  out.fact("owner", got.owner).fact("clock_difference_seconds", std::to_string(clocks));
  return out;
}

Finding needs_path() {
  return skipped("needs the step export");
}

}  // namespace

async::Task<Finding> examine_export(Examination& at) {
  if (at.path_error) co_return co_await no_path(at, *at.path_error);
  auto path = engine::Path::parse(at.target.path);
  if (!path) co_return failure(path.error());
  engine::Paths paths = at.paths();
  auto object = co_await paths.find(*path, true);
  if (!object) co_return co_await no_path(at, object.error());
  at.object = std::move(*object);
  if (!at.object->attributes) {
    auto attributes = co_await at.server->engine()->attributes(nullptr, at.object->handle);
    if (!attributes) co_return failure(attributes.error());
    at.object->attributes = std::move(*attributes);
  }
  const Attributes& attributes = *at.object->attributes;
  Finding out = found(at.target.path + " is a " + kind_of(attributes.type) + ", by sec=" + at.info.security);
  out.fact("security", at.info.security).fact("owner", attributes.owner).fact("group", attributes.group);
  co_return out.fact("mode", attributes.mode);
}

async::Task<Finding> examine_replies(Examination& at) {
  if (!at.object) co_return needs_path();
  const auto path = co_await any_name(at);
  if (!path) co_return skipped("the server has no name to ask for many times");
  const engine::Spot directory = path->directory();
  std::vector<engine::ManyTold> items(kManyAttributes, {{&directory, path->last()}});
  std::vector<engine::ManyTold*> all;
  all.reserve(items.size());
  for (engine::ManyTold& one : items) all.push_back(&one);
  co_await at.server->engine()->stat_many(nullptr, std::move(all));
  const auto is_late = [](const engine::ManyTold& one) {
    return one.result && !*one.result && one.result->error().kind() == ErrorKind::timeout;
  };
  if (std::ranges::any_of(items, is_late)) co_return replies_lost();
  co_return found("large replies arrive, with the attributes of " + std::to_string(items.size()) + " files");
}

async::Task<Finding> examine_rights(Examination& at) {
  if (!at.object) co_return needs_path();
  auto path = engine::Path::parse(at.target.path);
  if (!path) co_return failure(path.error());
  engine::Paths paths = at.paths();
  auto rights = co_await paths.access(*path, kAllRights);
  if (!rights) co_return failure(rights.error());
  const security::Identity who = connect::own_identity(at.options());
  const std::string user = uses_sys(at.info) ? "user " + std::to_string(who.uid) : "this user";
  const std::string seen = user + " may " + rights_text(*rights);
  Finding out = found(seen);
  if (uses_sys(at.info) && who.uid == 0 && (rights->granted & (R_OK | W_OK)) != (R_OK | W_OK)) {
    out = co_await judge_root(at, *path, *rights, *at.object->attributes, seen);
  } else if ((rights->granted & R_OK) == 0) {
    out = warning(seen, "change mode or owner of the path on the server, or work as another user");
  }
  out.fact("read", (rights->granted & R_OK) != 0 ? "yes" : "no");
  out.fact("write", (rights->granted & W_OK) != 0 ? "yes" : "no");
  co_return out.fact("execute", (rights->granted & X_OK) != 0 ? "yes" : "no");
}

async::Task<Finding> examine_reading(Examination& at) {
  if (!at.object) co_return needs_path();
  auto path = file_to_read(at);
  if (!path) co_return failure(path.error());
  engine::Paths paths = at.paths();
  auto opened = co_await paths.open(*path, engine::Access::read, std::nullopt);
  if (!opened) co_return failure(opened.error());
  std::vector<std::byte> data(kSample);
  const auto sampled = co_await read_sample(opened->file, data);
  (void)co_await at.server->engine()->close(opened->file);
  if (!sampled) co_return data_failure(sampled.error());
  Finding out = found("read " + std::to_string(sampled->count) + " bytes of " + path->text() + " in " +
                      text_of(sampled->took));
  co_return out.fact("bytes", sampled->count);
}

async::Task<Finding> examine_writing(Examination& at) {
  if (!at.object) co_return needs_path();
  auto path = file_to_write(at);
  if (!path) co_return failure(path.error());
  engine::Paths paths = at.paths();
  constexpr std::uint32_t kMode = 0600;
  auto opened = co_await paths.open(*path, engine::Access::both,
                                    engine::Engine::Creation{.mode = kMode, .exclusive = true});
  if (!opened) co_return cannot_create(opened.error(), at.options());
  const auto written = co_await write_and_read(at, opened->file);
  (void)co_await at.server->engine()->close(opened->file);
  auto removed = co_await paths.remove(*path, engine::Engine::Removed::file);
  if (!written) co_return data_failure(written.error());
  if (!removed) {
    Finding out = failure(removed.error());
    out.seen = "the file " + path->text() + " was made and could not be removed: " + out.seen;
    co_return out;
  }
  co_return judge_written(at, *written);
}

}  // namespace nfsrdma::diagnosis
