// How calls are made: the options that every call takes, and the one mechanism behind blocking and started
// calls.
//
// An operation (file_operations.h, names_operations.h, many_operations.h) is a function that makes one call
// of the C interface, the variables in which the call stores its results, and a function that makes a C++
// value of them. api_detail::run() makes the blocking call of an operation. api_detail::start() starts it: the
// operation and the program's callback move to a Started in memory of its own (Room), which exists until the
// call's completion has been delivered. The C interface delivers exactly one completion for each started call,
// inside nfsrdma_wait(), nfsrdma_service() or nfsrdma_client_free().
//
// Callbacks of an object that was destroyed must not run. Therefore each Started refers to the Life of its
// File, Listing or Client, which that object's destructor ends.
//
// Nothing in namespace api_detail is part of the interface.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "nfsrdma/convert.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

/// How one call is made. Every call takes this as its last, optional argument.
///
///     file->read(data, 0, {.timeout = std::chrono::seconds(2), .tag = 7});
struct CallOptions {
  /// The call ends with ErrorKind::timeout after this time. 0: after the option `timeo`, which also is the
  /// upper limit.
  std::chrono::milliseconds timeout{};
  std::uint64_t tag = 0;  ///< the program's own number, for Client::cancel()
};

namespace api_detail {

/// The end of a call of the C interface: its result, or why it failed.
using Outcome = Result<std::int64_t>;

/// Memory for the calls that are started on one object. Keeps one block for the next call, because a callback
/// usually starts the next call just before its own is destroyed; so a steady load does not allocate. May be
/// used from any thread.
class Room {
 public:
  Room() = default;
  ~Room() { ::operator delete(spare_.load(std::memory_order_acquire)); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  [[nodiscard]] void* take(std::size_t size) {
    if (size > kBlock) return ::operator new(size);
    void* const spare = spare_.exchange(nullptr, std::memory_order_acquire);
    return spare != nullptr ? spare : ::operator new(kBlock);
  }
  /// `size`: as it was given to take().
  void give_back(void* block, std::size_t size) {
    if (size <= kBlock) block = spare_.exchange(block, std::memory_order_acq_rel);
    if (block != nullptr) ::operator delete(block);
  }

 private:
  static constexpr std::size_t kBlock = 256;  // a READ takes half of it
  std::atomic<void*> spare_ = nullptr;
};

/// Whether an object whose calls were started still exists. Callbacks run only between a successful enter()
/// and leave(). Also has the memory of these calls.
class Life {
 public:
  Life() = default;
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  /// A callback that runs on this thread. The callbacks of a thread are a list, innermost first.
  class Entry {
   public:
    explicit Entry(Life& life) : life_(life), outer_(innermost), is_alive_(life.enter()) { innermost = this; }
    ~Entry() {
      innermost = outer_;
      if (is_alive_) life_.leave();
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    explicit operator bool() const { return is_alive_; }

   private:
    friend class Life;
    Life& life_;
    Entry* const outer_;
    const bool is_alive_;
  };

  /// Keeps further callbacks from running, and waits for those that run on other threads. It may be called
  /// inside a callback of this Life. In a child of fork(2) those other threads do not exist, so it does not
  /// wait.
  void end() {
    std::uint32_t state = state_.fetch_or(kEnded) | kEnded;
    if (state / kOne == 0 || ::getpid() != process_) return;
    const std::uint32_t own = running_here();
    while (state / kOne > own) {
      state_.wait(state);
      state = state_.load();
    }
  }
  Room& room() { return room_; }

 private:
  static constexpr std::uint32_t kEnded = 1, kOne = 2;
  // Visible, so that all shared objects of a program use the same one even if they hide their own symbols.
  [[gnu::visibility("default")]] static inline constinit thread_local Entry* innermost = nullptr;

  bool enter() {
    if ((state_.fetch_add(kOne) & kEnded) == 0) return true;
    leave();
    return false;
  }
  void leave() {
    if ((state_.fetch_sub(kOne) & kEnded) != 0) state_.notify_all();
  }
  [[nodiscard]] std::uint32_t running_here() const {
    std::uint32_t count = 0;
    for (const Entry* at = innermost; at != nullptr; at = at->outer_) {
      if (&at->life_ == this && at->is_alive_) ++count;
    }
    return count;
  }

