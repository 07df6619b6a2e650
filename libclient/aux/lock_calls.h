// The calls that a server's lock service makes to a client that waits for locks: NLM_GRANTED, and
// NLM_GRANTED_MSG, which Linux sends and which is answered by a call of its own.
//
// Anybody can make such a call. The call alone changes nothing: the waiter asks the server again.
//
// Confined to the loop's thread.
#pragma once

#include <functional>
#include <utility>

#include "aux/programs.h"
#include "xdr/encoder.h"

namespace nfsrdma::aux {

class LockCalls {
 public:
  /// Returns true if the granted lock is still wanted. If it is not, the server unlocks it.
  using Given = std::function<bool(const nlm4_testargs& what)>;
  /// Sends NLM_GRANTED_RES.
  using Tell = std::function<void(nlm_res answer)>;

  LockCalls(Given given, Tell tell) : given_(std::move(given)), tell_(std::move(tell)) {}

  /// Fills in `reply`. Returns false if this is not a Call.
  [[nodiscard]] bool answer(xdr::ConstBytes call, xdr::Message& reply);

 private:
  const Given given_;
  const Tell tell_;
};

}  // namespace nfsrdma::aux
