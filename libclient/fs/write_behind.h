// Writes that are answered before they are on the server, and what makes up for that.
//
// Writes are answered when they are on their way, of all files as many bytes as keep the server busy
// (write_window.h); beyond that a write waits for room. Small ones of one open file that follow each other
// are gathered first, for some milliseconds or until somebody wants to see them, and sent as one. A write
// that touches the range of an earlier one waits until that one has ended, since WRITEs that are under way
// together overtake each other. A write that is to be stable is answered when it is on the server's disk, and
// so is every one of a file that has lost data, until an fsync() or close() of it has gone well.
//
// Whoever must see what was written before settles first: settle() ends when the writes have that were
// answered when it began (pending_writes.h). Later ones do not prolong it.
//
// When a late write fails, its data is in no cache any more (on_lost()), and the error is told by the next
// fsync() and close() of each open file (late_errors.h). Nothing is written again here: what the server has
// and loses again is the engine's to write again, until it is committed.
//
// It owns the gathered data, and holds the OpenHandle of each write until that has ended. What it knows of a
// file stands in Inode::writes (file_writes.h). Any of its tasks may run at the same time, of one file, too;
// their caller holds on to the Inode or the OpenHandle. None may outlive it. Confined to the loop's thread.
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

  /// `wsize`: of one WRITE, at most. All of them must outlive it.
  WriteBehind(async::Loop& loop, Freshness& freshness, Counters& counters, std::uint32_t wsize);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  struct How {
    bool append = false;
    bool stable = false;  ///< on the server's disk when it is answered
  };
  /// `memory` holds what `data` points to.
  async::Task<Status> write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                            std::uint64_t offset, How how);
  /// Gives the offset for an append, which has to begin at once: the server's end of file, or the end of this mount's
  /// writes if they reach further, be they under way or ended since the server was asked. The server is asked anew unless
  /// appends of this mount are under way, because nobody else can say better then.
  async::Task<Result<std::uint64_t>> place_append(std::shared_ptr<OpenHandle> file);

  /// Ends when the writes have that were answered when it began.
  async::Task<void> settle(Inode& inode);
  /// Those with numbers up to `last`.
  async::Task<void> settle(Inode& inode, std::uint64_t last);
  /// For a READ of these bytes: settles, and waits for writes of them that began before and are not answered yet, and for
  /// appends whose place is being found, which may be there. A READ that overtakes such a write would bring bytes from
  /// before it into a page that stays behind its answer.
  async::Task<void> settle_for_read(Inode& inode, std::uint64_t from, std::uint64_t to);
  /// Whether it would have to wait.
  [[nodiscard]] static bool may_read_at_once(const Inode& inode, std::uint64_t from, std::uint64_t to);
  /// Ends when any of the writes that are under way has ended.
  async::Task<void> one_settled(Inode& inode);

  /// What was written of the file before is on the server's disk; late errors are not heeded. After that the
  /// kernel's pages of it go with what the server has.
  async::Task<Status> save(std::shared_ptr<OpenHandle> file);
  /// The same, for others to see: nothing is learnt from it.
  async::Task<Status> make_safe(std::shared_ptr<OpenHandle> file);
  /// What the server has of the file, whoever wrote it here, is on its disk. `after`: the file's attributes
  /// then, if they came along.
  async::Task<Status> commit_all(std::shared_ptr<OpenHandle> file, std::optional<Attributes>* after);

  /// What fsync() and close() answer whose save() gave `saved`. They count as told.
  static Status told_at_fsync(OpenHandle& file, Status saved);
  static Status told_at_close(OpenHandle& file, std::uint64_t lock_owner, Status saved);

  /// Data that somebody was told is written is not, and will not be.
  void lost(Inode& inode, const Error& error);
  /// `sink`: sees to it that nobody finds what was lost in a cache.
  void on_lost(std::function<void(Inode&)> sink) { lost_ = std::move(sink); }

  [[nodiscard]] std::size_t bytes_behind() const { return behind_; }
  [[nodiscard]] std::size_t most_behind() const { return window_.bytes(); }
  [[nodiscard]] Window window() const { return window_.window(); }

 private:
  /// Its place among the inode's, until it has ended.
  using Pending = PendingWrites::Place;
  /// Small writes of one open file that follow each other, until they are sent as one.
  struct Gathered {
    std::shared_ptr<OpenHandle> file;
    std::vector<std::byte> data;
    Pending pending;
    async::TimePoint begun;
  };
  /// In an order that is the same in each run of the same work: not that of addresses.
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
                                 Pending pending, Stability stability);
  async::Task<Status> write_out(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                std::uint64_t offset, Stability stability,
                                std::optional<Attributes>* after = nullptr);
  void accept(Inode& inode, Pending pending, std::size_t size);
  void ended(Inode& inode, Pending pending, bool written);
  bool add_to_gathered(const std::shared_ptr<OpenHandle>& file, Bytes data, std::uint64_t offset, How how);
  void gather(const std::shared_ptr<OpenHandle>& file, Bytes data, Pending pending);
  void send_gathered(Inode& inode, Stability stability = Stability::unstable);
  async::Task<void> send_old_gathered();

  async::Loop& loop_;
  Freshness& freshness_;
  Counters& counters_;
  const std::uint32_t wsize_;
  std::function<void(Inode&)> lost_;
  std::map<Inode*, Gathered, ByNumber> gathered_;
  bool sending_old_ = false;  // send_old_gathered() runs
  std::uint64_t sending_task_ = 0;
  std::size_t behind_ = 0;  // bytes that were answered and are not with the server
  WriteWindow window_;      // for them
  async::Event less_behind_;
};

}  // namespace nfsrdma::fs
