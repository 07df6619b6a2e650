// The public Client on top of an engine: one loop, one server, and a Crew of threads (crew.h).
//
// A calling thread starts its call itself; one of the threads that wait runs the loop for all of them. The
// keeper, a thread of the library, runs the loop while no other thread waits: it answers the server's calls,
// renews the lease, and notices a dead connection.
//
// In a child of fork(2) calls are refused before they come inside. A ClientImpl or FileImpl that is deleted
// in the child stays in memory, because its destructor would undo what the parent still uses, and might read
// lists that another thread was changing at the time of the fork. Its descriptors have been closed by then
// (async/descriptor.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "api/crew.h"
#include "api/names_impl.h"
#include "api/started.h"
#include "async/loop.h"
#include "async/reused.h"
#include "async/under_way.h"
#include "async/wakeup.h"
#include "connect/server.h"
#include "engine/paths.h"
#include "ids/id_names.h"
#include "nfsrdma/client.h"

namespace nfsrdma::api {

class FileImpl;

/// The environment of a client. By default: this process, with a loop and a keeper of its own.
struct Setup {
  /// A loop that others run, too, and that keeps the lease; then there is no keeper.
  async::Loop* loop = nullptr;
  connect::Surroundings surroundings = connect::Surroundings::system();
  /// See Server: overrides how long an operation is tried.
  std::optional<std::chrono::milliseconds> patience;
};

class ClientImpl final : public NamesImpl<Client> {
 public:
  ClientImpl(const Target& target, const std::vector<rpc::Address>& addresses, Observer* observer,
             int interrupt, Setup setup = {});
  ~ClientImpl() override;
  // The first overload is chosen by a delete expression (C++20, "destroying delete"); the second serves
  // constructors that throw.
  static void operator delete(ClientImpl* client, std::destroying_delete_t);
  static void operator delete(void* memory) { ::operator delete(memory); }
  Status start(async::TimePoint deadline);

  Status disconnect() override;
  Info info() override;
  Result<std::chrono::nanoseconds> ping() override;
  bool wait(std::chrono::milliseconds most, std::span<const int> also) override;
  int descriptor() override;
  std::chrono::milliseconds service() override;

  /// Starts the task that `make` returns, and waits inside until it ends. R is a Result or a Status. Fails in
  /// a callback, if interrupted, and in a child of fork(2).
  template <class R, class Make>
  R run(Make make) {
    if (is_inherited()) return inherited();
    const Crew::Inside inside(crew_);
    if (inside.nested()) return called_from_callback();
    const UserScope scope(*this);
    async::Task<R> task = make();
    task.handle().resume();
    loop_.end_turn();
    (void)crew_.wait([&task] { return task.done(); });
    if (task.done()) return task.await_resume();
    if (is_inherited()) {  // a callback has called fork(2), and this is the child
      (void)new async::Task<R>(std::move(task));
      return inherited();
    }
    // Destroying the task ends what it had under way, and takes its memory out of the server's reach.
    {
      const async::Task<R> dropped = std::move(task);
    }
    loop_.end_turn();
    return interrupted();
  }
  // ---- for FileImpl and NamesImpl ----
  [[nodiscard]] engine::Paths& paths() { return *paths_; }
  [[nodiscard]] engine::Engine& engine() { return *server_.engine(); }
  [[nodiscard]] Crew& crew() { return crew_; }
  [[nodiscard]] async::Loop& loop() { return loop_; }
  [[nodiscard]] async::TimePoint later(std::chrono::milliseconds most) const;
  [[nodiscard]] std::uint32_t rsize() const { return server_.rsize(); }
  [[nodiscard]] std::uint32_t wsize() const { return server_.wsize(); }
  /// Waits until a callback may run: not inside the call that started it, and not on the keeper's thread.
  async::Task<void> callback_time();
  [[nodiscard]] bool is_callback_time() const { return starting_ == 0 && !keeping_; }
  /// Runs the callback. Called only while is_callback_time(). The callback may destroy the object that the
  /// call was started on.
  template <class R>
  void call_back(const std::function<void(R)>& done, R result) {
    if (is_inherited()) return;  // another callback has called fork(2), and this is the child
    ++delivered_;
    done(std::move(result));
    loop_.time_passed();
  }
  /// Returns true in a child of the process that made the client. May be called from any thread.
  [[nodiscard]] bool is_inherited() const { return crew_.is_inherited(); }
  /// Returns the error of every call in such a child.
  [[nodiscard]] Error inherited() const;
  /// Registers a callback that wait() or service() will run in a child of fork(2), unless `unless_gone` has
  /// expired by then.
  void tell_later(std::weak_ptr<const void> unless_gone, std::function<void()> callback);
  /// The calls by path, which belong to the Client itself.
  [[nodiscard]] Started& started() { return started_; }
  /// Fills in the numeric ids of owners that the server reported by name. Called from outside, as run() is.
  void add_ids(std::span<Attributes> all);
  /// Runs `asked`, and fills in those ids in its result.
  static async::Task<Result<Attributes>> with_ids(async::Loop& loop, async::Task<Result<Attributes>> asked);
  [[nodiscard]] bool connected() const { return connected_; }
  /// Counts a file that is being closed for as long as the returned value lives; disconnect() waits for all
  /// of them.
  [[nodiscard]] async::Use closes_file() { return {closing_files_, files_closed_}; }
  /// Each FileImpl registers itself, so that disconnect() can close it.
  void add(FileImpl& file) { files_.push_back(&file); }
  void remove(FileImpl& file) { std::erase(files_, &file); }
  /// Marks a call that starts an asynchronous call, for as long as the scope lives: callback_time() waits for
  /// its end.
  class StartScope {
   public:
    explicit StartScope(ClientImpl& client) : client_(client) { ++client_.starting_; }
    ~StartScope() {
      --client_.starting_;
      client_.tell_keeper();
    }
    StartScope(const StartScope&) = delete;
    StartScope& operator=(const StartScope&) = delete;

