// Serves the rings of a mount: takes what programs have submitted, does it on the file system, and publishes
// answers.
//
// Turns: at the end of each turn of the loop the rings are looked at. All answers of the turn are published
// together. Requests that were submitted are begun in the next turn, a bounded amount of them and one ring
// after the other, so that the kernel's requests are served in between. If nothing was submitted, the
// programs are asked to wake the daemon.
//
// Files: a file is attached to a ring by the open file that the kernel knows (ring_door.h), with the rights
// that it was opened with, and for as long as it is open. part() is called before it is closed, and ends when
// no request is under way on it. The data of a WRITE is copied when the WRITE is begun: later changes by the
// program have no effect, and the answer means what that of write(2) means. The server places the data of a
// READ where the program wants it, unless `apart` (see the constructor) says otherwise.
//
// End: a ring that was removed is gone for its program at once. Requests under way end by themselves, and
// keep the memory until then.
//
// Confined to the loop's thread; must outlive the tasks that it has spawned (Loop::drop_tasks).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "async/event.h"
#include "async/loop.h"
#include "fs/file_system.h"
#include "fuse/daemon_ring.h"
#include "fuse/ring_counters.h"

namespace nfsrdma::fuse {

class RingService {
 public:
  using Handle = std::shared_ptr<fs::OpenHandle>;
  using RingId = std::uint64_t;
  static constexpr std::size_t kMostFiles = 4096;  ///< open files attached to one ring
  /// Limit of requests under way in all rings together, so that the kernel's requests find slots of the
  /// session, too.
  static constexpr unsigned kMostUnderWay = 48;

  /// `apart` returns true if data must be read into memory of the daemon's own first. The iWARP fabric receives bytes that it expects before it knows what they are
  /// (iwarp/stream.h). In a program's memory that would show the program bytes that are not meant for it, and
  /// the program could change bytes that are taken for the connection's.
  RingService(async::Loop& loop, fs::FileSystem& files, std::function<bool()> apart);
  ~RingService();
  RingService(const RingService&) = delete;
  RingService& operator=(const RingService&) = delete;

  /// `wake` wakes a program that waits at its socket. `broken` is called if the program did not keep to the
  /// rules, and may remove the ring.
  RingId add(const RingBounds& bounds, std::shared_ptr<std::byte> memory, std::function<void()> wake,
             std::function<void()> broken);
  void remove(RingId id);
  /// Called when a program says that it has submitted something. The rings are looked at in this turn.
  void roused() { post_work(); }
  /// Returns the number by which the ring's requests name the open file, always the same for the same file.
  /// Returns no value if the ring is gone, or has too many files.
  std::optional<std::uint32_t> attach(RingId id, const Handle& file);
  /// Returns the errno for a file that may not be attached to any ring, or 0.
  [[nodiscard]] int refusal(const fs::OpenHandle& file) const;
  /// Detaches the open file, so that no request reaches it any more. Ends when requests that have reached it
  /// have ended.
  async::Soon<> part(Handle file);

  [[nodiscard]] bool empty() const { return rings_.empty(); }
  [[nodiscard]] RingCounters& counters() { return counters_; }

 private:
  struct Served {
    Served(const RingBounds& bounds, std::shared_ptr<std::byte> memory) : ring(bounds, std::move(memory)) {}
    Ring ring;
    std::function<void()> wake, broken;
    struct File {
      Handle handle;
      std::uint32_t number = 0;  // index in `files`, and how often that index was used
    };
    std::vector<File> files;
    std::map<const fs::OpenHandle*, std::uint32_t> numbers;
    std::vector<std::uint32_t> free;  // free indexes in `files`
  };
  using ServedRef = std::shared_ptr<Served>;
  /// Marks a request as under way on the file for as long as this object lives.
  class Busy {
   public:
    Busy(RingService& service, const fs::OpenHandle* file);
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    RingService& service_;
    const fs::OpenHandle* const file_;
  };

  void end_of_turn();
  void work();
  bool work_on(const ServedRef& served, unsigned& budget);
  void start(const ServedRef& served, const Ring::Job& job);
  static Handle find(const Served& served, std::uint32_t number);
  void post_work();
  void refuse(const ServedRef& served, const Ring::Job& job, int code);
  async::Task<void> read(ServedRef served, Ring::Job job, Handle file);
  async::Task<void> write(ServedRef served, Ring::Job job, Handle file);
  async::Task<void> sync(ServedRef served, Ring::Job job, Handle file);
  async::Task<void> wait_until_idle(Handle file);
  void failed(const ServedRef& served, const Ring::Job& job, const Error& error);

  async::Loop& loop_;
  fs::FileSystem& files_;
  const std::function<bool()> apart_;
  RingCounters counters_;
  std::map<RingId, ServedRef> rings_;
  RingId last_ = 0;
  RingId turn_ = 0;  // ring that came first in the last turn
  std::uint64_t hook_ = 0;
  bool posted_ = false;
  unsigned under_way_ = 0;
  std::map<const fs::OpenHandle*, unsigned> busy_;  // requests under way on each
  async::Event less_busy_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for posted functions
};

}  // namespace nfsrdma::fuse
