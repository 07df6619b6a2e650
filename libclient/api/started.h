// Calls that a program has started, from their start until the program has received their completion.
//
// A StartedCall is in one list at a time. While it is under way it is in the Calls of the object that it was
// made on: a client, a file, a listing. When it has ended it is in the Completions that its program named: a
// queue of the program, or the client's own, from which nfsrdma_wait() takes callbacks. deliver() then writes
// the program's variables, on the thread that receives the completion.
//
// A call ends by itself, by cancel() (nfsrdma_cancel, a deadline, the end of the object it was made on), and
// exactly once. Cancelling destroys its task, which takes its buffers out of the server's reach.
//
// Thread-safety: guarded by the client's Crew; only a thread that is inside (crew.h) may use anything here,
// except Completions::descriptor().
#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/outcome.h"
#include "async/descriptor.h"
#include "async/loop.h"
#include "async/wakeup.h"
#include "nfsrdma/nfsrdma.h"

namespace nfsrdma::api {

class ClientCore;
class Completions;

/// The path of an object, which a call that was started on it keeps.
using SharedPath = std::shared_ptr<const std::string>;

/// How a call is made: an nfsrdma_call, checked.
struct How {
  Completions* queue = nullptr;
  nfsrdma_done done = nullptr;
  void* data = nullptr;
  std::uint64_t tag = 0;
  std::chrono::milliseconds timeout{0};  ///< 0: as the option timeo says
  bool more = false;                     ///< NFSRDMA_MORE
  bool has_tag = false;                  ///< the call has an nfsrdma_call, so it can be cancelled by its tag
  const SharedPath* path = nullptr;      ///< of the object that the call is made on, for errors; or null
  [[nodiscard]] bool blocks() const { return queue == nullptr && done == nullptr; }
  /// EINVAL if `call` is malformed, or names a queue of another client. Null is a blocking call.
  static Result<How> from(const nfsrdma_call* call, const ClientCore& client,
                          const SharedPath* path = nullptr);

 private:
  std::optional<Error> read(const nfsrdma_call& call, const ClientCore& client);
};

using ListHook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class StartedCall : public ListHook {
 public:
  explicit StartedCall(ClientCore& client) : client_(client) {}
  virtual ~StartedCall() = default;
  StartedCall(const StartedCall&) = delete;
  StartedCall& operator=(const StartedCall&) = delete;

  /// Ends the call with this error, unless it has ended.
  void cancel(const Error& why);
  /// Writes the program's variables, and returns the completion. Called once, after the call has ended.
  [[nodiscard]] nfsrdma_completion deliver();
  /// Gives up the object, delivered or not.
  virtual void release() { delete this; }

  [[nodiscard]] const How& how() const { return how_; }
  [[nodiscard]] Completions& completions() const { return *to_; }

 protected:
  friend class ClientCore;
  /// Returns the result for the completion, after writing the program's variables.
  virtual Result<std::int64_t> finish() = 0;
  /// Returns the result of a call that was cancelled or could not begin.
  virtual Result<std::int64_t> fail(const Error& why) { return why; }
  /// Destroys whatever works for the call.
  virtual void drop();
  /// Called once, when the result is known.
  void ended();
  [[nodiscard]] ClientCore& client() const { return client_; }

  std::uint64_t task_ = 0;    // number of the loop's task that works for the call
  std::optional<Error> why_;  // set if the call was cancelled or could not begin

 private:
  ClientCore& client_;
  How how_;
  SharedPath path_;
  Completions* to_ = nullptr;
  async::Loop::TimerId timer_ = 0;
  bool over_ = false;
};

using CallList = boost::intrusive::list<StartedCall, boost::intrusive::constant_time_size<false>>;

/// The calls that are under way on one object.
class Calls {
 public:
  Calls() = default;
  ~Calls() = default;
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  void add(StartedCall& call) { list_.push_back(call); }
  /// Cancels those for which `which` returns true. Returns their number.
  template <class Which>
  std::size_t cancel_if(Which which, const Error& why) {
    std::size_t count = 0;
    for (auto at = list_.begin(); at != list_.end();) {
      StartedCall& call = *at++;
      if (!which(call)) continue;
      call.cancel(why);
      ++count;
    }
    return count;
  }
  void cancel_all(const Error& why) {
    (void)cancel_if([](const StartedCall&) { return true; }, why);
  }

 private:
  CallList list_;
};

/// The completions that a program has not received yet: a completion queue, or the callbacks that are due.
class Completions {
 public:
  Completions() = default;
  virtual ~Completions() { clear(); }
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  // For calls: each is expected once, and pushed once.
  void expect() { ++pending_; }
  void push(StartedCall& call);
  /// Destroys the completions that were not taken, with what they hold.
  void clear();

  [[nodiscard]] bool empty() const { return ended_.empty(); }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Number of calls that were started and not yet taken.
  [[nodiscard]] std::size_t pending() const { return pending_; }
  StartedCall& take();

  /// Returns a descriptor that is readable when there are completions, when the loop has something to do, or
  /// when one of its timers is due. Makes it first, and throws std::system_error if no descriptor is left.
  int descriptor(async::Loop& loop);
  [[nodiscard]] bool has_descriptor() const { return poll_.is_valid(); }
  /// Makes the descriptor agree with what there is to do. Called when a thread stops receiving, and when a
  /// call was started.
  void settle(async::Loop& loop) {
    if (poll_.is_valid()) settle_descriptor(loop);
  }
  /// While a thread receives completions, new ones need not make the descriptor readable.
  void set_receiving(bool receiving) { receiving_ = receiving; }

 private:
  void wake();
  void settle_descriptor(async::Loop& loop);
  void set_timer(async::TimePoint now, async::TimePoint due);
  CallList ended_;
  std::size_t count_ = 0, pending_ = 0;
  bool receiving_ = false;
  bool woken_ = false;
  async::Descriptor poll_, timer_;
  std::optional<async::Wakeup> wake_;
  async::TimePoint armed_ = async::TimePoint::max();  // when timer_ fires
};

}  // namespace nfsrdma::api
