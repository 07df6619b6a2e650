// Makes one call, protected or not:
//
//     Outcome outcome = co_await make_call(channel, std::move(call), protection);
//
// Without protection this is Channel::call(). With protection, the security context that seals the call is
// established first, and established again if it is lost meanwhile. A server forgets contexts when it
// restarts, or at any time it likes. It then refuses the Call without looking at it, and the same Call is
// made again with a new context. The Outcome's `sends` does not count Calls that were refused in this way.
//
// Confined to the loop's thread. Channel and Protection must outlive the call.
#pragma once

#include <optional>

#include "rpc/channel.h"
#include "rpc/protection.h"

namespace nfsrdma::rpc {

class MadeCall {
 public:
  MadeCall(Channel& channel, rpcrdma::Call call, Protection* protection);
  MadeCall(const MadeCall&) = delete;
  MadeCall& operator=(const MadeCall&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
    if (protected_) return protected_->await_suspend(waiting);
    plain_->await_suspend(waiting);
    return std::noop_coroutine();
  }
  Outcome await_resume() { return protected_ ? protected_->await_resume() : plain_->await_resume(); }

 private:
  // Exactly one of these is set.
  std::optional<async::Task<Outcome>> protected_;
  std::optional<Channel::Awaiter> plain_;
};

/// Makes a call. `protection` is the call's seal; null: the call is not protected.
inline MadeCall make_call(Channel& channel, rpcrdma::Call call, Protection* protection) {
  return {channel, std::move(call), protection};
}

}  // namespace nfsrdma::rpc
