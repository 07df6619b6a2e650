#include "fuse/mount.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <malloc.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "async/all.h"
#include "async/descriptor.h"
#include "async/interrupt_watch.h"
#include "engine/paths.h"
#include "fuse/mountinfo.h"
#include "fuse/mountpoint.h"
#include "fuse/statistics.h"

namespace nfsrdma::fuse {
namespace {

using namespace std::chrono_literals;

constexpr auto kGoodbye = 8s;       // longest wait at the end for a server that takes no data
constexpr auto kLongGoodbye = 40s;  // longest wait for a server that takes data while programs go on writing
constexpr auto kCallerValid = 2s;   // groups of a process seldom change, and reading them is slow
constexpr std::size_t kMostCallers = 1000;
constexpr int kMostAtOnce = 16;
constexpr auto kTidyEvery = 5s;
constexpr std::size_t kMostFree = 16U << 20;  // free bytes that malloc may keep
/// Practically unlimited, and still small enough to be added to a time.
constexpr auto kForEver = std::chrono::hours(24 * 365 * 50);

std::chrono::milliseconds patience(const MountOptions& options) {
  if (options.hard) return kForEver;
  return options.target.options.timeout * (options.retrans + 1);
}

// The functions by which libfuse reads from and writes to the kernel. Their user data is the Mount.
ssize_t read_request(int fd, void* buffer, std::size_t size, void* mount) {
  const ssize_t got = ::read(fd, buffer, size);
  InitReply& init = static_cast<Mount*>(mount)->init_reply();
  if (got > 0 && !init.answered()) {
    init.look({static_cast<const std::byte*>(buffer), static_cast<std::size_t>(got)});
  }
  return got;
}
/// Answers a request with EIO after the kernel has refused the proper answer. Without any answer the program
/// would wait for ever.
void answer_with_eio(int fd, const iovec& first) {
  fuse_out_header header{};
  std::memcpy(&header, first.iov_base, sizeof header);
  if (header.unique == 0) return;  // a notification
  header.len = sizeof header;
  header.error = -EIO;
  [[maybe_unused]] const ssize_t written = ::write(fd, &header, sizeof header);
}
ssize_t write_reply(int fd, iovec* pieces, int count, void* mount) {
  const std::span<const iovec> given(pieces, static_cast<std::size_t>(count));
  const auto reply = static_cast<Mount*>(mount)->init_reply().complete(given);
  const ssize_t written = ::writev(fd, reply.data(), static_cast<int>(reply.size()));
  const int code = errno;
  if (written >= 0 || code == ENOENT) return written;  // ENOENT: no thread waits for the answer any more
  answer_with_eio(fd, given.front());
  errno = code;
  return written;
}

/// Adds to the Error for a path that the server does not have how to find those that it exports.
Error with_exports(const Error& error, const MountOptions& options) {
  if (error.errno_value() != ENOENT) return error;
  return {error.kind(), ENOENT, "mount", options.source,
          error.message() + "; check the path: nfsrdma-cli exports " + options.target.host +
              " lists what the server exports"};
}

connect::Surroundings surroundings(const ClientName& name, const TraceControl& trace) {
  connect::Surroundings out = connect::Surroundings::system(name.text());
  out.lock_records = lock_records_directory();
  out.many_users = true;
  out.tap = trace.tapper();
  return out;
}

}  // namespace

Mount::Mount(MountOptions options, const std::vector<rpc::Address>& addresses, Log log)
    : options_(std::move(options)),
      log_(std::move(log)),
      client_name_(identity_of(options_)),
      server_(loop_, options_.target, addresses, log_, patience(options_),
              surroundings(client_name_, trace_)) {}

Mount::~Mount() {
  if (mounted_) unmount();
  server_.shut_down();
  // Requests that have no answer yet are answered as their tasks are dropped, which needs the session.
  loop_.drop_tasks();
  name_dropper_ = nullptr;
  dropper_ = nullptr;
  ring_door_ = nullptr;
  ring_service_ = nullptr;
  plain_reads_ = nullptr;
  shard_answers_ = nullptr;
  shards_ = nullptr;
  if (session_ != nullptr) fuse_session_destroy(session_);
  open_.clear();
  leaving_.clear();
  directories_.clear();
  files_ = nullptr;
  if (!receiving_.data) std::free(buffer_.mem);  // NOLINT: libfuse's malloc
}

/// Runs turns until the task has ended. Returns an Error if `interrupt_` becomes readable before.
template <class T>
Result<T> Mount::run_to_its_end(async::Task<Result<T>> task) {
  async::Event interrupted(loop_);
  const async::InterruptWatch watch(loop_, interrupt_, interrupted);
  task.handle().resume();
  loop_.end_turn();
  while (!task.done() && !watch.is_raised()) loop_.turn(async::TimePoint::max());
  if (task.done()) return task.await_resume();
  return Error(ErrorKind::cancelled, EINTR, "mount", options_.source, "interrupted");
}

Status Mount::start(int interrupt) {
  interrupt_ = interrupt;
  trace_.start();
  const auto deadline = loop_.now() + options_.target.options.connect_timeout;
  if (auto done = run_to_its_end(server_.connect(deadline)); !done) return done;
  auto done = start_on_server();
  if (done || done.error().kind() == ErrorKind::cancelled) return done;
  // The state on the server is given back at once, not left to expire with the lease.
  (void)loop_.run(server_.close(loop_.now() + 2s));
  return done;
}

Status Mount::start_on_server() {
  auto path = engine::Path::parse(options_.target.path);
  if (!path) return path.error();
  engine::Paths paths(*server_.engine());
  auto root = run_to_its_end(paths.find(std::move(*path), true));
  if (!root) return with_exports(root.error(), options_);
  if (!root->attributes || root->attributes->type != FileType::directory) {
    return Error(ErrorKind::usage, ENOTDIR, "mount", options_.source, "is not a directory on the server");
  }
  fs::CacheOptions cache = options_.cache;
  cache.rsize = server_.rsize();
  cache.wsize = server_.wsize();
  const bool is_for_others = has_kernel_option("allow_other") || has_kernel_option("allow_root");
  cache.several_users = is_for_others && !has_kernel_option("default_permissions");
  begin_shards();
  files_ = std::make_unique<fs::FileSystem>(server_.engine(), cache, *root, shards_.get());
  plain_reads_ = std::make_unique<PlainReads>(loop_, *files_, shards_.get());
  shard_answers_ = std::make_unique<ShardAnswers>(shards_.get());
  creation_mode_.believe_for(std::chrono::duration_cast<async::Clock::duration>(cache.directory_min));
  files_->on_doubt([this](std::uint64_t inode) {
    creation_mode_.forget(inode);
    if (mounted_) forget_attributes(inode);
  });
  files_->on_stale_pages([this](std::uint64_t inode, std::uint64_t offset, std::uint64_t length) {
    return drop_pages(inode, offset, length);
  });
  files_->on_lengthened([this](std::uint64_t inode, std::uint64_t end) { return lengthen(inode, end); });
  files_->on_wrong_name(
      [this](std::uint64_t directory, std::string name) { return drop_name(directory, std::move(name)); });
  if (options_.ring) {
    ring_service_ = std::make_unique<RingService>(loop_, *files_, [this] { return rings_are_apart(); });
    ring_door_ = std::make_unique<RingDoor>(loop_, *ring_service_);
  }

  std::string list = "subtype=nfsrdma,fsname=" + escaped(options_.source);
  for (const std::string& option : options_.kernel) list += "," + option;
  std::array<std::string, 3> words{"nfsrdma-fuse", "-o", list};
  std::array<char*, 3> pointers{words[0].data(), words[1].data(), words[2].data()};
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(pointers.size()), pointers.data());
  const fuse_lowlevel_ops table = statistics_files_.in_front_of(operations(options_));
  session_ = fuse_session_new(&args, &table, sizeof table, this);
  fuse_opt_free_args(&args);
  try {
    dropper_ = std::make_unique<CacheDropper>(loop_, session_);
    name_dropper_ = std::make_unique<CacheDropper>(loop_, session_, 1);
  } catch (const std::system_error& fault) {
    return Error(ErrorKind::local, fault.code().value(), "mount", options_.mountpoint, fault.what());
  }
  if (auto done = mount_session(); !done) return done;
  if (const auto mount = mounted_at(options_.mountpoint)) device_ = mount->device;
  const int fd = fuse_session_fd(session_);
  fuse_custom_io io{};
  io.read = read_request;
  io.writev = write_reply;
  if (fuse_session_custom_io(session_, &io, fd) != 0) {
    return Error(ErrorKind::local, ENOMEM, "mount", options_.mountpoint, "out of memory");
  }
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  loop_.watch(fd, EPOLLIN, [this](std::uint32_t) { take_in(); });
  return {};
}

