// rm, rmdir.
//
// rm -r reads a directory in batches: it lists some names, removes them, and lists again from the start,
// where only the remaining names appear. So a level of the tree holds one batch of names, plus the names that
// could not be removed, which must not be tried again. The files of a batch are removed by several threads.
//
// A name that is gone when it is to be removed is no error: another program was faster. A name that is listed
// again after that is an error: the server lists an object that it does not find, and would do so for ever.
#include <cerrno>
#include <set>
#include <utility>

#include "cli/commands.h"
#include "cli/crowd.h"

namespace nfsrdma::cli {
namespace {

constexpr std::size_t batch_size = 256;
constexpr std::size_t most_failures = 4096;  // in one directory, which is given up then

struct Name {
  std::string name;
  FileType type = FileType::unknown;
};

/// The outcome of removing a name.
enum class Became : unsigned char {
  removed,
  gone,  ///< it did not exist any more
  left,  ///< it could not be removed, and the reason was reported
};

class Remover {
 public:
  explicit Remover(Call& call) : call_(call) {}
  Became remove(const Remote& remote, FileType type);

 private:
  Became tree(const Remote& directory);
  Result<std::vector<Name>> batch(const Remote& directory, const std::set<std::string>& skipped);
  Became done(const Status& status, const Remote& remote);
  void failed(const Error& error);

  Call& call_;
  std::mutex mutex_;  // guards the reports, and the names that tree() remembers
};

void Remover::failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  call_.failed(error);
}

Became Remover::done(const Status& status, const Remote& remote) {
  if (status) {
    const std::lock_guard lock(mutex_);
    call_.did("remove", remote);
    return Became::removed;
  }
  if (status.error().errno_value() == ENOENT) return Became::gone;  // someone else was faster
  failed(status.error());
  return Became::left;
}

Result<std::vector<Name>> Remover::batch(const Remote& directory, const std::set<std::string>& skipped) {
  std::vector<Name> names;
  const Status status = directory.client->list(directory.path, [&](const DirectoryEntry& entry) {
    if (is_plain_name(entry.name) && !skipped.contains(entry.name)) {
      names.push_back({entry.name, entry.attributes ? entry.attributes->type : FileType::unknown});
    }
    return names.size() < batch_size && call_.going();
  });
  if (!status) return status.error();
  return names;
}

Became Remover::tree(const Remote& directory) {
  std::set<std::string> left, gone;  // gone: of the last batch
  while (call_.going() && left.size() < most_failures) {
    const Result<std::vector<Name>> names = batch(directory, left);
    if (!names) return done(names.error(), directory);
    if (names->empty()) break;
    const std::set<std::string> gone_before = std::exchange(gone, {});
    const auto work_on = [&](const Name& name) {
      if (!call_.going()) return;
      const Remote child = directory.child(name.name);
      Became became = remove(child, name.type);
      if (became == Became::gone && gone_before.contains(name.name)) {
        failed(Error(
            ErrorKind::server, ENOENT, "rm", child.text(),
            "the server lists this name but says that it does not exist; check the directory on the server"));
        became = Became::left;
      }
      if (became == Became::removed) return;
      const std::lock_guard lock(mutex_);
      (became == Became::gone ? gone : left).insert(name.name);
    };
    Crowd crowd;
    for (const Name& name : *names) {
      if (name.type == FileType::directory || name.type == FileType::unknown) continue;
      crowd.add([&work_on, &name] { work_on(name); });
    }
    crowd.run();
    for (const Name& name : *names) {
      if (name.type == FileType::directory || name.type == FileType::unknown) work_on(name);
    }
  }
  if (!left.empty() || !call_.going()) return Became::left;  // the names that remain were reported
  return done(directory.client->remove_directory(directory.path), directory);
}

Became Remover::remove(const Remote& remote, FileType type) {
  if (type == FileType::directory) return tree(remote);
  const Status status = remote.client->remove_file(remote.path);
  if (!status && status.error().errno_value() == EISDIR && type == FileType::unknown) return tree(remote);
  return done(status, remote);
}

Status refuse(const Remote& remote, int errno_value, const char* message) {
  return Error(ErrorKind::usage, errno_value, "rm", remote.text(), message);
}

/// Returns true if the path ends in no name, "." or "..", which nothing can remove as an entry of a
/// directory.
bool names_itself(const Remote& remote) {
  const std::string_view name = base_name(remote.path);
  return name.empty() || name == "." || name == "..";
}

Status remove_operand(Call& call, const Remote& remote) {
  if (names_itself(remote))
    return refuse(remote, EINVAL, "the root, '.' and '..' cannot be removed; name a file");
  const Result<Attributes> attributes = remote.client->stat(remote.path, false);
  if (!attributes) {
    const bool forced = call.has("force") && attributes.error().errno_value() == ENOENT;
    return forced ? Status() : attributes.error();
  }
  if (attributes->type == FileType::directory && !call.has("recursive")) {
    return refuse(remote, EISDIR, "is a directory; use rmdir, or rm -r to remove it with its contents");
  }
  (void)Remover(call).remove(remote, attributes->type);
  return {};
}

}  // namespace

void run_rm(Call& call) {
  call.each(0, [&](const Remote& remote) { return remove_operand(call, remote); });
}

void run_rmdir(Call& call) {
  call.change_each(0, "remove",
                   [](const Remote& remote) { return remote.client->remove_directory(remote.path); });
}

}  // namespace nfsrdma::cli
