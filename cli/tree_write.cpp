// Writes files to a server, and gives them their names: the part that put, cp and sync share (tree_transfer.h).
#include <algorithm>
#include <cerrno>

#include "cli/changes.h"
#include "cli/remote_file.h"
#include "cli/started_calls.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

void remove_later(Tree& tree, const Remote& file) {
  tree.complete([file] {
    Status removed = file.client->remove_file(file.path);
    return !removed && removed.error().errno_value() == ENOENT ? Status() : removed;
  });
}

Result<RemotePart> begin_file(const Remote& to, const Replacement& made, const CopyRules& rules) {
  if (rules.has_part(made.size)) return open_remote_part(to, {made.size, made.traits.modified});
  auto temporary = create_temporary(to, kPrivateFile, OpenMode::read_write);
  if (!temporary) return temporary.error();
  return RemotePart{*std::move(temporary), 0};
}

Status fill_and_finish(RemotePart& part, const Replacement& made, const CopyRules& rules, const Fill& fill) {
  Result<std::unique_ptr<File>> file = fill(std::move(part.temporary.file), part.begin);
  if (!file) return file.error();
  Status done = (*file)->sync();
  if (done) done = finish_private(**file, made.traits, made.mode, rules.keep);
  const Status closed = (*file)->close();
  return done ? closed : done;
}

/// The attributes that a small file gets after its data.
SetAttributes changes_of(const SmallFile& file, const CopyRules& rules) {
  SetAttributes changes;
  changes.modified = file.traits.modified;
  if (rules.keep != Keep::everything) return changes;
  changes.accessed = file.traits.accessed;
  changes.mode = file.traits.mode;
  return changes;
}

/// Makes a call for each file that has not failed: `start(index, done)`.
template <class Start>
void for_each_good(Client& client, std::vector<Status>& outcome, Start start) {
  std::vector<std::size_t> good;
  for (std::size_t i = 0; i < outcome.size(); ++i) {
    if (outcome[i]) good.push_back(i);
  }
  const auto done =
      run_together(client, good.size(), [&](std::size_t i, auto ended) { start(good[i], std::move(ended)); });
  for (std::size_t i = 0; i < good.size(); ++i) outcome[good[i]] = done[i];
}

}  // namespace

CopyRules rules_of(const Call& call) {
  CopyRules rules;
  if (call.has("preserve")) rules.keep = Keep::everything;
  rules.resumes = call.has("resume");
  return rules;
}

Status replace_file(Tree& tree, const Remote& to, const Replacement& made, const CopyRules& rules,
                    const Fill& fill) {
  auto part = begin_file(to, made, rules);
  if (!part) return part.error();
  Status done = fill_and_finish(*part, made, rules, fill);
  if (done) done = to.client->rename(part->temporary.remote.path, to.path);
  if (!done && (!rules.has_part(made.size) || is_source_changed(done.error())))
    remove_later(tree, part->temporary.remote);
  return done;
}

std::vector<Status> write_small(Tree& tree, const Remote& to, const std::vector<SmallFile>& files,
                                const CopyRules& rules) {
  Client& client = *to.client;
  std::vector<Remote> written;
  std::vector<WriteItem> items;
  for (const SmallFile& one : files) {
    written.push_back(to.child(rules.is_hidden ? temporary_name(one.name) : one.name));
    items.push_back({written.back().path, one.data, one.mode});
  }
  const auto results = client.write_many(items);
  std::vector<Status> outcome;
  outcome.reserve(results.size());
  for (const auto& one : results) outcome.push_back(one ? Status() : Status(one.error()));
  if (rules.keep != Keep::nothing) {
    for_each_good(client, outcome, [&](std::size_t i, auto done) {
      // A file that is written under its final name may be reached by a symbolic link.
      client.start_set_attributes(written[i].path, changes_of(files[i], rules), std::move(done),
                                  !rules.is_hidden);
    });
  } else {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (outcome[i]) outcome[i] = clear_set_ids(written[i], results[i]->attributes);
    }
  }
  if (!rules.is_hidden) return outcome;
  for_each_good(client, outcome, [&](std::size_t i, auto done) {
    client.start_rename(written[i].path, to.child(files[i].name).path, std::move(done));
  });
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!outcome[i]) remove_later(tree, written[i]);
  }
  return outcome;
}

Result<std::uint64_t> run_in_steps(Upload& upload, int fd, const std::string& name, FileRange range,
                                   bool sparse, const Moved& moved) {
  std::uint64_t bytes = 0;
  for (std::uint64_t at = range.begin; at < range.end; at += part_step) {
    Source source(fd, true, sparse, {at, std::min(at + part_step, range.end)});
    const auto more = upload.run(source, name, [&](std::uint64_t count) { moved(bytes + count); });
    if (!more) return more.error();
    if (Status synced = upload.file().sync(); !synced) return synced.error();
    bytes += *more;
  }
  return bytes;
}

Status accept_existing(const Remote& directory, const Status& made, bool follow) {
  if (made || made.error().errno_value() != EEXIST) return made;
  const Result<Attributes> there = directory.client->stat(directory.path, follow);
  if (!there) return there.error();
  return there->type == FileType::directory ? Status() : made;
}

Status clear_set_ids(const Remote& file, const std::optional<Attributes>& after) {
  if (after && (after->mode & kSetIds) == 0) return {};
  const auto opened = file.client->open(file.path, OpenMode::write);
  return opened ? clear_set_ids(**opened) : Status(opened.error());
}

Status make_symlink(const Remote& link, const std::string& text, bool replaces) {
  Status done = link.client->symlink(text, link.path);
  if (done || done.error().errno_value() != EEXIST) return done;
  const auto there = link.client->read_link(link.path);
  if (there && *there == text) return {};
  if (!replaces) return done;
  const Remote directory{link.client, std::string(directory_name(link.path)), link.host};
  const Remote temporary = directory.child(temporary_name(base_name(link.path)));
  done = link.client->symlink(text, temporary.path);
  if (done) done = link.client->rename(temporary.path, link.path);
  if (!done) (void)link.client->remove_file(temporary.path);
  return done;
}

}  // namespace nfsrdma::cli
