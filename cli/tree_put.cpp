#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cli/changes.h"
#include "cli/json.h"
#include "cli/local_tree.h"
#include "cli/remote_file.h"
#include "cli/source_copier.h"
#include "cli/sync_walk.h"
#include "cli/transfer.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

class TreePut final : public SourceCopier<LocalEntry> {
 public:
  TreePut(Tree& tree, Crowd& crowd, const CopyRules& rules) : SourceCopier(tree, crowd, rules) {}

  /// Makes `to` if it does not exist, and puts the entries of `from` into it.
  void directory(const LocalDirectory::Ref& from, const Remote& to, const RemoteDirectory::Ref& above);
  void copy(const std::shared_ptr<const Between>& where, std::vector<TreeEntry> entries) override;
  [[nodiscard]] Keep keep() const { return rules_.keep; }

 private:
  [[nodiscard]] bool needs_handle(const LocalEntry& entry) const override {
    return rules_.keep == Keep::everything && need_a_handle(traits_of(entry.facts));
  }
  Status link(const Where& where, const std::string& name, const std::string& text) override {
    return make_symlink(where->to.remote().child(name), text, rules_.is_hidden);
  }
  void together(const Where& where, std::vector<LocalEntry> files) override;
  /// Reads a small file into `room`. Nothing: it was reported, or is copied by itself.
  std::optional<SmallFile> read(const Where& where, LocalEntry& entry, std::span<std::byte> room);
  void alone(const Where& where, LocalEntry entry) override;
  /// Has a part get the permissions of the file that it replaces.
  void keep_mode(const Remote& to, LocalEntry& entry) const;
  Status in_place(const Remote& to, const LocalEntry& entry, const Fill& fill);
  Result<std::unique_ptr<File>> send(int fd, std::unique_ptr<File> file, std::uint64_t begin,
                                     const LocalEntry& entry, const Remote& to, const std::string& path);
  Result<std::uint64_t> send_data(Upload& upload, int fd, std::uint64_t begin, const LocalEntry& entry,
                                  const std::string& path);
  [[nodiscard]] bool resumes(const LocalEntry& entry) const { return rules_.has_part(entry.size()); }
  /// Returns true if a new file replaces the existing one, under its name only when it is complete.
  [[nodiscard]] bool is_replaced(const LocalEntry& entry) const {
    return needs_handle(entry) || rules_.is_hidden || resumes(entry);
  }
  [[nodiscard]] static std::uint32_t mode_of(const LocalEntry& entry) {
    return entry.kept_mode.value_or(entry.facts.st_mode & kPermissions & ~creation_mask());
  }
};

void TreePut::directory(const LocalDirectory::Ref& from, const Remote& to,
                        const RemoteDirectory::Ref& above) {
  if (!tree_.going()) return;
  struct stat facts{};
  if (::fstat(from->fd(), &facts) != 0) return tree_.failed(local_error(errno, "stat", from->path()));
  // The owner gets write and search permission until the directory is complete.
  const std::uint32_t mode = (facts.st_mode & kPermissions & ~creation_mask()) | 0300U;
  const Status made = to.client->make_directory(to.path, mode);
  if (Status there = accept_existing(to, made, above == nullptr); !there) return tree_.failed(there.error());
  std::function<Status()> finish;
  const std::uint32_t wanted = facts.st_mode & kPermissions & ~creation_mask();
  if (rules_.keep == Keep::everything) {
    finish = [to, traits = traits_of(facts)] { return apply_traits(to, traits); };
  } else if (made && mode != wanted) {
    SetAttributes changes;
    changes.mode = wanted;
    finish = [to, changes] { return to.client->set_attributes(to.path, changes); };
  }
  const auto here = std::make_shared<RemoteDirectory>(tree_, to, std::move(finish), above);
  auto all = from->list([&](const Error& error) { tree_.failed(error); });
  if (!all) return tree_.failed(all.error());
  std::vector<LocalEntry> others;
  for (LocalEntry& one : *all) {
    if (!S_ISDIR(one.facts.st_mode)) {
      others.push_back(std::move(one));
      continue;
    }
    crowd_.add([this, from, here, name = one.name] {
      const auto below = LocalDirectory::open_in(from, name);
      if (!below) return tree_.failed(below.error());
      directory(*below, here->remote().child(name), here);
    });
  }
  // The tasks hold the directory that they work in.
  const auto held = [here](const std::string&, std::uint64_t) {};
  sort(std::make_shared<const Between>(from, to, held), std::move(others));
}

