// COPYs that the server makes in the background (RFC 7862 4.2.3, 15.2, 15.9, 16.1), and how they ended.
//
//     BackgroundCopies::One copy(copies, loop);          // before the COPY is sent
//     ... the Reply says that the server copies in the background: copy.is(wr_callback_id)
//     while (!copy.outcome()) co_await copy.until(next);   // and poll, since CB_OFFLOAD may be lost
//
// CB_OFFLOAD may overtake the Reply to the COPY. Therefore, while a COPY is under way whose stateid is not
// known yet, the CB_OFFLOADs of unknown copies are kept.
//
// Confined to the loop's thread. ended() wakes the waiting task from the loop, not from inside the call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "async/event.h"
#include "wire/nfs4/ops_callback.h"

namespace nfsrdma::nfs4 {

class BackgroundCopies {
 public:
  struct Outcome {
    stateid4 stateid{};
    nfsstat4 status = NFS4_OK;
    write_response4 written{};  ///< valid if the status is NFS4_OK
  };

  /// A COPY, from before it is sent until its caller no longer waits for it.
  class One {
   public:
    One(BackgroundCopies& all, async::Loop& loop) : all_(all), ended_(loop) { all_.ones_.push_back(this); }
    ~One() {
      std::erase(all_.ones_, this);
      if (!all_.is_expecting()) all_.early_.clear();
    }
    One(const One&) = delete;
    One& operator=(const One&) = delete;
    /// Sets the stateid by which the server names the copy, and takes its outcome if that came first.
    void is(const stateid4& stateid) {
      stateid_ = stateid;
      outcome_.reset();
      const auto early = std::ranges::find_if(
          all_.early_, [&](const Outcome& one) { return one.stateid.other == stateid.other; });
      if (early == all_.early_.end()) return;
      outcome_ = *early;
      all_.early_.erase(early);
    }
    /// Called before the COPY is sent once more.
    void is_unknown() { stateid_.reset(); }
    [[nodiscard]] const std::optional<Outcome>& outcome() const { return outcome_; }
    [[nodiscard]] async::Event::Wait until(async::TimePoint when) { return ended_.wait_until(when); }

   private:
    friend class BackgroundCopies;
    BackgroundCopies& all_;
    async::Event ended_;
    std::optional<stateid4> stateid_;
    std::optional<Outcome> outcome_;
  };

  /// Takes a CB_OFFLOAD. Returns the answer to it: NFS4_OK if there is such a copy, or may be.
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