  std::atomic<std::uint32_t> state_ = 0;  // kEnded, and kOne for each callback that runs
  const pid_t process_ = ::getpid();
  Room room_;
};

/// A call that was started, with the callback that is to receive its result. Its memory comes from the Room of its
/// owner.
class Started {
 public:
  explicit Started(std::shared_ptr<Life>&& owner) : owner_(std::move(owner)) {}
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  /// The callback of every call that is started. Runs the program's callback, unless the object that started
  /// the call was destroyed, and destroys the call. The program's callback is destroyed before Life::end()
  /// returns on another thread.
  static void completed(void* data, const nfsrdma_completion* completion) noexcept {
    auto* const call = static_cast<Started*>(data);
    const std::shared_ptr<Life> owner = std::move(call->owner_);
    const Life::Entry entry(*owner);
    if (entry) call->deliver(call->outcome(*completion));
    call->destroy(owner->room());
  }
  /// Has completed() run with this error, although the call could not be started: its callback must not run
  /// before the function that was to start it has returned. If the client is being freed, the callback never
  /// runs.
  static void fail(Started& call, Error why, nfsrdma_client* client) {
    auto how = sized<nfsrdma_call>();
    call.fault_ = std::move(why);
    how.done = &Started::completed;
    how.data = &call;
    if (nfsrdma_post(client, &how, nullptr) == 0) return;
    const std::shared_ptr<Life> owner = std::move(call.owner_);
    call.destroy(owner->room());
  }

 protected:
  ~Started() = default;

 private:
  virtual void deliver(const Outcome& outcome) = 0;
  /// Destroys the call, and gives its memory back.
  virtual void destroy(Room& room) = 0;
  [[nodiscard]] Outcome outcome(const nfsrdma_completion& completion) const {
    if (fault_) return *fault_;
    if (completion.result >= 0) return completion.result;
    return error_from(completion.error);
  }
  std::shared_ptr<Life> owner_;
  std::optional<Error> fault_;  // why the call could not be started
};

/// The state that a Client shares with its Directories, Files and Listings.
struct ClientState {
  explicit ClientState(nfsrdma_client* of) : client(of) {}
  nfsrdma_client* const client;
  Life life;  ///< of the Client: for calls by path
};

// ---- operations ----

/// The two last arguments of every call of the C interface.
struct How {
  const nfsrdma_call* call;
  nfsrdma_error** error;
};

/// The variables of an operation that has none.
struct Nothing {};

/// An operation. `Begin` is called as begin(out, how), and makes the call of the C interface. `Finish` is
/// called as finish(out, outcome), and returns the value for the program. While a call is under way, the
/// operation does not move, so pointers to its members stay valid.
template <class Out, class Begin, class Finish>
class Operation {
 public:
  Operation(Out out, Begin begin, Finish finish)
      : out_(std::move(out)), begin_(std::move(begin)), finish_(std::move(finish)) {}

  Outcome begin(const nfsrdma_call* call) {
    if constexpr (requires { begin_.fault(); }) {
      if (const std::optional<Error> fault = begin_.fault()) return *fault;
    }
    OwnedError error;
    const std::int64_t result = begin_(out_, How{call, error.room()});
    if (result >= 0) return result;
    return error_from(error.get());
  }
  auto finish(const Outcome& outcome) { return finish_(out_, outcome); }

 private:
  Out out_;
  Begin begin_;
  Finish finish_;
};

/// Begins an operation on one or two texts, which become texts of C.
template <class Begin, std::size_t Count>
class OnTexts {
 public:
  OnTexts(Begin begin, std::string first, std::string second = {})
      : texts_{std::move(first), std::move(second)}, begin_(std::move(begin)) {}

