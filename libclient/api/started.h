// Asynchronous calls that a program has started on a File, or by path on a Client, each with the callback
// that receives its result.
//
// A call runs as a task of the loop, with the body of the blocking call of the same name. Its callback runs
// once, as soon as callbacks may run (ClientImpl::callback_time), or never if drop() comes first.
//
// In a child of fork(2) no task is started. Instead wait() and service() report to the callback that the call
// is refused.
//
// Ownership: a Started belongs to the object that the calls are made on, a File or a Client, whose memory the
// tasks use. The owner calls drop() before it is destroyed.
//
// Thread-safety: guarded as the Client is; only a thread that is inside (crew.h) may use it. The bodies of
// the templates are in client_impl.h.
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

  /// Starts the task that `make` returns. `make` runs inside (crew.h), and the end of the turn sends the
  /// call. R is a Result or a Status. May be called from any thread.
  template <class R, class Make>
  void start(Make make, std::function<void(R)> done);
  /// Destroys the tasks, which takes their buffers out of the server's reach. Their callbacks do not run.
  void drop();
  /// Replaces drop() in a child of fork(2): callbacks that have not yet received their refusal do not run.
  void forget_refusals() { refusals_.reset(); }

 private:
  template <class R>
  async::Task<void> run(std::uint64_t key, async::Task<R> call, std::function<void(R)> done);

  ClientImpl& client_;
  std::map<std::uint64_t, std::uint64_t> under_way_;  // the loop's task numbers, by our keys
  std::uint64_t last_key_ = 0;
  // Used in a child of fork(2) only. When it has expired, callbacks of refused calls do not run.
  std::shared_ptr<const void> refusals_;
};

}  // namespace nfsrdma::api
