// See tree_spot.h.
#include "cli/tree_spot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "cli/remote_file.h"
#include "cli/started_calls.h"

namespace nfsrdma::cli {
namespace {

/// Returns the attributes that are set if no owner is kept.
SetAttributes changes_of(const Attributes& traits, Keep keep) {
  SetAttributes changes;
  changes.modified = traits.modified;
  if (keep == Keep::everything) {
    changes.mode = traits.mode;
    changes.accessed = traits.accessed;
  }
  return changes;
}

Status set_remote(const Remote& file, const Attributes& traits, Keep keep) {
  if (keep != Keep::everything || !need_a_handle(traits_of(traits)))
    return file.client->set_attributes(file.path, changes_of(traits, keep), false);
  const auto named = file.client->stat(file.path, false);
  if (!named) return named.error();
  const auto opened = file.client->open(file.path, OpenMode::write);
  if (!opened) return opened.error();
  const auto now = (*opened)->attributes();
  if (!now) return now.error();
  if (!are_same(*named, *now))
    return Error(ErrorKind::usage, EBUSY, "set attributes", file.text(),
                 "has become a symbolic link; skipped");
  return apply_traits(**opened, traits_of(traits));
}

Status set_local(const LocalDirectory& directory, const std::string& name, const Attributes& traits,
                 Keep keep) {
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor fd(::openat(directory.fd(), name.c_str(), flags));
  if (fd.get() < 0) return local_error(errno, "open", directory.path(name));
  int fault = 0;
  if (keep == Keep::everything) {
    // The mode is private until the owner is final, because the new mode is meant for the new owner.
    fault = ::fchmod(fd.get(), kPrivateFile) == 0 ? apply_traits(fd.get(), traits_of(traits)) : errno;
  } else {
    fault = apply_modified(fd.get(), traits.modified);
  }
  return fault == 0 ? Status() : Status(local_error(fault, "set mode and times", directory.path(name)));
}

Status remove_local(const LocalDirectory& directory, const TreeEntry& entry) {
  const int flags = entry.attributes.type == FileType::directory ? AT_REMOVEDIR : 0;
  if (::unlinkat(directory.fd(), entry.name.c_str(), flags) == 0 || errno == ENOENT) return {};
  return local_error(errno, "remove", directory.path(entry.name));
}

/// A name that is gone already is as good as removed.
Status without_absence(const Status& removed) {
  return !removed && removed.error().errno_value() == ENOENT ? Status() : removed;
}

}  // namespace

std::string TreeSpot::text(const std::string& name) const {
  if (is_local()) return name.empty() ? local_->path() : local_->path(name);
  return name.empty() ? remote_.text() : remote_.child(name).text();
}

Result<TreeSpot::Listing> TreeSpot::list(Tree& tree) const {
  Listing out;
  if (!is_local()) {
    std::size_t left_out = 0;
    auto entries = tree.list(remote_, &left_out);
    if (!entries) return entries.error();
    return Listing{*std::move(entries), left_out == 0};
  }
  const auto failed = [&](const Error& error) {
    out.is_whole = false;
    tree.failed(error);
  };
  const auto entries = local_->list(failed);
  if (!entries) return entries.error();
  out.entries.reserve(entries->size());
  for (const LocalEntry& one : *entries) out.entries.push_back({one.name, attributes_of(one.facts)});
  return out;
}

Result<TreeEntry> TreeSpot::entry(const std::string& name) const {
  if (is_local()) {
    const auto found = local_->entry(name);
    if (!found) return found.error();
    return TreeEntry{name, attributes_of(found->facts)};
  }
  const auto found = remote_.client->stat(remote_.child(name).path, false);
  if (!found) return found.error();
  return TreeEntry{name, *found};
}

Result<TreeSpot> TreeSpot::child(const std::string& name) const {
  if (!is_local()) return TreeSpot(remote_.child(name));
  auto below = LocalDirectory::open_in(local_, name);
  if (!below) return below.error();
  return TreeSpot(*std::move(below));
}

Result<TreeSpot> TreeSpot::make_child(const std::string& name, const Attributes& traits) const {
  if (is_local()) {
    auto below = LocalDirectory::make_in(local_, name, traits, Keep::nothing);
    if (!below) return below.error();
    return TreeSpot(*std::move(below));
  }
  const Remote below = remote_.child(name);
  const std::uint32_t mode = (traits.mode & kPermissions & ~creation_mask()) | 0300U;
  if (Status made = below.client->make_directory(below.path, mode); !made) return made.error();
  return TreeSpot(below);
}

Result<std::string> TreeSpot::read_link(const std::string& name) const {
  if (!is_local()) return remote_.client->read_link(remote_.child(name).path);
  std::array<char, PATH_MAX> text{};
  const ssize_t length = ::readlinkat(local_->fd(), name.c_str(), text.data(), text.size());
  if (length < 0) return local_error(errno, "readlink", local_->path(name));
  return std::string(text.data(), static_cast<std::size_t>(length));
}

Result<FileSum> TreeSpot::sum(const TreeEntry& file, Tree& tree, bool from_disk) const {
  if (is_local()) return sum_of(*local_, file.name, tree.operation(), from_disk);
  // Bytes that are only compared count for the limit, and not for the progress of the copy.
  const Moved paced = [&tree, before = std::uint64_t{0}](std::uint64_t bytes) mutable {
    tree.pace(bytes - std::exchange(before, bytes));
  };
  return sum_of(remote_.child(file.name), file.attributes, tree.operation(), paced, tree.rate());
}

Status TreeSpot::set_traits(const std::string& name, const Attributes& traits, Keep keep) const {
  return is_local() ? set_local(*local_, name, traits, keep) : set_remote(remote_.child(name), traits, keep);
}

Status TreeSpot::remove(const TreeEntry& entry) const {
  if (is_local()) return remove_local(*local_, entry);
  const std::string path = remote_.child(entry.name).path;
  const bool is_directory = entry.attributes.type == FileType::directory;
  return without_absence(is_directory ? remote_.client->remove_directory(path)
                                      : remote_.client->remove_file(path));
}

std::vector<Status> TreeSpot::remove_files(const std::vector<TreeEntry>& files) const {
  std::vector<Status> out;
  out.reserve(files.size());
  if (is_local()) {
    for (const TreeEntry& one : files) out.push_back(remove_local(*local_, one));
    return out;
  }
  for (std::size_t from = 0; from < files.size(); from += most_together) {
    const std::size_t count = std::min(most_together, files.size() - from);
    const auto removed = run_together(*remote_.client, count, [&](std::size_t i, auto done) {
      remote_.client->start_remove_file(remote_.child(files[from + i].name).path, std::move(done));
    });
    for (const Status& one : removed) out.push_back(without_absence(one));
  }
  return out;
}

}  // namespace nfsrdma::cli
