// The public Client on an engine: one loop, one server, and a Crew of threads (crew.h).
//
// Whoever calls starts the call on its own thread; one of those who wait runs the loop for all. The keeper
// thread takes its turn when nobody waits: it answers the server's calls, renews the lease, notices a dead
// connection.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "api/crew.h"
#include "api/names_impl.h"
#include "async/loop.h"
#include "async/reused.h"
#include "async/wakeup.h"
#include "connect/server.h"
#include "engine/paths.h"
#include "ids/id_names.h"
#include "nfsrdma/client.h"

namespace nfsrdma::api {

class FileImpl;

/// Where a client is. As it is by default: in this process, with a loop and a keeper of its own.
struct Setup {
  async::Loop* loop = nullptr;  ///< one that others run, too, and that keeps the lease: no keeper then
  connect::Surroundings surroundings = connect::Surroundings::system();
  std::optional<std::chrono::milliseconds> patience;  ///< as Server has it
};

class ClientImpl final : public NamesImpl<Client> {
 public:
  ClientImpl(const Target& target, const std::vector<rpc::Address>& addresses, Observer* observer,
             int interrupt, Setup setup = {});
  ~ClientImpl() override;
  Status start(async::TimePoint deadline);

  Status disconnect() override;
  Info info() override;
  Result<std::chrono::nanoseconds> ping() override;
  bool wait(std::chrono::milliseconds most, std::span<const int> also) override;
  int descriptor() override;
  std::chrono::milliseconds service() override;

  /// Runs the task that `make` makes, inside, to its end. R is a Result or a Status.
  template <class R, class Make>
  R run(Make make) {
    const Crew::Inside inside(crew_);
    if (inside.nested()) return called_from_callback();
    const UserScope scope(*this);
    async::Task<R> task = make();
    task.handle().resume();
    loop_.end_turn();
    (void)crew_.wait([&task] { return task.done(); });
    if (task.done()) return task.await_resume();
    // Ends what the task had under way, and takes its memory out of the server's reach.
    {
      const async::Task<R> dropped = std::move(task);
    }
    loop_.end_turn();
    return interrupted();
  }
  // for FileImpl and NamesImpl
  [[nodiscard]] engine::Paths& paths() { return *paths_; }
  [[nodiscard]] engine::Engine& engine() { return *server_.engine(); }
  [[nodiscard]] Crew& crew() { return crew_; }
  [[nodiscard]] async::Loop& loop() { return loop_; }
  [[nodiscard]] std::uint32_t rsize() const { return server_.rsize(); }
  [[nodiscard]] std::uint32_t wsize() const { return server_.wsize(); }
  /// Waits until a callback may run: not from inside the call that started it, and on a user's thread.
  async::Task<void> callback_time();
  /// The numbers of owners that the server gives as names. From outside, as with run().
  void add_ids(std::span<Attributes> all);
  void count_callback() { ++delivered_; }
  [[nodiscard]] bool is_callback_time() const { return starting_ == 0 && !keeping_; }
  [[nodiscard]] bool connected() const { return connected_; }
  /// Files register themselves for disconnect().
  void add(FileImpl& file) { files_.push_back(&file); }
  void remove(FileImpl& file) { std::erase(files_, &file); }
  /// Counts those who start an asynchronous call, so that deliver() knows.
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
  /// A user's thread waits, and may run the loop.
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
  void stop_keeper();
  void watch_interrupt();
  [[nodiscard]] Error interrupted() const;
  [[nodiscard]] Error called_from_callback() const;

  const Target target_;
  Observer* const observer_;
  const int interrupt_fd_;
  std::unique_ptr<async::Loop> own_loop_;
  async::Loop& loop_;
  Crew crew_;  // whoever is inside has everything below to itself
  async::Event user_here_{loop_};
  bool keeping_ = false;             // the keeper runs the loop
  bool polled_ = false;              // descriptor() was called
  async::TimePoint serviced_{};      // when service() was
  async::TimePoint keeper_looks_{};  // when it will next; the past: soon
  std::vector<FileImpl*> files_;
  connect::Server server_;
  std::optional<engine::Paths> paths_;  // once connected
  bool connected_ = false;
  bool interrupted_ = false;  // since the keeper looked
  int starting_ = 0;          // depth of start_read and start_write
  std::uint64_t delivered_ = 0;

