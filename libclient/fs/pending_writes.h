// The writes of one file that the server does not have yet, and the ends of those that ended lately.
//
// Every write has a number that increases within the file. A task that waits for writes first takes the last
// number, and waits for the writes up to it: later writes do not prolong the wait. A write itself waits for
// those with lower numbers that touch its range, because WRITEs in flight at the same time may be executed in
// any order. A write that is extended at its end (small writes that are gathered) gets a later number; a task
// that waits for its first bytes waits for all of it.
//
// A write is "answered" once the kernel has the answer that the data is written (write-behind). From then on
// sizes must include it, although the server's attributes may be older: written_since() returns the least end
// of the file for attributes that were asked for at a given count of changes.
//
// A plain container, confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

namespace nfsrdma::fs {

struct PendingWrite {
  std::uint64_t offset = 0, end = 0;
  std::uint64_t first = 0, number = 0;  ///< numbers of its first bytes and of its last
  bool answered = false;
  bool append = false;
  [[nodiscard]] bool touches(std::uint64_t from, std::uint64_t to) const { return offset < to && from < end; }
};

class PendingWrites {
 public:
  using Place = std::list<PendingWrite>::const_iterator;

  Place begin(std::uint64_t offset, std::size_t size, bool append = false);
  /// Marks the write as answered.
  void accept(Place write) { at(write).answered = true; }
  /// Extends the write at its end by bytes that get the latest number.
  void extend(Place write, std::size_t size, bool append = false);
  /// Removes a write that has ended. `changes` is the current Freshness::count(), at which its end is noted.
  /// A write that failed leaves no end.
  void end(Place write, bool written, std::uint64_t changes);

  [[nodiscard]] std::uint64_t last_number() const { return last_; }
  /// Returns how many writes have ended. Compare two readings to learn whether one ended in between.
  [[nodiscard]] std::uint64_t ended() const { return count_ended_; }
  /// Returns whether an answered write that touches the range has bytes with a number up to `up_to`.
  [[nodiscard]] bool any_answered(std::uint64_t up_to, std::uint64_t from, std::uint64_t to) const;
  /// Returns whether a write, answered or not, that touches the range has bytes with a number up to `up_to`.
  [[nodiscard]] bool any(std::uint64_t up_to, std::uint64_t from, std::uint64_t to) const;
  /// Returns whether an earlier write touches the range of this one.
  [[nodiscard]] bool any_before(Place write) const;
  /// Returns whether a write other than this one touches the range.
  [[nodiscard]] bool any_other(Place write, std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] bool any_append() const;
  [[nodiscard]] std::size_t answered() const;
  /// Returns true if no write is answered: then the server's attributes lack nothing that programs have to
  /// see.
  [[nodiscard]] bool empty() const;
  /// Returns the furthest end of all writes; 0 if there are none.
  [[nodiscard]] std::uint64_t furthest() const;
  /// Returns the furthest end of the writes that are not answered; 0 if there are none.
  [[nodiscard]] std::uint64_t furthest_unanswered() const;
  /// Returns the furthest end of the writes that are answered, and of those that ended after this count of
  /// changes.
  [[nodiscard]] std::optional<std::uint64_t> written_since(std::uint64_t changes) const;
  /// Returns the end of the file if the server, asked at this count of changes, reported `size`.
  [[nodiscard]] std::uint64_t end_of(std::uint64_t size, std::uint64_t changes) const {
    return std::max({size, written_since(changes).value_or(0), furthest()});
  }
  /// Called when the size was set or is not known: the ends of earlier writes no longer count.
  void forget_ended() { ended_.clear(); }

 private:
  struct Ended {
    std::uint64_t changes, end;
  };
  PendingWrite& at(Place write) { return *writes_.erase(write, write); }  // erases nothing

  std::list<PendingWrite> writes_;
  std::uint64_t last_ = 0, count_ended_ = 0;
  // Ends in descending order. A write that ends removes the earlier entries with no greater ends, because
  // they add nothing.
  std::vector<Ended> ended_;
};

}  // namespace nfsrdma::fs