  /// Returns an Error if a text contains a NUL character, at which C would take it to end.
  [[nodiscard]] std::optional<Error> fault() const {
    for (const std::string& text : texts_) {
      if (has_nul(text)) return nul_error(text);
    }
    return std::nullopt;
  }
  template <class Out>
  std::int64_t operator()(Out& out, How how) {
    if constexpr (Count == 1) {
      return begin_(texts_[0].c_str(), out, how);
    } else {
      return begin_(texts_[0].c_str(), texts_[1].c_str(), out, how);
    }
  }

 private:
  std::string texts_[2];
  Begin begin_;
};
template <class Begin>
OnTexts<Begin, 1> on_path(std::string_view path, Begin begin) {
  return {std::move(begin), std::string(path)};
}
template <class Begin>
OnTexts<Begin, 2> on_texts(std::string_view first, std::string_view second, Begin begin) {
  return {std::move(begin), std::string(first), std::string(second)};
}

/// Finishes an operation that succeeds without a value.
struct AsStatus {
  template <class Out>
  Status operator()(Out&, const Outcome& outcome) const {
    if (!outcome) return outcome.error();
    return {};
  }
};
/// Finishes an operation whose value is the result of the C function, as a T.
template <class T>
struct AsNumber {
  template <class Out>
  Result<T> operator()(Out&, const Outcome& outcome) const {
    if (!outcome) return outcome.error();
    return static_cast<T>(*outcome);
  }
};
/// Finishes an operation whose value is value(out, result), unless the call failed.
template <class Value>
struct AsValue {
  Value value;
  template <class Out>
  auto operator()(Out& out, const Outcome& outcome)
      -> Result<std::remove_cvref_t<std::invoke_result_t<Value&, Out&, std::int64_t>>> {
    if (!outcome) return outcome.error();
    return value(out, *outcome);
  }
};
template <class Value>
AsValue(Value) -> AsValue<Value>;

inline nfsrdma_call c_call(const CallOptions& options) {
  auto out = sized<nfsrdma_call>();
  out.tag = options.tag;
  out.timeout = options.timeout.count();
  return out;
}

/// Makes the blocking call of an operation.
template <class Op>
auto run(Op operation, const CallOptions& options) {
  if (options.tag == 0 && options.timeout.count() == 0) return operation.finish(operation.begin(nullptr));
  const nfsrdma_call call = c_call(options);
  return operation.finish(operation.begin(&call));
}

template <class Op, class Done>
class StartedOperation final : public Started {
 public:
  /// Makes the object in the Room of `owner`.
  static StartedOperation& make(std::shared_ptr<Life> owner, Op&& operation, Done&& done) {
    static_assert(alignof(StartedOperation) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    void* const block = owner->room().take(sizeof(StartedOperation));
    return *new (block) StartedOperation(std::move(owner), std::move(operation), std::move(done));
  }
  Outcome begin(const nfsrdma_call& call) { return operation_.begin(&call); }

 private:
  StartedOperation(std::shared_ptr<Life>&& owner, Op&& operation, Done&& done) noexcept
      : Started(std::move(owner)), operation_(std::move(operation)), done_(std::move(done)) {}
  ~StartedOperation() = default;
  void deliver(const Outcome& outcome) override { done_(operation_.finish(outcome)); }
  void destroy(Room& room) override {
    this->~StartedOperation();
    room.give_back(this, sizeof(StartedOperation));
  }
  Op operation_;
  Done done_;
};

/// Starts an operation of the object with this Life.
template <class Op, class Done>
void start(ClientState& client, std::shared_ptr<Life> owner, Op&& operation, Done&& done,
           const CallOptions& options) {
  static_assert(std::is_rvalue_reference_v<Op&&> && std::is_rvalue_reference_v<Done&&>);
  auto& started = StartedOperation<Op, Done>::make(std::move(owner), std::forward<Op>(operation),
                                                   std::forward<Done>(done));
  nfsrdma_call call = c_call(options);
  call.done = &Started::completed;
  call.data = static_cast<Started*>(&started);
  call.flags = NFSRDMA_MORE;
  // Once the call has begun, another thread may deliver its completion and so destroy `started`.
  if (const Outcome outcome = started.begin(call); !outcome)
    Started::fail(started, outcome.error(), client.client);
}

}  // namespace api_detail
}  // namespace nfsrdma