void Mount::begin_shards() {
  const connect::Options& options = options_.target.options;
  if (options.shards == 0) return;
  const std::string version = server_.info().version;
  if (version != "4.1" && version != "4.2") {
    log_(options_.mountpoint + ": shards need NFSv4.1 or 4.2; the mount has none with NFSv" + version);
    return;
  }
  shards_ = std::make_unique<MountShards>(loop_, server_, options.shards, options.timeout, trace_, log_);
}

/// Mounts, unless the place has been taken since the program looked at it first.
Status Mount::mount_session() {
  if (passed_descriptor(options_.mountpoint)) return take_passed_descriptor();
  if (auto done = check_mountpoint(options_.mountpoint, options_.source); !done) return done;
  const MountingLock lock;
  if (auto done = check_not_mounted(mountinfo_now(), options_.mountpoint, options_.source); !done)
    return done;
  if (session_ == nullptr || fuse_session_mount(session_, options_.mountpoint.c_str()) != 0) {
    return Error(
        ErrorKind::local, EIO, "mount", options_.mountpoint,
        "could not be mounted (libfuse's message is above). Check that the mount point is a directory that "
        "you own, that /dev/fuse can be opened, and, if you are not root, that fusermount3 is installed");
  }
  mounted_ = true;
  return {};
}

