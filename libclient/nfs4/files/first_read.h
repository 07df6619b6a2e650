// The first bytes of a file, read in the COMPOUND that opens it for reading, so that opening and reading a small file
// takes one call and one round trip (RFC 8881 16.2.3.1.2):
//
//     SEQUENCE  PUTFH directory  LOOKUP  GETFH   PUTFH file  OPEN  GETATTR  READ
//
// READ names the state by the "current" stateid, which OPEN sets and GETATTR leaves as it is. NFSv4.0 has none, so there a
// file is read by a call of its own. READ comes behind GETATTR, so the bytes are at least as new as the attributes.
//
// Exactly once. The server is not asked to cache the Reply (sa_cachethis), because servers cache little: 2 KiB on Linux,
// with the data. An OPEN that neither creates nor truncates may be executed twice: the second one finds the state of the
// same open owner and file, and raises its seqid (18.16.3). The share access of an owner is a union, not a count, so one
// CLOSE ends it. If the connection is lost with the answer, the server refuses the retransmission with
// RETRY_UNCACHED_REP, and the OPEN is sent as a new request. A delegation that the lost answer granted is returned when
// the server recalls it (Openings::doubt()), and does not conflict with what this client does. No connection is kept up
// for such a recall: it may come late, after the next renewal of the lease. If the call is given up
// instead, the server keeps an open that this client does not know, as after any OPEN without an answer; the next OPEN of
// the file shares it.
//
// Failure. The file is open whatever becomes of READ, and is then read by ordinary READs. If a restart of the server may
// have lost data of the file, the bytes do not count (writing/question.h). A server that refuses READ for a reason that
// will not go away gets no such COMPOUND any more, unless it has executed one before (OpenFiles::first_reads_).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "nfs4/state/client_lease.h"
#include "writing/question.h"

namespace nfsrdma::nfs4 {

/// Whether a COMPOUND that was refused with this status may succeed with fewer operations.
[[nodiscard]] bool is_too_large(nfsstat4 status);

class FirstRead {
 public:
  /// `record`: the file's, if it is open here. Nothing is read if there is no room in `into`, for which no record is needed,
  /// or if the file is in doubt.
  FirstRead(ClientLease& session, std::shared_ptr<writing::WriteRecord> record, std::span<std::byte> into);

  /// Adds READ, if the COMPOUND has room for it. OPEN and GETATTR are the operations before.
  void add_to(Compound& compound);
  /// To be called when the results before READ's have been taken. Returns how many bytes the file begins with, where
  /// fewer than there is room for mean its end. Returns none if nothing was read, or if the bytes do not count.
  std::optional<std::size_t> take(CompoundReply& reply);
  [[nodiscard]] bool is_added() const { return is_added_; }
  /// Whether the server has refused READ for a reason that is the same for other files. Valid after take().
  [[nodiscard]] bool is_useless() const { return is_useless_; }

 private:
  ClientLease& session_;
  writing::Question question_;
  std::span<std::byte> into_;
  bool is_added_ = false;
  bool is_useless_ = false;
};

}  // namespace nfsrdma::nfs4
