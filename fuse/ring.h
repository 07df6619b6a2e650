// One ring, from the daemon's side: the memory that it shares with a program, and which slots are whose.
//
// A slot is the program's, or waits here to be begun, or is under way; what the program says of that is not believed.
// The memory lives for as long as somebody holds it: a request that is under way when the ring ends still reads into
// it, or has it revoked, and nobody else sees that. Then its pages are freed (MADV_REMOVE), though the program may have
// kept its descriptor or its mapping: this process has touched them, and so they count as its memory.
//
// The memory cannot shrink below this process's feet (F_SEAL_SHRINK), and comes from tmpfs, which makes a page where
// the program has punched a hole: no access to it faults.
//
// Nothing here waits; who wakes the program, and when, is RingService's to say. Confined to the loop's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "async/memory.h"
#include "fuse/ring_request.h"

namespace nfsrdma::fuse {

/// Bytes of rings' data that this process may have touched: of the rings that there are, and of those that have ended
/// while a request still uses their memory.
class RingBytes {
 public:
  void add(std::uint32_t user, std::uint64_t bytes);
  void remove(std::uint32_t user, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t all() const { return all_; }
  [[nodiscard]] std::uint64_t of(std::uint32_t user) const;

  /// Set when this process ends its rings: programs may still be reading answers, and the pages stay theirs.
  bool keeps_pages = false;

 private:
  std::map<std::uint32_t, std::uint64_t> by_user_;
  std::uint64_t all_ = 0;
};

/// Memory that another process can have by its descriptor.
struct RingMemory {
  std::shared_ptr<std::byte> bytes;  ///< null: there is none, errno says why
  int descriptor = -1;               ///< the caller's to close
};
/// The memory counts in `held` for `user` until its last holder has released `bytes`.
RingMemory make_ring_memory(const RingBounds& bounds, std::uint32_t user, std::shared_ptr<RingBytes> held);

class Ring {
 public:
  /// `memory` is bounds.size() zero bytes, aligned to a page.
  Ring(const RingBounds& bounds, std::shared_ptr<std::byte> memory);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Takes what was submitted. False: the program has submitted what is not its own, and the ring is to end.
  [[nodiscard]] bool collect();
  [[nodiscard]] bool has_pending() const;
  /// The next of those that were collected, and from now on under way; each slot has its turn.
  struct Job {
    unsigned slot;
    RingRequest request;
  };
  std::optional<Job> begin();
  /// Ends one that is under way. `result`: bytes, or the errno below zero. Gives the slot back.
  void answer(const Job& job, std::int32_t result, std::uint64_t where);

  /// Tells of all that were answered. True if the program sleeps and is to be woken by its socket; by a futex it has been.
  [[nodiscard]] bool publish();
  /// From now on the program wakes the daemon. True if something was submitted meanwhile.
  [[nodiscard]] bool sleep();

  [[nodiscard]] std::span<std::byte> data_of(const RingRequest& request) const;
  [[nodiscard]] async::Memory memory() const { return {memory_, bounds_.size()}; }
  [[nodiscard]] const RingBounds& bounds() const { return bounds_; }

 private:
  using Bits = std::array<std::uint64_t, RING_WORDS>;
  [[nodiscard]] ring_header& header() const { return *reinterpret_cast<ring_header*>(memory_.get()); }
  [[nodiscard]] ring_slot& slot(unsigned number) const {
    return reinterpret_cast<ring_slot*>(memory_.get() + RING_SLOTS_AT)[number];
  }

  const RingBounds bounds_;
  const std::shared_ptr<std::byte> memory_;
  Bits there_{};      // the slots that there are
  Bits pending_{};    // collected, to be begun
  Bits under_way_{};  // begun
  Bits answered_{};   // to be told of
  unsigned next_ = 0;
};

}  // namespace nfsrdma::fuse
