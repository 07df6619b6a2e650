// touch, chmod, chown, truncate: attributes of files.
#include <cerrno>

#include "cli/commands.h"
#include "cli/parse.h"

namespace nfsrdma::cli {
namespace {

constexpr std::uint32_t file_mode = 0666;

/// Creates a file that does not exist. Returns false if it does not exist and may not be created.
Result<bool> create_if_missing(Call& call, const Remote& remote, const Status& status) {
  if (status || status.error().errno_value() != ENOENT) return status ? Result<bool>(true) : status.error();
  if (call.has("no-create")) return false;
  if (remote.path.ends_with('/')) return status.error();  // the name of a directory
  OpenFlags flags;
  flags.create = true;
  flags.mode = file_mode & ~creation_mask();
  Result<std::unique_ptr<File>> file = remote.client->open(remote.path, OpenMode::write, flags);
  if (!file) return file.error();
  if (Status closed = (*file)->close(); !closed) return closed.error();
  call.did("create", remote);
  return true;
}

Status touch(Call& call, const Remote& remote, const SetAttributes& changes) {
  const bool follow = !call.has("no-dereference");
  Status status = remote.client->set_attributes(remote.path, changes, follow);
  if (status) call.did("touch", remote);
  if (status) return status;
  const Result<bool> there = create_if_missing(call, remote, status);
  if (!there) return there.error();
  return *there ? remote.client->set_attributes(remote.path, changes, follow) : Status();
}

/// The time of -d or -t, or none; a message if it is malformed.
struct When {
  std::optional<Time> time;
  std::string problem;
};
When parse_when(const Arguments& arguments) {
  const auto date = arguments.value("date");
  const auto stamp = arguments.value("stamp");
  if (date && stamp) return {{}, "--date and --stamp cannot be used together"};
  if (!date && !stamp) return {};
  const std::optional<Time> time = date ? parse_date(*date) : parse_stamp(*stamp);
  if (time) return {time, ""};
  return {{},
          date ? "--date takes a time such as '2024-11-20 09:42', '@1700000000' or 'now', not '" + *date + "'"
               : "--stamp takes [[CC]YY]MMDDhhmm[.ss], not '" + *stamp + "'"};
}

Status change_mode(const Remote& remote, const ModeChange& change) {
  SetAttributes changes;
  std::uint32_t mode = 0;
  bool directory = false;
  if (change.relative()) {
    const Result<Attributes> attributes = remote.client->stat(remote.path);
    if (!attributes) return attributes.error();
    mode = attributes->mode;
    directory = attributes->type == FileType::directory;
  }
  changes.mode = change.apply(mode, directory, creation_mask());
  return remote.client->set_attributes(remote.path, changes);
}

Status change_size(Call& call, const Remote& remote, const SizeChange& change) {
  Result<Attributes> attributes = remote.client->stat(remote.path);
  if (!attributes && attributes.error().errno_value() != ENOENT) return attributes.error();
  if (!attributes) {
    const Result<bool> there = create_if_missing(call, remote, attributes.error());
    if (!there) return there.error();
    if (!*there) return {};
  }
  SetAttributes changes;
  changes.size = change.apply(attributes ? attributes->size : 0);
  if (!changes.size) {
    return Error(ErrorKind::usage, EFBIG, "truncate", remote.text(),
                 "would become too large; give a smaller size");
  }
  Status status = remote.client->set_attributes(remote.path, changes);
  if (status) call.did("truncate", remote);
  return status;
}

}  // namespace

void run_touch(Call& call) {
  const When when = parse_when(call.arguments);
  if (!when.problem.empty()) return call.misused(when.problem);
  const bool both = call.has("access") == call.has("modification");
  SetAttributes changes;
  if (both || call.has("access")) {
    changes.accessed = when.time;
    changes.accessed_now = !when.time;
  }
  if (both || call.has("modification")) {
    changes.modified = when.time;
    changes.modified_now = !when.time;
  }
  call.each(0, [&](const Remote& remote) { return touch(call, remote, changes); });
}

void run_chmod(Call& call) {
  const std::string& text = call.arguments.operands[0];
  const auto change = ModeChange::parse(text);
  if (!change) return call.misused("chmod takes a mode such as 0644 or u+rw,go-w, not '" + text + "'");
  call.change_each(1, "chmod", [&](const Remote& remote) { return change_mode(remote, *change); });
}

void run_chown(Call& call) {
  const std::string& text = call.arguments.operands[0];
  if (call.servers.parse(text))
    return call.misused("chown takes an owner such as UID, UID:GID or :GID first, not '" + text + "'");
  const Result<Ownership> owner = parse_ownership(text);
  if (!owner) return call.failed(owner.error());
  SetAttributes changes;
  changes.uid = owner->uid;
  changes.gid = owner->gid;
  call.change_each(1, "chown", [&](const Remote& remote) {
    return remote.client->set_attributes(remote.path, changes, !call.has("no-dereference"));
  });
}

void run_truncate(Call& call) {
  const auto text = call.arguments.value("size");
  if (!text) return call.misused("truncate needs --size");
  const auto change = parse_size_change(*text);
  if (!change) return call.misused("--size takes bytes such as 4096, 10M, +1K or -512, not '" + *text + "'");
  call.each(0, [&](const Remote& remote) { return change_size(call, remote, *change); });
}

}  // namespace nfsrdma::cli
