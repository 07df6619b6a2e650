#include "sim/server.h"

#include <utility>

#include "wire/nfs4/status.h"

namespace nfsrdma::sim {

/// "OPEN+GETFH NFS4ERR_DELAY, connection 2, slot 0:17".
void SimServer::trace(const testing::SeenCall& call) {
  // What broke a rule, where it did.
  if (const std::string& problems = state().problems; problems.size() > told_) {
    host_.simulation().say(host_.number(), "PROBLEM", problems.substr(std::exchange(told_, problems.size())));
  }
  std::string text = call.operations();
  if (text.empty()) text = "SEQUENCE";
  if (call.status != nfs4::NFS4_OK) text += " " + std::string(nfs4::to_string(call.status));
  text += ", connection " + std::to_string(call.connection) + ", slot " +
          std::to_string(call.sequence.sa_slotid) + ":" + std::to_string(call.sequence.sa_sequenceid);
  if (call.replayed) text += ", replayed";
  host_.simulation().say(host_.number(), "answers", std::move(text));
}

}  // namespace nfsrdma::sim
