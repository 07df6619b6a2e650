// The record of one file in NFSv4: its opens, its delegation, and its data that the server may still lose.
//
// There is one for each file and client, in the table of Opens (opens.h), found by the file's handle. Each open of the file
// holds it, and it goes with the last. Each answer has one rule:
//
//   Which opens are there?          `opens`, one for each open owner, from the OPEN that brought a stateid to its CLOSE. Of
//                                   several answers for one owner that with the later seqid wins (Open::opened()).
//   May other clients change it?    `delegation`: a server grants it to the client (RFC 8881 10.4), not to an owner, so
//                                   there is one for a file. An OPEN that brings a later seqid of it wins; one that brings
//                                   another delegation replaces it. A recall, a revocation, a restart after which it is
//                                   not reclaimed, and the CLOSE of the last open that shares it end it, for all opens.
//                                   Between, it counts while Delegations::good() holds.
//   What are its attributes?        Delegation::known, from a GETATTR while the delegation counts, until this client begins or
//                                   ends what may change them. Else the server is asked, through writing/question.h.
//   What may the server lose, and
//   who may change the file now?    `writes` (writing/write_record.h), through writing/question.h.
//   Has it holes?                   `holes` (hole_hint.h), by whatever attributes came last and by READ_PLUS.
//   May data behind close(2) still
//   be sent, and by which stateid?  `deferred` (deferred_data.h).
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nfs4/deferred_data.h"
#include "nfs4/hole_hint.h"
#include "nfs4/types/ops.h"
#include "nfsrdma/types.h"
#include "writing/write_record.h"

namespace nfsrdma::nfs4 {

struct Open;

/// A delegation: until it is returned no other client changes the file, nor, if it is one for writing, reads it.
struct Delegation {
  /// The file's attributes while LeaseHolder::modifications() of it were this.
  struct Known {
    std::uint64_t modifications = 0;
    Attributes attributes;
  };
  stateid4 stateid{};
  clientid4 client = 0;  // that it was granted to
  bool returning = false;
  bool recalled = false;  // it goes back with the CLOSE of a file that was parked
  bool writes = false;
  bool rights_unknown = false;  // who may open the file is the server's to say
  std::optional<Known> known;   // whichever open has asked
  // For a write delegation only:
  std::uint64_t most = 0;  // how large the file may get without the server being asked for room
  // The change attribute as of the grant (RFC 8881 10.4.3), if that is known. Only the OPEN that granted it can tell: one that
  // tells of the delegation again comes behind changes of this client's own.
  std::optional<changeid4> change;
  bool may_learn_change = true;
};

struct FileRecord {
  FileRecord(async::Loop& loop, std::shared_ptr<writing::AllFiles> all, const nfs_fh4& handle)
      : file(handle), writes(loop, std::move(all), handle) {}

  nfs_fh4 file;              // `mark`: that of the open which was granted the delegation
  std::vector<Open*> opens;  // those that are registered (opens.h), in the order of their owners
  std::optional<Delegation> delegation;
  DeferredData deferred;
  HoleHint holes;
  writing::WriteRecord writes;
};

inline std::shared_ptr<writing::WriteRecord> writes_of(const std::shared_ptr<FileRecord>& file) {
  return file ? std::shared_ptr<writing::WriteRecord>(file, &file->writes) : nullptr;
}

}  // namespace nfsrdma::nfs4
