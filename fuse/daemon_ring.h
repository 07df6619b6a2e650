// A ring on the daemon's side: the memory that it shares with a program, and who owns each slot.
//
// A slot belongs to the program, or waits here to be begun, or is under way. This record is the daemon's own;
// the program's view of it is not trusted.
//
// The memory lives for as long as there is a reference to it. A request that is under way when the ring ends
// still reads into the memory, until it ends or has the memory revoked, and no other part sees that. Then the
// pages are freed (MADV_REMOVE), although the program may have kept its descriptor or its mapping: this
// process has touched the pages, and so they count as its memory.
//
// The memory cannot be shrunk while this process uses it (F_SEAL_SHRINK). It comes from tmpfs, which makes a
// new page where the program has punched a hole. So no access to it faults.
//
// Nothing here waits; RingService decides who wakes the program, and when. Confined to the loop's thread.
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

/// Bytes of ring data that this process may have touched: in rings that exist, and in rings that have ended
/// while a request still uses their memory.
class RingBytes {
 public:
  void add(std::uint32_t user, std::uint64_t bytes);
  void remove(std::uint32_t user, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t all() const { return all_; }
  [[nodiscard]] std::uint64_t of(std::uint32_t user) const;

  /// Set when this process ends its rings. Programs may still be reading answers, so the pages are not freed.
  bool keeps_pages = false;

 private:
  std::map<std::uint32_t, std::uint64_t> by_user_;
  std::uint64_t all_ = 0;
};

/// Memory that another process can share by its descriptor.
struct RingMemory {
  std::shared_ptr<std::byte> bytes;  ///< null: it could not be made, and errno says why
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

  /// Takes the slots that were submitted. Returns false if the program has submitted a slot that is not its
  /// own; the ring must end then.
  [[nodiscard]] bool collect();
  [[nodiscard]] bool has_pending() const;
  /// A request that is under way, and its slot.
  struct Job {
    unsigned slot;
    RingRequest request;
  };
  /// Begins the next request of those that were collected; each slot has its turn. Returns no value if there
  /// is none.
  std::optional<Job> begin();
  /// Ends a request that is under way, and gives its slot back. `result`: bytes, or the errno below zero.
  void answer(const Job& job, std::int32_t result, std::uint64_t where);

  /// Publishes all new answers. If enough are there for a program that waits by futex, wakes the program.
  /// Returns true if the program waits at its socket and must be woken there.
  [[nodiscard]] bool publish();
  /// Asks the program to wake the daemon from now on. Returns true if something was submitted meanwhile.
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
  Bits there_{};      // slots that exist
  Bits pending_{};    // collected, to be begun
  Bits under_way_{};  // begun
  Bits answered_{};   // answered, to be published
  unsigned next_ = 0;
};

}  // namespace nfsrdma::fuse
