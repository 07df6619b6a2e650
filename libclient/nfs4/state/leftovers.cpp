#include "nfs4/state/leftovers.h"

#include "nfs4/compound/retries.h"

namespace nfsrdma::nfs4 {

async::Task<void> Leftovers::free(stateid4 stateid) {
  if (!calls_.version().frees_stateids) co_return;
  for (Retries retries(calls_.loop(), calls_.default_deadline());;) {
    Compound compound = calls_.begin("FREE_STATEID");
    compound.add<op::FREE_STATEID>({stateid});
    auto freed = co_await calls_.call(std::move(compound));
    const bool again = co_await retries.again(freed ? freed->status() : NFS4_OK);
    if (!again) co_return;
  }
}

async::Task<void> Leftovers::free_counted(stateid4 stateid) {
  const Outstanding::One counted(outstanding_);
  co_await free(stateid);
}

void Leftovers::free_in_background(const stateid4& stateid) {
  if (!calls_.ending()) calls_.background().spawn(free_counted(stateid));
}

async::Task<void> Leftovers::close(nfs_fh4 file, stateid4 stateid, std::uint64_t owner) {
  const Outstanding::One counted(outstanding_);
  for (Retries retries(calls_.loop(), calls_.default_deadline());;) {
    Compound compound = calls_.begin_on(file, "CLOSE");
    compound.by(owner);
    compound.add<op::CLOSE>({0, stateid});
    compound.only_while([&] { return opens_.with_state(file, stateid) == nullptr; });
    auto closed = co_await calls_.call(std::move(compound));
    const bool again = co_await retries.again(closed ? closed->status() : NFS4_OK);
    if (!again) co_return;
  }
}

void Leftovers::close_in_background(const nfs_fh4& file, const stateid4& stateid, std::uint64_t owner) {
  calls_.background().spawn(close(file, stateid, owner));
}

}  // namespace nfsrdma::nfs4