   private:
    ClientImpl& client_;
  };

 private:
  /// Marks a user's thread that waits and may run the loop, so that callbacks held back by the keeper may run
  /// on it.
  class UserScope {
   public:
    explicit UserScope(ClientImpl& client) : client_(client) { client_.user_here_.notify_all(); }
    ~UserScope() { client_.tell_keeper(); }
    UserScope(const UserScope&) = delete;
    UserScope& operator=(const UserScope&) = delete;

   private:
    ClientImpl& client_;
  };

  async::Task<Status> start_task(async::TimePoint deadline);
  async::Task<Status> say_goodbye();
  void notice(const std::string& text);
  void keep();
  void tell_keeper();
  [[nodiscard]] std::chrono::milliseconds longest_pause();
  bool tell_refused();
  Status start_keeper();
  void stop_keeper();
  void watch_interrupt();
  [[nodiscard]] Error interrupted() const;
  [[nodiscard]] Error called_from_callback() const;

  const Target target_;
  Observer* const observer_;
  const int interrupt_fd_;
  std::unique_ptr<async::Loop> own_loop_;
  async::Loop& loop_;
  Crew crew_;  // the thread that is inside has exclusive use of everything below
  async::Event user_here_{loop_};
  bool keeping_ = false;         // the keeper runs the loop
  bool polled_ = false;          // descriptor() was called: the program polls
  async::TimePoint serviced_{};  // time at which descriptor() or service() was called last
  // Time at which the keeper will look next; in the past: soon.
  async::TimePoint keeper_looks_{};
  std::vector<FileImpl*> files_;
  connect::Server server_;
  std::optional<engine::Paths> paths_;  // set once connected
  bool connected_ = false;
  bool interrupted_ = false;  // the interrupt descriptor was readable since the keeper looked last
  int starting_ = 0;          // nesting depth of calls that start an asynchronous call
  std::uint64_t delivered_ = 0;
  Started started_{*this};
  unsigned closing_files_ = 0;
  async::Event files_closed_{loop_};

  async::Wakeup keeper_stop_, keeper_wake_;
  std::thread keeper_;

  // Used in a child of fork(2) only. The parent never locks the mutex, so the mutex is free in the child.
  struct Refused {
    std::weak_ptr<const void> unless_gone;
    std::function<void()> callback;
  };
  std::mutex refused_mutex_;
  std::vector<Refused> refused_;
};

class FileImpl final : public File {
 public:
  FileImpl(ClientImpl& client, engine::Opened opened, std::string path);
  ~FileImpl() override;
  // See ClientImpl.
  static void operator delete(FileImpl* file, std::destroying_delete_t);
  static void operator delete(void* memory) { ::operator delete(memory); }
  Result<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) override;
  Result<std::size_t> write(std::span<const std::byte> data, std::uint64_t offset,
                            Stability stability) override;
  void start_read(std::span<std::byte> data, std::uint64_t offset, Done done) override;
  void start_read_with_holes(std::span<std::byte> data, std::uint64_t offset, Heard done) override;
  void start_write(std::span<const std::byte> data, std::uint64_t offset, Done done,
                   std::shared_ptr<const void> keeper, Stability stability) override;
  Status sync() override;
  void start_sync(Ended done) override;
  Result<Attributes> attributes() override;
  void start_attributes(Told done) override;
  Status set_attributes(const SetAttributes& changes) override;
  Result<std::optional<Extent>> next_extent(std::uint64_t offset) override;
  Result<std::optional<std::uint64_t>> seek(std::uint64_t offset, bool hole) override;
  Status allocate(std::uint64_t offset, std::uint64_t length) override;
  void start_allocate(std::uint64_t offset, std::uint64_t length, Ended done) override;
  Status deallocate(std::uint64_t offset, std::uint64_t length) override;
  void start_deallocate(std::uint64_t offset, std::uint64_t length, Ended done) override;
  Result<std::uint64_t> copy_from(File& source, std::uint64_t source_offset, std::uint64_t offset,
                                  std::uint64_t count) override;
  Result<std::optional<LockHolder>> test_lock(const LockRequest& request) override;
  Status lock(const LockRequest& request, std::chrono::milliseconds most) override;
  Status unlock(std::uint64_t owner, const LockRange& range) override;
  Status close() override;
  void start_close(Ended done) override;

