#include "nfs4/open_arguments.h"

namespace nfsrdma::nfs4 {

OPEN4args open_arguments(const Calls& calls, const Open& open) {
  OPEN4args args;
  // Who writes gains nothing by one; without a backchannel there is nobody to recall it from. In NFSv4.0 the server
  // decides.
  const bool wanted = open.access == OPEN4_SHARE_ACCESS_READ && calls.facts().backchannel && !calls.ending();
  args.share_access = open.access;
  if (calls.has_sessions())
    args.share_access |= wanted ? OPEN4_SHARE_ACCESS_WANT_READ_DELEG : OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  args.share_deny = OPEN4_SHARE_DENY_NONE;
  args.owner.clientid = calls.facts().client_id;
  xdr::Message owner;
  xdr::Encoder(owner).u64(open.owner);
  if (!calls.has_sessions()) xdr::Encoder(owner).u64(0);  // its generation (v40/owners.h)
  const auto bytes = owner.stream.bytes();
  args.owner.owner.value.assign(bytes.begin(), bytes.end());
  return args;
}

OPEN4args open_previous(const Calls& calls, const Open& open) {
  OPEN4args args = open_arguments(calls, open);
  args.share_access = open.access;
  args.claim = open_claim4::of<CLAIM_PREVIOUS>(open.delegation ? OPEN_DELEGATE_READ : OPEN_DELEGATE_NONE);
  return args;
}

OPEN4args open_again(const Calls& calls, const Open& open) {
  OPEN4args args = open_arguments(calls, open);
  if (calls.has_sessions())
    args.claim = open_claim4::of<CLAIM_FH>();
  else
    args.claim = open_claim4::of<CLAIM_NULL>(component4{open.place->name});
  return args;
}

}  // namespace nfsrdma::nfs4
