// A mount: the session with the server, the file system on it, and the kernel's requests, on one event loop
// in one thread. With `shards` further threads make READs and WRITEs for it (mount_shards.h).
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "async/loop.h"
#include "connect/server.h"
#include "fuse/cache_dropper.h"
#include "fuse/client_id.h"
#include "fuse/creation_mode.h"
#include "fuse/init_reply.h"
#include "fuse/lock_owners.h"
#include "fuse/log.h"
#include "fuse/metrics_writer.h"
#include "fuse/mount_options.h"
#include "fuse/mount_shards.h"
#include "fuse/plain_reads.h"
#include "fuse/read_ahead.h"
#include "fuse/requests.h"
#include "fuse/ring_door.h"
#include "fuse/shard_answers.h"
#include "fuse/statistics_files.h"
#include "fuse/trace_control.h"

namespace nfsrdma::fuse {

class Mount {
 public:
  Mount(MountOptions options, const std::vector<rpc::Address>& addresses, Log log);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  /// Connects and mounts. If this fails, the state on the server is given back, and the destructor does the
  /// rest. If the descriptor `interrupt` becomes readable before the mount is made, start() ends at once with
  /// an Error of the kind `cancelled`, and the state on the server is left to expire.
  Status start(int interrupt);
  /// Serves until the mount is unmounted, or until a signal of `signals` asks for the end. Then unwritten
  /// data is sent: first what the kernel holds, while its requests are still served; then, after the unmount,
  /// what this process holds. At last the state on the server is given back. A step is given up if the server
  /// takes no data for kGoodbye, after kLongGoodbye in any case, and at once if the same signal comes again.
  /// The log says which data was lost in this way. SIGUSR1 only writes the statistics to the log.
  void serve(const sigset_t& signals);

  // ---- for the operations ----
  [[nodiscard]] fs::FileSystem& files() { return *files_; }
  [[nodiscard]] async::Loop& loop() { return loop_; }
  [[nodiscard]] const MountOptions& options() const { return options_; }
  void log(const std::string& text) const { log_(text); }
  [[nodiscard]] RequestCounters& request_counters() { return request_counters_; }
  [[nodiscard]] PlainReads& plain_reads() { return *plain_reads_; }
  [[nodiscard]] ShardAnswers& shard_answers() { return *shard_answers_; }
  [[nodiscard]] StatisticsFiles& statistics_files() { return statistics_files_; }
  fs::Caller caller(fuse_req_t request);
  std::uint64_t keep(std::shared_ptr<fs::OpenHandle> handle);
  std::uint64_t keep(std::shared_ptr<fs::DirectoryHandle> handle);
  std::shared_ptr<fs::OpenHandle> file(std::uint64_t number) const;
  std::shared_ptr<fs::DirectoryHandle> directory(std::uint64_t number) const;
  void drop_file(std::uint64_t number) { open_.erase(number); }
  /// Called when the kernel has no descriptor of the open file any more. The file's close() is under way
  /// until has_left().
  void leaves(std::uint64_t number);
  void has_left(const std::shared_ptr<fs::OpenHandle>& file) { leaving_.erase(file); }
  [[nodiscard]] CreationMode& creation_mode() { return creation_mode_; }
  [[nodiscard]] LockOwners& lock_owners() { return lock_owners_; }
  void drop_directory(std::uint64_t number) { directories_.erase(number); }
  /// Makes the kernel ask for the file's attributes before it uses any again. The file's pages are not
  /// touched.
  void forget_attributes(fuse_ino_t inode) const {
    fuse_lowlevel_notify_inval_inode(session_, inode, -1, 0);  // ENOENT: the kernel has none
  }
  /// Returns true if a file system is mounted at the name, or below it.
  [[nodiscard]] bool leads_to_mount(fuse_ino_t directory, const std::string& name) const;
  async::Task<void> drop_cached(fuse_ino_t inode) { return dropper_->drop(inode, 0, 0); }
  /// Ends when the kernel has dropped its pages of the range. Does nothing once the mount is unmounted.
  async::Task<void> drop_pages(fuse_ino_t inode, std::uint64_t offset, std::uint64_t length);
  /// Ends when the kernel knows that the file reaches to `end`.
  async::Task<void> lengthen(fuse_ino_t inode, std::uint64_t end);
  /// Ends when the kernel has dropped its entry for the name. Nothing that a program waits for may wait for this.
  async::Task<void> drop_name(fuse_ino_t directory, std::string name);
  [[nodiscard]] InitReply& init_reply() { return init_reply_; }
  /// Null with `noring`.
  [[nodiscard]] RingDoor* ring_door() { return ring_door_.get(); }
  /// Ends when no ring has a request under way on the file, which is about to be closed.
  async::Soon<> part_from_rings(std::shared_ptr<fs::OpenHandle> file);
  /// Returns the memory that holds the request that is being processed. A WRITE keeps it until its data has
  /// been sent.
  async::Memory take_memory();

