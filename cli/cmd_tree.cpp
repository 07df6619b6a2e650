// mkdir, mv, ln, cp: names in directories.
#include <algorithm>
#include <cerrno>

#include "cli/commands.h"
#include "cli/parse.h"
#include "cli/remote_file.h"
#include "cli/sync_plan.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

constexpr std::uint32_t directory_mode = 0777;

Error refused(const char* command, const Remote& remote, int errno_value, const char* message) {
  return {ErrorKind::usage, errno_value, command, remote.text(), message};
}

/// Makes the directory, after the missing directories above it. Those above get write and search permission
/// for their owner (POSIX mkdir -p), because otherwise nothing could be created in them.
Status make_with_parents(Call& call, const Remote& remote, std::uint32_t mode) {
  std::vector<Remote> missing = {remote};
  while (true) {
    const bool last = missing.size() == 1;
    const std::uint32_t above = (directory_mode & ~creation_mask()) | 0300U;
    const Status made = remote.client->make_directory(missing.back().path, last ? mode : above);
    if (made) call.did("mkdir", missing.back());
    Status status = accept_existing(missing.back(), made);
    const Remote parent{remote.client, std::string(directory_name(missing.back().path)), remote.host, {}};
    if (status) {
      missing.pop_back();
      if (missing.empty()) return {};
    } else if (status.error().errno_value() == ENOENT && parent.path.size() < missing.back().path.size() &&
               parent.path != "/") {
      missing.push_back(parent);
    } else {
      return status;
    }
  }
}

/// Kind of the operands before the last one.
enum class Sources : unsigned char {
  targets,
  texts,  ///< of symbolic links: paths for the program that follows the link
};

/// Returns true if all sources are on the server of the last target. Reports those that are not.
bool are_on_one_server(Call& call, const std::vector<Operand>& targets) {
  bool all = true;
  for (const auto& [source, given] : targets) {
    if (are_on_same_server(source, targets.back().target)) continue;
    call.failed(refused(call.command.name, {nullptr, source.path, source.host}, EXDEV,
                        "is on another server than the last target; use get and put"));
    all = false;
  }
  return all;
}

/// A path that ends in a slash names a directory. mv and cp -r may make one by that name from another one.
Status check_slash(Call& call, const Remote& target, const Result<Attributes>& there,
                   const std::string& source) {
  if (!target.path.ends_with('/') || (there && there->type == FileType::directory)) return {};
  if (!there && call.command.run != run_ln) {
    const Result<Attributes> attributes = target.client->stat(source, false);
    if (!attributes) return attributes.error();
    if (attributes->type == FileType::directory) return {};
  }
  return refused(call.command.name, target, ENOTDIR,
                 "is not a directory; omit the trailing slash, or create it with mkdir");
}

/// Calls `act(source, target)` for each source, whose path is the text of a link if it is one of
/// Sources::texts. The last operand is the target, which may be a directory.
template <class Act>
void into_target(Call& call, Sources sources, const std::string& hint, Act act) {
  const std::span<const std::string> operands = call.arguments.operands;
  const auto targets = call.targets(sources == Sources::targets ? operands : operands.last(1), hint);
  if (!targets || !are_on_one_server(call, *targets)) return;
  Result<Remote> target = call.servers.at(targets->back());
  if (!target) return call.failed(target.error());
  const Result<Attributes> facts = target->client->stat(target->path);
  const bool directory = facts && facts->type == FileType::directory && !call.has("no-target-directory");
  if (!facts && facts.error().errno_value() != ENOENT && facts.error().errno_value() != ELOOP) {
    return call.failed(facts.error());
  }
  if (!directory && operands.size() > 2) {
    return call.failed(refused(call.command.name, *target, ENOTDIR,
                               "is not a directory, and several sources need one; create it with mkdir"));
  }
  if (const Status right = check_slash(call, *target, facts, targets->front().target.path); !right)
    return call.failed(right.error());
  for (std::size_t i = 0; i + 1 < operands.size() && call.going(); ++i) {
    Remote source{target->client, operands[i], target->host};
    if (sources == Sources::targets) {
      source.path = (*targets)[i].target.path;
      source.given = (*targets)[i].given;
    }
    const Remote final_target = directory ? target->child(base_name(source.path)) : *target;
    if (const Status status = act(source, final_target); !status) call.failed(status.error());
  }
}

