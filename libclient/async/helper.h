// Runs work that blocks (name services, libtirpc) on a thread of its own.
//
//     auto done = co_await on_helper<Answer>(loop, deadline, [question] { return ask(question); });
//     if (!done) …not in time…
//
// The work must own everything that it uses. If it does not end in time, the caller stops waiting, the work
// continues, and its result is discarded. The thread receives none of the program's signals.
//
// on_helper() is confined to the loop's thread; the work must not touch anything that is.
#pragma once

#include <pthread.h>
#include <sys/epoll.h>

#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "async/event.h"
#include "async/loop.h"
#include "async/task.h"
#include "async/until.h"
#include "async/wakeup.h"

namespace nfsrdma::async {

/// Blocks all signals in this thread. Threads that are started during its lifetime inherit that.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// The state that the work and its caller share. The last of both to end frees it.
template <class T>
struct HelperState {
  std::mutex mutex;
  std::optional<T> result;
  Wakeup ended;
};

/// Returns the result of the work; nothing if the work has not ended in time, or if no thread or descriptor
/// was available.
template <class T>
Task<std::optional<T>> on_helper(Loop& loop, TimePoint deadline, std::function<T()> work) {
  std::shared_ptr<HelperState<T>> state;
  try {
    state = std::make_shared<HelperState<T>>();
    const AllSignalsBlocked blocked;
    std::thread([state, work = std::move(work)] {
      T result = work();
      const std::lock_guard guard(state->mutex);
      state->result = std::move(result);
      state->ended.set();
    }).detach();
  } catch (const std::system_error&) {
    co_return std::nullopt;
  }
  class Watch {
   public:
    Watch(Loop& on, int descriptor, Event& event) : loop_(on), fd_(descriptor) {
      loop_.watch(fd_, EPOLLIN, [&event](std::uint32_t) { event.notify_all(); });
    }
    ~Watch() { loop_.unwatch(fd_); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Loop& loop_;
    const int fd_;
  };
  Event told(loop);
  const Watch watch(loop, state->ended.descriptor(), told);
  const auto is_there = [&state] {
    const std::lock_guard guard(state->mutex);
    return state->result.has_value();
  };
  const bool in_time = co_await until(told, deadline, is_there);
  if (!in_time) co_return std::nullopt;
  const std::lock_guard guard(state->mutex);
  co_return std::move(state->result);
}

}  // namespace nfsrdma::async
