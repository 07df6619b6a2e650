// See remote_source_copier.h.
#include "cli/remote_source_copier.h"

#include "cli/changes.h"

namespace nfsrdma::cli {

void RemoteSourceCopier::together(const Where& where, std::vector<TreeEntry> files) {
  if (!tree_.going()) return;
  Rooms rooms(files);
  const auto results = read_together(where->from.remote(), files, rooms);
  std::vector<Fetched> fetched;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!results[i])
      tree_.failed(results[i].error());
    else if (has_changed(files[i].attributes, *results[i]))
      alone(where, files[i], Listed::out_of_date);
    else
      fetched.push_back({files[i], rooms[i].first(results[i]->count)});
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
