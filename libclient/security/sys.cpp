#include "security/sys.h"

#include <utility>

namespace nfsrdma::security {

Sys::Sys(std::string machine, const Identity& own, NoticeSink notices)
    : machine_(std::move(machine)), notices_(std::move(notices)), own_(encode(own)) {}

rpc::Credential Sys::encode(const Identity& identity) {
  if (identity.groups.size() > kMostGroups && notices_ && told_.insert(identity.uid).second) {
    notices_("user " + std::to_string(identity.uid) + " is in " + std::to_string(identity.groups.size()) +
             " groups, of which AUTH_SYS sends " + std::to_string(kMostGroups) +
             "; access by the others is refused unless the server looks up groups itself (Linux: "
             "manage-gids=y in its nfs.conf)");
  }
  return rpc::Credential::sys(machine_, identity.uid, identity.gid, identity.groups);
}

const rpc::Credential& Sys::credential(const Caller& caller) {
  if (!caller) return own_;
  if (caller == last_) return *last_credential_;
  auto found = known_.find(*caller);
  if (found == known_.end()) {
    if (known_.size() >= kMostKnown) known_.clear();
    found = known_.emplace(*caller, encode(*caller)).first;
  }
  last_ = caller;
  last_credential_ = &found->second;
  return *last_credential_;
}

}  // namespace nfsrdma::security
