#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "cli/changes.h"
#include "cli/json.h"
#include "cli/local_tree.h"
#include "cli/remote_file.h"
#include "cli/transfer.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

struct LocalEntry {
  std::string name;
  struct stat facts{};
};

class TreePut {
 public:
  TreePut(Call& call, Tree& tree, Crowd& crowd) : tree_(tree), crowd_(crowd), exact_(call.has("preserve")) {}

  /// Makes `to` if it does not exist, and puts the entries of `from` into it.
  void directory(const LocalDirectory::Ref& from, const Remote& to, const RemoteDirectory::Ref& above);

 private:
  Result<std::vector<LocalEntry>> list(const LocalDirectory::Ref& from);
  void entry(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, LocalEntry& entry,
             std::vector<LocalEntry>& small);
  void together(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to,
                std::vector<LocalEntry> files);
  void alone(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, LocalEntry entry);
  void symlink(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, const LocalEntry& entry);
  Result<Descriptor> open(const LocalDirectory::Ref& from, LocalEntry& entry);
  Result<std::unique_ptr<File>> send(int fd, std::unique_ptr<File> file, const LocalEntry& entry,
                                     const Remote& to, const std::string& path);
  /// Returns true if a new file replaces the existing one, under its name only when owner and mode are final.
  [[nodiscard]] bool is_replaced(const LocalEntry& entry) const {
    return exact_ && need_a_handle(traits_of(entry.facts));
  }
  /// Sets mode and times of a file that was written in place. `after` are its attributes after the write, if
  /// the server gave them.
  Status finish(const Remote& remote, const LocalEntry& entry, const std::optional<Attributes>& after);
  [[nodiscard]] static std::uint32_t mode_of(const LocalEntry& entry) {
    return entry.facts.st_mode & kPermissions & ~creation_mask();
  }

  Tree& tree_;
  Crowd& crowd_;
  const bool exact_;
};

Result<std::vector<LocalEntry>> TreePut::list(const LocalDirectory::Ref& from) {
  const int fd = ::dup(from->fd());
  DIR* const stream = fd < 0 ? nullptr : ::fdopendir(fd);
  if (stream == nullptr) {
    const int fault = errno;
    if (fd >= 0) ::close(fd);
    return local_error(fault, "opendir", from->path());
  }
  std::vector<LocalEntry> out;
  while (const dirent* const one = ::readdir(stream)) {
    LocalEntry found;
    found.name = static_cast<const char*>(one->d_name);
    if (found.name == "." || found.name == "..") continue;
    if (::fstatat(from->fd(), found.name.c_str(), &found.facts, AT_SYMLINK_NOFOLLOW) != 0) {
      tree_.failed(local_error(errno, "stat", from->path(found.name)));
    } else {
      out.push_back(std::move(found));
    }
  }
  ::closedir(stream);
  return out;
}

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
  if (exact_) {
    finish = [to, traits = traits_of(facts)] { return apply_traits(to, traits); };
  } else if (made && mode != wanted) {
    SetAttributes changes;
    changes.mode = wanted;
    finish = [to, changes] { return to.client->set_attributes(to.path, changes); };
  }
  const auto here = std::make_shared<RemoteDirectory>(tree_, to, std::move(finish), above);
  auto entries = list(from);
  if (!entries) return tree_.failed(entries.error());
  std::vector<LocalEntry> small;
  for (LocalEntry& one : *entries) entry(from, here, one, small);
  in_parts(
      std::move(small),
      [](const LocalEntry& one) { return static_cast<std::uint64_t>(one.facts.st_size) + 1; },
      [&](std::vector<LocalEntry> part) {
        crowd_.add([this, from, here, files = std::move(part)] { together(from, here, files); });
      });
}

