// Serves the rings of a mount: takes what programs have submitted, does it on the file system, tells them.
//
// At the end of each of the loop's turns the rings are looked at: what was answered is told, all of one turn at a
// time; what was submitted is begun in the next turn, a bounded amount of it and one ring after the other, so that
// the kernel's requests have their turns in between. Where nothing is there the programs are asked to wake the
// daemon.
//
// A file is attached to a ring by the open file that the kernel knows (ring_door.h), with the rights that it was
// opened with, and for as long as it is open: part() is called before it is closed, and ends when nothing of it is
// under way. A WRITE's data is copied when it is begun: what the program does with it afterwards changes nothing,
// and the answer means what that of write(2) means. A READ's is placed by the server where the program wants it.
//
// A ring that was removed is gone for its program at once; what is under way ends by itself, and keeps the memory
// for that long. Confined to the loop's thread; must outlive the tasks that it has spawned (Loop::drop_tasks).
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
#include "fuse/ring.h"
#include "fuse/ring_counters.h"

namespace nfsrdma::fuse {

class RingService {
 public:
  using Handle = std::shared_ptr<fs::OpenHandle>;
  using RingId = std::uint64_t;
  static constexpr std::size_t kMostFiles = 4096;  ///< of one ring
  /// Requests of all rings: the kernel's find slots of the session beside them.
  static constexpr unsigned kMostUnderWay = 48;

  /// `gathers`: of fs::FileSystem::Past. `apart`: asked whether what is read has to come into memory of the daemon's own
  /// first. A fabric of ours takes in what it expects before it knows what it is (iwarp/stream.h): in a program's memory
  /// that would show it bytes that are not for it, and have it change what is taken for the connection's.
  RingService(async::Loop& loop, fs::FileSystem& files, bool gathers, std::function<bool()> apart);
  ~RingService();
  RingService(const RingService&) = delete;
  RingService& operator=(const RingService&) = delete;

  /// `wake`: rouses a program that waits for its socket. `broken`: the program did not keep to the rules; from inside of it the ring may be
  /// removed.
  RingId add(const RingBounds& bounds, std::shared_ptr<std::byte> memory, std::function<void()> wake,
             std::function<void()> broken);
  void remove(RingId id);
  /// A program has submitted something, and says so: it is looked at in this turn.
  void roused() { post_work(); }
  /// The number that the ring's requests name it by: the same for the same open file. None: it has too many.
  std::optional<std::uint32_t> attach(RingId id, const Handle& file);
  /// Why it may not be attached, whatever the ring: an errno; 0: it may.
  [[nodiscard]] int refusal(const fs::OpenHandle& file) const;
  /// No request reaches the open file any more. Ends when those have that did.
  async::Task<void> part(Handle file);

  [[nodiscard]] bool empty() const { return rings_.empty(); }
  [[nodiscard]] RingCounters& counters() { return counters_; }

 private:
  struct Served {
    Served(const RingBounds& bounds, std::shared_ptr<std::byte> memory) : ring(bounds, std::move(memory)) {}
    Ring ring;
    std::function<void()> wake, broken;
    struct File {
      Handle handle;
      std::uint32_t number = 0;  // its place here, and how often that was used
    };
    std::vector<File> files;
    std::map<const fs::OpenHandle*, std::uint32_t> numbers;
    std::vector<std::uint32_t> free;  // places in `files`
  };
  using ServedRef = std::shared_ptr<Served>;
  /// A request is under way on the file while one lives.
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
  void failed(const ServedRef& served, const Ring::Job& job, const Error& error);

  async::Loop& loop_;
  fs::FileSystem& files_;
  const bool gathers_;
  const std::function<bool()> apart_;
  RingCounters counters_;
  std::map<RingId, ServedRef> rings_;
  RingId last_ = 0;
  RingId turn_ = 0;  // whose turn it was last
  std::uint64_t hook_ = 0;
  bool posted_ = false;
  unsigned under_way_ = 0;
  std::map<const fs::OpenHandle*, unsigned> busy_;  // requests under way on each
  async::Event less_busy_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what is posted
};

}  // namespace nfsrdma::fuse