  // ---- for ClientImpl ----
  [[nodiscard]] bool is_closing() const { return closing_ != nullptr; }
  /// Commits unstable data and closes the file. Closing continues if the task or the FileImpl is destroyed.
  async::Task<Status> end();

 private:
  class Pieces;
  class Reading;
  struct Closing;
  /// Returns the call that `make` makes on the file, or a refused call if the file was not opened for
  /// `access`, or is closing.
  template <class R, class Make>
  async::Task<R> begin(engine::Access access, Make& make);
  template <class R, class Make>
  R run(engine::Access access, Make make);
  template <class R, class Make>
  void start(engine::Access access, Make make, std::function<void(R)> done);
  /// Returns the reason if the file cannot be used with this access.
  [[nodiscard]] std::optional<Error> unusable(engine::Access access) const;
  void begin_closing();
  static async::Task<void> close_file(engine::Engine& engine, engine::ServerFileRef file,
                                      std::shared_ptr<Closing> closing, async::Use counted);
  static async::Task<Status> closed(std::shared_ptr<Closing> closing);
  async::Task<Result<Attributes>> read_attributes(engine::ServerFile& file);
  async::Task<Result<std::optional<Extent>>> find_extent(engine::ServerFile& file, std::uint64_t offset);
  async::Task<Result<std::size_t>> read_all(engine::ServerFile& file, std::span<std::byte> data,
                                            std::uint64_t offset);
  async::Task<Result<std::size_t>> write_all(engine::ServerFile& file, std::span<const std::byte> data,
                                             std::uint64_t offset, Stability stability,
                                             std::shared_ptr<const void> keeper);
  async::Task<Result<Stretch>> read_stretches(engine::ServerFile& file, std::span<std::byte> data,
                                              std::uint64_t offset);
  async::Task<Status> lock_task(engine::ServerFile& file, LockRequest request,
                                std::chrono::milliseconds most);
  async::Task<Status> unlock_task(engine::ServerFile& file, std::uint64_t owner, LockRange range);
  /// Returns an error if the range would end beyond the largest possible offset.
  [[nodiscard]] std::optional<Error> too_far(std::size_t size, std::uint64_t offset) const;

  /// Runs the callback at once if callbacks may run now, else as soon as they may.
  void tell_of_fast_read(std::size_t count, Done done);
  bool start_fast_read(std::span<std::byte> data, std::uint64_t offset, Done& done);
  Done give_back(Reading& one);

  ClientImpl& client_;
  engine::ServerFileRef file_;
  std::shared_ptr<Closing> closing_;  // set once closing has begun
  const engine::FileHandle handle_;
  const std::string path_;
  Started started_;
  // READs on the fast path (engine/fast_read.h): in flight, or kept for reuse.
  async::Reused<Reading> readings_;
};

// ---- started.h ----

template <class R>
async::Task<void> Started::run(std::uint64_t key, async::Task<R> call, std::function<void(R)> done) {
  ClientImpl& client = client_;
  R result = co_await std::move(call);
  if (!client.is_callback_time()) co_await client.callback_time();
  under_way_.erase(key);
  client.call_back(done, std::move(result));  // the callback may have destroyed `this`
}

template <class R, class Make>
void Started::start(Make make, std::function<void(R)> done) {
  if (client_.is_inherited()) {
    if (!refusals_) refusals_ = std::make_shared<char>();
    return client_.tell_later(refusals_, [done = std::move(done), why = client_.inherited()] { done(why); });
  }
  const Crew::Inside inside(client_.crew());
  const ClientImpl::StartScope scope(client_);
  const std::uint64_t key = ++last_key_;
  const auto entry = under_way_.emplace(key, 0).first;
  // The call's callback does not run inside here: see callback_time().
  entry->second = client_.loop().spawn(run<R>(key, make(), std::move(done)));
  // Threads that wait do not know that there is something to send.
  if (!inside.nested() && client_.crew().led()) client_.loop().end_turn();
}

}  // namespace nfsrdma::api
