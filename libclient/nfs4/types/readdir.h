// READDIR's result, entry by entry (RFC 8881 18.23), for directories of any length: nothing is stored, and a
// name is a view into the Reply.
//
//     ReaddirReader entries(decoder);                 // stands behind the operation's number
//     if (!entries.begin()) → decoder.fault()
//     if (entries.status() != NFS4_OK) …
//     DirEntry entry;
//     while (entries.next(entry)) use(entry);
//     if (!decoder.ok()) → decoder.fault();  entries.eof(), entries.cookieverf(): for the next READDIR
//
// READDIR4res in ops_file.h is the same result in memory. Confined to one thread.
#pragma once

#include <string_view>

#include "nfs4/types/attributes.h"

namespace nfsrdma::nfs4 {

struct DirEntry {
  nfs_cookie4 cookie = 0;
  std::string_view name;  ///< lives as long as the Reply
  WireAttributes attributes;
};

class ReaddirReader {
 public:
  explicit ReaddirReader(xdr::Decoder& in) : in_(in) {}

  /// Reads what stands before the entries. False on a fault.
  bool begin();
  /// False after the last entry, and on a fault. Reuses what `entry` has.
  bool next(DirEntry& entry);

  [[nodiscard]] nfsstat4 status() const { return status_; }
  [[nodiscard]] const verifier4& cookieverf() const { return cookieverf_; }
  /// Whether the directory ends here; known after next() returned false.
  [[nodiscard]] bool eof() const { return eof_; }

 private:
  xdr::Decoder& in_;
  nfsstat4 status_ = NFS4_OK;
  verifier4 cookieverf_{};
  bool eof_ = false;
  bool more_ = false;
};

}  // namespace nfsrdma::nfs4
