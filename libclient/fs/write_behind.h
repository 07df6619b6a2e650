// Write-behind: writes that are answered before they are on the server, and the measures that keep this
// correct.
//
// Answering. A write is answered when its data is on its way; the bytes in flight of all files are limited to
// what keeps the server busy (write_window.h), and beyond that a write waits for room. Small sequential
// writes of one open file are first gathered, for some milliseconds or until an operation has to see them,
// and sent as one WRITE. A write that touches the range of an earlier one waits until that one has ended,
// because WRITEs in flight at the same time may be executed in any order. A write that must be stable is
// answered when it is on the server's disk, and so is every write of a file that has lost data, until an
// fsync() or close() of it has succeeded.
//
// Settling. An operation that must see earlier writes first calls settle(), which ends when all writes have
// ended that were answered when it began (pending_writes.h). Later writes do not prolong it.
//
// Failure. When an answered write fails, its data is removed from all caches (on_lost()), and the next
// fsync() and close() of each open file report the error (late_errors.h). Nothing is written again here: the
// engine writes again what the server had and lost, until it is committed.
//
// Ownership. WriteBehind owns the gathered data, and holds the OpenHandle of each write until the write has
// ended. Its knowledge of a file is in Inode::writes (file_writes.h). Any of its tasks may run at the same
// time, also for one file; the caller of a task holds the Inode or the OpenHandle. No task may outlive this.
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fs/freshness.h"
#include "fs/open_handle.h"
#include "fs/write_window.h"

namespace nfsrdma::fs {

class WriteBehind {
 public:
  using Bytes = std::span<const std::byte>;

  /// `wsize` is the largest size of one WRITE. The other arguments must outlive this.
  WriteBehind(async::Loop& loop, Freshness& freshness, Counters& counters, std::uint32_t wsize);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  struct How {
    bool append = false;
    bool stable = false;  ///< the data is on the server's disk when the write is answered
  };
  /// `memory` holds what `data` points to.
  async::Task<Status> write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                            std::uint64_t offset, How how);
  /// Returns the offset for an append, which has to begin at once: the server's end of file, or the end of
  /// this mount's writes if they reach further, whether they are under way or have ended since the server was
  /// asked. The server is asked anew unless appends of this mount are under way, because then no other source
  /// knows better.
  async::Task<Result<std::uint64_t>> place_append(std::shared_ptr<OpenHandle> file);
  /// Returns where the file ends, with the writes of this mount that are under way. The server is asked.
  async::Task<Result<std::uint64_t>> ask_end(std::shared_ptr<OpenHandle> file);

  /// Ends when all writes have ended that were answered when it began.
  async::Soon<> settle(Inode& inode);
  /// Does the same for the writes with numbers up to `last`.
  async::Soon<> settle(Inode& inode, std::uint64_t last);
  /// Times that a program sets.
  struct Times {
    Caller caller;                    ///< with whose rights they are set
    SetAttributes changes;            ///< only times
    std::optional<Attributes> after;  ///< the file's attributes once they are set; none: they are not set
  };
  /// Returns whether settle_last() would have times set that `caller` sets: what is gathered is all that the server lacks of
  /// the file, and `caller` wrote it.
  [[nodiscard]] bool may_set_times(Inode& inode, const Caller& caller) const;
  /// Does what settle() does, before mtime is set. Programs do that when they have written all of a file. If what is gathered
  /// is all of it, one stable WRITE sends it, and close() needs no COMMIT. Linux does so when a program waits for all data
  /// (FLUSH_COND_STABLE). `times`: null, or what the call that writes the data is to set, if may_set_times().
  async::Soon<> settle_last(Inode& inode, std::shared_ptr<Times> times);
  /// Ends when all writes of these bytes have ended that had begun by then.
  async::Task<void> settle_range(Inode& inode, std::uint64_t from, std::uint64_t to);
  /// Prepares a READ of these bytes: settles, and also waits for earlier writes of the range that are not
  /// answered yet, and for appends whose offset is being determined, because they may be in the range. A READ
  /// that overtakes such a write would put older bytes into a page that stays after the write is answered.
  async::Task<void> settle_for_read(Inode& inode, std::uint64_t from, std::uint64_t to);
  /// Returns false if settle_for_read() would have to wait.
  [[nodiscard]] static bool may_read_at_once(const Inode& inode, std::uint64_t from, std::uint64_t to);
  /// Ends when any of the writes that are under way has ended.
  async::Task<void> one_settled(Inode& inode);

