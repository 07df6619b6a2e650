#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "cli/changes.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/local_tree.h"
#include "cli/transfer.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

class TreeGet {
 public:
  TreeGet(Call& call, Tree& tree, Crowd& crowd) : tree_(tree), crowd_(crowd), exact_(call.has("preserve")) {}

  void directory(const Remote& from, const LocalDirectory::Ref& to);

 private:
  void entry(const Remote& from, const LocalDirectory::Ref& to, TreeEntry& entry,
             std::vector<TreeEntry>& small);
  void together(const Remote& from, const LocalDirectory::Ref& to, const std::vector<TreeEntry>& files);
  /// Whether the attributes of an entry may still be those of the file.
  enum class Listed : std::uint8_t { up_to_date, out_of_date };
  void alone(const Remote& from, const LocalDirectory::Ref& to, const TreeEntry& entry, Listed listed);
  Status one(const Remote& from, const LocalDirectory::Ref& to, const TreeEntry& entry);
  Status download(const Remote& from, const LocalDirectory::Ref& to, const TreeEntry& entry,
                  LocalDirectory::New& file);
  Status save(const LocalDirectory::Ref& to, const TreeEntry& entry, std::span<const std::byte> data);

  Tree& tree_;
  Crowd& crowd_;
  const bool exact_;
};

void TreeGet::directory(const Remote& from, const LocalDirectory::Ref& to) {
  if (!tree_.going()) return;
  auto entries = tree_.list(from);
  if (!entries) return tree_.failed(entries.error());
  std::vector<TreeEntry> small;
  for (TreeEntry& one : *entries) entry(from, to, one, small);
  in_parts(
      std::move(small), [](const TreeEntry& one) { return one.attributes.size + 1; },
      [&](std::vector<TreeEntry> part) {
        crowd_.add([this, from, to, files = std::move(part)] { together(from, to, files); });
      });
}

void TreeGet::entry(const Remote& from, const LocalDirectory::Ref& to, TreeEntry& entry,
                    std::vector<TreeEntry>& small) {
  const Remote remote = from.child(entry.name);
  switch (entry.attributes.type) {
    case FileType::directory:
      crowd_.add([this, remote, to, entry] {
        const auto below = LocalDirectory::make_in(to, entry.name, entry.attributes, exact_);
        if (!below) return tree_.failed(below.error());
        directory(remote, *below);
      });
      break;
    case FileType::regular:
      if (entry.attributes.size <= small_file)
        small.push_back(std::move(entry));
      else
        crowd_.add([this, remote, to, entry] { alone(remote, to, entry, Listed::up_to_date); });
      break;
    case FileType::symlink:
      crowd_.add([this, remote, to, entry] {
        const auto text = remote.client->read_link(remote.path);
        const Status done = text ? to->symlink(*text, entry.name) : Status(text.error());
        if (!done) return tree_.failed(done.error());
        tree_.count_file();
      });
      break;
    default:
      tree_.failed(Error(ErrorKind::local, EOPNOTSUPP, "get", remote.text(),
                         "is a device, a FIFO or a socket; skipped"));
  }
}

Status TreeGet::save(const LocalDirectory::Ref& to, const TreeEntry& entry, std::span<const std::byte> data) {
  auto file = to->create(entry.name, exact_ ? kPrivateFile : entry.attributes.mode);
  if (!file) return file.error();
  if (Status done = write_all(file->fd.get(), data, to->path(entry.name)); !done) {
    to->discard(*file);
    return done;
  }
  return to->finish(*file, entry.attributes, exact_);
}

void TreeGet::together(const Remote& from, const LocalDirectory::Ref& to,
                       const std::vector<TreeEntry>& files) {
  if (!tree_.going()) return;
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const TreeEntry& one : files) sizes.push_back(one.attributes.size);
  Rooms rooms(sizes);
  std::vector<ReadItem> items;
  items.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) items.push_back({join(from.path, files[i].name), rooms[i]});
  const auto results = from.client->read_many(items);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!results[i]) {
      tree_.failed(results[i].error());
    } else if (has_changed(files[i].attributes, *results[i])) {
      alone(from.child(files[i].name), to, files[i], Listed::out_of_date);
    } else if (Status done = save(to, files[i], items[i].data.first(results[i]->count)); !done) {
      tree_.failed(done.error());
    } else {
      bytes += results[i]->count;
      tree_.count_file();
    }
  }
  tree_.moved(bytes);
}

Status TreeGet::download(const Remote& from, const LocalDirectory::Ref& to, const TreeEntry& entry,
                         LocalDirectory::New& file) {
  auto source = from.client->open(from.path, OpenMode::read);
  if (!source) return source.error();
  const auto holes = exact_ ? find_holes(entry.attributes) : Download::Holes::read;
  auto download = make_download(*from.client, {*std::move(source), entry.attributes}, holes);
  if (!download) return download.error();
  FileSink sink(file.fd.get());
  const std::string path = to->path(entry.name);
  const auto size = download->run(sink, path, tree_.progress_of_one());
  if (!size) return size.error();
  // The file may end in a hole.
  if (::ftruncate(file.fd.get(), static_cast<off_t>(*size)) != 0)
    return local_error(errno, "set the size", path);
  return check_unchanged(download->file(), entry.attributes, "get", from.text());
}

Status TreeGet::one(const Remote& from, const LocalDirectory::Ref& to, const TreeEntry& entry) {
  auto file = to->create(entry.name, exact_ ? kPrivateFile : entry.attributes.mode);
  if (!file) return file.error();
  Status done = download(from, to, entry, *file);
  if (done) return to->finish(*file, entry.attributes, exact_);
  to->discard(*file);
  return done;
}

void TreeGet::alone(const Remote& from, const LocalDirectory::Ref& to, const TreeEntry& entry,
                    Listed listed) {
  if (!tree_.going()) return;
  const auto copy = [&](const Attributes& attributes) { return one(from, to, {entry.name, attributes}); };
  const Status done =
      listed == Listed::up_to_date ? copy_listed(from, entry.attributes, copy) : copy_afresh(from, copy);
  if (!done) return tree_.failed(done.error());
  tree_.count_file();
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

void get_tree(Call& call, const Remote& from, const std::string& to) {
  const Result<Attributes> attributes = from.client->stat(from.path);
  if (!attributes) return call.failed(attributes.error());
  const Place place = find_place(call, from, to);
  const auto above = LocalDirectory::open(place.above);
  if (!above) return call.failed(above.error());
  Progress progress(std::string(base_name(from.path)), {}, !call.has("quiet"));
  Tree tree(call, progress);
  Crowd crowd;
  TreeGet get(call, tree, crowd);
  if (place.name.empty()) {
    crowd.add([&] { get.directory(from, *above); });
  } else {
    crowd.add([&] {
      const auto root = LocalDirectory::make_in(*above, place.name, *attributes, call.has("preserve"));
      if (!root) return tree.failed(root.error());
      get.directory(from, *root);
    });
  }
  crowd.run();
  if (interrupt::raised()) return say_interrupted(call, from.target(), place.path);
  if (::syncfs((*above)->fd()) != 0) return call.failed(local_error(errno, "syncfs", to));
  progress.finish(tree.bytes());
  if (call.json()) {
    call.out.line(json::Object()
                      .text("source", from.text())
                      .text("destination", place.path)
                      .number("files", tree.files())
                      .number("bytes", tree.bytes())
                      .str());
  }
}

}  // namespace nfsrdma::cli
