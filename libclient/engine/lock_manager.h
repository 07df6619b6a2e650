// The interface of a lock service, for file protocols that have no byte-range locks of their own: NFSv3 and
// v2 use a separate one (NLM, and NSM for the effect of a server's restart on locks). aux::Lockd is the real
// implementation; tests have their own.
//
// Each call asks the service one question and repeats it until the deadline. A lock that is requested twice
// is held once, because locks of one owner never conflict. So a question whose answer was lost is simply
// asked again.
//
// Confined to the loop's thread. Arguments are taken by value, because a task may outlive the objects that it
// was called with. The LockManager has to outlive its tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "async/loop.h"
#include "async/task.h"
#include "engine/spot.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"
#include "security/identity.h"

namespace nfsrdma::engine {

class LockManager {
 public:
  enum class Verdict : std::uint8_t {
    granted,
    denied,  ///< another owner holds it
    /// The lock is held by another owner; the server will call back when it has granted the lock to this
    /// client. Only for a Question with `when_given`.
    queued,
    /// The server is in its grace period and accepts reclaims only. As the answer to a reclaim: the period is
    /// over.
    grace,
  };
  struct Question {
    security::Caller caller;
    FileHandle file;
    LockRequest lock;
    bool reclaim = false;  ///< the lock was held before the server's restart
    /// If set, the request is queued when the lock is taken and the server is able to call back. This
    /// function is called when the server grants the lock; then the question has to be asked again. The
    /// server's call may get lost. A queued request that is no longer wanted has to be cancelled and then
    /// unlocked.
    std::function<void()> when_given = nullptr;
  };

  LockManager() = default;
  virtual ~LockManager();
  LockManager(const LockManager&) = delete;
  LockManager& operator=(const LockManager&) = delete;

  /// Returns the holder of a conflicting lock, or none. Fails with EAGAIN while the server is in its grace
  /// period.
  virtual async::Task<Result<std::optional<LockHolder>>> test(Question question,
                                                              async::TimePoint deadline) = 0;
  virtual async::Task<Result<Verdict>> lock(Question question, async::TimePoint deadline) = 0;
  /// Cancels a queued request. A lock that the server granted before that is held and has to be unlocked.
  virtual async::Task<Status> cancel(Question question, async::TimePoint deadline) = 0;
  /// Returns `granted` or `grace`.
  virtual async::Task<Result<Verdict>> unlock(Question question, async::TimePoint deadline) = 0;
  /// Called when, as far as is known, the owner holds no lock on the file any more.
  virtual void forget(const FileHandle& file, std::uint64_t owner) = 0;
  /// Returns a number that changes with each restart of the server. An Error means that the server does not
  /// report one.
  virtual async::Task<Result<std::uint32_t>> server_state(async::TimePoint deadline) = 0;
  /// Returns a description, for people, of how locks are implemented.
  [[nodiscard]] virtual std::string how() const = 0;
};

}  // namespace nfsrdma::engine
