// One COMPOUND as the test server saw it: for tests that ask what the client sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nfsrdma/options.h"
#include "security/names.h"
#include "wire/nfs4/ops.h"

namespace nfsrdma::testing {

/// One COMPOUND as it came, in the order of arrival.
struct SeenCall {
  std::vector<nfs4::nfs_opnum4> ops;
  std::uint32_t minor = 0;
  std::uint32_t xid = 0;
  unsigned connection = 0;                ///< counts from 1
  bool replayed = false;                  ///< answered from the reply cache, not executed
  nfs4::nfsstat4 status = nfs4::NFS4_OK;  ///< of the COMPOUND, once it was answered
  nfs4::SEQUENCE4args sequence;
  bool unbounded = false;  ///< it asks for an attribute of which nobody knows how large it is
  std::string credential;  ///< encoded: flavor, length, body
  Security security = Security::sys;
  // What its transport header had: lengths of chunks.
  std::vector<std::uint64_t> write_chunks;
  std::vector<std::uint32_t> read_positions;
  std::uint64_t reply_chunk = 0;
  [[nodiscard]] bool has(nfs4::nfs_opnum4 op) const;
  /// "LOOKUP+GETFH": all but SEQUENCE and PUTFH.
  [[nodiscard]] std::string operations() const;
};

}  // namespace nfsrdma::testing
