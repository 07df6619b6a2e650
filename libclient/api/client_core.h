// A client of the C interface: an engine, one loop, one server, and a Crew of threads (crew.h).
//
// A calling thread starts its call itself; one of the threads that wait runs the loop for all of them. The
// keeper, a thread of the library, runs the loop while no other thread waits: it answers the server's calls,
// renews the lease, completes what was started, and notices a dead connection.
//
// Every operation of the C interface is one call(): `make` makes the task that does it, and `finish` turns the
// result of the task into the number that the C function returns and writes the program's variables. A
// blocking call waits for the task. A started call becomes a StartedCall (started.h).
//
// In a child of fork(2) calls are refused before they come inside. A ClientCore or FileCore that is freed in
// the child stays in memory, because its destructor would undo what the parent still uses, and might read
// lists that another thread was changing at the time of the fork. Its descriptors have been closed by then
// (async/descriptor.h).
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "api/crew.h"
#include "api/places.h"
#include "api/shards.h"
#include "api/started.h"
#include "async/listed.h"
#include "async/loop.h"
#include "async/reused.h"
#include "async/under_way.h"
#include "async/wakeup.h"
#include "connect/server.h"
#include "engine/fast_read.h"
#include "engine/paths.h"

namespace nfsrdma::api {

class FileCore;
class Reading;

/// The environment of a client. By default: this process, with a loop and a keeper of its own.
struct Setup {
  /// A loop that others run, too, and that keeps the lease; then there is no keeper.
  async::Loop* loop = nullptr;
  connect::Surroundings surroundings = connect::Surroundings::system();
  /// See Server: overrides how long an operation is tried.
  std::optional<std::chrono::milliseconds> patience;
  nfsrdma_log log = nullptr;
  void* log_data = nullptr;
  int interrupt = -1;  ///< a descriptor; see nfsrdma_options_set_interrupt
};

/// Returns a task that ends with an Error.
template <class R>
async::Task<R> refused(Error error) {
  co_return error;
}

class ClientCore {
 public:
  ClientCore(const connect::Target& target, const std::vector<rpc::Address>& addresses,
             const Setup& setup = {});
  /// Disconnects. In a child of fork(2) the object may not be destroyed.
  ~ClientCore();
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;
  Status start(async::TimePoint deadline);

  Status disconnect();
  /// Returns true while the last callbacks of a client that is being freed run. Nothing can be started then.
  [[nodiscard]] bool is_freed() const { return freed_; }
  [[nodiscard]] Error freed() const;
  [[nodiscard]] Error disconnected() const;
  Info info();
  /// The server and its connections, for a thread that is inside.
  [[nodiscard]] const connect::Server& server() const { return server_; }
  [[nodiscard]] const connect::Target& target() const { return target_; }
  [[nodiscard]] nfsrdma_dir& root() { return *root_; }

  // ---- calls ----

  /// Makes a call on the object that `calls` belongs to. R: the result of the task, a Result or a Status.
  /// `finish` takes its value, or all of R, and returns a Result<std::int64_t> or a number. After
  /// disconnect() only a call that needs no connection begins.
  enum class Needs : bool { nothing, connection };
  template <class R, class Make, class Finish>
  std::int64_t call(Calls& calls, const How& how, nfsrdma_error** error, Make make, Finish finish,
                    Needs needs = Needs::connection);
  /// Waits until the task that `make` returns has ended.
  template <class R, class Make>
  R run(const How& how, Make make);
  void submit();
  std::size_t cancel(std::uint64_t tag);
  /// Cancels all calls whose completions `queue` would receive, and destroys their results: files that they
  /// have opened begin to be closed.
  void cancel_all(Completions& queue);
  Calls& calls() { return calls_; }
  /// Objects other than files register their calls here, so that they can be cancelled by tag.
  void add(Calls& calls) { others_.push_back(&calls); }
  void remove(Calls& calls) { std::erase(others_, &calls); }

  // ---- completions ----

  std::int64_t reap(Completions& queue, std::span<nfsrdma_completion> out, std::size_t least,
                    std::chrono::milliseconds most);
  std::size_t pending(const Completions& queue);
  bool wait(std::chrono::milliseconds most, std::span<const int> also);
  void service();
  /// Returns -1 if no descriptor is left, and in a child of fork(2).
  int descriptor(Completions& queue);
  Completions& callbacks() { return callbacks_; }

  // ---- for StartedCall, FileCore and the functions of the C interface ----