void TreePut::entry(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, LocalEntry& entry,
                    std::vector<LocalEntry>& small) {
  if (S_ISDIR(entry.facts.st_mode)) {
    crowd_.add([this, from, to, entry] {
      const auto below = LocalDirectory::open_in(from, entry.name);
      if (!below) return tree_.failed(below.error());
      directory(*below, to->remote().child(entry.name), to);
    });
  } else if (S_ISLNK(entry.facts.st_mode)) {
    crowd_.add([this, from, to, entry] { symlink(from, to, entry); });
  } else if (!S_ISREG(entry.facts.st_mode)) {
    tree_.failed(Error(ErrorKind::local, EOPNOTSUPP, "put", from->path(entry.name),
                       "is a device, a FIFO or a socket; skipped"));
  } else if (static_cast<std::uint64_t>(entry.facts.st_size) <= small_file && !is_replaced(entry)) {
    small.push_back(std::move(entry));
  } else {
    crowd_.add([this, from, to, entry] { alone(from, to, entry); });
  }
}

Status TreePut::finish(const Remote& remote, const LocalEntry& entry,
                       const std::optional<Attributes>& after) {
  if (!exact_) return clear_set_ids(remote, after);
  const Traits traits = traits_of(entry.facts);  // without set-id bits: is_replaced()
  SetAttributes changes;
  changes.mode = traits.mode;
  changes.accessed = traits.accessed;
  changes.modified = traits.modified;
  return remote.client->set_attributes(remote.path, changes);
}

/// Opens the file, and reads its attributes again: since it was listed it may have become another file, or
/// longer.
Result<Descriptor> TreePut::open(const LocalDirectory::Ref& from, LocalEntry& entry) {
  Descriptor fd(::openat(from->fd(), entry.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return local_error(errno, "open", from->path(entry.name));
  if (::fstat(fd.get(), &entry.facts) != 0) return local_error(errno, "stat", from->path(entry.name));
  if (S_ISREG(entry.facts.st_mode)) return fd;
  return Error(ErrorKind::local, EBUSY, "put", from->path(entry.name),
               "is no longer a regular file; skipped");
}

void TreePut::together(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to,
                       std::vector<LocalEntry> files) {
  if (!tree_.going()) return;
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const LocalEntry& one : files) sizes.push_back(static_cast<std::uint64_t>(one.facts.st_size));
  Rooms rooms(sizes);
  std::vector<WriteItem> items;
  std::vector<const LocalEntry*> sent;
  for (std::size_t i = 0; i < files.size(); ++i) {
    LocalEntry& one = files[i];
    const auto fd = open(from, one);
    if (!fd) {
      tree_.failed(fd.error());
      continue;
    }
    std::size_t length = 0;
    ssize_t count = 1;
    while (count > 0 && length < rooms[i].size()) {
      count = ::read(fd->get(), rooms[i].data() + length, rooms[i].size() - length);
      if (count > 0) length += static_cast<std::size_t>(count);
    }
    if (count < 0) {
      tree_.failed(local_error(errno, "read", from->path(one.name)));
      continue;
    }
    const bool has_grown =
        length > sizes[i] || (length != 0 && length == rooms[i].size() && ::read(fd->get(), &count, 1) == 1);
    if (has_grown || has_changed(fd->get(), one.facts)) {
      alone(from, to, one);
      continue;
    }
    items.push_back({join(to->remote().path, one.name), rooms[i].first(length), mode_of(one)});
    sent.push_back(&one);
  }
  const auto results = to->remote().client->write_many(items);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Status done = results[i] ? finish(to->remote().child(sent[i]->name), *sent[i], results[i]->attributes)
                             : Status(results[i].error());
    if (!done) {
      tree_.failed(done.error());
      continue;
    }
    bytes += items[i].data.size();
    tree_.count_file();
  }
  tree_.moved(bytes);
}

Result<std::unique_ptr<File>> TreePut::send(int fd, std::unique_ptr<File> file, const LocalEntry& entry,
                                            const Remote& to, const std::string& path) {
  const auto size = static_cast<std::uint64_t>(entry.facts.st_size);
  auto upload = make_upload(*to.client, std::move(file), size);
  if (!upload) return upload.error();
  Source source(fd, true, exact_);
  if (auto done = upload->run(source, path, tree_.progress_of_one()); !done) return done.error();
  const std::uint64_t end = upload->end();
  file = upload->take_file();
  if (Status synced = file->sync(); !synced) return synced.error();
  if (has_changed(fd, entry.facts)) return source_changed("put", path);
  if (end < size) {  // the file ends in a hole
    SetAttributes longer;
    longer.size = size;
    if (Status done = file->set_attributes(longer); !done) return done.error();
  }
  return file;
}