void TreePut::copy(const Where& where, std::vector<TreeEntry> entries) {
  std::vector<LocalEntry> found;
  for (const TreeEntry& one : entries) {
    auto entry = where->from.local()->entry(one.name);
    if (!entry) {
      tree_.failed(entry.error());
      continue;
    }
    entry->kept_mode = one.kept_mode;
    found.push_back(*std::move(entry));
  }
  sort(where, std::move(found));
}

std::optional<SmallFile> TreePut::read(const Where& where, LocalEntry& entry, std::span<std::byte> room) {
  const LocalDirectory& from = *where->from.local();
  const std::uint64_t size = entry.size();
  const auto fd = from.open_file(entry, tree_.operation());
  if (!fd) {
    tree_.failed(fd.error());
    return std::nullopt;
  }
  std::size_t length = 0;
  ssize_t count = 1;
  while (count > 0 && length < room.size()) {
    count = ::read(fd->get(), room.data() + length, room.size() - length);
    if (count > 0) length += static_cast<std::size_t>(count);
  }
  if (count < 0) {
    tree_.failed(local_error(errno, "read", from.path(entry.name)));
    return std::nullopt;
  }
  const bool has_grown =
      length > size || (length != 0 && length == room.size() && ::read(fd->get(), &count, 1) == 1);
  if (has_grown || has_changed(fd->get(), entry.facts)) {
    alone(where, entry);
    return std::nullopt;
  }
  return SmallFile{entry.name, room.first(length), mode_of(entry), traits_of(entry.facts)};
}

void TreePut::together(const Where& where, std::vector<LocalEntry> files) {
  if (!tree_.going()) return;
  Rooms rooms(files);
  std::vector<SmallFile> sent;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (auto one = read(where, files[i], rooms[i])) sent.push_back(*std::move(one));
  }
  const auto done = write_small(tree_, where->to.remote(), sent, rules_);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (!done[i]) {
      tree_.failed(done[i].error());
      continue;
    }
    bytes += sent[i].data.size();
    copied(where, sent[i].name, sent[i].data.size());
  }
  tree_.moved(bytes);
}

Result<std::uint64_t> TreePut::send_data(Upload& upload, int fd, std::uint64_t begin, const LocalEntry& entry,
                                         const std::string& path) {
  const std::uint64_t size = entry.size();
  if (resumes(entry))
    return run_in_steps(upload, fd, path, {begin, size}, rules_.keeps_holes(), tree_.progress_of_one());
  if (!is_replaced(entry)) upload.hold_last(size);
  Source source(fd, true, rules_.keeps_holes());
  return upload.run(source, path, tree_.progress_of_one());
}

Result<std::unique_ptr<File>> TreePut::send(int fd, std::unique_ptr<File> file, std::uint64_t begin,
                                            const LocalEntry& entry, const Remote& to,
                                            const std::string& path) {
  const std::uint64_t size = entry.size();
  auto upload = make_upload(*to.client, std::move(file), size, tree_.rate());
  if (!upload) return upload.error();
  if (auto done = send_data(*upload, fd, begin, entry, path); !done) return done.error();
  const std::uint64_t end = std::max(upload->end(), begin);
  file = upload->take_file();
  if (Status synced = file->sync(); !synced) return synced.error();
  if (has_changed(fd, entry.facts)) return source_changed(tree_.operation(), path);
  if (end < size) {  // the file ends in a hole
    SetAttributes longer;
    longer.size = size;
    if (Status done = file->set_attributes(longer); !done) return done.error();
  }
  return file;
}

