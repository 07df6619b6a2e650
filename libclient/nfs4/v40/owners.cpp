#include "nfs4/v40/owners.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::nfs4 {
namespace {

/// Distance between the last seqid under the old name and the first under the new one. It keeps the server
/// from taking a request for state that was opened under the old name for a retransmission of the last
/// request there.
constexpr seqid4 kLeap = 1000;
/// The most times that a server is expected to count one request in addition, because it was sent again
/// while the server executed it. A request waits for its answer in the meantime, over connections that break.
constexpr seqid4 kMostRepeats = 3;

/// Whether an operation that ended with this status has used up its seqid (RFC 7530 9.1.7).
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

}  // namespace

struct Owners::Owner {
  explicit Owner(async::Loop& loop) : turn(loop) {}
  async::Mutex turn;
  seqid4 last = 0;    // seqid that the server counted last, as far as is known
  seqid4 doubts = 0;  // number of requests that it may have counted in addition
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;  // epoch that `last` belongs to
  stateid4 last_opened{};   // stateid in the last answer to an OPEN
  /// Number of answers to OPENs that may repeat earlier ones, because the server counted a request twice.
  seqid4 repeats = 0;

  void may_be_counted_again(std::uint32_t times) {
    doubts += std::min<seqid4>(times, kMostRepeats);
    repeats = std::min<seqid4>(repeats + times, kMostRepeats);
  }
};

Owners::Turn::Turn(std::shared_ptr<Owner> owner, async::Mutex::Lock lock)
    : owner_(std::move(owner)), lock_(std::move(lock)) {}

seqid4 Owners::Turn::seqid(std::uint64_t epoch) {
  if (owner_->epoch != epoch) {
    owner_->epoch = epoch;
    owner_->last = 0;
    owner_->doubts = owner_->repeats = 0;
    owner_->last_opened = {};
    left_out_ = 0;
    renamed_ = false;
  }
  again_ = false;
  sent_ = owner_->last + owner_->doubts - left_out_ + 1;
  return sent_;
}

std::uint64_t Owners::Turn::generation() const {
  return (owner_->epoch << 32U) + owner_->generation;
}

void Owners::Turn::answered(nfsstat4 status, bool names_owner, std::uint32_t sent_again) {
  // The server has counted the request if it still knows the owner, which EXPIRED does not tell.
  if (status == NFS4ERR_EXPIRED) {
    doubt();
    return;
  }
  const seqid4 sent = std::exchange(sent_, 0);
  if (status == NFS4ERR_BAD_SEQID) {
    // If there was a doubt, the doubtful request was not counted, so try without it. Otherwise no seqid fits.
    again_ = owner_->doubts != 0;
    if (again_)
      --owner_->doubts;
    else if (names_owner)
      again_ = be_another();
    return;
  }
  left_out_ = 0;
  if (advances_seqid(status)) {
    owner_->last = sent;
    owner_->doubts = 0;
  }
  // An example of a request that may be counted although its last transmission was not is a CLOSE that was
  // executed and counted the first time, and is answered with BAD_STATEID.
  owner_->may_be_counted_again(sent_again);
}

void Owners::Turn::refused_both(Turn& open, Turn& lock) {
  open.sent_ = lock.sent_ = 0;
  open.again_ = true;
  if (lock.left_out_ != lock.owner_->doubts) {
    ++lock.left_out_;
    return;
  }
  lock.left_out_ = 0;
  if (open.left_out_ != open.owner_->doubts) {
    ++open.left_out_;
    return;
  }
  // No pair fits.
  open.left_out_ = 0;
  open.again_ = lock.be_another();
  if (!open.again_) open.owner_->doubts = 0;
}

void Owners::Turn::doubt() {
  sent_ = 0;
  owner_->repeats = std::min<seqid4>(owner_->repeats + 1, kMostRepeats);
  // If requests were left out of the count, the lost one had the seqid of one of them. A pair of seqids that
  // was refused does not tell which of the two is wrong, so the doubts about the others stay.
  if (left_out_ == 0) ++owner_->doubts;
  left_out_ = 0;
}

bool Owners::Turn::opened(const stateid4& stateid) {
  const bool repeated = std::exchange(owner_->last_opened, stateid) == stateid && owner_->repeats != 0;
  if (repeated) --owner_->repeats;
  return !repeated;
}

/// Goes on under another name. Returns false if this turn has done so already.
bool Owners::Turn::be_another() {
  if (std::exchange(renamed_, true)) return false;
  owner_->last += owner_->doubts + kLeap;
  owner_->doubts = 0;
  ++owner_->generation;
  return true;
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
