// The wire types of NFSv4.0 to 4.2: base.h, and one header per family of operations. The table of operations
// (ops.h) ties arguments, results and numbers together. Values inside fattr4 are in attributes.h.
#pragma once

#include "wire/nfs4/base.h"
#include "wire/nfs4/ops_file.h"
#include "wire/nfs4/ops_session.h"
#include "wire/nfs4/ops_v40.h"
#include "wire/nfs4/ops_v42.h"

namespace nfsrdma::nfs4 {

/// COMPOUND4args up to the array of operations. The array follows: `argarray_count` times an nfs_opnum4 and
/// its XXX4args, which ops.h encodes.
struct COMPOUND4args_head {
  utf8str_cs_tag tag{};
  std::uint32_t minorversion = 0;
  std::uint32_t argarray_count = 0;
};
/// COMPOUND4res up to the array of results. The array follows: `resarray_count` times an nfs_opnum4 and its
/// XXX4res. The last result has `status`, those before it NFS4_OK (RFC 8881 16.2.3).
struct COMPOUND4res_head {
  nfsstat4 status = NFS4_OK;
  utf8str_cs_tag tag{};
  std::uint32_t resarray_count = 0;
};

}  // namespace nfsrdma::nfs4
