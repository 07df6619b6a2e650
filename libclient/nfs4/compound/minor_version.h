// The differences between NFSv4.0 (RFC 7530) and the minor versions with sessions (RFC 8881, RFC 7862), one field
// for each difference that a caller has to know of. The tables of wire/nfs4 say
// which operations a version has.
#pragma once

namespace nfsrdma::nfs4 {

struct MinorVersion {
  /// Each COMPOUND begins with SEQUENCE, and its session has the server execute it once (RFC 8881 2.10.6).
  /// Without that, a name that a repeated request made or removed is recognised by looking at it
  /// (files/outcome.cpp).
  bool has_sequence;
  /// Each owner of opens or locks sends one request at a time, counted by its seqid (RFC 7530 9.1.7). A stateid
  /// is valid with its latest seqid only; where sessions order the requests, 0 stands for the latest
  /// (RFC 8881 8.2.2).
  bool keeps_seqids;
  /// A file can be opened by its handle (CLAIM_FH); otherwise by its name in a directory only (CLAIM_NULL).
  bool opens_by_handle;
  /// An exclusive OPEN takes attributes (EXCLUSIVE4_1). Otherwise all of them are set afterwards.
  bool sets_attributes_exclusively;
  /// State can be given back by FREE_STATEID. Otherwise a lock owner is given back (RELEASE_LOCKOWNER).
  bool frees_stateids;
  /// The flavours of a handle can be asked for (SECINFO_NO_NAME); otherwise those of a name only (SECINFO).
  bool asks_flavors_by_handle;
  /// Operations on several open files fit into one COMPOUND, because no owner's turn orders them.
  bool batches_files;
};

inline constexpr MinorVersion kNfs40{.has_sequence = false,
                                     .keeps_seqids = true,
                                     .opens_by_handle = false,
                                     .sets_attributes_exclusively = false,
                                     .frees_stateids = false,
                                     .asks_flavors_by_handle = false,
                                     .batches_files = false};
inline constexpr MinorVersion kNfs41{.has_sequence = true,
                                     .keeps_seqids = false,
                                     .opens_by_handle = true,
                                     .sets_attributes_exclusively = true,
                                     .frees_stateids = true,
                                     .asks_flavors_by_handle = true,
                                     .batches_files = true};

}  // namespace nfsrdma::nfs4