  async::Wakeup keeper_stop_, keeper_wake_;
  std::thread keeper_;
};

class FileImpl final : public File {
 public:
  FileImpl(ClientImpl& client, engine::Opened opened, std::string path);
  ~FileImpl() override;
  Result<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) override;
  Result<std::size_t> write(std::span<const std::byte> data, std::uint64_t offset,
                            Stability stability) override;
  void start_read(std::span<std::byte> data, std::uint64_t offset, Done done) override;
  void start_write(std::span<const std::byte> data, std::uint64_t offset, Done done,
                   std::shared_ptr<const void> keeper) override;
  Status sync() override;
  Result<Attributes> attributes() override;
  Status set_attributes(const SetAttributes& changes) override;
  Result<std::optional<Extent>> next_extent(std::uint64_t offset) override;
  Result<std::optional<std::uint64_t>> seek(std::uint64_t offset, bool hole) override;
  Status allocate(std::uint64_t offset, std::uint64_t length) override;
  Status deallocate(std::uint64_t offset, std::uint64_t length) override;
  Result<std::uint64_t> copy_from(File& source, std::uint64_t source_offset, std::uint64_t offset,
                                  std::uint64_t count) override;
  Result<std::optional<LockHolder>> test_lock(const LockRequest& request) override;
  Status lock(const LockRequest& request, std::chrono::milliseconds most) override;
  Status unlock(std::uint64_t owner, const LockRange& range) override;
  Status close() override;

  // for ClientImpl
  /// Commits what is unstable, and closes.
  async::Task<Status> end();

 private:
  class Pieces;
  class Reading;
  template <class R, class Make>
  R run(engine::Access access, Make make);
  /// Why it cannot be used so, if it cannot.
  [[nodiscard]] std::optional<Error> unusable(engine::Access access) const;
  async::Task<Result<std::optional<Extent>>> find_extent(engine::ServerFile& file, std::uint64_t offset);
  async::Task<Result<std::size_t>> read_all(engine::ServerFile& file, std::span<std::byte> data,
                                            std::uint64_t offset);
  async::Task<Result<std::size_t>> write_all(engine::ServerFile& file, std::span<const std::byte> data,
                                             std::uint64_t offset, Stability stability);
  async::Task<Status> lock_task(engine::ServerFile& file, LockRequest request,
                                std::chrono::milliseconds most);
  async::Task<Status> unlock_task(engine::ServerFile& file, std::uint64_t owner, LockRange range);
  /// Tells what `moving` comes to.
  async::Task<void> move_beside(std::uint64_t key, async::Task<Result<std::size_t>> moving, Done done);
  /// Calls back, when it is time.
  async::Task<void> tell(std::uint64_t key, Result<std::size_t> result, Done done);
  template <class Make>
  void start(Make make);
  [[nodiscard]] Error too_large(const char* what, std::size_t size, std::uint32_t most) const;

  ClientImpl& client_;
  engine::ServerFileRef file_;
  bool closed_ = false;
  const engine::FileHandle handle_;
  const std::string path_;
  /// Calls back at once, if it is time.
  void tell_quickly(Result<std::size_t> result, Done done);
  bool start_quickly(std::span<std::byte> data, std::uint64_t offset, Done& done);
  Done give_back(Reading& one);

  // Asynchronous calls under way, with their ids in the loop; for who is inside.
  std::map<std::uint64_t, std::uint64_t> pending_;
  std::uint64_t last_key_ = 0;
  // READs by the quick way (engine/quick_read.h), under way or kept for the next.
  async::Reused<Reading> readings_;
};

}  // namespace nfsrdma::api
