// How much the way to the server takes in a second, and how long it is: measured by the READs, or by the WRITEs, of a
// mount, for those who decide how many bytes may be under way (read_window.h, write_window.h).
//
// Bandwidth. While anything is under way, time is cut into spells. A spell ends when nothing is under way any more, or
// with an answer that comes at least kSpell and kTrips round trips behind its beginning. The bytes that were moved in
// it, by its length, are one measurement, and the best of recent minutes counts: a spell in which little was asked
// for, or in which the server had other things to do, says nothing of what the way takes. What is found is never more
// than was asked for: who lets twice as much be under way as it comes to sees it grow, where there is more to be had.
//
// Delay. The quickest round trip of recent minutes, less what its bytes take at that bandwidth.
//
// Recent: the best of the period of kForget that runs, and of the one before. A period ends with the first answer
// behind its time, so that a mount that is idle forgets nothing.
//
// Who keeps a queue in front of the server sees no round trip without it, and would take it for a longer way. So each
// period begins with a look: while looks() says so, one request is to be under way at a time, until one that began with
// no other in front of it is answered. Where others keep the way full all the same, the look ends after kLook.
//
//     began(1 MiB)   ended                        the way: 100 MB/s, 50 ms
//       |---50 ms----|-10 ms-|                    one at a time: 17 MB/s, all of it their own time
//       |---50 ms----|-10 ms-|-10 ms-|-10 ms-| …  seven at a time: 100 MB/s, 50 ms, and so 5 MB
//
// Pure: times are arguments. Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "async/world.h"

namespace nfsrdma::fs {

class Pace {
 public:
  using Duration = async::Clock::duration;
  using TimePoint = async::TimePoint;
  static constexpr Duration kForget = std::chrono::minutes(2);
  static constexpr Duration kSpell = std::chrono::milliseconds(10);
  static constexpr int kTrips = 2;
  static constexpr Duration kLook = std::chrono::seconds(1);

  /// `request`: bytes of one READ or WRITE, at most.
  explicit Pace(std::size_t request) : request_(request) {}

  /// A request of `asked` bytes is sent.
  void began(std::size_t asked, TimePoint now);
  /// That which was sent at `begun` has moved so many of them. 0, too, where it failed: then its time says nothing.
  void ended(std::size_t asked, std::size_t moved, TimePoint begun, TimePoint now);

  /// Bytes in a second. 0: nothing is known yet.
  [[nodiscard]] double bandwidth() const;
  [[nodiscard]] Duration delay() const;
  /// Bandwidth times delay: bytes that are under way where the server is always busy and nobody waits.
  [[nodiscard]] std::size_t product() const;
  /// How long a request of that size takes if no other is in front of it.
  [[nodiscard]] Duration expected(std::size_t size) const;
  [[nodiscard]] bool looks() const { return look_ != Look::none; }
  [[nodiscard]] std::size_t request() const { return request_; }

 private:
  struct Trip {
    Duration took;
    std::size_t moved;
  };
  /// The best of one period.
  struct Period {
    double bandwidth = 0;
    std::optional<Trip> quickest;
  };
  enum class Look : unsigned char { none, draining, measuring };

  [[nodiscard]] const std::optional<Trip>& quickest() const;
  void end_period(TimePoint now);
  void begin_spell(TimePoint now);
  void end_spell();
  [[nodiscard]] Duration least_spell() const;
  void end_look(TimePoint begun, TimePoint now);

  const std::size_t request_;
  Period now_, before_;
  TimePoint period_begun_{}, spell_begun_{};
  TimePoint last_{};                       // answer
  std::size_t under_way_ = 0, moved_ = 0;  // bytes: asked for; moved in this spell
  Look look_ = Look::none;
  TimePoint look_begun_{}, measured_from_{};
};

}  // namespace nfsrdma::fs