/// Makes way for a hard link. Returns true if the file has that name already, so that nothing is left to do.
Result<bool> make_way(const std::string& existing, const Remote& target) {
  const Result<Attributes> there = target.client->stat(target.path, false);
  const Result<Attributes> wanted = target.client->stat(existing, false);
  if (!there) return there.error();
  if (!wanted) return wanted.error();
  if (!are_same(*there, *wanted)) {
    if (Status removed = target.client->remove_file(target.path); !removed) return removed.error();
    return false;
  }
  // Removing this name would remove the file itself.
  if (wanted->links < 2 || existing == target.path)
    return refused("ln", target, EEXIST, "is the same file as the source; choose another name for the link");
  return true;
}

/// Returns true if cp -u leaves the copy as it is. A file that is its own copy is left to copy_file(), which
/// reports that.
bool has_up_to_date_copy(const Attributes& source, const Remote& target) {
  const Result<Attributes> there = target.client->stat(target.path);
  return there && there->type == source.type && !are_same(source, *there) && is_up_to_date(source, *there);
}

/// Follows the report of a local name among the targets of a command that works on one server.
constexpr const char* local_hint = "; use put to copy from this machine, and get to copy to it";

}  // namespace

void run_mkdir(Call& call) {
  std::uint32_t mode = directory_mode & ~creation_mask();
  if (const auto text = call.arguments.value("mode")) {
    const auto change = ModeChange::parse(*text);
    if (!change) return call.misused("--mode takes a mode such as 0755 or u=rwx,go=rx, not '" + *text + "'");
    mode = change->apply(directory_mode, true, creation_mask());
  }
  if (call.has("parents"))
    return call.each(0, [&](const Remote& remote) { return make_with_parents(call, remote, mode); });
  call.change_each(0, "mkdir",
                   [&](const Remote& remote) { return remote.client->make_directory(remote.path, mode); });
}

void run_mv(Call& call) {
  into_target(call, Sources::targets, local_hint, [&](const Remote& source, const Remote& target) {
    Status renamed = target.client->rename(source.path, target.path);
    if (renamed) call.did("rename", source, target.text());
    return renamed;
  });
}

void run_cp(Call& call) {
  const CopyRules rules = rules_of(call);
  into_target(call, Sources::targets, local_hint, [&](const Remote& source, const Remote& target) -> Status {
    const Result<Attributes> attributes = source.client->stat(source.path);
    if (!attributes) return attributes.error();
    if (attributes->type == FileType::directory) {
      if (!call.has("recursive"))
        return refused("cp", source, EISDIR, "is a directory; use cp -r to copy it with its contents");
      copy_tree(call, source, target);
      return {};
    }
    if (call.has("update") && has_up_to_date_copy(*attributes, target)) return {};
    Progress progress(std::string(base_name(source.path)), attributes->size, !call.has("quiet"));
    Tree tree(call, progress);
    Status done = copy_file(tree, source, target, *attributes, rules);
    tree.settle();
    if (done) progress.finish(tree.bytes());
    if (done) call.did("copy", source, target.text());
    return done;
  });
}

void run_ln(Call& call) {
  const bool symbolic = call.has("symbolic");
  into_target(call, symbolic ? Sources::texts : Sources::targets, "",
              [&](const Remote& source, const Remote& target) -> Status {
                const auto create = [&] {
                  Status made = symbolic ? target.client->symlink(source.path, target.path)
                                         : target.client->link(source.path, target.path);
                  if (made) call.did(symbolic ? "symlink" : "link", target);
                  return made;
                };
                Status status = create();
                if (status || status.error().errno_value() != EEXIST || !call.has("force")) return status;
                if (!symbolic) {
                  const Result<bool> there = make_way(source.path, target);
                  if (!there) return there.error();
                  return *there ? Status() : create();
                }
                if (Status removed = target.client->remove_file(target.path); !removed) return removed;
                return create();
              });
}

}  // namespace nfsrdma::cli
