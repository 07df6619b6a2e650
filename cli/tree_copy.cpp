#include <algorithm>
#include <cerrno>
#include <optional>

#include "cli/changes.h"
#include "cli/json.h"
#include "cli/remote_file.h"
#include "cli/remote_source_copier.h"
#include "cli/sync_walk.h"
#include "cli/transfer.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

/// Writes what a download brings to another file of a server. Before it passes a multiple of part_step, it has the
/// server write everything to its disk, as part_file.h promises.
class RemoteSink final : public LocalEnd {
 public:
  explicit RemoteSink(File& target) : target_(target) {}
  int run(Chunk& chunk, const StopFlag& /*stop*/) override {
    for (std::size_t at = 0; at < chunk.length;) {
      const std::uint64_t offset = chunk.offset + at, left = part_step - offset % part_step;
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.length - at, left));
      const Status stable = offset / part_step == step_ ? Status() : target_.sync();
      step_ = offset / part_step;
      const auto put = stable ? target_.write(chunk.memory.subspan(at, length), offset)
                              : Result<std::size_t>(stable.error());
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
  std::uint64_t step_ = 0;
  std::optional<Error> error_;
};

/// Copies from `offset` on by reading and writing. `from` is where the source was opened.
Status pump(Tree& tree, const Remote& from, RemoteSource source, File& target, std::uint64_t offset,
            bool keeps_holes) {
  const Attributes before = source.attributes;
  const auto holes = keeps_holes ? Download::Holes::sought : Download::Holes::read;
  auto download = make_download(*from.client, std::move(source), holes, tree.rate());
  if (!download) return download.error();
  download->begin_at(offset);
  RemoteSink sink(target);
  const auto size = download->run(sink, from.text(), tree.progress_of_one());
  if (sink.error()) return *sink.error();
  if (!size) return size.error();
  if (keeps_holes) {  // the file may end in a hole
    SetAttributes whole;
    whole.size = *size;
    if (Status done = target.set_attributes(whole); !done) return done;
  }
  return check_unchanged(download->file(), before, tree.operation(), from.text());
}

/// Returns true if the server does not copy, or not these two files (RFC 7862 15.2.3). If a file may not be
/// read or written either, pump() reports that.
bool is_declined(const Error& error) {
  const int code = error.errno_value();
  return code == EOPNOTSUPP || (error.kind() == ErrorKind::server && (code == EXDEV || code == EPERM));
}

/// Checks that the source of a copy within the server is unchanged. Times are compared in place of the change
/// attribute, because cloning a file may count as a change of it (XFS marks its blocks as shared).
Status check_copied(const RemoteSource& source, const Remote& from, const char* operation) {
  const Result<Attributes> now = source.file->attributes();
  if (!now) return now.error();
  const bool same = now->size == source.attributes.size && !have_other_times(source.attributes, *now);
  return same ? Status() : Status(source_changed(operation, from.text()));
}

/// Where a copy within or between servers begins, and whether the target is a new file.
struct Begin {
  std::uint64_t offset = 0;
  bool is_new = false;
};

Status copy_data(Tree& tree, const Remote& from, RemoteSource source, const Remote& to, File& target,
                 const Begin& begin) {
  constexpr std::uint64_t step = 64U << 20;  // so that progress shows
  if (from.client != to.client)
    return pump(tree, from, std::move(source), target, begin.offset, begin.is_new);
  for (std::uint64_t offset = begin.offset; tree.going();) {
    const auto copied = target.copy_from(*source.file, offset, offset, step);
    if (!copied && is_declined(copied.error()))
      return pump(tree, from, std::move(source), target, offset, begin.is_new);
    if (!copied) return copied.error();
    if (*copied == 0) return check_copied(source, from, tree.operation());
    offset += *copied;
    tree.moved_there(*copied);
  }
  return interrupted();
}

class TreeCopy final : public RemoteSourceCopier {
 public:
  TreeCopy(Tree& tree, Crowd& crowd, const CopyRules& rules) : RemoteSourceCopier(tree, crowd, rules) {}
  void directory(const Remote& from, const Remote& to, const Attributes& traits,
                 const RemoteDirectory::Ref& above);

 private:
  [[nodiscard]] bool needs_handle(const TreeEntry& entry) const override {
    return rules_.keep == Keep::everything && need_a_handle(traits_of(entry.attributes));
  }
  Status link(const Where& where, const std::string& name, const std::string& text) override {
    return make_symlink(where->to.remote().child(name), text, rules_.is_hidden);
  }
  Status one(const Where& where, const TreeEntry& entry) override {
    return copy_file(tree_, where->from.remote().child(entry.name), where->to.remote().child(entry.name),
                     entry.attributes, rules_, entry.kept_mode);
  }
  void save(const Where& where, const std::vector<Fetched>& files) override;

  std::optional<Attributes> copy_;  // the topmost directory that is made; set before there are further tasks
};

std::uint32_t mode_of(const Attributes& source, const std::optional<std::uint32_t>& kept_mode) {
  return kept_mode.value_or(source.mode & kPermissions & ~creation_mask());
}

