#include <algorithm>
#include <cerrno>
#include <optional>

#include "cli/changes.h"
#include "cli/remote_file.h"
#include "cli/transfer.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

/// Writes what a download brings to another file of the server.
class RemoteSink final : public LocalEnd {
 public:
  explicit RemoteSink(File& target) : target_(target) {}
  int run(Chunk& chunk, const StopFlag& /*stop*/) override {
    for (std::size_t at = 0; at < chunk.length;) {
      const auto put = target_.write(chunk.memory.subspan(at, chunk.length - at), chunk.offset + at);
      if (!put) {
        error_ = put.error();
        return put.error().errno_value() != 0 ? put.error().errno_value() : EIO;
      }
      at += *put;
    }
    return 0;
  }
  /// The server's reason for refusing a write, if it refused one. Call it when the download has ended.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  File& target_;
  std::optional<Error> error_;
};

/// Copies from `offset` on by reading and writing. `from` is where the source was opened.
Status pump(Tree& tree, const Remote& from, RemoteSource source, File& target, std::uint64_t offset) {
  const Attributes before = source.attributes;
  auto download = make_download(*from.client, std::move(source), Download::Holes::read);
  if (!download) return download.error();
  download->begin_at(offset);
  RemoteSink sink(target);
  const auto size = download->run(sink, from.text(), tree.progress_of_one());
  if (sink.error()) return *sink.error();
  return size ? check_unchanged(download->file(), before, "cp", from.text()) : Status(size.error());
}

/// Returns true if the server does not copy, or not these two files (RFC 7862 15.2.3). If a file may not be
/// read or written either, pump() reports that.
bool is_declined(const Error& error) {
  const int code = error.errno_value();
  return code == EOPNOTSUPP || (error.kind() == ErrorKind::server && (code == EXDEV || code == EPERM));
}

/// Checks that the source of a copy within the server is unchanged. Times are compared in place of the change
/// attribute, because cloning a file may count as a change of it (XFS marks its blocks as shared).
Status check_copied(const RemoteSource& source, const Remote& from) {
  const Result<Attributes> now = source.file->attributes();
  if (!now) return now.error();
  const bool same = now->size == source.attributes.size && !have_other_times(source.attributes, *now);
  return same ? Status() : Status(source_changed("cp", from.text()));
}

Status copy_data(Tree& tree, const Remote& from, RemoteSource source, File& target) {
  constexpr std::uint64_t step = 64U << 20;  // so that progress shows
  for (std::uint64_t offset = 0; tree.going();) {
    const auto copied = target.copy_from(*source.file, offset, offset, step);
    if (!copied && is_declined(copied.error())) return pump(tree, from, std::move(source), target, offset);
    if (!copied) return copied.error();
    if (*copied == 0) return check_copied(source, from);
    offset += *copied;
    tree.moved(*copied);
  }
  return Error(ErrorKind::cancelled, EINTR, "cp", "", "interrupted");
}

class TreeCopy {
 public:
  TreeCopy(Call& call, Tree& tree, Crowd& crowd) : tree_(tree), crowd_(crowd), exact_(call.has("preserve")) {}
  void directory(const Remote& from, const Remote& to, const Attributes& traits,
                 const RemoteDirectory::Ref& above);

 private:
  void together(const Remote& from, const Remote& to, const std::vector<TreeEntry>& files);
  void symlink(const Remote& from, const Remote& to);

  Tree& tree_;
  Crowd& crowd_;
  const bool exact_;
  std::optional<Attributes> copy_;  // the topmost directory that is made; set before there are further tasks
};

void TreeCopy::symlink(const Remote& from, const Remote& to) {
  const auto text = from.client->read_link(from.path);
  const Status done = text ? make_symlink(to, *text) : Status(text.error());
  if (!done) return tree_.failed(done.error());
  tree_.count_file();
}

void TreeCopy::directory(const Remote& from, const Remote& to, const Attributes& traits,
                         const RemoteDirectory::Ref& above) {
  if (!tree_.going()) return;
  const std::uint32_t mode = traits.mode & kPermissions & ~creation_mask();
  const Status made = to.client->make_directory(to.path, mode | 0300U);
  if (Status there = accept_existing(to, made, above == nullptr); !there) return tree_.failed(there.error());
  std::function<Status()> finish;
  if (exact_) {
    finish = [to, exact = traits_of(traits)] { return apply_traits(to, exact); };
  } else if (made && (mode & 0300U) != 0300U) {
    SetAttributes changes;
    changes.mode = mode;
    finish = [to, changes] { return to.client->set_attributes(to.path, changes); };
  }
  const auto here = std::make_shared<RemoteDirectory>(tree_, to, std::move(finish), above);
  if (!copy_) {
    const auto there = to.client->stat(to.path);
    if (!there) return tree_.failed(there.error());
    copy_ = *there;
  }
  auto entries = tree_.list(from);
  if (!entries) return tree_.failed(entries.error());
  std::vector<TreeEntry> small;
  for (TreeEntry& one : *entries) {
    const Remote source = from.child(one.name), target = to.child(one.name);
    switch (one.attributes.type) {
      case FileType::directory:
        // Paths do not show that the copy is inside the directory that is copied, if a link leads there.
        if (are_same(one.attributes, *copy_)) {
          tree_.failed(Error(ErrorKind::usage, EINVAL, "cp", source.text(), "is the copy itself; skipped"));
          break;
        }
        crowd_.add([this, source, target, here, traits_below = one.attributes] {
          directory(source, target, traits_below, here);
        });
        break;
      case FileType::symlink:
        crowd_.add([this, source, target, here] { symlink(source, target); });
        break;
      case FileType::regular:
        if (one.attributes.size <= small_file && !(exact_ && need_a_handle(traits_of(one.attributes)))) {
          small.push_back(std::move(one));
          break;
        }
        crowd_.add([this, source, target, here, attributes = one.attributes] {
          if (!tree_.going()) return;
          const Status done = copy_listed(source, attributes, [&](const Attributes& now) {
            return copy_file(tree_, source, target, now, exact_);
          });
          if (!done) return tree_.failed(done.error());
        });
        break;
      default:
        tree_.failed(Error(ErrorKind::local, EOPNOTSUPP, "cp", source.text(),
                           "is a device, a FIFO or a socket; skipped"));
    }
  }
  in_parts(
      std::move(small), [](const TreeEntry& one) { return one.attributes.size + 1; },
      [&](std::vector<TreeEntry> part) {
        crowd_.add([this, from, to, here, files = std::move(part)] { together(from, to, files); });
      });
}

