// rm, rmdir.
//
// rm -r reads a directory in batches: it lists some names, removes them, and lists again from the start,
// where only what is left shows up. So a level of the tree holds one batch of names, plus the names that
// could not be removed, which must not be met again. The files of a batch are removed by several threads.
#include <cerrno>
#include <set>

#include "cli/commands.h"
#include "cli/crowd.h"

namespace nfsrdma::cli {
namespace {

constexpr std::size_t batch_size = 256;
constexpr std::size_t most_failures = 4096;  // of one directory: then there is no use in going on

struct Name {
  std::string name;
  FileType type = FileType::unknown;
};

class Remover {
 public:
  explicit Remover(Call& call) : call_(call) {}

  /// False if something is left; what and why has been said.
  bool remove(const Remote& remote, FileType type);

 private:
  bool tree(const Remote& directory);
  Result<std::vector<Name>> batch(const Remote& directory, const std::set<std::string>& skipped);
  bool done(const Status& status);

  Call& call_;
  std::mutex mutex_;  // of what is said, and of who is left
};

bool Remover::done(const Status& status) {
  if (!status && status.error().errno_value() == ENOENT) return true;  // someone else was faster
  const std::lock_guard lock(mutex_);
  if (!status) call_.failed(status.error());
  return status.has_value();
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

bool Remover::tree(const Remote& directory) {
  std::set<std::string> left;
  while (call_.going() && left.size() < most_failures) {
    const Result<std::vector<Name>> names = batch(directory, left);
    if (!names) return done(names.error());
    if (names->empty()) break;
    Crowd crowd;
    for (const Name& name : *names) {
      if (name.type == FileType::directory || name.type == FileType::unknown) continue;
      crowd.add([this, &directory, &left, &name] {
        if (!call_.going() || remove(directory.child(name.name), name.type)) return;
        const std::lock_guard lock(mutex_);
        left.insert(name.name);
      });
    }
    crowd.run();
    for (const Name& name : *names) {
      if (!call_.going()) return false;
      if (name.type != FileType::directory && name.type != FileType::unknown) continue;
      if (!remove(directory.child(name.name), name.type)) left.insert(name.name);
    }
  }
  if (!left.empty() || !call_.going()) return false;  // what is left has been named
  return done(directory.client->remove_directory(directory.path));
}

bool Remover::remove(const Remote& remote, FileType type) {
  if (type == FileType::directory) return tree(remote);
  const Status status = remote.client->remove_file(remote.path);
  if (!status && status.error().errno_value() == EISDIR && type == FileType::unknown) return tree(remote);
  return done(status);
}

Status refuse(const Remote& remote, int errno_value, const char* message) {
  return Error(ErrorKind::usage, errno_value, "rm", remote.text(), message);
}

/// The last name of the path is one that stands for a directory in whose entries it is: nothing can remove
/// it.
bool names_itself(const Remote& remote) {
  const std::string_view name = base_name(remote.path);
  return name.empty() || name == "." || name == "..";
}

Status remove_operand(Call& call, const Remote& remote) {
  if (names_itself(remote))
    return refuse(remote, EINVAL, "the root, '.' and '..' are not removed; name a file");
  const Result<Attributes> attributes = remote.client->stat(remote.path, false);
  if (!attributes) {
    const bool forced = call.has("force") && attributes.error().errno_value() == ENOENT;
    return forced ? Status() : attributes.error();
  }
  if (attributes->type == FileType::directory && !call.has("recursive")) {
    return refuse(remote, EISDIR, "is a directory; use rmdir, or rm -r for all that is in it");
  }
  Remover(call).remove(remote, attributes->type);
  return {};
}

}  // namespace

void run_rm(Call& call) {
  call.each(0, [&](const Remote& remote) { return remove_operand(call, remote); });
}

void run_rmdir(Call& call) {
  call.each(0, [](const Remote& remote) { return remote.client->remove_directory(remote.path); });
}

}  // namespace nfsrdma::cli
