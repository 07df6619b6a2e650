#include "nfs4/state/open_arguments.h"

namespace nfsrdma::nfs4 {

OPEN4args open_arguments(const CallLayer& calls, const Open& open, std::uint32_t wanted) {
  OPEN4args args;
  args.share_access = open.access;
  if (calls.version().opens_by_handle) args.share_access |= wanted;  // in NFSv4.0 the server decides
  args.share_deny = OPEN4_SHARE_DENY_NONE;
  args.owner.clientid = calls.facts().client_id;
  xdr::Message owner;
  xdr::Encoder(owner).u64(open.owner);
  if (calls.version().keeps_seqids) xdr::Encoder(owner).u64(0);  // the owner's generation (v40/owners.h)
  const auto bytes = owner.stream.bytes();
  args.owner.owner.value.assign(bytes.begin(), bytes.end());
  return args;
}

OPEN4args open_previous(const CallLayer& calls, const Open& open) {
  OPEN4args args = open_arguments(calls, open, 0);
  auto had = OPEN_DELEGATE_NONE;
  if (const Delegation* one = open.delegation()) had = one->writes ? OPEN_DELEGATE_WRITE : OPEN_DELEGATE_READ;
  args.claim = open_claim4::of<CLAIM_PREVIOUS>(had);
  return args;
}

OPEN4args open_again(const CallLayer& calls, const Open& open, std::uint32_t access, std::uint32_t wanted) {
  OPEN4args args = open_arguments(calls, open, wanted);
  args.share_access = (args.share_access & ~std::uint32_t{OPEN4_SHARE_ACCESS_BOTH}) | access;
  if (calls.version().opens_by_handle)
    args.claim = open_claim4::of<CLAIM_FH>();
  else
    args.claim = open_claim4::of<CLAIM_NULL>(component4{open.place->name});
  return args;
}

}  // namespace nfsrdma::nfs4
