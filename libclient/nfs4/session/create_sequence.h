// The sequence id of CREATE_SESSION, csa_sequence (RFC 8881 18.36.4).
//
// A client id has a slot of its own for CREATE_SESSION, with a cache of one answer. A request with the
// sequence id of the last one is answered from that cache, even if the answer was a failure. So every answer
// advances the sequence id, and a request without an answer is sent again with the same sequence id.
//
// Servers differ in what they count: Linux does not count what it failed to do, others remember their
// failures as the RFC has it. If the server says that it expects another sequence id (SEQ_MISORDERED),
// EXCHANGE_ID returns it. If that does not help either, the client must become another instance of
// itself (is_hopeless()).
//
// Pure: no I/O, no clock. May be used in any thread.
#pragma once

#include "wire/nfs4/types.h"

namespace nfsrdma::nfs4 {

class CreateSequence {
 public:
  [[nodiscard]] sequenceid4 next() const { return next_; }

  /// Takes eir_sequenceid. `confirmed`: of a client id that has created sessions already. The
  /// value need not mean anything then (RFC 8881 18.35.3), and counts only if the server has
  /// refused this client's own count.
  void told(sequenceid4 value, bool confirmed) {
    if (!confirmed) misordered_ = 0;
    if (!confirmed || misordered_ % 2 == 1) next_ = value;
  }

  /// Takes the server's answer to the CREATE_SESSION with next().
  void answered(nfsstat4 status) {
    const bool delayed = status == NFS4ERR_DELAY;
    bool counted = false;
    switch (status) {
      case NFS4_OK:
        misordered_ = 0;
        ++next_;
        break;
      case NFS4ERR_SEQ_MISORDERED:
        // Either this client has counted a failure that the server did not, or the server has counted one
        // that this client did not.
        ++misordered_;
        if (counted_failure_) {
          --next_;
        } else if (misordered_ % 2 == 0) {
          ++next_;
        }
        counted_failure_ = false;
        return;
      case NFS4ERR_STALE_CLIENTID:
        break;  // the server has no slot for the client id
      case NFS4ERR_DELAY:
        // Linux expects the same sequence id again. A server that remembers the DELAY may have answered from
        // its cache, so a second DELAY in a row advances the sequence id.
        counted = delayed_;
        if (delayed_) ++next_;
        break;
      default:
        // The server has accepted the sequence id as the one that it expects.
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
  unsigned misordered_ = 0;       // SEQ_MISORDERED answers in a row
  bool delayed_ = false;          // the last answer was DELAY
  bool counted_failure_ = false;  // next_ was advanced for a failure, and no other answer has come since
};

}  // namespace nfsrdma::nfs4
