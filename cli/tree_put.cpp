#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "cli/json.h"
#include "cli/local_tree.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

struct LocalEntry {
  std::string name;
  struct stat facts{};
};

Time time_of(const timespec& time) {
  return {time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)};
}

SetAttributes traits_of(const struct stat& facts) {
  SetAttributes out;
  out.mode = facts.st_mode & 07777U;
  out.accessed = time_of(facts.st_atim);
  out.modified = time_of(facts.st_mtim);
  return out;
}

/// Gets its mode and times when nothing is in work any more below it.
class RemoteDirectory {
 public:
  using Ref = std::shared_ptr<RemoteDirectory>;
  RemoteDirectory(Tree& tree, Remote remote, std::optional<SetAttributes> traits, Ref above)
      : tree_(tree), remote_(std::move(remote)), traits_(traits), above_(std::move(above)) {}
  ~RemoteDirectory() {
    if (traits_) tree_.complete(remote_, *traits_);
  }
  RemoteDirectory(const RemoteDirectory&) = delete;
  RemoteDirectory& operator=(const RemoteDirectory&) = delete;
  [[nodiscard]] const Remote& remote() const { return remote_; }

 private:
  Tree& tree_;
  const Remote remote_;
  const std::optional<SetAttributes> traits_;
  const Ref above_;
};

class TreePut {
 public:
  TreePut(Call& call, Tree& tree, Crowd& crowd) : tree_(tree), crowd_(crowd), exact_(call.has("preserve")) {}

  /// `to` is made first, or is there.
  void directory(const LocalDirectory::Ref& from, const Remote& to, const RemoteDirectory::Ref& above);

 private:
  Result<std::vector<LocalEntry>> list(const LocalDirectory::Ref& from);
  void entry(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, LocalEntry& entry,
             std::vector<LocalEntry>& small);
  void together(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to,
                const std::vector<LocalEntry>& files);
  void large(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, const LocalEntry& entry);
  void symlink(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to, const LocalEntry& entry);
  Status send(int fd, File& file, const std::string& path);
  /// Of a file that is there.
  void finish(const Remote& remote, const LocalEntry& entry);
  [[nodiscard]] static std::uint32_t mode_of(const LocalEntry& entry) {
    return entry.facts.st_mode & 0777U & ~creation_mask();
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
  // Its owner's to write in until all is there.
  const std::uint32_t mode = (facts.st_mode & 0777U & ~creation_mask()) | 0300U;
  const Status made = to.client->make_directory(to.path, mode);
  if (Status there = accept_existing(to, made); !there) return tree_.failed(there.error());
  std::optional<SetAttributes> traits;
  if (exact_) traits = traits_of(facts);
  if (!traits && made && mode != (facts.st_mode & 0777U & ~creation_mask())) {
    traits.emplace().mode = facts.st_mode & 0777U & ~creation_mask();
  }
  const auto here = std::make_shared<RemoteDirectory>(tree_, to, traits, above);
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
                       "is a device, a FIFO or a socket, which is left out"));
  } else if (static_cast<std::uint64_t>(entry.facts.st_size) <= small_file) {
    small.push_back(std::move(entry));
  } else {
    crowd_.add([this, from, to, entry] { large(from, to, entry); });
  }
}

void TreePut::finish(const Remote& remote, const LocalEntry& entry) {
  if (exact_) {
    if (Status done = remote.client->set_attributes(remote.path, traits_of(entry.facts)); !done)
      return tree_.failed(done.error());
  }
  tree_.count_file();
}

void TreePut::together(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to,
                       const std::vector<LocalEntry>& files) {
  if (!tree_.going()) return;
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const LocalEntry& one : files) sizes.push_back(static_cast<std::uint64_t>(one.facts.st_size));
  Rooms rooms(sizes);
  std::vector<WriteItem> items;
  std::vector<const LocalEntry*> sent;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const LocalEntry& one = files[i];
    const Descriptor fd(
        ::openat(from->fd(), one.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0) {
      tree_.failed(local_error(errno, "open", from->path(one.name)));
      continue;
    }
    std::size_t length = 0;
    ssize_t count = 1;
    while (count > 0 && length < rooms[i].size()) {
      count = ::read(fd.get(), rooms[i].data() + length, rooms[i].size() - length);
      if (count > 0) length += static_cast<std::size_t>(count);
    }
    if (count < 0) {
      tree_.failed(local_error(errno, "read", from->path(one.name)));
      continue;
    }
    if (length > sizes[i] || (length != 0 && length == rooms[i].size() && ::read(fd.get(), &count, 1) == 1)) {
      large(from, to, one);  // it has grown
      continue;
    }
    items.push_back({join(to->remote().path, one.name), rooms[i].first(length), mode_of(one)});
    sent.push_back(&one);
  }
  const auto results = to->remote().client->write_many(items);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!results[i]) {
      tree_.failed(results[i].error());
      continue;
    }
    bytes += items[i].data.size();
    finish(to->remote().child(sent[i]->name), *sent[i]);
  }
  tree_.moved(bytes);
}

Status TreePut::send(int fd, File& file, const std::string& path) {
  std::vector<std::byte> memory(large_piece);
  for (std::uint64_t offset = 0; tree_.going();) {
    const ssize_t count = ::pread(fd, memory.data(), memory.size(), static_cast<off_t>(offset));
    if (count < 0) return local_error(errno, "read", path);
    if (count == 0) return file.sync();
    const auto put = file.write(std::span(memory).first(static_cast<std::size_t>(count)), offset);
    if (!put) return put.error();
    offset += static_cast<std::uint64_t>(count);
    tree_.moved(static_cast<std::uint64_t>(count));
  }
  return Error(ErrorKind::cancelled, EINTR, "put", path, "interrupted");
}

void TreePut::large(const LocalDirectory::Ref& from, const RemoteDirectory::Ref& to,
                    const LocalEntry& entry) {
  if (!tree_.going()) return;
  const Descriptor fd(
      ::openat(from->fd(), entry.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return tree_.failed(local_error(errno, "open", from->path(entry.name)));
  const Remote remote = to->remote().child(entry.name);
  OpenFlags flags;
  flags.create = flags.truncate = true;
  flags.mode = mode_of(entry);
  auto file = remote.client->open(remote.path, OpenMode::write, flags);
  if (!file) return tree_.failed(file.error());
  Status done = send(fd.get(), **file, from->path(entry.name));
  const Status closed = (*file)->close();
  if (done) done = closed;
  if (!done) return tree_.failed(done.error());
  finish(remote, entry);
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

Status accept_existing(const Remote& directory, const Status& made) {
  if (made || made.error().errno_value() != EEXIST) return made;
  const Result<Attributes> there = directory.client->stat(directory.path);
  if (!there) return there.error();
  return there->type == FileType::directory ? Status() : made;
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
  const bool is_inside = there && there->type == FileType::directory && is_plain_name(name);
  const Remote target = is_inside ? to.child(name) : to;
  Progress progress(std::string(name), {}, !call.has("quiet"));
  Tree tree(call, progress);
  Crowd crowd;
  TreePut put(call, tree, crowd);
  crowd.add([&] { put.directory(*source, target, nullptr); });
  crowd.run();
  tree.settle();
  if (interrupt::raised()) return call.failed({ErrorKind::cancelled, EINTR, "", "", "interrupted"});
  progress.finish(tree.bytes());
  if (call.json()) {
    call.out.line(json::Object()
                      .text("source", from)
                      .text("destination", target.text())
                      .number("files", tree.files())
                      .number("bytes", tree.bytes())
                      .str());
  }
}

}  // namespace nfsrdma::cli
