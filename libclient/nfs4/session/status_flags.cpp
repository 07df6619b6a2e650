#include "nfs4/session/status_flags.h"

#include "wire/nfs4/ops.h"

namespace nfsrdma::nfs4 {
namespace {

using Reaction = bool Reactions::*;
constexpr Reaction kNone = nullptr;  // this client has no state that the flag concerns

struct FlagRow {
  std::uint32_t flag;
  Reaction reaction;
};
constexpr FlagRow kFlagRows[] = {
    {SEQ4_STATUS_CB_PATH_DOWN, &Reactions::mend_backchannel},
    {SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING, kNone},  // callbacks use AUTH_NONE
    {SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED, kNone},
    {SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, &Reactions::find_revoked},
    {SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED, &Reactions::find_revoked},
    {SEQ4_STATUS_ADMIN_STATE_REVOKED, &Reactions::find_revoked},
    {SEQ4_STATUS_RECALLABLE_STATE_REVOKED, &Reactions::find_revoked},
    {SEQ4_STATUS_LEASE_MOVED, kNone},  // shows as NFS4ERR_MOVED when the file system is used
    {SEQ4_STATUS_RESTART_RECLAIM_NEEDED, &Reactions::recover},
    {SEQ4_STATUS_CB_PATH_DOWN_SESSION, &Reactions::mend_backchannel},
    {SEQ4_STATUS_BACKCHANNEL_FAULT, &Reactions::new_session},
    {SEQ4_STATUS_DEVID_CHANGED, kNone},  // this client has no layouts
    {SEQ4_STATUS_DEVID_DELETED, kNone},
};

}  // namespace

Reactions reactions_to(std::uint32_t sr_status_flags) {
  Reactions out;
  for (const FlagRow& row : kFlagRows) {
    if ((sr_status_flags & row.flag) != 0 && row.reaction != kNone) out.*row.reaction = true;
  }
  return out;
}

}  // namespace nfsrdma::nfs4