  [[nodiscard]] engine::Paths& paths() { return *paths_; }
  [[nodiscard]] engine::Engine& engine() { return *server_.engine(); }
  [[nodiscard]] Crew& crew() { return crew_; }
  [[nodiscard]] async::Loop& loop() { return loop_; }
  [[nodiscard]] async::TimePoint later(std::chrono::milliseconds most) const;
  [[nodiscard]] std::uint32_t rsize() const { return server_.rsize(); }
  [[nodiscard]] std::uint32_t wsize() const { return server_.wsize(); }
  /// Returns true in a child of the process that made the client. May be called from any thread.
  [[nodiscard]] bool is_inherited() const { return crew_.is_inherited(); }
  /// Returns the error of every call in such a child.
  [[nodiscard]] Error inherited() const;
  [[nodiscard]] bool connected() const { return connected_; }
  /// Null if there are none.
  [[nodiscard]] Shards* shards() const { return shards_.get(); }
  /// Errors of calls that the program has given up.
  [[nodiscard]] Error cancelled() const;
  [[nodiscard]] Error interrupted() const;
  /// Shows a line to the user. The caller is inside.
  void notice(const std::string& text);
  /// Called when a user's thread leaves. Wakes the keeper if no other thread leads and the loop has something to
  /// do before the keeper looks next.
  void tell_keeper();
  /// Returns the error of a call. An error that names nothing, or only the server, is made to name the path
  /// that the call was made on.
  [[nodiscard]] Error on_its_path(const Error& why, const How& how) const;
  /// Counts a file that is being closed for as long as the returned value lives; disconnect() waits for all
  /// of them.
  [[nodiscard]] async::Use closes_file() { return {closing_files_, files_closed_}; }
  /// Each FileCore registers itself, so that disconnect() can close it.
  void add(FileCore& file) { files_.push_back(&file); }
  void remove(FileCore& file) { std::erase(files_, &file); }
  [[nodiscard]] async::Reused<Reading>& readings() { return readings_; }
  /// Prepares a call as StartedCall says, and adds it to `calls`. The caller is inside.
  void begin(StartedCall& call, Calls& calls, const How& how);
  /// Called when a call has begun: sends it, and has it served.
  void begun(const StartedCall& call, bool nested);
  /// Runs `task` for the call, whose result it stores.
  template <class R>
  void work(StartedCall& call, std::optional<R>& result, async::Task<R> task) {
    call.task_ = loop_.spawn(into(call, result, std::move(task)));
  }
  /// Completes a call in a child of fork(2).
  std::int64_t refuse(StartedCall& call, const How& how);

 private:
  template <class R>
  static async::Task<void> into(StartedCall& call, std::optional<R>& result, async::Task<R> task) {
    result.emplace(co_await std::move(task));
    call.ended();
  }
  /// A blocking call.
  struct Blocked {
    const How& how;
    async::TimePoint deadline;
    std::function<bool()> drop;  // destroys the call's task; returns false if it has ended already
    bool cancelled = false;
  };
  class Disconnecting;
  /// Marks a user's thread that waits and may run the loop.
  class UserScope {
   public:
    explicit UserScope(ClientCore& client) : client_(client) {}
    ~UserScope() { client_.tell_keeper(); }
    UserScope(const UserScope&) = delete;
    UserScope& operator=(const UserScope&) = delete;

   private:
    ClientCore& client_;
  };
  struct Callback {
    nfsrdma_done done;
    void* data;
    nfsrdma_completion completion;
  };
  /// Callbacks that are run together, after one visit to the loop.
  struct Batch {
    static constexpr std::size_t kMost = 32;
    explicit Batch(ClientCore* of) : client(of) {}
    ClientCore* const client;
    std::array<Callback, kMost> callbacks;
    std::size_t count = 0, next = 0;
    void add(StartedCall& call) { callbacks[count++] = {call.how().done, call.how().data, call.deliver()}; }
    [[nodiscard]] bool is_full() const { return count == kMost; }
  };

  /// A batch whose callbacks are running on this thread. A callback may call wait(), so there may be several;
  /// they form a list.
  struct Running {
    explicit Running(Batch& of) : batch(of), outer(std::exchange(innermost, this)) {}
    ~Running() { innermost = outer; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    Batch& batch;
    Running* const outer;
    static thread_local Running* innermost;
  };

  async::Task<Status> start_task(async::TimePoint deadline);
  Status end(bool waits_for_files, const Error& why);
  void end_calls(const Error& why);
  async::Task<Status> say_goodbye(bool waits_for_files);
  void keep();
  void turns();
  [[nodiscard]] std::chrono::milliseconds longest_pause();
  void take_due(Batch& batch);
  void take_refused(Batch& batch);
  bool run(Batch& batch);
  bool run_rest_of_outer_batch();
  bool run_due(Batch& batch);
  std::int64_t reap_refused(const Completions& queue, std::span<nfsrdma_completion> out);
  Status start_keeper();
  void stop_keeper();
  void watch_interrupt();
  [[nodiscard]] Error unfinished(const Blocked& blocked, const How& how) const;
  [[nodiscard]] Error late(const How& how) const;
  [[nodiscard]] std::vector<Calls*> all_calls() const;
  [[nodiscard]] Error called_from_log() const;

