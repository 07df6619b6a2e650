#include "fs/part.h"

#include <utility>

namespace nfsrdma::fs {

MountState::MountState(std::shared_ptr<Engine> of, const CacheOptions& how, const Object& root,
                       async::Tasks& tasks, ReadsElsewhere* elsewhere)
    : engine(std::move(of)),
      loop(engine->loop()),
      options(how),
      numbering(root.attributes),
      read_window(loop, options.rsize, options.most_ahead),
      reads_elsewhere(elsewhere),
      freshness(*engine, numbering, options),
      inodes(loop, root.handle),
      writes(loop, freshness, counters, options.wsize),
      lookups_ahead(loop),
      background(tasks) {
  if (root.attributes) freshness.learn(*inodes.find(Inodes::kRoot), *root.attributes, 0);
}

Result<std::shared_ptr<Inode>> Part::find(std::uint64_t id) const {
  auto inode = inodes_.find(id);
  if (!inode) return refusal(ESTALE, "", std::to_string(id), "this inode number is not known");
  return inode;
}

void Part::is_stale(const Inode& inode) {
  lookups_ahead_.drop(inode.parent);
  const auto known = inodes_.find(inode.id);
  if (!known) return;
  known->names.doubt();
  known->attributes.forget();
}

}  // namespace nfsrdma::fs