  /// Brings all earlier writes of the file to the server's disk, and ignores late errors. Afterwards the
  /// kernel's pages count as those of the server's current state, if that is certain
  /// (Freshness::is_as_written).
  async::Task<Status> save(std::shared_ptr<OpenHandle> file);
  /// Brings all earlier writes to the server's disk, so that others can see them, without any effect on what
  /// is known of the file.
  async::Task<Status> make_safe(std::shared_ptr<OpenHandle> file);
  /// Commits what the server has of the file, through whichever open file it was written here. `after` gets
  /// the file's attributes after the COMMIT, if any came.
  async::Soon<Status> commit_all(std::shared_ptr<OpenHandle> file, std::optional<Attributes>* after);

  /// Return the results of fsync() and close() after save() has returned `saved`. Errors that they return
  /// count as reported.
  static Status told_at_fsync(OpenHandle& file, Status saved);
  static Status told_at_close(OpenHandle& file, std::uint64_t lock_owner, Status saved);

  /// Called when data whose write was answered is lost.
  void lost(Inode& inode, const Error& error);
  /// `sink` is called with a file that lost data, to remove that data from all caches.
  void on_lost(std::function<void(Inode&)> sink) { lost_ = std::move(sink); }

  [[nodiscard]] std::size_t bytes_behind() const { return behind_; }
  [[nodiscard]] std::size_t most_behind() const { return window_.bytes(); }
  [[nodiscard]] Window window() const { return window_.window(); }

 private:
  [[nodiscard]] bool has_settled(Inode& inode, std::uint64_t last);
  async::Task<void> wait_until_settled(Inode& inode, std::uint64_t last);
  async::Task<Status> commit_with(std::shared_ptr<OpenHandle> file, std::vector<ServerFileRef> others,
                                  std::optional<Attributes>* after);
  /// The place of a write among those of the inode, until it has ended.
  using Pending = PendingWrites::Place;
  /// Small sequential writes of one open file, until they are sent as one.
  struct Gathered {
    std::shared_ptr<OpenHandle> file;
    std::vector<std::byte> data;
    Pending pending;
    async::TimePoint begun;
  };
  /// An order that does not depend on addresses, so that each run of the same work is the same.
  struct ByNumber {
    bool operator()(const Inode* a, const Inode* b) const { return a->id < b->id; }
  };

  [[nodiscard]] bool too_much_behind(std::size_t size) const;
  async::Task<void> wait_for_turn(Inode& inode, Pending pending);
  async::Task<void> wait_for_room(std::size_t size);
  async::Task<Status> write_through(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                    Pending pending, Stability stability);
  void send_behind(const std::shared_ptr<OpenHandle>& file, async::Memory memory, Bytes data,
                   Pending pending);
  async::Task<void> write_behind(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                 Pending pending, Stability stability, std::shared_ptr<Times> times = {});
  async::Task<Status> send_write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                 std::uint64_t offset, Stability stability,
                                 std::optional<Attributes>* after = nullptr, Times* times = nullptr);
  void accept(Inode& inode, Pending pending, std::size_t size);
  void ended(Inode& inode, Pending pending, bool written);
  bool add_to_gathered(const std::shared_ptr<OpenHandle>& file, Bytes data, std::uint64_t offset, How how);
  void gather(const std::shared_ptr<OpenHandle>& file, Bytes data, Pending pending);
  void send_gathered(Inode& inode, Stability stability = Stability::unstable,
                     std::shared_ptr<Times> times = {});
  [[nodiscard]] static Stability stability_of_last(const Inode& inode, const ServerFile& file);
  async::Task<void> send_old_gathered();

  async::Loop& loop_;
  Freshness& freshness_;
  Counters& counters_;
  const std::uint32_t wsize_;
  std::function<void(Inode&)> lost_;
  std::map<Inode*, Gathered, ByNumber> gathered_;
  bool sending_old_ = false;  // send_old_gathered() is running
  std::uint64_t sending_task_ = 0;
  std::size_t behind_ = 0;  // bytes of answered writes that the server does not have yet
  WriteWindow window_;      // the limit of behind_
  async::Event less_behind_;
};

}  // namespace nfsrdma::fs
