// Estimates the bandwidth and the delay of the path to the server, measured by a mount's READs or by its
// WRITEs. The windows that limit the bytes in flight use them (read_window.h, write_window.h).
//
// Bandwidth. While a request is in flight, time is divided into spells. A spell ends when no request is in
// flight any more, or with an answer that arrives at least kSpell and kTrips round trips after the spell's
// beginning. The bytes moved in a spell, divided by its length, are one measurement. The best one of recent
// minutes counts: a spell in which little was requested, or in which the server was busy otherwise, says
// nothing about the path. A measurement is never higher than the rate of requests. So a caller that keeps
// twice as much in flight as the estimate suggests sees the estimate grow, as long as more bandwidth is
// available.
//
// Delay. The quickest round trip of recent minutes, less the time that its bytes take at that bandwidth.
//
// Recent means the current period of length kForget and the one before. A period ends with the first answer
// after its time is over, so that an idle mount forgets nothing.
//
// Queues. A caller that keeps a queue in front of the server sees no round trip without the queue, and would
// mistake it for delay. So each period begins with a look: while looks() returns true, only one request is to
// be in flight at a time, until one that began with no other in front of it is answered. If other traffic
// keeps the path full all the same, the look ends after kLook.
//
//     began(1 MiB)   ended                        the path: 100 MB/s, 50 ms
//       |---50 ms----|-10 ms-|                    one at a time: 17 MB/s, all of it their own time
//       |---50 ms----|-10 ms-|-10 ms-|-10 ms-|... seven at a time: 100 MB/s, 50 ms, so the product is 5 MB
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

  /// `request` is the largest number of bytes of one READ or WRITE.
  explicit Pace(std::size_t request) : request_(request) {}

  /// Called when a request of `asked` bytes is sent.
  void began(std::size_t asked, TimePoint now);
  /// Called when the request that was sent at `begun` has moved `moved` of its `asked` bytes. 0 also if it
  /// failed; its time then does not count.
  void ended(std::size_t asked, std::size_t moved, TimePoint begun, TimePoint now);

  /// Returns the bandwidth in bytes per second; 0 if it is not known yet.
  [[nodiscard]] double bandwidth() const;
  [[nodiscard]] Duration delay() const;
  /// Returns bandwidth times delay: the bytes in flight at which the server is always busy and no request
  /// waits in a queue.
  [[nodiscard]] std::size_t product() const;
  /// Returns how long a request of that size takes if no other is in front of it.
  [[nodiscard]] Duration expected(std::size_t size) const;
  [[nodiscard]] bool looks() const { return look_ != Look::none; }
  [[nodiscard]] std::size_t request() const { return request_; }

 private:
  struct Trip {
    Duration took;
    std::size_t moved;
  };
  /// The best measurements of one period.
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
  TimePoint last_{};                       // time of the last answer
  std::size_t under_way_ = 0, moved_ = 0;  // bytes that are asked for; bytes moved in this spell
  Look look_ = Look::none;
  TimePoint look_begun_{}, measured_from_{};
};

}  // namespace nfsrdma::fs
