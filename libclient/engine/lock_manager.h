// Who gives byte-range locks where the file protocol itself has none: NFSv3 and v2 have a lock service beside them
// (NLM, and NSM for what a restart of the server does to locks). The system's is aux::Lockd; tests have their own.
//
// One call is one question to the service, tried until its deadline. A lock that is asked for twice is had once: locks
// of one owner are never in each other's way. So a question whose answer was lost is asked again.
//
// Confined to the loop's thread. Arguments are taken by value: a task may outlive what it was called with, but not
// the LockManager.
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
    denied,  ///< somebody else has it
    queued,  ///< somebody else has it; once the server has given it to us it says so. A Question with when_given only
    grace,  ///< the server takes reclaims only, or of a reclaim: it takes them no more
  };
  struct Question {
    security::Caller caller;
    FileHandle file;
    LockRequest lock;
    bool reclaim = false;  ///< it was held before the server's restart
    /// To be queued for it, where the server can say when it is given: it calls this, and the question has to be asked
    /// again. That may get lost. Whatever was queued, and is not wanted any more, has to be cancelled, and then unlocked.
    std::function<void()> when_given = nullptr;
  };

  LockManager() = default;
  virtual ~LockManager();
  LockManager(const LockManager&) = delete;
  LockManager& operator=(const LockManager&) = delete;

  /// Who is in the way of it, if anybody. EAGAIN: the server is in its grace period.
  virtual async::Task<Result<std::optional<LockHolder>>> test(Question question,
                                                              async::TimePoint deadline) = 0;
  virtual async::Task<Result<Verdict>> lock(Question question, async::TimePoint deadline) = 0;
  /// Of what is queued. What the server had given before that it has given.
  virtual async::Task<Status> cancel(Question question, async::TimePoint deadline) = 0;
  /// granted or grace.
  virtual async::Task<Result<Verdict>> unlock(Question question, async::TimePoint deadline) = 0;
  /// Nothing is held by this owner on this file any more, as far as is known.
  virtual void forget(const FileHandle& file, std::uint64_t owner) = 0;
  /// A number that each restart of the server changes. An Error: the server does not tell.
  virtual async::Task<Result<std::uint32_t>> server_state(async::TimePoint deadline) = 0;
  /// For people: how locks are done.
  [[nodiscard]] virtual std::string how() const = 0;
};

}  // namespace nfsrdma::engine
