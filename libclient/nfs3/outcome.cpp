// Decides what became of a call whose first answer was lost and whose second answer says that there was
// nothing left to do: EXIST for this client's own MKDIR, NOENT for its own REMOVE (RFC 1813 4.8).
//
// The server's reply cache answers most repeated calls as it answered them first. If the cache has forgotten
// the call, the directory decides. If the directory has not changed since before the call was sent first, the
// first sending had no effect, and the refusal is genuine. If it has changed, its present content decides: an
// object that is as this client would have made it is taken for this client's own, and a name that is gone is
// taken for removed by it. This cannot tell whether somebody else did the same at the same moment.
//
// A RENAME whose old name is gone was made if the new name leads to the renamed object (engine::is_renamed). Otherwise the
// object was removed under one of the names, or renamed by somebody else, or never existed: the outcome is not known.
//
// make(), link(), remove_with() and rename() ask (object_operations.cpp).
#include <cerrno>

#include "nfs3/object_operations.h"

namespace nfsrdma::nfs3 {

bool ObjectOperations::may_be_own_effect(const Doubt& doubt, const post_op_attr& directory) {
  if (doubt.sends < 2) return false;
  return !doubt.before || !directory || directory->ctime != *doubt.before;
}

Error ObjectOperations::unknown_outcome(const Error& refused) {
  return {
      ErrorKind::unknown_outcome,
      EIO,
      refused.status(),
      refused.operation(),
      refused.peer(),
      refused.message() +
          ", but it is not known whether an earlier transmission was executed: check before you repeat it"};
}

}  // namespace nfsrdma::nfs3
