// So many at once: whoever comes when all places are taken waits, first come first served, until one is free.
//
//     Places places(loop, 8);
//     bool in_time = true;
//     if (places.must_wait()) in_time = co_await places.wait(deadline);
//     if (!in_time) …
//     const Places::Place place(places);     // at once: nobody else may come in between
//
// A Place may be taken without having waited, by what must not wait for others.
//
// Confined to the loop's thread. The Places must outlive each Place and each wait.
#pragma once

#include <cstdint>

#include "async/until.h"

namespace nfsrdma::async {

class Places {
 public:
  Places(Loop& loop, std::uint32_t most) : most_(most), freed_(loop) {}

  class Place {
   public:
    explicit Place(Places& all) : all_(all) { ++all_.taken_; }
    ~Place() {
      --all_.taken_;
      all_.freed_.notify_one();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Places& all_;
  };

  /// Those who wait are before whoever comes.
  [[nodiscard]] bool must_wait() const { return taken_ >= most_ || freed_.awaited(); }
  /// False if the deadline came first.
  Task<bool> wait(TimePoint deadline) {
    return until(freed_, deadline, [this] { return taken_ < most_; });
  }
  [[nodiscard]] std::uint32_t taken() const { return taken_; }

 private:
  const std::uint32_t most_;
  std::uint32_t taken_ = 0;
  Event freed_;
};

}  // namespace nfsrdma::async