/// Serves what another process has mounted (passed_descriptor()).
Status Mount::take_passed_descriptor() {
  mounted_ = session_ != nullptr && fuse_session_mount(session_, options_.mountpoint.c_str()) == 0;
  if (mounted_) return {};
  return Error(ErrorKind::local, EIO, "mount", options_.mountpoint,
               "libfuse did not take the descriptor (its message is above); check the options of -o");
}

async::Task<void> Mount::drop_pages(fuse_ino_t inode, std::uint64_t offset, std::uint64_t length) {
  if (mounted_) co_await dropper_->drop(inode, static_cast<off_t>(offset), static_cast<off_t>(length));
}

async::Task<void> Mount::lengthen(fuse_ino_t inode, std::uint64_t end) {
  if (mounted_) co_await dropper_->lengthen(inode, static_cast<off_t>(end));
}

async::Task<void> Mount::drop_name(fuse_ino_t directory, std::string name) {
  if (mounted_) co_await name_dropper_->drop_name(directory, std::move(name));
}

/// Reads requests. If several are under way it reads some in one turn, so that what they send leaves together
/// at the end of the turn. After a request that no process waits for it reads on as well, because the next
/// request is likely to be there, too. Otherwise it saves the read that would find nothing.
void Mount::take_in() {
  bool more = true;
  const bool several = request_counters_.waited_for() != 0;
  for (int i = 0; more && i < kMostAtOnce && fuse_session_exited(session_) == 0; ++i) {
    give_memory();
    const int got = fuse_session_receive_buf(session_, &buffer_);
    if (got <= 0) return;  // nothing is there, or the mount has ended and the session has exited
    ++taken_in_;
    if (!std::exchange(tidying_, true)) loop_.at(loop_.now() + kTidyEvery, [this] { tidy(); });
    more = count_arrival() || several;
    fuse_session_process_buf(session_, &buffer_);
    request_counters_.handled(loop_);
    // The first request was FUSE_INIT.
    if (taken_in_ == 1) kernel_ahead_ = set_kernel_read_ahead(options_.mountpoint);
    if (request_size_ == 0) learn_request_size();
  }
}

