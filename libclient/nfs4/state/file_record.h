// The record of one file in NFSv4: its opens, its delegation, and its data that the server may still lose.
//
// There is one for each file and client, in the table of Opens (opens.h), found by the file's handle. Each
// open of the file holds it, and it goes with the last. Each question about a file has one answer here:
//
//   Which opens are there?
//       `opens`, one for each open owner, from the OPEN that returned a stateid until its CLOSE. Among
//       several answers for one owner that with the later seqid wins (Open::opened()).
//   May other clients change the file?
//       `delegation`. A server grants it to the client (RFC 8881 10.4), not to an owner, so there is one for
//       a file. An OPEN that returns a later seqid of it wins; an OPEN that returns another delegation
//       replaces it. A recall, a revocation, a restart after which it is not reclaimed, and the CLOSE of
//       the last open that shares it end it, for all opens. Until then it counts while Delegations::good()
//       holds.
//   What are the file's attributes?
//       Delegation::known, from a GETATTR while the delegation counts, until this client begins or ends
//       something that may change them. Otherwise the server is asked, through writing/question.h.
//   What may the server lose, and who may change the file now?
//       `writes` (writing/write_record.h), through writing/question.h.
//   Has the file holes?
//       `holes` (hole_hint.h), by the attributes that came last and by READ_PLUS.
//   May data behind close(2) still be sent, and by which stateid?
//       `deferred` (deferred_data.h).
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "async/rarely.h"
#include "nfs4/state/deferred_data.h"
#include "nfs4/state/hole_hint.h"
#include "nfsrdma/types.h"
#include "wire/nfs4/ops.h"
#include "writing/write_record.h"

namespace nfsrdma::nfs4 {

struct Open;

/// A delegation. Until it is returned no other client changes the file and, if it is a write
/// delegation, reads it.
struct Delegation {
  /// The file's attributes, which hold as long as ClientLease::modifications() of the file are these.
  struct Known {
    std::uint64_t modifications = 0;
    Attributes attributes;
  };
  stateid4 stateid{};
  clientid4 client = 0;  // that the delegation was granted to
  bool returning = false;
  bool recalled = false;  // the delegation goes back with the CLOSE of a file that was parked
  bool writes = false;
  bool rights_unknown = false;  // only the server can say who may open the file
  std::optional<Known> known;   // from a GETATTR of any open that shares the delegation
  // For a write delegation only:
  std::uint64_t most = 0;  // how large the file may become before the server has to be asked for room
  // The change attribute at the time of the grant (RFC 8881 10.4.3), if known. Only the answer to the OPEN
  // that granted the delegation can tell it: an OPEN that brings the delegation again comes after changes
  // of this client's own.
  std::optional<changeid4> change;
  bool may_learn_change = true;
};

struct FileRecord {
  FileRecord(async::Loop& loop, std::shared_ptr<writing::AllFiles> all, const nfs_fh4& handle)
      : file(handle), writes(loop, std::move(all), handle) {}

  // `mark`: that of the open which was granted the delegation.
  nfs_fh4 file;
  std::vector<Open*> opens;  // registered opens (opens.h), in the order of their owners
  unsigned renames = 0;      // RENAMEs of this client that are under way (OpenRecovery::Renaming)
  async::Rarely<Delegation> delegation;
  DeferredData deferred;
  HoleHint holes;
  writing::WriteRecord writes;
};

inline std::shared_ptr<writing::WriteRecord> writes_of(const std::shared_ptr<FileRecord>& file) {
  return file ? std::shared_ptr<writing::WriteRecord>(file, &file->writes) : nullptr;
}

}  // namespace nfsrdma::nfs4