void TreePut::alone(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, LocalEntry entry) {
  if (!tree_.going()) return;
  const auto fd = open(from, entry);
  if (!fd) return tree_.failed(fd.error());
  const Remote remote = to->remote().child(entry.name);
  const auto fill = [&](std::unique_ptr<File> file) {
    return send(fd->get(), std::move(file), entry, remote, from->path(entry.name));
  };
  Status done;
  if (is_replaced(entry)) {
    done = replace_exactly(tree_, remote, traits_of(entry.facts), fill);
  } else {
    OpenFlags flags;
    flags.create = flags.truncate = true;
    flags.mode = mode_of(entry);
    auto file = remote.client->open(remote.path, OpenMode::write, flags);
    if (file) file = fill(*std::move(file));
    if (!file) return tree_.failed(file.error());
    done = exact_ ? apply_traits(**file, traits_of(entry.facts)) : clear_set_ids(**file);
    const Status closed = (*file)->close();
    if (done) done = closed;
  }
  if (!done) return tree_.failed(done.error());
  tree_.count_file();
}

void TreePut::symlink(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to,
                      const LocalEntry& entry) {
  std::array<char, PATH_MAX> text{};
  const ssize_t length = ::readlinkat(from->fd(), entry.name.c_str(), text.data(), text.size());
  if (length < 0) return tree_.failed(local_error(errno, "readlink", from->path(entry.name)));
  const std::string wanted(text.data(), static_cast<std::size_t>(length));
  const Remote remote = to->remote().child(entry.name);
  if (Status done = make_symlink(remote, wanted); !done) return tree_.failed(done.error());
  tree_.count_file();
}

}  // namespace

Status accept_existing(const Remote& directory, const Status& made, bool follow) {
  if (made || made.error().errno_value() != EEXIST) return made;
  const Result<Attributes> there = directory.client->stat(directory.path, follow);
  if (!there) return there.error();
  return there->type == FileType::directory ? Status() : made;
}

Status replace_exactly(Tree& tree, const Remote& to, const Traits& traits, const Fill& fill) {
  Result<RemoteTemporary> temporary = create_temporary(to, kPrivateFile, OpenMode::read_write);
  if (!temporary) return temporary.error();
  Status done;
  if (Result<std::unique_ptr<File>> file = fill(std::move(temporary->file))) {
    done = (*file)->sync();
    if (done) done = apply_traits(**file, traits);
    const Status closed = (*file)->close();
    if (done) done = closed;
  } else {
    done = file.error();
  }
  if (done) done = to.client->rename(temporary->remote.path, to.path);
  if (done) return done;
  tree.complete([remote = temporary->remote] {
    Status removed = remote.client->remove_file(remote.path);
    return !removed && removed.error().errno_value() == ENOENT ? Status() : removed;
  });
  return done;
}

Status clear_set_ids(const Remote& file, const std::optional<Attributes>& after) {
  if (after && (after->mode & kSetIds) == 0) return {};
  const auto opened = file.client->open(file.path, OpenMode::write);
  return opened ? clear_set_ids(**opened) : Status(opened.error());
}

Status make_symlink(const Remote& link, const std::string& text) {
  Status done = link.client->symlink(text, link.path);
  if (done || done.error().errno_value() != EEXIST) return done;
  const auto there = link.client->read_link(link.path);
  return there && *there == text ? Status() : done;
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
  TreePut put(call, tree, crowd);
  crowd.add([&] { put.directory(*source, *target, nullptr); });
  crowd.run();
  tree.settle();
  if (interrupt::raised()) return say_interrupted(call, from, is_inside ? target->target() : to.target());
  progress.finish(tree.bytes());
  if (call.json()) {
    call.out.line(json::Object()
                      .text("source", from)
                      .text("destination", target->text())
                      .number("files", tree.files())
                      .number("bytes", tree.bytes())
                      .str());
  }
}

}  // namespace nfsrdma::cli
