// A request of the kernel, from its arrival to its answer.
//
// Rules:
// - A request is answered once: with its result, or with EINTR if the thread that waits for it is about to
//   end. The kernel sends an interrupt for any signal. The thread's state in /proc shows whether the signal
//   is fatal (thread_fate.h), and is looked at again for as long as the request lasts.
// - A result that comes after EINTR belongs to no program. The code that has it (a file that was opened, an
//   inode that was looked up, a lock) sees that answered() is true, and takes it back.
// - A signal that is not fatal ends nothing but the wait for a lock, because programs have signal handlers
//   and do not expect EINTR from a file system.
// - If the thread cannot be seen from here, its fate is not known, and EINTR comes kGrace after the first
//   interrupt.
//
// Confined to the loop's thread.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <climits>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "async/loop.h"
#include "fs/file_system.h"
#include "fuse/kernel_stat.h"
#include "fuse/request_counters.h"

namespace nfsrdma::fuse {

class Request : public std::enable_shared_from_this<Request> {
 public:
  /// Number of pieces that writev(2) takes behind libfuse's header.
  static constexpr std::size_t kMostPieces = IOV_MAX - 1;
  /// Takes the Ticket of the request that is being handled. `counters` must outlive the Request.
  static std::shared_ptr<Request> begin(async::Loop& loop, RequestCounters& counters, fuse_req_t request);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  [[nodiscard]] bool answered() const { return request_ == nullptr; }
  void error(const Error& error);
  void code(int errno_value);  ///< 0: success
  void status(const Status& status) { status ? code(0) : error(status.error()); }
  bool entry(const fs::Entry& entry);
  void attributes(const fs::Attributed& attributes);
  bool opened(const fuse_file_info& info);
  bool created(const fs::Entry& entry, const fuse_file_info& info);
  void data(const fs::ReadData& data);
  void data(std::span<const std::byte> bytes);
  void bytes(std::span<const char> bytes);
  void text(const std::string& text);
  void written(std::size_t count);
  void space(const FilesystemSpace& space, std::uint32_t block, std::uint32_t longest_name);
  void lock(const struct flock& lock);
  void offset(std::uint64_t offset);
  void xattr_size(std::size_t size);
  /// Returns the raw request, for functions that only build a buffer; null once it is answered.
  [[nodiscard]] fuse_req_t raw() const { return request_; }

  /// Gives up the raw request, which another thread may then answer. The Request counts as answered. Returns null if that
  /// was done before.
  [[nodiscard]] fuse_req_t hand_out();

  /// Must be called before the next request is read, if the task has not answered at once, so that an
  /// interrupt finds this request.
  void await_interrupts();
  /// Sets the wait for a lock, which an interrupt ends at once.
  void set_wait(std::shared_ptr<locking::LockWait> wait);
  /// Makes the request look at its thread after kExit, even without an interrupt. A thread that is killed
  /// closes its files on its way out, when there may be no signal any more that the kernel would report. Such
  /// a close waits for the data to be sent, but not for long.
  void handle_exit() { look_in(kExit); }

  /// Restricts the constructor to begin().
  class Key {
    friend class Request;
    Key() = default;
  };
  Request(Key /*key*/, async::Loop& loop, RequestCounters& counters, fuse_req_t request)
      : loop_(loop),
        counters_(counters),
        ticket_(counters.take()),
        thread_(fuse_req_ctx(request)->pid),
        request_(request) {}

 private:
  static constexpr auto kLook = std::chrono::milliseconds(250);
  static constexpr auto kExit = std::chrono::milliseconds(700);
  void interrupt();
  void look_in(async::Clock::duration time);
  void look();
  /// Returns the raw request for its one answer, or null if it was answered already.
  fuse_req_t take(bool refused = false);

  async::Loop& loop_;
  RequestCounters& counters_;
  const RequestCounters::Ticket ticket_;
  const pid_t thread_;  // the thread that waits for the answer; 0: not known
  fuse_req_t request_;
  std::shared_ptr<locking::LockWait> wait_;
  async::Loop::TimerId timer_ = 0;                  // timer of the next look()
  std::optional<async::TimePoint> interrupted_at_;  // time of the first signal
};

fuse_entry_param to_entry(const fs::Entry& entry);

}  // namespace nfsrdma::fuse
