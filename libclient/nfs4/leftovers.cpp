#include "nfs4/leftovers.h"

namespace nfsrdma::nfs4 {

async::Task<void> Leftovers::free(stateid4 stateid) {
  if (!calls_.has_sessions()) co_return;
  Compound compound = calls_.begin("FREE_STATEID");
  compound.add<op::FREE_STATEID>({stateid});
  auto freed = co_await calls_.call(std::move(compound));
}

async::Task<void> Leftovers::free_counted(stateid4 stateid) {
  const Outstanding::One counted(outstanding_);
  co_await free(stateid);
}

void Leftovers::free_beside(const stateid4& stateid) {
  if (!calls_.ending()) calls_.beside().spawn(free_counted(stateid));
}

async::Task<void> Leftovers::close(nfs_fh4 file, stateid4 stateid, std::uint64_t owner) {
  Compound compound = calls_.begin_on(file, "CLOSE");
  compound.by(owner);
  compound.add<op::CLOSE>({0, stateid});
  const Outstanding::One counted(outstanding_);
  auto closed = co_await calls_.call(std::move(compound));
}

void Leftovers::close_beside(const nfs_fh4& file, const stateid4& stateid, std::uint64_t owner) {
  calls_.beside().spawn(close(file, stateid, owner));
}

}  // namespace nfsrdma::nfs4
