// See remote_source_copier.h.
#include "cli/remote_source_copier.h"

#include <cerrno>
#include <utility>

#include "cli/changes.h"

namespace nfsrdma::cli {

void RemoteSourceCopier::copy(const Where& where, std::vector<TreeEntry> entries) {
  std::vector<TreeEntry> small;
  for (TreeEntry& one : entries) entry(where, one, small);
  in_parts(
      std::move(small), [](const TreeEntry& one) { return one.attributes.size + 1; },
      [&](std::vector<TreeEntry> part) {
        crowd_.add([this, where, files = std::move(part)] { together(where, files); });
      });
}

void RemoteSourceCopier::entry(const Where& where, TreeEntry& entry, std::vector<TreeEntry>& small) {
  const FileType type = entry.attributes.type;
  if (type == FileType::symlink) {
    crowd_.add([this, where, name = entry.name] { symlink(where, name); });
  } else if (type != FileType::regular) {
    tree_.failed(Error(ErrorKind::local, EOPNOTSUPP, tree_.operation(), where->from.text(entry.name),
                       "is a device, a FIFO or a socket; skipped"));
  } else if (entry.attributes.size <= small_file && !needs_handle(entry.attributes)) {
    small.push_back(std::move(entry));
  } else {
    crowd_.add([this, where, entry] { alone(where, entry, Listed::up_to_date); });
  }
}

void RemoteSourceCopier::symlink(const Where& where, const std::string& name) {
  if (!tree_.going()) return;
  const auto text = where->from.read_link(name);
  const Status done = text ? link(where, name, *text) : Status(text.error());
  if (!done) return tree_.failed(done.error());
  tree_.count_file();
  copied(where, name, 0);
}

void RemoteSourceCopier::together(const Where& where, const std::vector<TreeEntry>& files) {
  if (!tree_.going()) return;
  const Remote& from = where->from.remote();
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const TreeEntry& one : files) sizes.push_back(one.attributes.size);
  Rooms rooms(sizes);
  std::vector<ReadItem> items;
  items.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) items.push_back({join(from.path, files[i].name), rooms[i]});
  const auto results = from.client->read_many(items);
  std::vector<Fetched> fetched;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!results[i])
      tree_.failed(results[i].error());
    else if (has_changed(files[i].attributes, *results[i]))
      alone(where, files[i], Listed::out_of_date);
    else
      fetched.push_back({files[i], items[i].data.first(results[i]->count)});
  }
  save(where, fetched);
}

void RemoteSourceCopier::alone(const Where& where, const TreeEntry& entry, Listed listed) {
  if (!tree_.going()) return;
  const Remote from = where->from.remote().child(entry.name);
  std::uint64_t size = 0;
  const auto copy = [&](const Attributes& attributes) {
    size = attributes.size;
    return one(where, {entry.name, attributes, entry.kept_mode});
  };
  const Status done =
      listed == Listed::up_to_date ? copy_listed(from, entry.attributes, copy) : copy_afresh(from, copy);
  if (!done) return tree_.failed(done.error());
  copied(where, entry.name, size);
}

}  // namespace nfsrdma::cli
