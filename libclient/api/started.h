// Calls that were started, each with the callback that hears how it ended: those of a File on its file, those of a
// Client by path.
//
// A call runs as a task of the loop, with the body that the blocking call has. It is told once, when callbacks
// may run (ClientImpl::callback_time), or, after drop(), never.
//
// In a child of fork(2) nothing is started: wait() and service() tell the callback that the call is refused.
//
// Owned by what the calls are on, whose memory the tasks use: that calls drop() before it goes. Guarded as the
// Client is: for who is inside (crew.h). The templates' bodies are in client_impl.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "async/task.h"
#include "nfsrdma/result.h"

namespace nfsrdma::api {

class ClientImpl;

/// A call that ends with an Error before it has begun.
template <class R>
async::Task<R> refused(Error error) {
  co_return error;
}

class Started {
 public:
  explicit Started(ClientImpl& client) : client_(client) {}
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  /// Starts the task that `make` makes, inside, and sends it off. R is a Result or a Status. From anywhere.
  template <class R, class Make>
  void start(Make make, std::function<void(R)> done);
  /// Destroys the tasks, which takes their buffers out of the server's reach.
  void drop();
  /// In a child of fork(2), in place of drop(): callbacks that have yet to hear of a refusal do not run.
  void forget_refusals() { refusals_.reset(); }

 private:
  template <class R>
  async::Task<void> run(std::uint64_t key, async::Task<R> call, std::function<void(R)> done);

  ClientImpl& client_;
  std::map<std::uint64_t, std::uint64_t> under_way_;  // the loop's numbers, by ours
  std::uint64_t last_key_ = 0;
  std::shared_ptr<const void> refusals_;  // used in a child of fork(2); expired: their callbacks do not run
};

}  // namespace nfsrdma::api