 private:
  Status start_on_server();
  void begin_shards();
  Status mount_session();
  Status take_passed_descriptor();
  template <class T>
  Result<T> run_to_its_end(async::Task<Result<T>> task);
  void take_in();
  void give_memory();
  void learn_request_size();
  void tidy();
  bool count_arrival();
  void take_signals(int fd);
  bool turn_until(const std::function<bool()>& so);
  void write_back();
  bool write_back_by_inode();
  void take_leave();
  [[nodiscard]] bool is_quiet() const;
  /// Logs that data which the kernel has gathered, but not sent, is lost.
  void tell_unsent(const std::string& why) const;
  void tell_losses() const;
  /// Returns false if the mount was detached (umount -l) while programs still use it, whatever is mounted
  /// there now.
  [[nodiscard]] bool is_at_mountpoint() const;
  async::Task<Status> put_away(std::shared_ptr<fs::OpenHandle> file);
  void begin_metrics();
  /// Returns what `show` makes of the statistics of this moment.
  [[nodiscard]] std::string statistics(Show show);
  [[nodiscard]] bool has_kernel_option(std::string_view name) const;
  /// Returns true if data must be received into memory of the daemon's own before it goes to a ring
  /// (RingService's `apart`).
  [[nodiscard]] bool rings_are_apart() const;
  async::Task<void> finish();
  void unmount();
  void unmount_by_force();

  const MountOptions options_;
  const Log log_;
  int interrupt_ = -1;  // start()'s
  RequestCounters request_counters_;
  InitReply init_reply_;
  TraceControl trace_{options_.target.options, log_};
  StatisticsFiles statistics_files_{[this](Show show) { return statistics(show); },
                                    [this](std::string_view command) { return trace_.obey(command); }};
  async::Loop loop_;
  const async::TimePoint begun_ = loop_.now();
  const ClientName client_name_;
  connect::Server server_;
  std::size_t kernel_ahead_ = 0;  // set_kernel_read_ahead()
  std::unique_ptr<fs::FileSystem> files_;
  std::unique_ptr<MountShards> shards_;  // null: the mount has none
  std::unique_ptr<PlainReads> plain_reads_;
  std::unique_ptr<ShardAnswers> shard_answers_;
  std::unique_ptr<MetricsWriter> metrics_;  // null: the option metrics is not given
  std::unique_ptr<RingService> ring_service_;
  std::unique_ptr<RingDoor> ring_door_;
  fuse_session* session_ = nullptr;
  std::unique_ptr<CacheDropper> dropper_, name_dropper_;
  bool mounted_ = false, finished_ = false;
  std::string device_;         // device number of the mount as in mountinfo; empty: not known
  bool asked_ = false;         // a signal asks for the end
  bool hurried_ = false;       // the same signal came again
  std::uint64_t signals_ = 0;  // signals that have asked for the end, a bit for each
  fuse_buf buffer_{};
  async::Memory receiving_;                  // memory of buffer_, unless libfuse has allocated that
  std::size_t request_size_ = 0;             // size of the largest request; 0: not known yet
  std::uint64_t taken_in_ = 0, tidied_ = 0;  // requests: all, and those before the last tidy()
  bool tidying_ = false;                     // a timer for tidy() is set
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<fs::OpenHandle>> open_;
  std::set<std::shared_ptr<fs::OpenHandle>> leaving_;
  LockOwners lock_owners_;
  CreationMode creation_mode_;
  std::unordered_map<std::uint64_t, std::shared_ptr<fs::DirectoryHandle>> directories_;
  struct KnownCaller {
    fs::Caller caller;
    async::TimePoint until;
  };
  std::map<std::array<std::uint32_t, 3>, KnownCaller> callers_;  // by process, user, group
};

/// Returns the table for fuse_session_new(), for a session whose user data is the Mount.
fuse_lowlevel_ops operations(const MountOptions& options);

}  // namespace nfsrdma::fuse
