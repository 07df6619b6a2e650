// COPYs that the server makes beside (RFC 7862 4.2.3, 15.2, 15.9, 16.1), and how they ended.
//
//     CopiesBeside::One copy(copies, loop);          // before the COPY is sent
//     … the Reply says that the server copies beside: copy.is(wr_callback_id)
//     while (!copy.outcome()) co_await copy.until(next);   // and ask by OFFLOAD_STATUS: CB_OFFLOAD may be
//     lost
//
// CB_OFFLOAD may overtake the Reply to the COPY. While one is asked for whose stateid is not known yet, what
// the server says of an unknown copy is kept.
//
// Confined to the loop's thread. What waits is woken from the loop, not from inside of ended().
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "async/event.h"
#include "nfs4/types/ops_callback.h"

namespace nfsrdma::nfs4 {

class CopiesBeside {
 public:
  struct Outcome {
    stateid4 stateid{};
    nfsstat4 status = NFS4_OK;
    write_response4 written{};  ///< as far as the status is NFS4_OK
  };

  /// One COPY, from before it is sent until nobody waits for it any more.
  class One {
   public:
    One(CopiesBeside& all, async::Loop& loop) : all_(all), ended_(loop) { all_.ones_.push_back(this); }
    ~One() {
      std::erase(all_.ones_, this);
      if (!all_.is_expecting()) all_.early_.clear();
    }
    One(const One&) = delete;
    One& operator=(const One&) = delete;
    /// The server's name for it.
    void is(const stateid4& stateid) {
      stateid_ = stateid;
      outcome_.reset();
      const auto early = std::ranges::find_if(
          all_.early_, [&](const Outcome& one) { return one.stateid.other == stateid.other; });
      if (early == all_.early_.end()) return;
      outcome_ = *early;
      all_.early_.erase(early);
    }
    /// It is to be asked for once more.
    void is_unknown() { stateid_.reset(); }
    [[nodiscard]] const std::optional<Outcome>& outcome() const { return outcome_; }
    [[nodiscard]] async::Event::Wait until(async::TimePoint when) { return ended_.wait_until(when); }

   private:
    friend class CopiesBeside;
    CopiesBeside& all_;
    async::Event ended_;
    std::optional<stateid4> stateid_;
    std::optional<Outcome> outcome_;
  };

  /// CB_OFFLOAD. What to answer: that there is such a copy, or may be.
  nfsstat4 ended(const Outcome& outcome) {
    for (One* one : ones_) {
      if (!one->stateid_ || one->stateid_->other != outcome.stateid.other) continue;
      one->outcome_ = outcome;
      one->ended_.notify_all();
      return NFS4_OK;
    }
    if (!is_expecting() || early_.size() == kMostEarly) return NFS4ERR_BAD_STATEID;
    early_.push_back(outcome);
    return NFS4_OK;
  }

 private:
  static constexpr std::size_t kMostEarly = 64;
  [[nodiscard]] bool is_expecting() const {
    return std::ranges::any_of(ones_, [](const One* one) { return !one->stateid_; });
  }
  std::vector<One*> ones_;
  std::vector<Outcome> early_;
};

}  // namespace nfsrdma::nfs4
