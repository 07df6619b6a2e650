#include "nfs4/v40/owners.h"

#include <utility>

namespace nfsrdma::nfs4 {
namespace {

/// Under another name counting goes on far from where it was: a request for what was opened under the old name must not
/// be taken for the last one there once more.
constexpr seqid4 kLeap = 1000;

}  // namespace

struct Owners::Owner {
  explicit Owner(async::Loop& loop) : turn(loop) {}
  async::Mutex turn;
  seqid4 last = 0;        // that the server has counted, as far as is known
  bool in_doubt = false;  // it may have counted one more
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;  // that `last` is of
};

bool advances_seqid(nfsstat4 status) {
  switch (status) {
    case NFS4ERR_STALE_CLIENTID:
    case NFS4ERR_STALE_STATEID:
    case NFS4ERR_BAD_STATEID:
    case NFS4ERR_BAD_SEQID:
    case NFS4ERR_BADXDR:
    case NFS4ERR_RESOURCE:
    case NFS4ERR_NOFILEHANDLE:
    case NFS4ERR_MOVED:
      return false;
    default:
      return true;
  }
}

Owners::Turn::Turn(std::shared_ptr<Owner> owner, async::Mutex::Lock lock)
    : owner_(std::move(owner)), lock_(std::move(lock)) {}

seqid4 Owners::Turn::seqid(std::uint64_t epoch) {
  if (owner_->epoch != epoch) {
    owner_->epoch = epoch;
    owner_->last = 0;
    owner_->in_doubt = false;
  }
  again_ = false;
  sent_ = owner_->last + (owner_->in_doubt ? 2 : 1);
  return sent_;
}

std::uint64_t Owners::Turn::generation() const {
  return (owner_->epoch << 32U) + owner_->generation;
}

void Owners::Turn::answered(nfsstat4 status, bool names_owner) {
  const seqid4 sent = std::exchange(sent_, 0);
  if (advances_seqid(status)) {
    owner_->last = sent;
    owner_->in_doubt = false;
    return;
  }
  if (status != NFS4ERR_BAD_SEQID) return;
  // What was in doubt was not counted; or nothing fits.
  again_ = std::exchange(owner_->in_doubt, false);
  if (again_ || !names_owner) return;
  again_ = true;
  ++owner_->generation;
  owner_->last = sent + kLeap;
}

void Owners::Turn::doubt() {
  sent_ = 0;
  if (!owner_->in_doubt) {
    owner_->in_doubt = true;
    return;
  }
  // Of two in a row nobody knows any more what the server has counted.
  owner_->in_doubt = false;
  ++owner_->generation;
  owner_->last += kLeap;
}

async::Task<std::shared_ptr<Owners::Turn>> Owners::take(OwnedOperation::Whose whose, std::uint64_t number,
                                                        async::TimePoint deadline) {
  std::shared_ptr<Owner>& known = owners_[{whose, number}];
  if (!known) known = std::make_shared<Owner>(loop_);
  const std::shared_ptr<Owner> owner = known;
  async::Mutex::Lock lock = co_await owner->turn.lock(deadline);
  if (!lock) co_return nullptr;
  co_return std::make_shared<Turn>(owner, std::move(lock));
}

}  // namespace nfsrdma::nfs4
