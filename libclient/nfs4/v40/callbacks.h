// The server's calls to a client of NFSv4.0 (RFC 7530 17 and 18). All of them concern delegations.
//
// They arrive over TCP at the listener of connect/nfs40.cpp. Confined to the loop's thread.
#pragma once

#include <optional>

#include "nfs4/compound/callback.h"
#include "nfs4/state/delegations.h"

namespace nfsrdma::nfs4 {

class Callbacks final : private CallbackHandler {
 public:
  /// `ident`: the callback_ident that SETCLIENTID announces.
  Callbacks(Delegations& delegations, std::uint32_t ident) : delegations_(delegations), service_(*this, {}) {
    service_.reset_without_session(ident);
  }
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// Answers a Call as CallbackService::answer() does, then begins to return what was recalled.
  [[nodiscard]] bool answer(xdr::ConstBytes call, xdr::Message& reply) {
    const bool answered = service_.answer(call, reply);
    delegations_.return_recalled();
    return answered;
  }

 private:
  nfsstat4 recall(const Recall& recall) override { return delegations_.recall(recall); }
  std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) override {
    return delegations_.attributes(file);
  }
  // NFSv4.0 does not have these callbacks.
  void recall_any(std::uint32_t /*objects_to_keep*/, const bitmap4& /*types*/) override {}
  void recall_slot(slotid4 /*target_highest_slotid*/) override {}
  void notify_lock(const nfs_fh4& /*file*/, const lock_owner4& /*owner*/) override {}

  Delegations& delegations_;
  CallbackService service_;
};

}  // namespace nfsrdma::nfs4