  const connect::Target target_;
  const nfsrdma_log log_;
  void* const log_data_;
  const int interrupt_fd_;
  std::unique_ptr<async::Loop> own_loop_;
  async::Loop& loop_;
  Crew crew_;                    // the thread that is inside has exclusive use of everything below
  bool polled_ = false;          // the program polls a descriptor of this client
  async::TimePoint serviced_{};  // time at which the program last did what is due after polling
  // Time at which the keeper will look next; in the past: soon.
  async::TimePoint keeper_looks_{};
  std::vector<FileCore*> files_;
  connect::Server server_;
  std::optional<engine::Paths> paths_;  // set once connected
  std::unique_ptr<nfsrdma_dir> root_;
  std::unique_ptr<Shards> shards_;  // set once connected
  bool connected_ = false;
  bool disconnecting_ = false;       // a thread is in end()
  bool freed_ = false;               // the last callbacks run: what they start would have no completion
  bool interrupted_ = false;         // the interrupt descriptor was readable since the keeper looked last
  async::Reused<Reading> readings_;  // outlives callbacks_, which may hold some of them
  Completions callbacks_;
  Calls calls_;  // calls by path
  std::vector<Calls*> others_{&calls_};
  std::list<Blocked*> blocked_;
  unsigned closing_files_ = 0;
  async::Event files_closed_{loop_};

  async::Wakeup keeper_stop_, keeper_wake_;
  std::thread keeper_;

  // Used in a child of fork(2) only. The parent never locks the mutex, so the mutex is free in the child.
  std::mutex refused_mutex_;
  std::list<StartedCall*> refused_;
};

// ---- bodies of the templates ----

/// Turns the result of a task into that of a function of the C interface.
template <class R, class Finish>
Result<std::int64_t> finished(R result, Finish& finish) {  // NOLINT(performance-unnecessary-value-param)
  using Value = typename R::value_type;
  if constexpr (std::invocable<Finish&, R&&>) {
    return finish(std::move(result));
  } else {
    if (!result) return result.error();
    if constexpr (std::is_void_v<Value>) {
      return finish();
    } else {
      return finish(std::move(*result));
    }
  }
}

template <class R, class Finish>
class StartedTask final : public StartedCall {
 public:
  StartedTask(ClientCore& client, Finish finish) : StartedCall(client), finish_(std::move(finish)) {}
  std::optional<R>& result() { return result_; }

 private:
  Result<std::int64_t> finish() override { return finished(std::move(*result_), finish_); }
  /// A `finish` that takes errors, too, is called, because the call may have been done in part.
  Result<std::int64_t> fail(const Error& why) override { return finished(R(why), finish_); }
  Finish finish_;
  std::optional<R> result_;
};

template <class R, class Make>
R ClientCore::run(const How& how, Make make) {
  if (is_inherited()) return inherited();
  const Crew::Inside inside(crew_);
  if (inside.nested()) return called_from_log();
  const UserScope scope(*this);
  std::optional<async::Task<R>> task(make());
  task->handle().resume();
  loop_.end_turn();
  // Destroying the task ends what it had under way, and takes its memory out of the server's reach.
  Blocked me{how, how.timeout.count() == 0 ? async::TimePoint::max() : later(how.timeout), [&] {
               if (task->done()) return false;
               task.reset();
               return true;
             }};
  {
    const async::Listed listed(blocked_, me);
    (void)crew_.wait([&] { return !task || task->done(); }, me.deadline);
  }
  if (is_inherited()) {  // the log function has called fork(2), and this is the child
    if (task) (void)new async::Task<R>(std::move(*task));
    return inherited();
  }
  if (task && task->done()) return task->await_resume();
  task.reset();
  loop_.end_turn();
  return unfinished(me, how);
}

template <class R, class Make, class Finish>
std::int64_t ClientCore::call(Calls& calls, const How& how, nfsrdma_error** error, Make make, Finish finish,
                              Needs needs) {
  const auto begin_task = [&]() -> async::Task<R> {
    if (needs == Needs::connection && !connected_) return refused<R>(disconnected());
    return make();
  };
  if (how.blocks()) {
    auto result = finished(run<R>(how, begin_task), finish);
    return result ? *result : fail(error, on_its_path(result.error(), how));
  }
  auto one = std::make_unique<StartedTask<R, Finish>>(*this, std::move(finish));
  if (is_inherited()) return refuse(*one.release(), how);
  const Crew::Inside inside(crew_);
  if (freed_) return fail(error, freed());
  StartedTask<R, Finish>& call = *one.release();
  try {
    begin(call, calls, how);
    work(call, call.result(), begin_task());
  } catch (...) {
    call.cancel(from_exception());
  }
  begun(call, inside.nested());
  return 0;
}

}  // namespace nfsrdma::api