void TreeCopy::directory(const Remote& from, const Remote& to, const Attributes& traits,
                         const RemoteDirectory::Ref& above) {
  if (!tree_.going()) return;
  const std::uint32_t mode = traits.mode & kPermissions & ~creation_mask();
  const Status made = to.client->make_directory(to.path, mode | 0300U);
  if (Status there = accept_existing(to, made, above == nullptr); !there) return tree_.failed(there.error());
  std::function<Status()> finish;
  if (rules_.keep == Keep::everything) {
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
  std::vector<TreeEntry> others;
  for (TreeEntry& one : *entries) {
    if (one.attributes.type != FileType::directory) {
      others.push_back(std::move(one));
    } else if (are_same(one.attributes, *copy_)) {
      // Paths do not show that the copy is inside the directory that is copied, if a link leads there.
      tree_.failed(
          Error(ErrorKind::usage, EINVAL, "cp", from.child(one.name).text(), "is the copy itself; skipped"));
    } else {
      crowd_.add([this, from, to, here, one] {
        directory(from.child(one.name), to.child(one.name), one.attributes, here);
      });
    }
  }
  // The tasks hold the directory that they work in.
  const auto held = [here](const std::string&, std::uint64_t) {};
  copy(std::make_shared<const Between>(from, to, held), std::move(others));
}

void TreeCopy::save(const Where& where, const std::vector<Fetched>& files) {
  std::vector<SmallFile> sent;
  sent.reserve(files.size());
  for (const Fetched& file : files) {
    const Attributes& attributes = file.entry.attributes;
    sent.push_back(
        {file.entry.name, file.data, mode_of(attributes, file.entry.kept_mode), traits_of(attributes)});
  }
  const auto done = write_small(tree_, where->to.remote(), sent, rules_);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (!done[i]) {
      tree_.failed(done[i].error());
      continue;
    }
    tree_.moved(sent[i].data.size());
    copied(where, sent[i].name, sent[i].data.size());
  }
}

/// Writes into the file under its final name.
Status copy_in_place(const Remote& to, const Attributes& attributes, const CopyRules& rules,
                     const Fill& fill) {
  OpenFlags flags;
  flags.create = flags.truncate = true;
  flags.mode = mode_of(attributes, {});
  auto target = to.client->open(to.path, OpenMode::read_write, flags);
  if (target) target = fill(*std::move(target), 0);
  if (!target) return target.error();
  Status done = (*target)->sync();
  const bool is_exact = rules.keep == Keep::everything;
  if (done) done = is_exact ? apply_traits(**target, traits_of(attributes)) : clear_set_ids(**target);
  const Status closed = (*target)->close();
  return done ? closed : done;
}

}  // namespace

std::unique_ptr<EntryCopier> make_server_copier(Tree& tree, Crowd& crowd, const CopyRules& rules) {
  return std::make_unique<TreeCopy>(tree, crowd, rules);
}

Status copy_file(Tree& tree, const Remote& from, const Remote& to, const Attributes& attributes,
                 const CopyRules& rules, std::optional<std::uint32_t> kept_mode) {
  auto source = from.client->open(from.path, OpenMode::read);
  if (!source) return source.error();
  // A file that is renamed into its place does not touch the source, even if that has this name, too.
  const bool may_be_source = from.client == to.client && !rules.is_hidden;
  const auto there = may_be_source ? to.client->stat(to.path) : Result<Attributes>(attributes);
  if (may_be_source && there && are_same(*there, attributes))
    return Error(ErrorKind::usage, EINVAL, tree.operation(), to.text(),
                 "is the same file as the source; choose another target");
  const bool needs_handle = rules.keep == Keep::everything && need_a_handle(traits_of(attributes));
  const bool is_replaced = needs_handle || rules.is_hidden || rules.has_part(attributes.size);
  const auto fill = [&](std::unique_ptr<File> target, std::uint64_t begin) -> Result<std::unique_ptr<File>> {
    const Status copied =
        copy_data(tree, from, {*std::move(source), attributes}, to, *target, {begin, is_replaced});
    if (!copied) return copied.error();
    return target;
  };
  if (!is_replaced) return copy_in_place(to, attributes, rules, fill);
  const Result<Remote> replaced = rules.is_hidden ? to : without_links(to);
  const Replacement made{traits_of(attributes), attributes.size, mode_of(attributes, kept_mode)};
  return replaced ? replace_file(tree, *replaced, made, rules, fill) : Status(replaced.error());
}

void say_interrupted(const Call& call, const std::string& from, const std::string& to) {
  // Without -T, the copy would go into the directory that the first one has made.
  Arguments again = call.arguments;
  again.given["no-target-directory"];
  again.given["update"];
  say("interrupted, so the copy is not complete; to copy what is missing to the same place, run: " +
      line_for_shell(call.command, again, {from, to}));
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
  const CopyRules rules = rules_of(call);
  TreeCopy copy(tree, crowd, rules);
  if (call.has("update")) {
    const Result<TreeRoot> root = make_root(*target, attributes->mode);
    if (!root) return call.failed(root.error());
    update_tree({tree, crowd, copy, {}, nullptr}, rules.keep, from, *attributes, *root);
  } else {
    crowd.add([&] { copy.directory(from, *target, *attributes, nullptr); });
    crowd.run();
  }
  tree.settle();
  if (interrupt::raised()) return say_interrupted(call, from.target(), to.target());
  progress.finish(tree.bytes());
  if (!call.json()) return;
  call.out.line(json::Object()
                    .text("action", "copy")
                    .text("target", from.target())
                    .text("destination", target->text())
                    .number("files", tree.files())
                    .number("bytes", tree.bytes())
                    .str());
}

}  // namespace nfsrdma::cli