void Mount::give_memory() {
  if (buffer_.mem != nullptr || request_size_ == 0) return;
  receiving_ = loop_.memory().take(request_size_);
  buffer_.mem = receiving_.data.get();
}

/// libfuse makes its buffers as large as it needs them, and does not say how large that is. The second
/// request is the first one whose buffer libfuse allocated after its negotiation with the kernel.
void Mount::learn_request_size() {
  if (taken_in_ > 1 && buffer_.mem != nullptr) request_size_ = ::malloc_usable_size(buffer_.mem);
  std::free(std::exchange(buffer_.mem, nullptr));  // NOLINT: libfuse's malloc
}

/// Called some seconds after a request, and for as long as requests arrive. malloc returns only free memory
/// at the end of its heap to the kernel, where one small block keeps all the memory before it. Without
/// malloc_trim(3) the memory that large files and many inodes have used would stay allocated.
void Mount::tidy() {
  const bool idle = std::exchange(tidied_, taken_in_) == taken_in_;
  tidying_ = !idle;
  if (tidying_) loop_.at(loop_.now() + kTidyEvery, [this] { tidy(); });
  if (idle) async::detail::FramePool::clear();
  if (mallinfo2().fordblks > kMostFree) ::malloc_trim(0);
}

/// Counts the request by its operation, which is the second word that the kernel sends (fuse_in_header in
/// linux/fuse.h). Returns true if no process waits for the answer.
bool Mount::count_arrival() {
  std::uint32_t operation = 0;
  if (buffer_.size >= 2 * sizeof operation && (buffer_.flags & FUSE_BUF_IS_FD) == 0) {
    std::memcpy(&operation, static_cast<const std::byte*>(buffer_.mem) + sizeof operation, sizeof operation);
  }
  request_counters_.arrived(operation, loop_.now());
  return !RequestCounters::is_waited_for(operation);
}

async::Memory Mount::take_memory() {
  void* const memory = std::exchange(buffer_.mem, nullptr);
  if (receiving_.data) return std::exchange(receiving_, {});
  return {{static_cast<std::byte*>(memory), &std::free}, ::malloc_usable_size(memory)};
}

void Mount::serve(const sigset_t& signals) {
  const int fd = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { take_signals(fd); });
  loop_.end_turn();
  begin_metrics();
  while (!asked_ && fuse_session_exited(session_) == 0) loop_.turn(async::TimePoint::max());
  if (asked_) log_(options_.mountpoint + ": a signal ends the mount; unmounting");
  if (ring_door_) ring_door_->close();
  write_back();
  if (mounted_) unmount();
  if (metrics_) metrics_->end();
  take_leave();
  loop_.unwatch(fd);
  ::close(fd);
}

