// The server's calls to this client (RFC 8881 20). Each call goes to the part of the
// session that it concerns.
//
// CallbackService (compound/callback.h) decodes, judges and answers a call. What the call asks for is done
// after its answer has been sent.
//
// The service outlives sessions. The code that creates a session announces the limits of the backchannel
// before (CallbackService::announce()), and then resets the service with what the server agreed to (reset()).
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/compound/callback.h"
#include "nfs4/session/slot_queue.h"
#include "nfs4/state/background_copies.h"
#include "nfs4/state/delegations.h"
#include "nfs4/state/lock_waits.h"

namespace nfsrdma::nfs4 {

class Backchannel final : private CallbackHandler {
 public:
  Backchannel(Delegations& delegations, LockWaits& lock_waits, BackgroundCopies& copies, SlotQueue& slots,
              Lease& lease)
      : delegations_(delegations),
        lock_waits_(lock_waits),
        copies_(copies),
        slots_(slots),
        lease_(lease),
        service_(*this, CallbackOptions()) {}
  Backchannel(const Backchannel&) = delete;
  Backchannel& operator=(const Backchannel&) = delete;

  /// Answers a Call that came over the channel.
  void answer(rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message);
  [[nodiscard]] CallbackService& service() { return service_; }

 private:
  nfsstat4 recall(const Recall& recall) override;
  std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) override;
  void recall_any(std::uint32_t objects_to_keep, const bitmap4& types) override;
  void recall_slot(slotid4 target_highest_slotid) override;
  void notify_lock(const nfs_fh4& file, const lock_owner4& owner) override;
  nfsstat4 copy_ended(const CB_OFFLOAD4args& args) override;

  Delegations& delegations_;
  LockWaits& lock_waits_;
  BackgroundCopies& copies_;
  SlotQueue& slots_;
  Lease& lease_;
  CallbackService service_;
};

}  // namespace nfsrdma::nfs4
