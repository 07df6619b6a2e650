// The lease (RFC 8881 8.3): all of the client's state lasts as long as it does. Any SEQUENCE renews it, in NFSv4.0 a RENEW; one of
// its own is sent where nothing else was for a third of the lease.
//
// How long it lasts is told by the clock that goes on while the machine sleeps, and from the time when the
// SEQUENCE was sent: the server may have counted from then on. A renewal that fails shows in the calls that
// people make; the next one tries again.
//
// A dead peer is found before the lease ends, on every connection: a connection on which nothing was heard for 3/8 of the
// lease has a health check, which has as long to be answered (RFC 8267 4.6). A quarter of the lease is left then to renew it
// over another connection. 3/8 is more than the third after which the lease is renewed, so that a single idle connection
// needs no check of its own.
//
// On reconnect nothing changes: the lease belongs to the client id. After a recovery arm() takes the server's
// lease time of then.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/calls.h"

namespace nfsrdma::nfs4 {

class Lease {
 public:
  explicit Lease(Calls& calls) : calls_(calls) {}
  ~Lease() { stop(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// When a SEQUENCE was sent.
  struct Sent {
    async::TimePoint when;
    async::LeaseTime lease;
  };
  [[nodiscard]] Sent now() const { return {calls_.loop().now(), calls_.loop().lease_now()}; }
  /// The same for less: the lease is counted from the beginning of the turn.
  [[nodiscard]] Sent at_turn() const { return {calls_.loop().now(), calls_.loop().lease_of_turn()}; }
  /// The server answered a SEQUENCE that was sent then.
  void renewed(const Sent& sent);
  [[nodiscard]] bool lasts() const { return calls_.loop().lease_now() < until_; }

  /// From now on renews it in time.
  void arm();
  void stop();
  /// A SEQUENCE at once, which also tells the server of slots that are not used any more. Nothing where one is
  /// under way, or the session is ending.
  void renew_now();

 private:
  async::Task<void> renew();

  Calls& calls_;
  async::TimePoint last_{};   // SEQUENCE that was answered, or renewal that was tried
  async::LeaseTime until_{};  // by the last SEQUENCE that the server answered
  async::Loop::TimerId timer_ = 0;
  bool renewing_ = false;
};

}  // namespace nfsrdma::nfs4
