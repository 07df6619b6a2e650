#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "cli/changes.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/local_tree.h"
#include "cli/remote_source_copier.h"
#include "cli/sync_walk.h"
#include "cli/transfer.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

class TreeGet final : public RemoteSourceCopier {
 public:
  TreeGet(Tree& tree, Crowd& crowd, const CopyRules& rules) : RemoteSourceCopier(tree, crowd, rules) {}

  void directory(const Remote& from, const LocalDirectory::Ref& to);

 private:
  [[nodiscard]] bool needs_handle(const TreeEntry& /*entry*/) const override { return false; }
  Status link(const Where& where, const std::string& name, const std::string& text) override {
    return where->to.local()->symlink(text, name);
  }
  Status one(const Where& where, const TreeEntry& entry) override;
  void save(const Where& where, const std::vector<Fetched>& files) override;
  Result<LocalDirectory::New> create(LocalDirectory& to, const TreeEntry& entry);
  Status download(const Where& where, const TreeEntry& entry, LocalDirectory::New& file);
  Status write_small_file(LocalDirectory& to, const Fetched& file);
};

void TreeGet::directory(const Remote& from, const LocalDirectory::Ref& to) {
  if (!tree_.going()) return;
  auto entries = tree_.list(from);
  if (!entries) return tree_.failed(entries.error());
  std::vector<TreeEntry> others;
  for (TreeEntry& one : *entries) {
    if (one.attributes.type != FileType::directory) {
      others.push_back(std::move(one));
      continue;
    }
    crowd_.add([this, from, to, one] {
      const auto below = LocalDirectory::make_in(to, one.name, one.attributes, rules_.keep);
      if (!below) return tree_.failed(below.error());
      directory(from.child(one.name), *below);
    });
  }
  copy(std::make_shared<const Between>(from, to, nullptr), std::move(others));
}

Result<LocalDirectory::New> TreeGet::create(LocalDirectory& to, const TreeEntry& entry) {
  const Attributes& source = entry.attributes;
  const std::uint32_t mode = rules_.keep == Keep::everything ? kPrivateFile : source.mode;
  if (rules_.has_part(source.size)) return to.create_part(entry.name, mode, {source.size, source.modified});
  using Naming = LocalDirectory::Naming;
  return to.create(entry.name, mode, rules_.is_hidden ? Naming::temporary : Naming::its_own);
}

Status TreeGet::write_small_file(LocalDirectory& to, const Fetched& file) {
  auto made = create(to, file.entry);
  if (!made) return made.error();
  if (Status done = write_all(made->fd.get(), file.data, to.path(file.entry.name)); !done) {
    to.discard(*made);
    return done;
  }
  return to.finish(*made, file.entry.attributes, rules_.keep);
}

void TreeGet::save(const Where& where, const std::vector<Fetched>& files) {
  std::uint64_t bytes = 0;
  for (const Fetched& file : files) {
    if (Status done = write_small_file(*where->to.local(), file); !done) {
      tree_.failed(done.error());
      continue;
    }
    bytes += file.data.size();
    copied(where, file.entry.name, file.data.size());
  }
  tree_.moved(bytes);
}

Status TreeGet::download(const Where& where, const TreeEntry& entry, LocalDirectory::New& file) {
  const Remote from = where->from.remote().child(entry.name);
  auto source = from.client->open(from.path, OpenMode::read);
  if (!source) return source.error();
  const auto holes = rules_.keeps_holes() ? find_holes(entry.attributes) : Download::Holes::read;
  auto download = make_download(*from.client, {*std::move(source), entry.attributes}, holes, tree_.rate());
  if (!download) return download.error();
  download->begin_at(file.begin);
  FileSink sink(file.fd.get());
  const std::string path = where->to.text(entry.name);
  const auto size = download->run(sink, path, tree_.progress_of_one());
  if (!size) return size.error();
  // The file may end in a hole.
  if (::ftruncate(file.fd.get(), static_cast<off_t>(*size)) != 0)
    return local_error(errno, "set the size", path);
  return check_unchanged(download->file(), entry.attributes, tree_.operation(), from.text());
}

Status TreeGet::one(const Where& where, const TreeEntry& entry) {
  LocalDirectory& to = *where->to.local();
  auto file = create(to, entry);
  if (!file) return file.error();
  Status done = download(where, entry, *file);
  if (done) return to.finish(*file, entry.attributes, rules_.keep);
  if (is_source_changed(done.error())) file->is_part = false;  // no later copy can go on with it
  to.discard(*file);
  return done;
}

/// The directory that a copy becomes.
struct Place {
  std::string above;  ///< an existing directory
  std::string name;   ///< of the copy in it; "" if the contents go into `above` itself
  std::string path;   ///< of the copy, as the user would write it
};

Place find_place(const Call& call, const Remote& from, const std::string& to) {
  const bool is_inside = is_directory(to) && !call.has("no-target-directory");
  const std::string_view name = base_name(is_inside ? std::string_view(from.path) : to);
  if (is_inside && is_plain_name(name)) return {to, std::string(name), join(to, name)};
  // The server's root has no name, and neither has "." or "..".
  if (is_inside || !is_plain_name(name)) return {to, "", to};
  return {std::string(directory_name(to)), std::string(name), to};
}

}  // namespace

std::unique_ptr<EntryCopier> make_getter(Tree& tree, Crowd& crowd, const CopyRules& rules) {
  return std::make_unique<TreeGet>(tree, crowd, rules);
}

void get_tree(Call& call, const Remote& from, const std::string& to) {
  const Result<Attributes> attributes = from.client->stat(from.path);
  if (!attributes) return call.failed(attributes.error());
  const Place place = find_place(call, from, to);
  const auto above = LocalDirectory::open(place.above);
  if (!above) return call.failed(above.error());
  Progress progress(std::string(base_name(from.path)), {}, !call.has("quiet"));
  Tree tree(call, progress);
  Crowd crowd;
  const CopyRules rules = rules_of(call);
  TreeGet get(tree, crowd, rules);
  const auto root =
      place.name.empty() ? above : LocalDirectory::make_in(*above, place.name, *attributes, rules.keep);
  if (!root) return call.failed(root.error());
  if (call.has("update")) {
    struct stat facts{};
    if (::fstat((*root)->fd(), &facts) != 0) return call.failed(local_error(errno, "stat", place.path));
    update_tree({tree, crowd, get, {}, nullptr}, rules.keep, from, *attributes,
                {*root, attributes_of(facts)});
  } else {
    crowd.add([&] { get.directory(from, *root); });
    crowd.run();
  }
  if (interrupt::raised()) return say_interrupted(call, from.target(), place.path);
  if (::syncfs((*above)->fd()) != 0) return call.failed(local_error(errno, "syncfs", to));
  progress.finish(tree.bytes());
  if (call.json()) {
    call.out.line(json::Object()
                      .text("action", "get")
                      .text("target", from.text())
                      .text("source", from.text())
                      .text("destination", place.path)
                      .number("files", tree.files())
                      .number("bytes", tree.bytes())
                      .str());
  }
}

}  // namespace nfsrdma::cli
