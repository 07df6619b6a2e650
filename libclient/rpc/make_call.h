// One call, protected or not:
//
//     Outcome outcome = co_await make_call(channel, std::move(call), protection);
//
// Without protection that is Channel::call(). With it, what it takes to seal the call is had first, and had anew where it
// has gone meanwhile: a server forgets contexts when it restarts, or when it likes; then it refuses the Call without
// having looked at it, and the same Call is made again under a new one. The Outcome's `sends` does not count what was
// refused in this way.
//
// Confined to the loop's thread. Channel and Protection must outlive it.
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
  // One of them.
  std::optional<async::Task<Outcome>> protected_;
  std::optional<Channel::Awaiter> plain_;
};

/// `protection`: the call's seal; null: there is none.
inline MadeCall make_call(Channel& channel, rpcrdma::Call call, Protection* protection) {
  return {channel, std::move(call), protection};
}

}  // namespace nfsrdma::rpc