Status TreePut::in_place(const Remote& to, const LocalEntry& entry, const Fill& fill) {
  OpenFlags flags;
  flags.create = flags.truncate = true;
  flags.mode = mode_of(entry);
  auto file = to.client->open(to.path, OpenMode::write, flags);
  if (file) file = fill(*std::move(file), 0);
  if (!file) return file.error();
  const bool is_exact = rules_.keep == Keep::everything;
  const Status done = is_exact ? apply_traits(**file, traits_of(entry.facts)) : clear_set_ids(**file);
  const Status closed = (*file)->close();
  return done ? closed : done;
}

void TreePut::alone(const Where& where, LocalEntry entry) {
  if (!tree_.going()) return;
  const LocalDirectory& from = *where->from.local();
  const auto fd = from.open_file(entry, tree_.operation());
  if (!fd) return tree_.failed(fd.error());
  const Remote remote = where->to.remote().child(entry.name);
  keep_mode(remote, entry);
  const std::uint64_t size = entry.size();
  const auto fill = [&](std::unique_ptr<File> file, std::uint64_t begin) {
    return send(fd->get(), std::move(file), begin, entry, remote, from.path(entry.name));
  };
  const Status done =
      is_replaced(entry)
          ? replace_file(tree_, remote, {traits_of(entry.facts), size, mode_of(entry)}, rules_, fill)
          : in_place(remote, entry, fill);
  if (!done) return tree_.failed(done.error());
  copied(where, entry.name, size);
}

void TreePut::keep_mode(const Remote& to, LocalEntry& entry) const {
  if (rules_.keep != Keep::nothing || entry.kept_mode || !resumes(entry)) return;
  const auto there = to.client->stat(to.path);
  if (there && there->type == FileType::regular) entry.kept_mode = there->mode & kPermissions;
}

/// Puts what is not up to date into the directory `to`, which is made if it is missing.
Status update(Tree& tree, Crowd& crowd, TreePut& put, const LocalDirectory::Ref& from, const Remote& to) {
  struct stat facts{};
  if (::fstat(from->fd(), &facts) != 0) return local_error(errno, "stat", from->path());
  const Result<TreeRoot> root = make_root(to, facts.st_mode);
  if (!root) return root.error();
  update_tree({tree, crowd, put, {}, nullptr}, put.keep(), from, attributes_of(facts), *root);
  return {};
}

}  // namespace

std::unique_ptr<EntryCopier> make_putter(Tree& tree, Crowd& crowd, const CopyRules& rules) {
  return std::make_unique<TreePut>(tree, crowd, rules);
}

void put_tree(Call& call, const std::string& from, const Remote& to) {
  const auto source = LocalDirectory::open(from);
  if (!source) return call.failed(source.error());
  const Result<Attributes> there = to.client->stat(to.path);
  if (!there && there.error().errno_value() != ENOENT) return call.failed(there.error());
  const std::string_view name = base_name(from);
  const bool is_inside =
      there && there->type == FileType::directory && is_plain_name(name) && !call.has("no-target-directory");
  const Result<Remote> target = is_inside ? to.child(name) : without_links(to);
  if (!target) return call.failed(target.error());
  Progress progress(std::string(name), {}, !call.has("quiet"));
  Tree tree(call, progress);
  Crowd crowd;
  TreePut put(tree, crowd, rules_of(call));
  if (call.has("update")) {
    if (Status done = update(tree, crowd, put, *source, *target); !done) call.failed(done.error());
  } else {
    crowd.add([&] { put.directory(*source, *target, nullptr); });
    crowd.run();
  }
  tree.settle();
  if (interrupt::raised()) return say_interrupted(call, from, is_inside ? target->target() : to.target());
  progress.finish(tree.bytes());
  if (call.json()) {
    call.out.line(json::Object()
                      .text("action", "put")
                      .text("target", target->text())
                      .text("source", from)
                      .text("destination", target->text())
                      .number("files", tree.files())
                      .number("bytes", tree.bytes())
                      .str());
  }
}

}  // namespace nfsrdma::cli