void TreeCopy::together(const Remote& from, const Remote& to, const std::vector<TreeEntry>& files) {
  if (!tree_.going()) return;
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const TreeEntry& one : files) sizes.push_back(one.attributes.size);
  Rooms rooms(sizes);
  std::vector<ReadItem> reads;
  reads.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) reads.push_back({join(from.path, files[i].name), rooms[i]});
  const auto got = from.client->read_many(reads);
  std::vector<WriteItem> writes;
  std::vector<const TreeEntry*> written;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Attributes& attributes = files[i].attributes;
    if (!got[i]) {
      tree_.failed(got[i].error());
    } else if (has_changed(attributes, *got[i])) {
      const Remote source = from.child(files[i].name), target = to.child(files[i].name);
      const Status done = copy_afresh(
          source, [&](const Attributes& now) { return copy_file(tree_, source, target, now, exact_); });
      if (!done) tree_.failed(done.error());
    } else {
      writes.push_back({join(to.path, files[i].name), rooms[i].first(got[i]->count),
                        attributes.mode & kPermissions & ~creation_mask()});
      written.push_back(&files[i]);
    }
  }
  const auto put = to.client->write_many(writes);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    Status done = put[i] ? Status() : Status(put[i].error());
    if (done && exact_) {
      const Traits traits = traits_of(written[i]->attributes);
      SetAttributes changes;
      changes.mode = traits.mode;
      changes.accessed = traits.accessed;
      changes.modified = traits.modified;
      done = to.client->set_attributes(writes[i].path, changes);
    } else if (done) {
      done = clear_set_ids(to.child(written[i]->name), put[i]->attributes);
    }
    if (!done) {
      tree_.failed(done.error());
      continue;
    }
    tree_.count_file();
    tree_.moved(writes[i].data.size());
  }
}

}  // namespace

Status copy_file(Tree& tree, const Remote& from, const Remote& to, const Attributes& attributes,
                 bool preserve) {
  auto source = from.client->open(from.path, OpenMode::read);
  if (!source) return source.error();
  if (const auto there = to.client->stat(to.path)) {
    if (are_same(*there, attributes))
      return Error(ErrorKind::usage, EINVAL, "cp", to.text(),
                   "is the same file as the source; choose another target");
  }
  const auto fill = [&](std::unique_ptr<File> target) -> Result<std::unique_ptr<File>> {
    if (Status copied = copy_data(tree, from, {*std::move(source), attributes}, *target); !copied)
      return copied.error();
    return target;
  };
  Status done;
  if (preserve && need_a_handle(traits_of(attributes))) {
    const Result<Remote> replaced = without_links(to);
    done =
        replaced ? replace_exactly(tree, *replaced, traits_of(attributes), fill) : Status(replaced.error());
  } else {
    OpenFlags flags;
    flags.create = flags.truncate = true;
    flags.mode = attributes.mode & kPermissions & ~creation_mask();
    auto target = to.client->open(to.path, OpenMode::read_write, flags);
    if (target) target = fill(*std::move(target));
    if (!target) return target.error();
    done = (*target)->sync();
    if (done) done = preserve ? apply_traits(**target, traits_of(attributes)) : clear_set_ids(**target);
    const Status closed = (*target)->close();
    if (done) done = closed;
  }
  if (done) tree.count_file();
  return done;
}

void say_interrupted(const Call& call, const std::string& from, const std::string& to) {
  say("interrupted, so the copy is not complete; to copy everything again to the same place, run: " +
      line_for_shell(call.command, call.arguments, {from, to}));
}

void copy_tree(Call& call, const Remote& from, const Remote& to) {
  const auto attributes = from.client->stat(from.path);
  if (!attributes) return call.failed(attributes.error());
  if (to.path == from.path || to.path.starts_with(join(from.path, ""))) {
    return call.failed(Error(ErrorKind::usage, EINVAL, "cp", to.text(),
                             "is inside the directory that is to be copied; choose another target"));
  }
  if (const auto there = to.client->stat(to.path); there && are_same(*there, *attributes)) {
    return call.failed(Error(ErrorKind::usage, EINVAL, "cp", to.text(),
                             "is the same directory as the source; choose another target"));
  }
  const Result<Remote> target = without_links(to);
  if (!target) return call.failed(target.error());
  Progress progress(std::string(base_name(from.path)), {}, !call.has("quiet"));
  Tree tree(call, progress);
  Crowd crowd;
  TreeCopy copy(call, tree, crowd);
  crowd.add([&] { copy.directory(from, *target, *attributes, nullptr); });
  crowd.run();
  tree.settle();
  if (interrupt::raised()) return say_interrupted(call, from.target(), to.target());
  progress.finish(tree.bytes());
}

}  // namespace nfsrdma::cli
