// Count of what must end before the client id can be destroyed (RFC 8881 18.50): OPENs under way, and
// background calls that give state back to the server.
//
// Each of them counts itself in for as long as it lives. Confined to the loop's thread.
#pragma once

#include "async/under_way.h"
#include "async/until.h"

namespace nfsrdma::nfs4 {

class Outstanding {
 public:
  explicit Outstanding(async::Loop& loop) : none_(loop) {}

  class One {
   public:
    explicit One(Outstanding& all) : counted_(all.count_, all.none_) {}

   private:
    const async::Counted counted_;
  };

  /// Waits until the count is zero. Returns false if the deadline came first.
  async::Task<bool> none(async::TimePoint deadline) {
    return async::until(none_, deadline, [this] { return count_ == 0; });
  }

 private:
  unsigned count_ = 0;
  async::Event none_;
};

}  // namespace nfsrdma::nfs4
