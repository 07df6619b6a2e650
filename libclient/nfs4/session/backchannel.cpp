#include "nfs4/session/backchannel.h"

namespace nfsrdma::nfs4 {

void Backchannel::answer(rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message) {
  xdr::Message reply = over.take_message();
  const std::uint32_t most = largest_callback_reply(over.facts().call_threshold);
  if (service_.answer(message, reply, most)) {
    over.answer(id, std::move(reply));
  } else {
    over.give_back(std::move(reply));
    over.decline(id);
  }
  delegations_.return_recalled();
}

nfsstat4 Backchannel::recall(const Recall& recall) {
  return delegations_.recall(recall);
}

std::optional<DelegatedAttributes> Backchannel::getattr(const nfs_fh4& file) {
  return delegations_.attributes(file);
}

void Backchannel::recall_any(std::uint32_t objects_to_keep, const bitmap4& types) {
  delegations_.recall_any(objects_to_keep, types);
}

void Backchannel::recall_slot(slotid4 target_highest_slotid) {
  slots_.table().lower_target(target_highest_slotid);
  // A SEQUENCE tells the server that this client no longer uses the slots above the target.
  lease_.renew_now();
}

void Backchannel::notify_lock(const nfs_fh4& file, const lock_owner4& owner) {
  lock_waits_.notify(file, owner);
}

nfsstat4 Backchannel::copy_ended(const CB_OFFLOAD4args& args) {
  BackgroundCopies::Outcome outcome{args.coa_stateid, args.coa_offload_info.tag(), {}};
  if (const auto* written = args.coa_offload_info.get<NFS4_OK>()) outcome.written = *written;
  return copies_.ended(outcome);
}

}  // namespace nfsrdma::nfs4
