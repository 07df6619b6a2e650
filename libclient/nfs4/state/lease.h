// The lease (RFC 8881 8.3). All of the client's state lasts as long as the lease does. Any SEQUENCE
// renews it, in NFSv4.0 a RENEW; one is sent for this purpose alone if nothing else has renewed the lease
// for a third of its time.
//
// Clock. How long the lease lasts is measured by the clock that goes on while the machine sleeps, and from
// the time when the SEQUENCE was sent, because the server may have counted from then on.
//
// Failure. A renewal that fails is not reported, because the failure shows in the calls of programs. The next
// renewal tries again.
//
// A dead peer is found before the lease ends, on every connection. If nothing was heard on a connection for
// 3/8 of the lease, a health check is made, which has as long to be answered (RFC 8267 4.6). A quarter of the
// lease is left then to renew it over another connection. 3/8 is more than the third after which the lease is
// renewed, so that a single idle connection needs no check of its own.
//
// On reconnect nothing changes, because the lease belongs to the client id. After a recovery arm() takes the
// lease time that the server has by then.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/compound/call_layer.h"

namespace nfsrdma::nfs4 {

class Lease {
 public:
  explicit Lease(CallLayer& calls) : calls_(calls) {}
  ~Lease() { stop(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Time at which a SEQUENCE was sent, by the clock of deadlines and by that of the lease.
  struct Sent {
    async::TimePoint when;
    async::LeaseTime lease;
  };
  [[nodiscard]] Sent now() const { return {calls_.loop().now(), calls_.loop().lease_now()}; }
  /// Returns now() at less cost: the lease is counted from the beginning of the loop's turn.
  [[nodiscard]] Sent at_turn() const { return {calls_.loop().now(), calls_.loop().lease_of_turn()}; }
  /// Called when the server has answered a SEQUENCE that was sent at this time.
  void renewed(const Sent& sent);
  [[nodiscard]] bool lasts() const { return calls_.loop().lease_now() < until_; }

  /// Renews the lease in time from now on.
  void arm();
  void stop();
  /// Sends a SEQUENCE at once, which also tells the server of slots that are not used any more. Does nothing
  /// if one is under way, or if the session is ending.
  void renew_now();

 private:
  async::Task<void> renew();

  CallLayer& calls_;
  async::TimePoint last_{};   // when the last answered SEQUENCE was sent, or a renewal was last tried
  async::LeaseTime until_{};  // according to the last SEQUENCE that the server answered
  async::Loop::TimerId timer_ = 0;
  bool renewing_ = false;
};

}  // namespace nfsrdma::nfs4
