// The writes of one file that are not with the server yet, and where those that ended lately ended.
//
// Every write has a number, counted up for the file. Whoever waits for writes takes the last number first and
// waits for those up to it: later ones do not prolong the wait. A write itself waits for those with lower
// numbers that touch its range, since writes that are under way together overtake each other. One that goes on
// behind its end (small writes that are gathered) has a later number then; whoever waits for its first bytes
// waits for all of it.
//
// A write is "answered" once whoever wrote has been told that it is written (write-behind). From then on it
// is to be seen in sizes, though the server's attributes may come from before it: written_since() says how
// far the file reaches at least, for attributes that were asked for at a given count of changes.
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
  std::uint64_t first = 0, number = 0;  ///< of its first bytes, and of its last
  bool answered = false;
  bool append = false;
  [[nodiscard]] bool touches(std::uint64_t from, std::uint64_t to) const { return offset < to && from < end; }
};

class PendingWrites {
 public:
  using Place = std::list<PendingWrite>::const_iterator;

  Place begin(std::uint64_t offset, std::size_t size, bool append = false);
  /// The write becomes "answered".
  void accept(Place write) { at(write).answered = true; }
  /// It goes on behind its end, by bytes that are as young as the youngest.
  void extend(Place write, std::size_t size, bool append = false);
  /// `changes`: the file system's count as of now, in which the end is counted. A write that failed has left
  /// nothing to be seen.
  void end(Place write, bool written, std::uint64_t changes);

  [[nodiscard]] std::uint64_t last_number() const { return last_; }
  /// How many have ended. Compare two readings to learn whether one did in between.
  [[nodiscard]] std::uint64_t ended() const { return count_ended_; }
  /// Whether one that is answered, of which some bytes have a number up to this one, touches the range.
  [[nodiscard]] bool any_answered(std::uint64_t up_to, std::uint64_t from, std::uint64_t to) const;
  /// Whether one of which some bytes have a number up to this one touches the range, answered or not.
  [[nodiscard]] bool any(std::uint64_t up_to, std::uint64_t from, std::uint64_t to) const;
  /// Whether one that came before this one touches its range.
  [[nodiscard]] bool any_before(Place write) const;
  /// Whether one but this one touches the range.
  [[nodiscard]] bool any_other(Place write, std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] bool any_append() const;
  [[nodiscard]] std::size_t answered() const;
  /// None is answered: nothing is to be seen that the server does not tell.
  [[nodiscard]] bool empty() const;
  /// The furthest end of those that are there; 0: there are none.
  [[nodiscard]] std::uint64_t furthest() const;
  /// The furthest end of those that are not answered; 0: there are none.
  [[nodiscard]] std::uint64_t furthest_unanswered() const;
  /// The furthest end of those that are answered, or ended behind this count of changes.
  [[nodiscard]] std::optional<std::uint64_t> written_since(std::uint64_t changes) const;
  /// Where the file ends, of which the server said the size when it was asked at this count of changes.
  [[nodiscard]] std::uint64_t end_of(std::uint64_t size, std::uint64_t changes) const {
    return std::max({size, written_since(changes).value_or(0), furthest()});
  }
  /// The size was set, or is not known: what ended says nothing of it any more.
  void forget_ended() { ended_.clear(); }

 private:
  struct Ended {
    std::uint64_t changes, end;
  };
  PendingWrite& at(Place write) { return *writes_.erase(write, write); }  // erases nothing

  std::list<PendingWrite> writes_;
  std::uint64_t last_ = 0, count_ended_ = 0;
  std::vector<Ended> ended_;  // later ones end before earlier ones: others would say nothing more
};

}  // namespace nfsrdma::fs