void Mount::take_signals(int fd) {
  signalfd_siginfo signal{};
  while (::read(fd, &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
    if (signal.ssi_signo == SIGUSR1) {
      log_lines(log_, statistics(statistics_text));
      continue;
    }
    const std::uint64_t bit = std::uint64_t{1} << (signal.ssi_signo - 1);
    hurried_ = hurried_ || (signals_ & bit) != 0;
    signals_ |= bit;
    asked_ = true;
  }
}

namespace {

struct Syncing {
  async::Wakeup done;
  std::atomic<int> code = 0;  ///< 0 or an errno, valid once `done` is set
};

/// Calls syncfs(2) for the file system that is mounted there. Returns 0 or an errno.
int sync_mount(const std::string& mountpoint) {
  // With O_DIRECTORY this file system would list its root at the server, which may refuse that to this
  // process.
  const async::Descriptor fd(::open(mountpoint.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.is_valid() && ::syncfs(fd.get()) == 0 ? 0 : errno;
}

/// Calls sync_mount() on a thread of its own, because the kernel sends this process the requests that
/// syncfs(2) waits for. If the thread does not return in time, it keeps the shared state alive. Returns null
/// if no thread or no descriptor is left.
std::shared_ptr<Syncing> sync_in_background(const std::string& mountpoint) {
  try {
    auto syncing = std::make_shared<Syncing>();
    std::thread([mountpoint, syncing] {
      syncing->code = sync_mount(mountpoint);
      syncing->done.set();
    }).detach();
    return syncing;
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace

/// Returns true if no notification and no write is under way, and the kernel has sent nothing that has not
/// been read. No write is waiting in the kernel then: the kernel sends each waiting write while it takes the
/// answer to the one before.
bool Mount::is_quiet() const {
  pollfd more{fuse_session_fd(session_), POLLIN, 0};
  return dropper_->idle() && request_counters_.writes_under_way() == 0 && ::poll(&more, 1, 0) == 0;
}

/// Runs the loop until `so()` is true. Returns false if the same signal has come again, if the server has
/// taken no data for kGoodbye, or after kLongGoodbye.
bool Mount::turn_until(const std::function<bool()>& so) {
  const auto last = loop_.now() + kLongGoodbye;
  auto until = loop_.now() + kGoodbye;
  std::uint64_t taken = files_->counters().server_bytes_written;
  while (!so()) {
    if (hurried_ || loop_.now() >= std::min(until, last)) return false;
    loop_.turn(std::min(until, last));
    if (std::exchange(taken, files_->counters().server_bytes_written) != taken)
      until = loop_.now() + kGoodbye;
  }
  return true;
}

bool Mount::is_at_mountpoint() const {
  if (passed_descriptor(options_.mountpoint)) return false;  // it has a path that only others know
  const std::string text = mountinfo_now();
  if (device_.empty() || text.empty()) return true;  // not known, for example because no descriptor is left
  const auto mount = topmost_mount(text, options_.mountpoint);
  return mount && mount->device == device_;
}

/// Makes the kernel forget the pages of every file that is open for writing, for which it sends the dirty
/// ones first. A mapped file counts as open, even after close(2). The kernel does this page by page, so
/// syncfs(2) is better if there is a path for it. Returns false if it did not end in time.
bool Mount::write_back_by_inode() {
  std::set<std::uint64_t> inodes;
  for (const auto& [number, handle] : open_) {
    if (handle->file()->access() != engine::Access::read) inodes.insert(handle->inode().attributes.number());
  }
  for (const std::uint64_t inode : inodes) loop_.spawn(drop_cached(inode));
  loop_.end_turn();
  return turn_until([this] { return fuse_session_exited(session_) != 0 || is_quiet(); });
}

/// Makes the kernel send the writes that it has gathered (in a write-back cache, or from shared mappings)
/// while its requests are still served. syncfs(2) ends when all of them have been begun, and is_quiet() is
/// true when they have been received. A mount that has no path any more (umount -l) is written back file by
/// file.
void Mount::write_back() {
  if (fuse_session_exited(session_) != 0) return;
  const auto give_up = [this] {
    tell_unsent("the server does not answer");
    unmount_by_force();
  };
  const auto syncing = is_at_mountpoint() ? sync_in_background(options_.mountpoint) : nullptr;
  if (!syncing) {
    if (!write_back_by_inode()) give_up();
    return;
  }
  bool written = false;
  loop_.watch(syncing->done.descriptor(), EPOLLIN, [&](std::uint32_t) {
    syncing->done.clear();
    written = true;
  });
  const bool all = turn_until([&] { return fuse_session_exited(session_) != 0 || (written && is_quiet()); });
  loop_.unwatch(syncing->done.descriptor());
  const bool refused = syncing->code != 0 && fuse_session_exited(session_) == 0;
  if (!all || (refused && !write_back_by_inode())) give_up();
}

void Mount::tell_unsent(const std::string& why) const {
  log_(options_.mountpoint + ": " + why +
       "; data that programs have written and the kernel has not sent by now is lost");
}

/// Writes and closes the files, and ends the session.
void Mount::take_leave() {
  loop_.spawn(finish());
  loop_.end_turn();
  if (!turn_until([this] { return finished_; })) tell_losses();
}

void Mount::tell_losses() const {
  constexpr std::size_t kMostNames = 100;
  std::size_t count = 0;
  for (const auto& file : leaving_) {
    if (file->inode().writes.empty() && !file->file()->has_unstable_data()) continue;
    if (++count <= kMostNames) log_(file->inode().label + ": not all written data has reached the server");
  }
  const std::string others =
      count > kMostNames ? " (and " + std::to_string(count - kMostNames) + " more files)" : "";
  log_(options_.mountpoint + ": the server does not answer; data that has not reached it by now is lost" +
       others);
}

void Mount::begin_metrics() {
  if (options_.metrics.empty()) return;
  metrics_ = std::make_unique<MetricsWriter>(
      loop_, std::make_shared<MetricsFile>(options_.metrics, options_.mountpoint), options_.metrics_interval,
      [this] { return statistics(metrics_text); }, log_);
  metrics_->begin();
}

std::string Mount::statistics(Show show) {
  const engine::Engine& engine = *server_.engine();
  Picture picture{options_,
                  loop_.now() - begun_,
                  server_.rsize(),
                  server_.wsize(),
                  request_counters_,
                  server_.info(),
                  engine.counters(),
                  engine.holdings(),
                  {},
                  files_->counters(),
                  files_->holdings(),
                  shards_ ? &shards_->counters() : nullptr,
                  shards_ ? shards_->working() : 0,
                  ring_service_ ? &ring_service_->counters() : nullptr,
                  ring_door_ ? ring_door_->bytes().all() : 0,
                  kernel_ahead_,
                  trace_.text()};
  for (const auto& channel : server_.channels()) picture.connections.push_back(ConnectionState::of(*channel));
  if (shards_) {
    for (ConnectionState& one : shards_->connections()) picture.connections.push_back(std::move(one));
  }
  return show(picture);
}

bool Mount::leads_to_mount(fuse_ino_t directory, const std::string& name) const {
  const auto path = files_->known_path(directory, name);
  return path && is_mounted_below(options_.mountpoint + "/" + *path);
}

bool Mount::has_kernel_option(std::string_view name) const {
  return std::ranges::find(options_.kernel, name) != options_.kernel.end();
}

/// Returns true if a connection uses iWARP and either serves a mount of several users, or has CRCs. Only a
/// mount of one user has nothing to hide from its rings. A CRC is computed over the bytes where they are, so
/// programs must not be able to change them.
bool Mount::rings_are_apart() const {
  const bool is_for_others = has_kernel_option("allow_other") || has_kernel_option("allow_root");
  return std::ranges::any_of(server_.channels(), [is_for_others](const auto& channel) {
    const fabric::Established& now = channel->established();
    return now.fabric == "iwarp" && (now.crc || is_for_others);
  });
}

void Mount::unmount() {
  mounted_ = false;
  loop_.unwatch(fuse_session_fd(session_));
  fuse_session_exit(session_);   // keeps libfuse from reporting answers that the kernel takes no more
  if (shards_) shards_->stop();  // its threads write to the descriptor
  // libfuse unmounts by path. If the path is not this mount's any more, the mount ends when its descriptor is
  // closed. The number of the descriptor stays libfuse's, and refers to another file from here on.
  if (is_at_mountpoint()) return fuse_session_unmount(session_);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  (void)::dup3(null, fuse_session_fd(session_), O_CLOEXEC);
  ::close(null);
}

/// Makes threads that wait in the kernel for an answer of this process get ECONNABORTED. If one of them is a
/// thread of this process, it may hold the mount's descriptor, so that closing the descriptor would not be
/// enough.
void Mount::unmount_by_force() {
  const bool is_there = is_at_mountpoint();
  if (is_there && ::umount2(options_.mountpoint.c_str(), MNT_FORCE | MNT_DETACH) == 0) return unmount();
  // A user who has mounted without being root may abort the connection by its number, which is the device's
  // minor number.
  unmount();
  if (device_.empty()) return;
  const std::string number = device_.substr(device_.find(':') + 1);
  std::ofstream("/sys/fs/fuse/connections/" + number + "/abort") << 1;
}

async::Soon<> Mount::part_from_rings(std::shared_ptr<fs::OpenHandle> file) {
  if (!ring_service_) return {};
  return ring_service_->part(std::move(file));
}

async::Task<Status> Mount::put_away(std::shared_ptr<fs::OpenHandle> file) {
  co_await part_from_rings(file);
  auto done = co_await files_->flush(file, 0);
  if (!done) log_(file->inode().label + ": " + done.error().text());
  auto closed = co_await files_->close(file);
  leaving_.erase(file);
  co_return closed;
}

/// Sends the writes that no program waits for any more, closes all files, and gives up the session's state.
async::Task<void> Mount::finish() {
  std::vector<async::Task<Status>> all;
  for (const auto& [number, handle] : std::exchange(open_, {})) {
    leaving_.insert(handle);
    all.push_back(put_away(handle));
  }
  if (!all.empty()) (void)co_await async::all(loop_, std::move(all));
  // Waits for files that the kernel has closed before, and for the removal of files that were removed while
  // they were open.
  co_await files_->closed();
  auto closed = co_await server_.close(loop_.now() + 2s);
  (void)closed;
  finished_ = true;
}

// ---- numbers for the kernel ----

std::uint64_t Mount::keep(std::shared_ptr<fs::OpenHandle> handle) {
  open_.emplace(++last_number_, std::move(handle));
  return last_number_;
}
std::uint64_t Mount::keep(std::shared_ptr<fs::DirectoryHandle> handle) {
  directories_.emplace(++last_number_, std::move(handle));
  return last_number_;
}
void Mount::leaves(std::uint64_t number) {
  if (auto at = open_.extract(number)) leaving_.insert(std::move(at.mapped()));
}
std::shared_ptr<fs::OpenHandle> Mount::file(std::uint64_t number) const {
  const auto at = open_.find(number);
  return at == open_.end() ? nullptr : at->second;
}
std::shared_ptr<fs::DirectoryHandle> Mount::directory(std::uint64_t number) const {
  const auto at = directories_.find(number);
  return at == directories_.end() ? nullptr : at->second;
}

fs::Caller Mount::caller(fuse_req_t request) {
  // With uid= or gid= every caller acts as that user.
  if (options_.target.options.uid || options_.target.options.gid) return nullptr;
  const fuse_ctx* context = fuse_req_ctx(request);
  const std::array<std::uint32_t, 3> key{static_cast<std::uint32_t>(context->pid), context->uid,
                                         context->gid};
  const auto now = loop_.now();
  if (const auto known = callers_.find(key); known != callers_.end() && known->second.until > now) {
    return known->second.caller;
  }
  std::array<gid_t, 64> groups{};
  // Requests that the kernel makes by itself have no groups.
  int count = context->pid == 0 ? 0 : fuse_req_getgroups(request, groups.size(), groups.data());
  count = std::clamp<int>(count, 0, groups.size());
  auto caller = std::make_shared<security::Identity>();
  caller->uid = context->uid;
  caller->gid = context->gid;
  caller->groups.assign(groups.begin(), groups.begin() + count);
  if (callers_.size() > kMostCallers) callers_.clear();
  callers_[key] = {caller, now + kCallerValid};
  return caller;
}

}  // namespace nfsrdma::fuse
