// The calls that a server's lock service makes to a client that waits for locks: NLM_GRANTED, and NLM_GRANTED_MSG, which
// is what Linux's sends, and which is answered by a call of its own.
//
// Anybody can make such a call. It changes nothing by itself: whoever waits asks the server.
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
  /// Whether the lock that is given is wanted. The server unlocks it if not.
  using Given = std::function<bool(const nlm4_testargs& what)>;
  /// Sends NLM_GRANTED_RES.
  using Tell = std::function<void(nlm_res answer)>;

  LockCalls(Given given, Tell tell) : given_(std::move(given)), tell_(std::move(tell)) {}

  /// Fills `reply`. False: this is no Call.
  [[nodiscard]] bool answer(xdr::ConstBytes call, xdr::Message& reply);

 private:
  const Given given_;
  const Tell tell_;
};

}  // namespace nfsrdma::aux
