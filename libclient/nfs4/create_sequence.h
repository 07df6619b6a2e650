// csa_sequence, the sequence id of CREATE_SESSION (RFC 8881 18.36.4).
//
// A client id has a slot of its own for CREATE_SESSION, with a cache of one answer: a request that bears the
// sequence id of the last one is answered from it, a failure too. So every answer advances the sequence id,
// and a request without an answer is sent again with the same. Servers differ in what they count: Linux does
// not count what it failed to do, others remember their failures as the RFC has it. Where the server says
// that it expects another (SEQ_MISORDERED), EXCHANGE_ID tells which; and where that does not help either, the
// client has to become another instance of itself (is_hopeless()).
//
// Pure. Any thread.
#pragma once

#include "nfs4/types/types.h"

namespace nfsrdma::nfs4 {

class CreateSequence {
 public:
  [[nodiscard]] sequenceid4 next() const { return next_; }

  /// eir_sequenceid. `confirmed`: of a client id that has created sessions already; what it says then need
  /// not mean anything (18.35.3), and counts only where our own count was refused.
  void told(sequenceid4 value, bool confirmed) {
    if (!confirmed) misordered_ = 0;
    if (!confirmed || misordered_ % 2 == 1) next_ = value;
  }

  /// CREATE_SESSION with next() was answered so.
  void answered(nfsstat4 status) {
    const bool delayed = status == NFS4ERR_DELAY;
    bool counted = false;
    switch (status) {
      case NFS4_OK:
        misordered_ = 0;
        ++next_;
        break;
      case NFS4ERR_SEQ_MISORDERED:
        // A failure that was counted in vain, or the server counts what we did not, or the other way round.
        ++misordered_;
        if (counted_failure_) {
          --next_;
        } else if (misordered_ % 2 == 0) {
          ++next_;
        }
        counted_failure_ = false;
        return;
      case NFS4ERR_STALE_CLIENTID:
        break;  // there is no slot
      case NFS4ERR_DELAY:
        // Linux wants the same again. One that gets the same answer again may get it from the cache.
        counted = delayed_;
        if (delayed_) ++next_;
        break;
      default:
        // The server has taken the sequence id for the one that it expects.
        misordered_ = 0;
        counted = true;
        ++next_;
    }
    counted_failure_ = counted;
    delayed_ = delayed && !delayed_;
  }

  [[nodiscard]] bool is_hopeless() const { return misordered_ >= kMostMisordered; }

 private:
  static constexpr unsigned kMostMisordered = 6;
  sequenceid4 next_ = 0;
  unsigned misordered_ = 0;       // answers in a row
  bool delayed_ = false;          // the last answer was DELAY
  bool counted_failure_ = false;  // next_ was advanced for a failure, and nothing else has come since
};

}  // namespace nfsrdma::nfs4
